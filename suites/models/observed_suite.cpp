#include "suites/models/observed_suite.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fixtures/argument.h"
#include "fixtures/check.h"
#include "fixtures/poison.h"

namespace assay::models {
namespace {

std::vector<Variant> variantsOf(const Subject& subject, const std::string& device) {
  std::vector<Variant> variants;
  for (const char* dtype : {"float32", "float64"}) {
    const Variant base{.device = device, .dtype = dtype};
    const auto with = [&](const auto& change) {
      Variant one = base;
      change(one);
      variants.push_back(one);
    };
    variants.push_back(base);
    if (base.onGpu() && base.dtype == "float32") with([](Variant& v) { v.math = "tf32"; });
    if (subject.brief) continue;
    with([](Variant& v) { v.deterministic = true; });
    if (!base.onGpu()) {
      with([](Variant& v) { v.oneThread = true; });
      continue;
    }
    with([](Variant& v) { v.cudnn = false; });
    with([](Variant& v) { v.benchmark = true; });
    if (base.dtype == "float64") continue;  // no flag changes float64
    with([](Variant& v) { v.math = "tf32", v.cudnn = false; });
    with([](Variant& v) { v.math = "tf32", v.deterministic = true; });
  }
  return variants;
}

double factorOf(const Subject& subject, const Variant& variant) {
  return variant.onGpu() && variant.cudnn && variant.dtype == "float32" ? subject.cudnnFactor : 1;
}

// A run in deterministic mode must repeat itself.
void compareAgain(Record& record, const Results& first, const Results& second) {
  for (const auto& [name, value] : first) {
    if (sameBits(value.to(at::kCPU), second.at(name).to(at::kCPU))) continue;
    record.status = Status::kFailed;
    record.message +=
        (record.message.empty() ? "" : "; ") + name + ": a second run gives other bits";
    return;
  }
}

Wanted wantedOf(const Subject& subject, const Variant& variant) {
  return subject.gives || variant.onGpu() ? subject.gives : subject.wanted;
}

// Rounding may move a probability by its largest bound.
void noteCause(Record& record, Evidence evidence, const std::vector<Seen>& seen) {
  for (const auto& one : seen)
    if (one.name.ends_with("_probabilities"))
      evidence.rounding = std::max(evidence.rounding, one.bound);
  record.details["evidence"] = evidence.json();
  if (record.status == Status::kFailed) record.details["cause"] = causeOf(evidence);
}

std::string caseOf(const Subject& subject, const std::string& part) {
  return subject.form.empty() ? part : part + "_" + subject.form;
}

// The record of the layers beside one of the whole run.
const Record* partner(const std::vector<Record>& records, const Record& whole) {
  for (const auto& one : records)
    if (one.caseName == "layers" + whole.caseName.substr(std::string("free_running").size()) &&
        one.operatorName == whole.operatorName && one.variantName == whole.variantName)
      return &one;
  return nullptr;
}

void printRow(const Seen* alone, const Seen* free, const std::string& name) {
  std::printf("  %-46s", name.c_str());
  for (const auto* one : {alone, free}) {
    if (one)
      std::printf(" %10.3g %10.3g", one->difference, one->bound);
    else
      std::printf(" %10s %10s", "", "");
  }
  const bool beyond = (alone && alone->beyond > 0) || (free && free->beyond > 0);
  std::printf("%s\n", beyond ? "  BEYOND" : "");
}

bool isGradient(const std::string& name) { return name.find("gradient/") != std::string::npos; }

// Of a long table: what lies beyond its bound, and what comes nearest to it.
std::vector<const Seen*> shortened(const std::vector<Seen>& rows, size_t count) {
  std::vector<const Seen*> kept;
  kept.reserve(rows.size());
  for (const auto& row : rows) kept.push_back(&row);
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Seen* a, const Seen* b) { return a->ratio > b->ratio; });
  if (kept.size() > count) kept.resize(count);
  return kept;
}

