// Waivers: failures that the owner of a machine accepts for a while, with a reason and a date. The
// file is the adopter's own. docs/waivers.md lists the fields.
//
// A waiver is a promise that has to stay true: one that has expired, matches no check, or covers
// one that passes is an error, and none ever covers a crash.
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tools/assay/records.h"

namespace assay {

struct Waiver {
  std::string id;
  std::vector<std::string> tests;  // globs on the whole test name or its part behind the last slash
  std::string reason, owner;
  std::string expires;  // "2027-01-31": the last day on which it holds
  std::vector<std::pair<std::string, std::string>> environment;  // path in the manifest, glob
  double maxError = std::numeric_limits<double>::infinity();
  bool boundsError = false;  // max_error was given: an infinite or NaN error is then not covered
};

// Throws Problem: not readable, not of format 1, an unknown, missing or empty field, a double id, a
// date that is none.
std::vector<Waiver> readWaivers(const std::filesystem::path& path);

// Turns the failed checks of the run that a waiver covers into known ones (defect "waiver <id>").
// `today`: "2026-12-01". Returns what is wrong with the waivers, one sentence each.
std::vector<std::string> applyWaivers(Run& run, const std::vector<Waiver>& waivers,
                                      const std::string& today);

std::string today();  // of this machine, UTC

}  // namespace assay
