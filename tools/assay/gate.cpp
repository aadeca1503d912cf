#include "tools/assay/gate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

bool failed(const CheckRecord& check) {
  return check.status == Status::kFailed || check.status == Status::kCrashed;
}

bool idle(const CheckRecord& check) {
  return check.status == Status::kSkipped || check.status == Status::kUnavailable;
}

// The records of one check: one a run, in the order of the runs. A run that lacks it has none.
using Repeats = std::vector<const CheckRecord*>;
using ByTest = std::unordered_map<std::string_view, Repeats>;

ByTest byTest(const std::vector<Run>& runs) {
  ByTest tests;
  for (const auto& run : runs) {
    for (const auto& check : run.checks) tests[check.test].push_back(&check);
  }
  return tests;
}

// Does the check repeat itself in all of its runs?
template <typename Field>
bool steady(const Repeats& repeats, Field CheckRecord::*field) {
  return std::all_of(repeats.begin(), repeats.end(),
                     [&](const CheckRecord* one) { return one->*field == repeats[0]->*field; });
}

const CheckRecord* worstOf(const Repeats& repeats) {
  const auto bad = std::find_if(repeats.begin(), repeats.end(),
                                [](const CheckRecord* one) { return failed(*one); });
  return bad != repeats.end() ? *bad : repeats[0];
}

// Precision is a promise where IEEE arithmetic was asked for.
bool lostPrecision(const CheckRecord& before, const CheckRecord& after) {
  if (after.variantName.find("_tf32") != std::string::npos) return false;
  const bool single = after.variantName.find("float32") != std::string::npos;
  const double enough = single ? 18 : 40, lost = single ? 15 : 30;
  return before.effectiveBits >= enough && after.effectiveBits < lost;
}

// A failure that was there before may be no worse now.
std::string worse(const CheckRecord& before, const CheckRecord& after) {
  if (after.status == Status::kCrashed && before.status != Status::kCrashed)
    return "it crashes now";
  if (after.failing > before.failing)
    return std::to_string(after.failing) + " elements are wrong, " +
           std::to_string(before.failing) + " were";
  const double a = after.error, b = before.error;
  if (std::isfinite(b) && (!(a <= 2 * b)) && !std::isnan(a))
    return "the error is " + figureOf(a, 4) + ", it was " + figureOf(b, 4);
  return "";
}

Comparison changed(Change change, const CheckRecord* before, const CheckRecord* after,
                   std::string reason, bool rejects) {
  return {.change = change,
          .rejects = rejects,
          .before = before,
          .after = after,
          .reason = std::move(reason)};
}

Comparison compareSteady(const CheckRecord& before, const CheckRecord& after) {
  const auto say = [&](Change change, const std::string& reason = "", bool rejects = false) {
    return changed(change, &before, &after, reason, rejects);
  };
  if (idle(before))
    return say(idle(after) ? Change::kNotChecked : Change::kNew, failed(after) ? after.message : "",
               failed(after));
  if (idle(after))
    return say(Change::kCoverageLost, "it is not checked now: " + after.reason, true);
  if (failed(after)) {
    if (!failed(before) && before.status != Status::kKnown)
      return say(Change::kRegression, after.message, true);
    const auto how = worse(before, after);
    return how.empty() ? say(Change::kFailing)
                       : say(Change::kRegression, how + ": " + after.message, true);
  }
  if (after.status == Status::kKnown) {
    if (before.status == Status::kKnown) return say(Change::kKnown);
    return say(Change::kKnown, "a known defect (" + after.defect + ") that was not here before");
  }
  if (failed(before) || before.status == Status::kKnown) return say(Change::kFix);
  if (lostPrecision(before, after))
    return say(Change::kPrecision,
               figureOf(after.effectiveBits, 3) + " effective bits, they were " +
                   figureOf(before.effectiveBits, 3),
               true);
  return say(before.sha256 == after.sha256 ? Change::kIdentical : Change::kDrift);
}

Comparison compareRepeats(const Repeats& before, const Repeats& after) {
  const bool sameStatus = steady(before, &CheckRecord::status);
  const auto crashed = [](const CheckRecord* one) { return one->status == Status::kCrashed; };
  if (!sameStatus && std::any_of(after.begin(), after.end(), crashed) &&
      std::none_of(before.begin(), before.end(), crashed))
    return changed(Change::kRegression, before[0], worstOf(after), "it crashes now", true);
  if (!sameStatus)
    return changed(Change::kUnstable, before[0], after[0],
                   "the baseline's own runs end in different ways", false);
  auto result = compareSteady(*before[0], *worstOf(after));
  if (result.rejects || before.size() < 2) return result;
  if (!steady(before, &CheckRecord::sha256))
    return changed(Change::kUnstable, before[0], after[0],
                   "the baseline's own runs give different bytes", false);
  if (!steady(after, &CheckRecord::sha256))
    return changed(Change::kDeterminism, before[0], after[0],
                   "equal bytes in all runs of the baseline, different ones in the candidate's",
                   true);
  return result;
}

// ---- can they be judged?

// What must agree, or a difference has another cause than the upgrade.
json hardware(const json& environment) {
  json gpus = json::array();
  for (const auto& gpu : environment.value("gpus", json::array())) {
    gpus.push_back({textOf(gpu, "name"), textOf(gpu, "compute_capability"),
                    gpu.value("sm_count", json()), gpu.value("mig", json())});
  }
  return {gpus, environment.value(json::json_pointer("/cpu/model"), json())};
}

