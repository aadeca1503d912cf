#include "suites/determinism/verdict.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace assay::determinism {
namespace {

constexpr double kMiss = 1e-3;
constexpr int64_t kFew = 24;  // runs of the other kinds of repetition

std::string verdictOf(const Subject& subject, bool varies) {
  if (subject.promise == "equal bits") return varies ? "BROKEN PROMISE" : "STABLE";
  return varies ? "VARIES" : "STABLE, not promised";
}

}  // namespace

void judge(Record& record, const Subject& subject, const std::vector<at::Tensor>& first,
           bool smoke) {
  // A CPU has no streams, and its threads race seldom but coarsely: fewer runs do.
  const bool gpu = first.at(0).is_cuda();
  const double rate = smoke ? 0.2 : gpu ? 0.02 : 0.1;
  const int64_t runs = runsFor(rate, kMiss);
  nlohmann::json kinds;
  bool varies = false;
  std::string told;
  int64_t total = 0;
  for (const Kind kind : {Kind::kAgain, Kind::kOtherStream, Kind::kMoved, Kind::kUnderLoad}) {
    if (!gpu && kind != Kind::kAgain && kind != Kind::kMoved) continue;
    const Spread spread =
        repeat(subject.call, first, kind == Kind::kAgain ? runs : std::min(runs, kFew), kind);
    total += spread.runs;
    kinds[std::string(kindName(kind))] = spread.json();
    if (!spread.differing) continue;
    varies = true;
    if (told.empty())
      told = std::to_string(spread.differing) + " of " + std::to_string(spread.runs) + " runs (" +
             std::string(kindName(kind)) + ") give other bits than the first";
  }
  const std::string verdict = verdictOf(subject, varies);
  record.details["determinism"] = {{"verdict", verdict},
                                   {"promise", subject.promise},
                                   {"source", subject.source},
                                   {"runs", total},
                                   {"rate", rate},
                                   {"miss_probability", missProbability(rate, runs)},
                                   {"kinds", kinds}};
  record.verdict.checked += total;
  if (verdict != "BROKEN PROMISE") return;
  record.status = Status::kFailed;
  record.message += (record.message.empty() ? "" : "; ") + std::string("BROKEN PROMISE: ") + told +
                    ", but equal bits are promised (" + subject.source + ")";
}

void printTable(const std::vector<Record>& records) {
  std::printf("\n%-28s %-34s %-22s %-10s %-21s %12s %8s %9s %6s\n", "routine", "problem", "variant",
              "promised", "seen", "differing", "elements", "spread", "bits");
  std::map<std::string, int64_t> totals;
  for (const auto& record : records) {
    if (!record.details.is_object() || !record.details.contains("determinism")) continue;
    const auto& seen = record.details["determinism"];
    const std::string verdict = seen["verdict"];
    ++totals[verdict];
    int64_t runs = 0, differing = 0, elements = 0;
    double spread = 0;
    for (const auto& [kind, one] : seen["kinds"].items()) {
      runs += one["runs"].get<int64_t>();
      differing += one["differing"].get<int64_t>();
      elements = std::max(elements, one["elements"].get<int64_t>());
      spread = std::max(spread, one["relative"].get<double>());
    }
    std::printf("%-28s %-34s %-22s %-10s %-21s %5lld of %4lld %8lld %9.1e %6.1f\n",
                record.operatorName.c_str(), record.caseName.c_str(), record.variantName.c_str(),
                seen["promise"].get<std::string>().c_str(), verdict.c_str(),
                static_cast<long long>(differing), static_cast<long long>(runs),
                static_cast<long long>(elements), spread, record.verdict.effectiveBits);
  }
  for (const auto& [verdict, count] : totals)
    std::printf("%s: %lld\n", verdict.c_str(), static_cast<long long>(count));
  if (!totals.contains("VARIES") && !totals.contains("BROKEN PROMISE"))
    std::printf(
        "Nothing varied in this run, not even what is documented to: on hardware of this kind "
        "that is worth a second look.\n");
}

}  // namespace assay::determinism
