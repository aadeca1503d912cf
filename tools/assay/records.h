// The records of a run, read fast: every command that looks at results starts here. Needs no
// LibTorch. docs/records.md lists the fields.
//
// Reading takes every line apart (a broken one is an error, never skipped) but keeps only what
// comparing and counting need; Run::whole reads the rest of one record again. 50,000 records take
// a fraction of a second.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/core/plan.h"
#include "fixtures/core/status.h"
#include "tools/assay/problem.h"

namespace assay {

// One check. A number that the record lacks (nothing was compared) is NaN; so is "nan" in it.
struct CheckRecord {
  std::string test;  // full GoogleTest name
  std::string suite;
  std::string device;  // "cpu", "cuda0"
  std::string operatorName;
  std::string overload;
  std::string caseName;
  std::string variantName;
  Status status = Status::kFailed;
  std::string reason;
  std::string message;
  std::string what;
  std::string gauge;                                        // empty: nothing was compared
  std::string sha256;                                       // of the bytes of all outputs
  std::string defect;                                       // id of the known defect
  double error = std::numeric_limits<double>::quiet_NaN();  // in the gauge's own unit
  double bound = std::numeric_limits<double>::quiet_NaN();
  double effectiveBits = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;
  int64_t failing = 0;  // elements beyond the bound
  int64_t checked = 0;  // elements compared
  size_t file = 0;      // in Run::files
  size_t line = 0;      // counted from 1
  size_t offset = 0;    // of the line's first byte
  size_t bytes = 0;     // of the line, without its end
};

inline bool failed(const CheckRecord& check) {
  return check.status == Status::kFailed || check.status == Status::kCrashed;
}

struct Run {
  std::filesystem::path folder;
  std::vector<std::filesystem::path> files;  // *.jsonl, sorted by name
  // In the order of the files. Of several records of one test the last one alone.
  std::vector<CheckRecord> checks;
  size_t repeated = 0;      // earlier records that a later one of the same test replaced
  std::vector<Plan> plans;  // what each suite set out to check
  // What is missing, one sentence each: a file whose last line is incomplete, a suite that did not
  // end, could not run, or whose records are not the ones of its plan.
  std::vector<std::string> lost;
  std::vector<std::string> contradicted;  // one sentence a test that failed and then did not
  nlohmann::json environment;             // the manifest; null where the run has none

  // Every field of a record. Throws Problem where the file has changed since it was read.
  [[nodiscard]] nlohmann::json whole(const CheckRecord& check) const;
};

// Throws Problem: no such folder, no record in it, or a broken line that is not the last one of its
// file (a run that was killed leaves such a last line: Run::lost), named by file and line.
Run readRun(const std::filesystem::path& folder);

// The manifest in a run's folder; nothing where there is none. Throws Problem for one that is not
// an object of format 1.
std::optional<nlohmann::json> readEnvironment(const std::filesystem::path& folder);

// The folder of a run that the user named: a path, or a name under results/. Without a name: the
// one of ASSAY_RESULTS, else the one under results/ (of the current folder, the source tree or the
// installed tree) whose records are newest. Throws Problem where there is none.
std::filesystem::path findRun(const std::optional<std::string>& name);

// Does a glob stand for this check, by its whole name or by what is behind the last slash?
bool globNames(const std::string& glob, const CheckRecord& check);

// The check that `name` means: a whole test name, or its part behind the last slash, or what alone
// contains it, or what alone matches it as a glob. Throws Problem for none and for more than one.
const CheckRecord& findCheck(const Run& run, const std::string& name);

}  // namespace assay
