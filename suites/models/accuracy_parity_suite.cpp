// Report 1's question: does this device train as well as another one? On a GPU against the CPU; on
// a CPU, all threads and float64 against float32 on one thread.
#include <cstdio>

#include "fixtures/mode.h"
#include "fixtures/suite.h"
#include "suites/models/parity.h"

namespace assay::models {
namespace {

// On one thread: so small a model gains nothing from more, and loses much where others run too.
Variant referenceVariant() { return {.device = "cpu", .dtype = "float32", .oneThread = true}; }

std::vector<Score> trained(const Training& training, const Variant& variant, bool ignoreIeee,
                           Evidence& evidence) {
  const ModeGuard guard(variant, ignoreIeee && variant.math == "ieee");
  std::vector<Score> scores;
  for (int64_t seed = 1; seed <= training.seeds; ++seed) {
    Evidence one;
    scores.push_back(
        train(training, static_cast<uint32_t>(seed), variant, Planted::kNothing, &one));
    evidence.join(one);
  }
  return scores;
}

// Once a process: every variant is compared with the same models.
const std::vector<Score>& reference(const Training& training) {
  static const auto scores = [&] {
    Evidence unused;
    return trained(training, referenceVariant(), false, unused);
  }();
  return scores;
}

nlohmann::json seedsOf(const std::vector<Score>& a, const std::vector<Score>& b) {
  auto rows = nlohmann::json::array();
  for (size_t k = 0; k < a.size(); ++k)
    rows.push_back({{"reference_exact", a[k].exactMatch()},
                    {"device_exact", b[k].exactMatch()},
                    {"reference_f1", a[k].meanF1()},
                    {"device_f1", b[k].meanF1()}});
  return rows;
}

Record parityCheck(const Variant& variant, bool ignoreIeee) {
  const Training training;
  const auto& known = reference(training);
  Evidence evidence;
  const auto scores = trained(training, variant, ignoreIeee, evidence);
  const auto parity = compare(known, scores);
  Record record;
  record.what = "exact match and F1 over seeds, percent";
  record.why = "docs/numerics.md#models: equivalence within a margin";
  record.verdict.gauge = GaugeKind::kStatistical;
  record.verdict.checked = static_cast<int64_t>(known.size() * known.front().exact.size());
  for (const auto& one : {parity.exact, parity.f1})
    record.verdict.error = std::max(record.verdict.error, std::abs(one.difference) + one.halfWidth);
  record.verdict.bound = kMargin;
  record.verdict.pass = parity.equivalent;
  record.verdict.failing = parity.equivalent ? 0 : 1;
  record.status = parity.equivalent ? Status::kPassed : Status::kFailed;
  record.message = parity.message;
  record.details = {{"seeds", seedsOf(known, scores)},
                    {"reference_exact", parity.referenceExact},
                    {"device_exact", parity.deviceExact},
                    {"exact_difference", parity.exact.difference},
                    {"exact_half_width", parity.exact.halfWidth},
                    {"f1_difference", parity.f1.difference},
                    {"f1_half_width", parity.f1.halfWidth},
                    {"only_reference", parity.onlyReference},
                    {"only_device", parity.onlyDevice},
                    {"mcnemar", parity.mcnemar},
                    {"evidence", evidence.json()}};
  if (!parity.equivalent) record.details["cause"] = causeOf(evidence);
  return record;
}

std::vector<Variant> variantsOn(const std::string& device) {
  const Variant base{.device = device, .dtype = "float32"};
  if (!base.onGpu()) {
    Variant wide = base;
    wide.dtype = "float64";
    return {base, wide};
  }
  Variant tf32 = base, plain = base;
  tf32.math = "tf32";
  plain.cudnn = false;
  return {base, tf32, plain};
}

std::vector<Check> checksOf(const Options& options) {
  std::vector<Check> checks;
  for (const auto& device : visibleDevices(options.deviceKind)) {
    for (const auto& variant : variantsOn(device)) {
      auto check = checkOf("multi_view_transformer", "accuracy_parity", variant);
      check.run = [=, fault = options.fault == "ignore-ieee"] {
        return parityCheck(variant, fault);
      };
      checks.push_back(std::move(check));
    }
  }
  return checks;
}

void printTable(const std::vector<Record>& records) {
  for (const auto& one : records) {
    if (!one.details.is_object() || !one.details.contains("seeds")) continue;
    const auto number = [&](const char* field) { return one.details.at(field).get<double>(); };
    std::printf(
        "%s against one thread of the CPU in float32, %zu seeds: exact match %.2f %% and %.2f %%\n",
        one.variantName.c_str(), one.details.at("seeds").size(), number("device_exact"),
        number("reference_exact"));
    std::printf("  exact match differs by %+.2f ± %.2f points, F1 by %+.2f ± %.2f; margin %g\n",
                number("exact_difference"), number("exact_half_width"), number("f1_difference"),
                number("f1_half_width"), kMargin);
    std::printf("  questions that one answered alone: %.0f here, %.0f there; McNemar's p %.3g\n",
                number("only_device"), number("only_reference"), number("mcnemar"));
  }
}

}  // namespace
}  // namespace assay::models

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "accuracy_parity",
                          .testSuite = "Models/AccuracyParity",
                          .test = "TrainsAsWell",
                          .checks = assay::models::checksOf,
                          .epilogue = assay::models::printTable});
}
