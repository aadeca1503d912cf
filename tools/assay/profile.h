// A profile: what an acceptance has to contain, whatever else the vendor ran. docs/acceptance.md
// lists the fields; profiles/ holds the ones that Assay ships.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/assay/records.h"

namespace assay {

struct Profile {
  std::string name, why;
  std::string deviceKind;              // "cuda": where everything below must have run
  std::string gpu;                     // glob on the GPU's name; empty: any
  size_t runs = 1;                     // repetitions at least
  std::vector<std::string> suites;     // whole: no filter, no smoke subset
  std::vector<std::string> operators;  // globs, each of which must pass against its golden
  std::vector<std::string> skips;      // reasons that a skip may have
  bool unavailable = false;            // may the LibTorch lack operators?
  std::vector<std::string> defects;    // globs on ids of known defects that are not acceptable
};

// `name`: a file, or one that Assay ships ("datacenter"). Throws Problem: no such file, not of
// format 1, an unknown, missing or empty field.
Profile readProfile(const std::string& name);

// What the runs lack of it, one sentence each. `againstGolden`: which checks count for an operator.
std::vector<std::string> lacking(const Profile& profile, const std::vector<Run>& runs,
                                 const std::function<bool(const CheckRecord&)>& againstGolden);

}  // namespace assay
