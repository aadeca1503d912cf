// The commands of `assay`. Each prints to standard output and returns its exit code; what it cannot
// do it throws as Problem (exit code 2).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace assay {

// The manifest of a run, or of this machine now where `run` is empty (by the probe program beside
// `assay`), as text or as JSON.
int showEnvironment(const std::optional<std::string>& run, bool asJson);

// CTest's resource specification (ctest --resource-spec-file) of the GPUs of a run's machine, or of
// this one: type "gpus", ids 0, 1, … as CUDA counts them, each with `slots` suites at once. Into a
// file, or to standard output where `output` is empty. Throws Problem where there is no GPU.
int writeResources(const std::optional<std::string>& run, int slots,
                   const std::filesystem::path& output);

struct ListOptions {
  std::vector<std::string>
      patterns;                   // globs on operator, family/operator or ATen's name; empty: all
  std::string family;             // empty: all
  std::filesystem::path goldens;  // the folder with index.json
  bool cases = false;
  bool asJson = false;
};
int listOperators(const ListOptions& options);

// One screen of a run. 1 where a check failed or crashed, or where a killed run lost one.
int summarize(const std::optional<std::string>& run);

struct ExplainOptions {
  std::string test;
  std::optional<std::string> run;
  std::filesystem::path goldens;
  std::filesystem::path knownDefects;
};
int explain(const ExplainOptions& options);

struct ReportOptions {
  std::optional<std::string> run;
  std::filesystem::path html, junit,
      markdown;                   // empty: report.html, junit.xml, report.md in the run
  std::filesystem::path waivers;  // empty: none
};
// 1 where the run is not good: a failure, a lost record, nothing checked, a planted fault.
int report(const ReportOptions& options);

struct GateOptions {
  std::vector<std::string> baseline,
      candidate;                               // runs; the first of each is compared check by check
  std::filesystem::path json, markdown, html;  // files to write; empty: none
  std::filesystem::path waivers;               // of the candidate; empty: none
};
// 0 accept, 1 reject, 2 cannot judge. Throws Problem where a run or a file cannot be read or
// written.
int gate(const GateOptions& options);

struct BundleOptions {
  std::vector<std::string> runs;
  std::filesystem::path output;
  std::filesystem::path log;  // CTest's; empty: none
  std::filesystem::path key;  // to sign with, for ssh-keygen; empty: not signed
  std::filesystem::path goldens;
};
// Throws Problem: a run that is not whole, no libarchive, a file that cannot be read or written.
int bundle(const BundleOptions& options);

struct VerifyOptions {
  std::filesystem::path bundle;
  std::string profile;            // a file, or the name of one that Assay ships; empty: none
  std::filesystem::path signers;  // allowed signers, as for ssh-keygen; empty: not checked
  std::string assay;              // the version that made the runs; empty: this one
  std::string challenge;          // the WORD that --store had to use; empty: any
  std::filesystem::path json;     // a file to write; empty: none
  std::filesystem::path goldens, knownDefects;
  std::filesystem::path checks;  // suites/checks.json
};
// 0 accept, 1 reject, 2 cannot judge. Throws Problem for what is no bundle.
int verify(const VerifyOptions& options);

}  // namespace assay
