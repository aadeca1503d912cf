#include "suites/determinism/graph_engine.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace assay::determinism {

GraphHost hostOf(const GraphCase& graph) {
  GraphHost host;
  host.inputs = graph.inputs();
  host.want = graph.reference(host.inputs);
  for (const auto& name : graph.poisoned) {
    GraphHost::Poisoned one{name, host.inputs, {}};
    auto& values = one.inputs[name] = host.inputs.at(name).clone();
    values.flatten()[values.numel() / 2] = std::numeric_limits<double>::quiet_NaN();
    int64_t reached = 0;
    for (const auto& [output, sums] : graph.reference(one.inputs)) {
      one.reached[output] = at::isnan(sums.value);
      reached += one.reached[output].sum().item<int64_t>();
    }
    if (!reached) throw std::logic_error("a NaN in " + name + " reaches no output: a bad check");
    host.poisoned.push_back(std::move(one));
  }
  return host;
}

namespace {

// The precision and its bound; float16 outputs are judged as float32, in whose u their bound is.
GoldenOutput goldenOf(const Sums& want, const Promise& promise) {
  GoldenOutput golden;
  golden.golden = want.value;
  golden.scale =
      promise.wholeTiles ? want.scale.max().expand_as(want.scale).contiguous() : want.scale;
  golden.tolerance =
      Tolerance{GaugeKind::kConditioned, promise.bound, "docs/determinism.md#the-graph-api"};
  return golden;
}

void add(Record& record, const std::string& sentence) {
  record.message += (record.message.empty() ? "" : "; ") + sentence;
}

void fail(Record& record, const std::string& sentence) {
  record.status = Status::kFailed;
  add(record, sentence);
}

std::string coarser(const GraphCase& graph, const Promise& promise, const Verdict& verdict,
                    const EngineNotes& notes) {
  const bool full = promise.precision == Precision::kFull;
  std::string text =
      "BROKEN PROMISE: " + (full ? "FMA" : std::string(precisionName(promise.precision))) +
      " precision is promised (notes: " + notes.text() + ")";
  if (full && graph.dtype == at::kFloat && verdict.effectiveBits < 16)
    text += ", and TF32's precision came";
  return text + "; ";
}

void judgePrecision(Record& record, const GraphCase& graph, const GraphHost& host,
                    const Promise& promise, const GraphEngine& engine) {
  const auto outputs = engine.compute(host.inputs);
  const bool twice = graph.dtype == at::kDouble;
  int64_t checked = 0;
  std::string seen = "as promised";
  for (const auto* output : graph.with(Use::kOutput)) {
    auto result = outputs.at(output->name);
    if (result.scalar_type() == at::kHalf) result = result.to(at::kFloat);
    const auto golden = goldenOf(host.want.at(output->name), promise);
    auto verdict = assay::judge(result, golden, *golden.tolerance, twice ? "float64" : "float32");
    checked += verdict.checked;
    if (!verdict.pass) {
      // Numbers of a lower precision class are another finding than wrong ones.
      const bool coarse = verdict.effectiveBits >= 8;
      seen = coarse ? "BROKEN PROMISE" : "WRONG";
      fail(record, (coarse ? coarser(graph, promise, verdict, engine.notes) : "") + output->name +
                       ": " + verdict.message);
    }
    const bool worse =
        record.what.empty() || (record.verdict.pass && !verdict.pass) ||
        (record.verdict.pass == verdict.pass &&
         verdict.error / verdict.bound > record.verdict.error / record.verdict.bound);
    if (!worse) continue;
    record.verdict = verdict;
    record.what = output->name;
    record.why = golden.tolerance->why;
  }
  record.verdict.checked = checked;
  auto& details = record.details["graph"];
  details["precision"] = {{"promise", precisionName(promise.precision)},
                          {"seen", seen},
                          {"bound", promise.bound},
                          {"whole_tiles", promise.wholeTiles}};
}

void judgeNan(Record& record, const GraphHost& host, const Promise& promise,
              const GraphEngine& engine) {
  int64_t wanted = 0, lost = 0, more = 0;
  std::string told;
  for (const auto& poisoned : host.poisoned) {
    const auto outputs = engine.compute(poisoned.inputs);
    for (const auto& [name, mask] : poisoned.reached) {
      const auto nan = at::isnan(outputs.at(name)).to(at::kCPU);
      const auto missing = at::logical_and(mask, nan.logical_not()).sum().item<int64_t>();
      wanted += mask.sum().item<int64_t>();
      more += at::logical_and(nan, mask.logical_not()).sum().item<int64_t>();
      lost += missing;
      if (missing && told.empty())
        told = "a NaN in " + poisoned.input + " does not reach " + std::to_string(missing) +
               " elements of " + name + " that depend on it";
    }
  }
  const char* seen = lost ? "BROKEN PROMISE" : more ? "REACHES, SPREADS" : "REACHES";
  record.details["graph"]["nan"] = {
      {"promise", promise.nan}, {"seen", seen}, {"wanted", wanted}, {"lost", lost}, {"more", more}};
  if (lost) fail(record, "BROKEN PROMISE: " + told + ", though " + promise.nan);
}

}  // namespace

