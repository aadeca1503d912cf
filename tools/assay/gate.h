// Did an upgrade change what a machine computes? Two sets of runs, check by check. docs/gate.md
// says what each verdict means and which of them reject.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/assay/records.h"

namespace assay {

enum class Change {
  kIdentical,     // the same bytes, the same status
  kDrift,         // other bytes, both inside their bounds
  kRegression,    // passed and fails, or fails worse than before
  kPrecision,     // IEEE precision was delivered, and TF32's or less is now
  kDeterminism,   // repeated itself bit for bit, and does not now
  kFix,           // failed or was a known defect, and passes
  kKnown,         // a known defect before and now
  kFailing,       // failed before and now, no worse
  kUnstable,      // differs from itself between the baseline's runs
  kNew,           // not in the baseline
  kMissing,       // not in the candidate
  kCoverageLost,  // was checked, and is skipped or unavailable now
  kNotChecked,    // skipped or unavailable before and now
};
inline constexpr std::array<std::string_view, 13> kChangeNames{
    "identical", "drift",    "regression", "precision", "determinism",   "fix",        "known",
    "failing",   "unstable", "new",        "missing",   "coverage lost", "not checked"};
std::string_view changeName(Change change);

// One check, as it was and as it is. The records are of the first run of each side; nullptr: none.
struct Comparison {
  Change change = Change::kIdentical;
  bool rejects = false;
  const CheckRecord* before = nullptr;
  const CheckRecord* after = nullptr;
  std::string reason;  // one sentence, where there is something to say

  [[nodiscard]] const CheckRecord& any() const { return after ? *after : *before; }
};

struct UlpDrift;

struct Gate {
  std::vector<std::string> problems;     // why the runs cannot be judged; empty: they can
  std::vector<std::string> environment;  // "libtorch/loaded: 2.11.0 -> 2.15.0"
  std::vector<std::string> notes;        // suites that got slower in every run
  std::vector<Comparison> checks;        // in the order of the baseline, new ones behind
  std::shared_ptr<const UlpDrift> ulp;   // how far the drifting ones moved; null: not worked out

  [[nodiscard]] bool rejects() const;
  // 0 accept, 1 reject, 2 cannot judge.
  [[nodiscard]] int code() const { return !problems.empty() ? 2 : rejects() ? 1 : 0; }
};

// Several runs a side are repetitions of one another: only they show what is unstable, and what
// became so. The result points into the runs.
Gate compareRuns(const std::vector<Run>& baseline, const std::vector<Run>& candidate);

// What differs between two manifests, clocks and the time apart: "driver: 580.1 -> 590.2".
std::vector<std::string> environmentChanges(const nlohmann::json& before,
                                            const nlohmann::json& after);

// As text for a terminal, as JSON (every check that is not identical), as Markdown and as a page.
std::string gateText(const Gate& gate);
nlohmann::json gateJson(const Gate& gate);
std::string gateMarkdown(const Gate& gate);
std::string gatePage(const Gate& gate);

}  // namespace assay