const Seen* find(const std::vector<Seen>& rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Seen& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// Names in a golden of several steps begin with the step.
const Seen* findLayer(const std::vector<Seen>& rows, const std::string& name) {
  const auto* plain = find(rows, name);
  return plain ? plain : find(rows, "step0/" + name);
}

void printTable(const Record& whole, const Record* layers) {
  const auto free = seenIn(whole, "rows");
  const auto alone = layers ? seenIn(*layers, "rows") : std::vector<Seen>();
  std::printf("%s, %s, on %s: %zu results, worst %.3g of its bound; %zu layers, worst %.3g\n",
              whole.operatorName.c_str(), whole.caseName.c_str(), whole.variantName.c_str(),
              free.size(), whole.verdict.error, alone.size(), layers ? layers->verdict.error : 0.0);
  std::printf("  %-46s %10s %10s %10s %10s\n", "", "own error", "bound, u", "difference", "bound");
  for (const auto* row : shortened(alone, 12)) printRow(row, findLayer(free, row->name), row->name);
  std::vector<Seen> gradients, rest;
  for (const auto& row : free) {
    if (isGradient(row.name))
      gradients.push_back(row);
    else if (!find(alone, row.name) && !find(alone, row.name.substr(row.name.find('/') + 1)))
      rest.push_back(row);
  }
  for (const auto* row : shortened(gradients, 4)) printRow(nullptr, row, row->name);
  for (const auto& row : rest)
    if (row.name.find("loss") != std::string::npos || row.beyond > 0)
      printRow(nullptr, &row, row.name);
  for (const auto* row : shortened(rest, 4)) printRow(nullptr, row, row->name);
  for (const auto* one : {&whole, layers})
    if (one && !one->message.empty()) std::printf("  %s\n", one->message.c_str());
}

}  // namespace

Record freeRunning(const ObservedModel& golden, const Subject& subject, const Variant& variant,
                   bool ignoreIeee) {
  return guarded(variant, ignoreIeee, [&](Record& record) {
    const auto run = subject.run(golden, variant, Look::kResults);
    record.what = "the whole run, each layer fed what the device made";
    auto seen = golden.compare(run.results, variant, factorOf(subject, variant),
                               wantedOf(subject, variant));
    judgeSeen(record, seen);
    if (run.details.is_object()) record.details.update(run.details);
    if (run.evidence) noteCause(record, *run.evidence, seen);
    if (variant.deterministic)
      compareAgain(record, run.results, subject.run(golden, variant, Look::kResults).results);
  });
}

Record isolated(const ObservedModel& golden, const Subject& subject, const Variant& variant,
                bool ignoreIeee) {
  return guarded(variant, ignoreIeee, [&](Record& record) {
    const auto run = subject.run(golden, variant, Look::kLayers);
    record.what = "each layer against its own input, in u * scale over its bound";
    judgeSeen(record, run.layers);
    record.why = "docs/numerics.md#models: a layer's own bound";
  });
}

std::vector<Check> observedChecks(const std::vector<Subject>& subjects, const Options& options) {
  poisonMemory(options.deviceKind);
  const bool ignoreIeee = options.fault == "ignore-ieee";
  std::map<std::string, std::shared_ptr<const ObservedModel>> goldens;
  std::vector<Check> checks;
  for (const auto& subject : subjects) {
    auto& golden = goldens[subject.name];
    if (!golden)
      golden = std::make_shared<ObservedModel>(ObservedModel::load(options.goldens, subject.name));
    for (const auto& device : visibleDevices(options.deviceKind)) {
      for (const auto& variant : variantsOf(subject, device)) {
        auto whole = checkOf(subject.name, caseOf(subject, "free_running"), variant);
        whole.smoke = variant.dtype == "float32" && !variant.deterministic;
        whole.run = [=, golden = golden] {
          return freeRunning(*golden, subject, variant, ignoreIeee);
        };
        checks.push_back(std::move(whole));
        if (variant.deterministic || variant.benchmark) continue;
        auto layers = checkOf(subject.name, caseOf(subject, "layers"), variant);
        layers.run = [=, golden = golden] {
          return isolated(*golden, subject, variant, ignoreIeee);
        };
        checks.push_back(std::move(layers));
      }
    }
  }
  return checks;
}

void printTables(const std::vector<Record>& records) {
  for (const auto& whole : records)
    if (whole.caseName.starts_with("free_running") && whole.details.contains("rows"))
      printTable(whole, partner(records, whole));
}

}  // namespace assay::models