void demandSame(Gate& gate, const json& a, const json& b, const std::string& what,
                const std::string& advice) {
  if (a != b)
    gate.problems.push_back(what + " differ (" + a.dump() + ", " + b.dump() + "): " + advice);
}

void demandComparable(Gate& gate, const Run& first, const Run& run) {
  if (run.environment.is_null()) {
    gate.problems.push_back(
        run.folder.string() +
        " has no environment.json: which machine and software ran is not known");
    return;
  }
  for (const auto& cut : run.cut) gate.problems.push_back(run.folder.string() + ": " + cut);
  if (const auto fault = textOf(run.environment, "fault"); !fault.empty())
    gate.problems.push_back(run.folder.string() + " ran with a planted fault (" + fault + ")");
  if (first.environment.is_null()) return;
  const auto field = [](const Run& one, const char* name) {
    return one.environment.value(name, json());
  };
  demandSame(gate, field(first, "goldens_sha256"), field(run, "goldens_sha256"), "the goldens",
             "run both with one Assay");
  demandSame(gate, field(first, "assay"), field(run, "assay"), "the versions of Assay",
             "run both with one Assay");
  demandSame(gate, hardware(first.environment), hardware(run.environment), "the machines",
             "compare runs of one kind of hardware");
}

// ---- what changed around the checks

void flatten(const json& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (value.is_object() || value.is_array()) {
    size_t place = 0;
    for (const auto& [key, one] : value.items())
      flatten(one,
              path + (path.empty() ? "" : "/") + (value.is_array() ? std::to_string(place++) : key),
              out);
  } else {
    out[path] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

std::vector<std::string> environmentChanges(const json& before, const json& after) {
  // Different in every run, and no suspect.
  static const std::set<std::string> kOwn{"time", "host"};
  std::map<std::string, std::string> a, b;
  flatten(before, "", a);
  flatten(after, "", b);
  std::set<std::string> paths;
  for (const auto& [path, unused] : a) paths.insert(path);
  for (const auto& [path, unused] : b) paths.insert(path);
  std::vector<std::string> changes;
  for (const auto& path : paths) {
    const bool was = a.contains(path), is = b.contains(path);
    if (kOwn.contains(path) || (was && is && a[path] == b[path]) || path == "libtorch/config" ||
        path.find("clock_") != std::string::npos)
      continue;
    changes.push_back(path + ": " + (was ? a[path] : "none") + " -> " + (is ? b[path] : "none"));
  }
  return changes;
}

// Seconds by suite and device, of every run.
std::map<std::string, std::vector<double>> times(const std::vector<Run>& runs) {
  std::map<std::string, std::vector<double>> result;
  for (size_t k = 0; k < runs.size(); ++k) {
    for (const auto& check : runs[k].checks) {
      auto& one = result[check.suite + " on " + check.device];
      one.resize(runs.size());
      one[k] += check.seconds;
    }
  }
  return result;
}

// Slower in every run than in the slowest before, by half: a note, once repeats confirm it.
void noteSlower(Gate& gate, const std::vector<Run>& baseline, const std::vector<Run>& candidate) {
  if (baseline.size() < 2 || candidate.size() < 2) return;
  const auto before = times(baseline);
  for (const auto& [suite, now] : times(candidate)) {
    const auto found = before.find(suite);
    if (found == before.end()) continue;
    const double most = *std::max_element(found->second.begin(), found->second.end());
    const double least = *std::min_element(now.begin(), now.end());
    if (most > 0.5 && least > 1.5 * most)
      gate.notes.push_back(suite + " is slower: " + figureOf(most, 3) + " s at most before, " +
                           figureOf(least, 3) + " s at least now");
  }
}

}  // namespace

std::string_view changeName(Change change) { return kChangeNames[static_cast<size_t>(change)]; }

bool Gate::rejects() const {
  return std::any_of(checks.begin(), checks.end(),
                     [](const Comparison& one) { return one.rejects; });
}

Gate compareRuns(const std::vector<Run>& baseline, const std::vector<Run>& candidate) {
  Gate gate;
  for (const auto* side : {&baseline, &candidate}) {
    for (const auto& run : *side) demandComparable(gate, baseline[0], run);
  }
  gate.environment = environmentChanges(baseline[0].environment, candidate[0].environment);
  noteSlower(gate, baseline, candidate);
  const ByTest before = byTest(baseline), after = byTest(candidate);
  std::set<std::string_view> seen;
  for (const auto& run : baseline) {
    for (const auto& check : run.checks) {
      if (!seen.insert(check.test).second) continue;
      const auto found = after.find(check.test);
      if (found != after.end()) {
        gate.checks.push_back(compareRepeats(before.at(check.test), found->second));
      } else {
        const bool was = !idle(check);
        gate.checks.push_back(changed(was ? Change::kMissing : Change::kNotChecked, &check, nullptr,
                                      was ? "the candidate has no record of it" : "", was));
      }
    }
  }
  for (const auto& run : candidate) {
    for (const auto& check : run.checks) {
      if (!seen.insert(check.test).second) continue;
      const auto* worst = worstOf(after.at(check.test));
      gate.checks.push_back(changed(Change::kNew, nullptr, worst,
                                    failed(*worst) ? worst->message : "", failed(*worst)));
    }
  }
  const auto checked = [](const Comparison& one) {
    return one.before && one.after && !idle(*one.before) && !idle(*one.after);
  };
  if (std::none_of(gate.checks.begin(), gate.checks.end(), checked))
    gate.problems.emplace_back("no check was run on both sides: compare runs of the same suites");
  return gate;
}

}  // namespace assay