void judgeEngine(Record& record, const GraphCase& graph, const GraphHost& host,
                 const GraphEngine& engine, bool smoke) {
  const auto promise = promiseOf(engine.notes, graph);
  record.status = Status::kPassed;
  record.details["row"] = engine.name;
  record.details["graph"] = {
      {"engine", engine.name}, {"notes", engine.notes.text()}, {"behavior", engine.notes.behavior}};
  judgePrecision(record, graph, host, promise, engine);
  judgeNan(record, host, promise, engine);
  const Subject subject{.promise = promise.bits,
                        .source = engine.source + ": " + promise.bitsSource,
                        .call = engine.call};
  const auto first = engine.call();
  judge(record, subject, first, smoke);
}

// ---- the table

namespace {

std::string nameOf(const Record& record) {
  return record.operatorName + " " + record.caseName + " " +
         record.variant.value("dtype", std::string());
}

std::string fieldOf(const Record& record, const char* group, const char* field) {
  const auto& details = record.details.at(group);
  return details.contains(field) ? details.at(field).get<std::string>() : "";
}

void printLine(const Record& record) {
  const auto& graph = record.details.at("graph");
  std::printf("%-52s %-10s %-38s %-22s %-8s %-15s %5.1f  %s\n", nameOf(record).c_str(),
              fieldOf(record, "graph", "engine").c_str(), fieldOf(record, "graph", "notes").c_str(),
              fieldOf(record, "determinism", "verdict").c_str(),
              graph.at("precision").at("promise").get<std::string>().c_str(),
              graph.at("precision").at("seen").get<std::string>().c_str(),
              record.verdict.effectiveBits, graph.at("nan").at("seen").get<std::string>().c_str());
}

// "81 engines, 55 refuse (33 CUDNN_STATUS_NOT_SUPPORTED, …)" of a graph's last check.
void printSweep(const Record& record) {
  const auto& graph = record.details.at("graph");
  std::map<std::string, size_t> statuses;
  size_t refusing = 0;
  for (const auto& [sentence, engines] : graph.at("refused").items()) {
    const auto at = sentence.rfind("CUDNN_STATUS");
    statuses[at == std::string::npos ? sentence : sentence.substr(at)] += engines.size();
    refusing += engines.size();
  }
  std::printf("%s: %lld engines, %zu refuse", nameOf(record).c_str(),
              static_cast<long long>(graph.at("engines").get<int64_t>()), refusing);
  const char* before = " (";
  for (const auto& [status, count] : statuses) {
    std::printf("%s%zu %s", before, count, status.c_str());
    before = ", ";
  }
  std::printf("%s%s\n", statuses.empty() ? "" : ")",
              record.status == Status::kPassed ? "" : "; NONE COULD BE EXECUTED");
}

}  // namespace

void printGraphTable(const std::vector<Record>& records) {
  std::map<std::string, int64_t> totals;
  for (const auto& record : records) {
    if (!record.details.is_object() || !record.details.contains("determinism")) continue;
    if (totals.empty())
      std::printf("\n%-52s %-10s %-38s %-22s %-8s %-15s %5s  %s\n", "graph", "engine",
                  "notes (promised)", "seen", "promised", "precision", "bits", "NaN");
    printLine(record);
    ++totals[fieldOf(record, "determinism", "verdict")];
  }
  for (const auto& record : records) {
    if (record.details.is_object() && record.details.contains("graph") &&
        record.details.at("graph").contains("refused"))
      printSweep(record);
  }
  for (const auto& [verdict, count] : totals)
    std::printf("%s: %lld\n", verdict.c_str(), static_cast<long long>(count));
}

}  // namespace assay::determinism
