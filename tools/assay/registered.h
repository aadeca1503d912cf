// Which checks the suites without operator goldens (models, DataParallel, determinism, public
// calls) register: suites/checks.json, which tools/registered-checks writes from a build. A
// verifier holds a run against it, as it holds the families against their goldens.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/assay/problem.h"

namespace assay {

// suites/checks.json beside the program or in the source tree.
std::filesystem::path defaultRegistered();

class RegisteredChecks {
 public:
  // Throws Problem: not readable, not of format 1, a field of another type.
  explicit RegisteredChecks(const std::filesystem::path& path);

  [[nodiscard]] bool knows(const std::string& suite) const;

  // The devices on which a whole run of the suite has checks, on a machine with these GPUs
  // ({"cuda0", "cuda1"}).
  [[nodiscard]] std::vector<std::string> devices(const std::string& suite, const std::string& kind,
                                                 const std::vector<std::string>& gpus) const;

  // In what the recorded tests of the suite on `device` (full names by operator) are not the ones
  // that it registers, one sentence an operator. Throws Problem: so many GPUs are not listed.
  [[nodiscard]] std::vector<std::string> differences(
      const std::string& suite, const std::string& device, size_t gpus,
      const std::map<std::string, std::vector<std::string>>& tests) const;

 private:
  nlohmann::json suites_;
};

}  // namespace assay
