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

bool idle(const CheckRecord& check) {
  return check.status == Status::kSkipped || check.status == Status::kUnavailable;
}

// The records of one check: one a run, in the order of the runs; nullptr where a run lacks it.
using Repeats = std::vector<const CheckRecord*>;
using ByTest = std::unordered_map<std::string_view, Repeats>;

ByTest byTest(const std::vector<Run>& runs) {
  ByTest tests;
  for (size_t k = 0; k < runs.size(); ++k) {
    for (const auto& check : runs[k].checks) {
      auto& repeats = tests[check.test];
      repeats.resize(runs.size());
      repeats[k] = &check;
    }
  }
  return tests;
}

// Does the check repeat itself in all of its runs?
template <typename Field>
bool steady(const Repeats& repeats, Field CheckRecord::*field) {
  return std::all_of(repeats.begin(), repeats.end(),
                     [&](const CheckRecord* one) { return one->*field == repeats[0]->*field; });
}

// The one that says most: a crash, a failure, else the first that is there.
const CheckRecord* worstOf(const Repeats& repeats) {
  const CheckRecord* worst = nullptr;
  const auto rank = [](const CheckRecord& one) {
    return one.status == Status::kCrashed ? 2 : failed(one) ? 1 : 0;
  };
  for (const auto* one : repeats) {
    if (one && (!worst || rank(*one) > rank(*worst))) worst = one;
  }
  return worst;
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
  const double a = after.error, b = before.error;  // NaN: it throws, or is a NaN now
  if (std::isfinite(b) && !(a <= 2 * b))
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

// Where a record has no digest (a whole model's figures), its figures must agree.
bool sameBytes(const CheckRecord& before, const CheckRecord& after) {
  const bool sameError =
      before.error == after.error || (std::isnan(before.error) && std::isnan(after.error));
  return before.sha256 == after.sha256 && (!before.sha256.empty() || sameError);
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
  if (after.checked < before.checked)
    return say(Change::kCoverageLost,
               std::to_string(after.checked) + " elements are compared, they were " +
                   std::to_string(before.checked),
               true);
  return say(sameBytes(before, after) ? Change::kIdentical : Change::kDrift);
}

// A failure is excused by failures before: by one that failed, or where none of them passed.
bool excused(const Repeats& before) {
  const auto bad = [](const CheckRecord* one) { return failed(*one); };
  const auto wrong = [](const CheckRecord* one) {
    return failed(*one) || one->status == Status::kKnown;
  };
  return std::any_of(before.begin(), before.end(), bad) ||
         std::all_of(before.begin(), before.end(), wrong);
}

// What one run of the candidate makes of the check.
Comparison compareOne(const Repeats& before, const CheckRecord* after) {
  const auto* first = before[0];
  const bool was =
      std::any_of(before.begin(), before.end(), [](const CheckRecord* one) { return !idle(*one); });
  if (!after) {
    return was ? changed(Change::kMissing, first, nullptr, "a run of the candidate lacks it", true)
               : changed(Change::kNotChecked, first, nullptr, "", false);
  }
  if (idle(*after) && was)
    return changed(Change::kCoverageLost, first, after, "it is not checked now: " + after->reason,
                   true);
  if (failed(*after) && was && !excused(before))
    return changed(Change::kRegression, first, after, after->message, true);
  return compareSteady(failed(*after) ? *worstOf(before) : *first, *after);
}

Comparison compareRepeats(Repeats before, const Repeats& after) {
  std::erase(before, nullptr);  // another run of the baseline has it
  Comparison result = compareOne(before, after[0]);
  for (size_t k = 1; k < after.size() && !result.rejects; ++k) {
    auto next = compareOne(before, after[k]);
    if (next.rejects || next.change != Change::kIdentical) result = std::move(next);
  }
  if (result.rejects) return result;
  const auto say = [&](Change change, const std::string& reason, bool rejects = false) {
    return changed(change, before[0], after[0], reason, rejects);
  };
  if (!steady(before, &CheckRecord::status))
    return say(Change::kUnstable, "the baseline's own runs end in different ways");
  if (!steady(before, &CheckRecord::sha256))
    return say(Change::kUnstable, "the baseline's own runs give different bytes");
  if (std::count(after.begin(), after.end(), nullptr) || steady(after, &CheckRecord::sha256))
    return result;
  if (before.size() < 2)
    return say(Change::kUnstable,
               "the candidate's own runs give different bytes; a second run of "
               "the baseline would tell whether that is new");
  return say(Change::kDeterminism,
             "equal bytes in all runs of the baseline, different ones in the candidate's", true);
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
  for (const char* path : {"/goldens_sha256", "/assay", "/libtorch/loaded", "/cpu/model"}) {
    if (!run.environment.value(json::json_pointer(path), json()).is_string())
      gate.problems.push_back(run.folder.string() + "/environment.json lacks " + (path + 1) +
                              ": it was altered, or is another Assay's");
  }
  for (const auto& one : run.lost) gate.problems.push_back(run.folder.string() + ": " + one);
  for (const auto& one : run.contradicted)
    gate.problems.push_back(run.folder.string() + ": " + one);
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

}  // namespace

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

namespace {

// Runs of one side are repetitions of one another: of one environment, each counted once.
void demandRepeats(Gate& gate, const std::vector<Run>& runs, const std::string& side) {
  for (size_t k = 1; k < runs.size(); ++k) {
    if (runs[0].environment.is_null() || runs[k].environment.is_null()) continue;
    const auto changes = environmentChanges(runs[0].environment, runs[k].environment);
    if (!changes.empty())
      gate.problems.push_back("the runs of the " + side + " are of different environments (" +
                              changes.front() + "): they are no repetitions");
  }
}

void demandOtherFolders(Gate& gate, const std::vector<Run>& baseline,
                        const std::vector<Run>& candidate) {
  std::set<std::filesystem::path> folders;
  for (const auto* side : {&baseline, &candidate}) {
    for (const auto& run : *side) {
      std::error_code ignored;
      const auto path = std::filesystem::weakly_canonical(run.folder, ignored);
      if (!folders.insert(path).second)
        gate.problems.push_back(run.folder.string() + " is named twice: name each run once");
    }
  }
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
  demandRepeats(gate, baseline, "baseline");
  demandRepeats(gate, candidate, "candidate");
  demandOtherFolders(gate, baseline, candidate);
  gate.environment = environmentChanges(baseline[0].environment, candidate[0].environment);
  noteSlower(gate, baseline, candidate);
  const ByTest before = byTest(baseline), after = byTest(candidate);
  std::set<std::string_view> seen;
  for (const auto& run : baseline) {
    for (const auto& check : run.checks) {
      if (!seen.insert(check.test).second) continue;
      const auto found = after.find(check.test);
      gate.checks.push_back(compareRepeats(
          before.at(check.test), found != after.end() ? found->second : Repeats(candidate.size())));
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
