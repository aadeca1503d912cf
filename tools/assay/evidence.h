// A run's verdicts worked out again by somebody who was not there: from the recorded errors and
// bounds, from goldens and known defects of one's own, and from the outputs that the run kept.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "fixtures/core/known_defects.h"
#include "tools/assay/goldens.h"
#include "tools/assay/recheck.h"
#include "tools/assay/records.h"
#include "tools/assay/registered.h"

namespace assay {

struct Evidence {
  std::vector<std::string> cannot;    // why it cannot be judged here
  std::vector<std::string> problems;  // what contradicts itself, the goldens or the claim
  size_t verdicts = 0;                // records whose verdict was worked out again
  Recheck::Counts again;              // what was worked out from goldens
  std::string failedTest;             // the first that failed
  size_t failed = 0, known = 0, passed = 0, skipped = 0;
  size_t family = 0;                    // records of operators with goldens
  std::map<std::string, size_t> skips;  // by reason
};

class EvidenceJudge {
 public:
  // The verifier's own goldens, known defects and list of checks. Throws Problem, DefectError.
  // `version`: of the Assay that must have made the runs.
  EvidenceJudge(std::filesystem::path goldens, const std::filesystem::path& knownDefects,
                const std::filesystem::path& registered, std::string version);

  // `challenge`: the WORD that --store had to use; empty: any.
  [[nodiscard]] Evidence judge(const Run& run, const std::string& challenge);
  // Is it a check of a golden of the suite's own family? Other suites use operators' names too.
  [[nodiscard]] bool againstGolden(const CheckRecord& check) const;

 private:
  class OneRun;
  // Read when first asked for; nullptr: no such operator.
  const GoldenData* golden(const std::string& operatorName);

  std::filesystem::path goldens_;
  std::string version_;
  std::string indexSha256_;
  std::map<std::string, GoldenRow> rows_;
  std::map<std::string, GoldenData> data_;
  std::vector<KnownDefect> defects_;
  RegisteredChecks registered_;
};

}  // namespace assay
