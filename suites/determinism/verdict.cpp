#include "suites/determinism/verdict.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "fixtures/core/sha256.h"
#include "suites/determinism/load.h"

namespace assay::determinism {
namespace {

constexpr int64_t kFew = 24;  // runs of the other kinds of repetition

std::string verdictOf(const Subject& subject, bool varies) {
  if (subject.promise == "equal bits") return varies ? "BROKEN PROMISE" : "STABLE";
  return varies ? "VARIES" : "STABLE, not promised";
}

std::string digestOf(const std::vector<at::Tensor>& outputs) {
  std::string bytes;
  for (const auto& output : outputs) {
    const auto host = output.detach().to(at::kCPU).contiguous();
    bytes.append(static_cast<const char*>(host.const_data_ptr()), host.nbytes());
  }
  return sha256Hex(bytes);
}

}  // namespace

double rateOf(bool gpu, bool smoke) {
  // A CPU has no streams, and its threads race seldom but coarsely: fewer runs do.
  return smoke ? 0.2 : gpu ? 0.02 : 0.1;
}

std::vector<Repeated> repeatAll(const Call& call, const std::vector<at::Tensor>& first,
                                bool smoke) {
  const bool gpu = first.at(0).is_cuda();
  const int64_t runs = runsFor(rateOf(gpu, smoke), kMiss);
  std::vector<Repeated> seen;
  for (const Kind kind :
       {Kind::kAgain, Kind::kOtherStream, Kind::kMoved, Kind::kUnderLoad, Kind::kNeighbour}) {
    if (!gpu && kind != Kind::kAgain && kind != Kind::kMoved) continue;
    if (kind == Kind::kNeighbour && !neighbourOf(first.at(0).device())) continue;
    const int64_t count = kind == Kind::kAgain ? runs : std::min(runs, kFew);
    seen.push_back({std::string(kindName(kind)), repeat(call, first, count, kind), nullptr});
  }
  return seen;
}

void conclude(Record& record, const Subject& subject, const std::vector<at::Tensor>& first,
              const std::vector<Repeated>& seen, double rate) {
  nlohmann::json kinds;
  bool varies = false;
  std::string told;
  int64_t total = 0;
  for (const auto& [kind, spread, more] : seen) {
    total += spread.runs;
    kinds[kind] = spread.json();
    kinds[kind]["miss_probability"] = missProbability(rate, spread.runs);
    if (!more.is_null()) kinds[kind].update(more);
    if (!spread.differing) continue;
    varies = true;
    if (told.empty())
      told = std::to_string(spread.differing) + " of " + std::to_string(spread.runs) + " runs (" +
             kind + ") give other bits than the first";
  }
  const std::string verdict = verdictOf(subject, varies);
  record.details["determinism"] = {
      {"verdict", verdict},
      {"promise", subject.promise},
      {"source", subject.source},
      {"runs", total},
      {"rate", rate},
      {"miss_probability", missProbability(rate, seen.at(0).spread.runs)},
      {"kinds", kinds}};
  if (!record.verdict.checked) record.verdict.checked = total;
  if (subject.promise == "equal bits") record.sha256 = digestOf(first);
  if (verdict != "BROKEN PROMISE") return;
  record.status = Status::kFailed;
  record.message += (record.message.empty() ? "" : "; ") + std::string("BROKEN PROMISE: ") + told +
                    ", but equal bits are promised (" + subject.source + ")";
}

void judge(Record& record, const Subject& subject, const std::vector<at::Tensor>& first,
           bool smoke) {
  conclude(record, subject, first, repeatAll(subject.call, first, smoke),
           rateOf(first.at(0).is_cuda(), smoke));
}

namespace {

// One line of the table: the records of one routine and algorithm, over all problems and dtypes.
struct Line {
  std::string promise;
  std::map<std::string, int64_t> verdicts;
  int64_t problems = 0, differing = 0, runs = 0;
  double spread = 0, bits = std::numeric_limits<double>::infinity();

  void add(const Record& record) {
    const auto& seen = record.details["determinism"];
    promise = seen["promise"];
    ++problems;
    ++verdicts[seen["verdict"]];
    for (const auto& [kind, one] : seen["kinds"].items()) {
      runs += one["runs"].get<int64_t>();
      differing += one["differing"].get<int64_t>();
      spread = std::max(spread, one["relative"].get<double>());
    }
    if (record.verdict.effectiveBits < bits) bits = record.verdict.effectiveBits;
  }

  std::string seen() const {
    std::string text;
    for (const auto& [verdict, count] : verdicts)
      text += (text.empty() ? "" : ", ") + verdict + " " + std::to_string(count);
    return text;
  }
};

// Which bits a condition changed that nobody promised to leave alone. Of calls that promise to
// repeat themselves: where a race may show, a change means nothing.
void printChanges(const std::vector<Record>& records) {
  std::map<std::string, std::string> told;
  for (const auto& record : records) {
    if (!record.details.is_object() || !record.details.contains("determinism")) continue;
    if (record.details["determinism"]["promise"] != "equal bits") continue;
    for (const auto& [kind, one] : record.details["determinism"]["kinds"].items()) {
      if (!one.contains("changed")) continue;
      for (const auto& [where, change] : one.at("changed").items())
        told[kind] += "\n  " + record.operatorName + ", " +
                      record.details["row"].get<std::string>() + ": " + where + ", " +
                      change["elements"].dump() + " elements, by " + change["ulp"].dump() + " ulp";
    }
  }
  for (const auto& [kind, text] : told)
    std::printf("Other bits than without it, promised by nobody (%s):%s\n", kind.c_str(),
                text.c_str());
}

}  // namespace

void printTable(const std::vector<Record>& records) {
  std::map<std::pair<std::string, std::string>, Line> lines;
  std::map<std::string, int64_t> totals;
  for (const auto& record : records) {
    if (!record.details.is_object() || !record.details.contains("determinism")) continue;
    lines[{record.operatorName, record.details["row"].get<std::string>()}].add(record);
    ++totals[record.details["determinism"]["verdict"]];
  }
  if (lines.empty()) return;
  std::printf("\n%-26s %-34s %-10s %8s %16s %8s %5s  %s\n", "routine", "algorithm", "promised",
              "problems", "differing runs", "spread", "bits", "seen");
  for (const auto& [key, line] : lines) {
    std::printf("%-26s %-34s %-10s %8lld %7lld of %5lld %8.1e ", key.first.c_str(),
                key.second.c_str(), line.promise.c_str(), static_cast<long long>(line.problems),
                static_cast<long long>(line.differing), static_cast<long long>(line.runs),
                line.spread);
    if (std::isfinite(line.bits))
      std::printf("%5.1f  %s\n", line.bits, line.seen().c_str());
    else
      std::printf("%5s  %s\n", "", line.seen().c_str());
  }
  printChanges(records);
  for (const auto& [verdict, count] : totals)
    std::printf("%s: %lld\n", verdict.c_str(), static_cast<long long>(count));
  const bool mayVary = std::ranges::any_of(
      lines, [](const auto& entry) { return entry.second.promise == "may vary"; });
  if (mayVary && !totals.contains("VARIES") && !totals.contains("BROKEN PROMISE"))
    std::printf("Nothing varied, not even what is documented to: worth a second look.\n");
}

}  // namespace assay::determinism
