#include "tools/assay/twins.h"

#include <set>

#include "fixtures/core/text.h"

namespace assay {

using nlohmann::json;

Twins compareGpus(const Run& run) {
  struct Group {
    std::string operatorName;
    std::set<std::string> devices, digests;
  };
  std::map<std::string, Group> groups;
  for (const auto& check : run.checks) {
    if (!check.device.starts_with("cuda") || check.status != Status::kPassed ||
        check.sha256.empty() || !check.variantName.starts_with(check.device))
      continue;
    auto& group = groups[check.suite + "\n" + check.operatorName + "\n" + check.caseName +
                         check.variantName.substr(check.device.size())];
    group.operatorName = check.operatorName;
    group.devices.insert(check.device);
    group.digests.insert(check.sha256);
  }
  Twins twins;
  for (const auto& [key, group] : groups) {
    if (group.devices.size() < 2) continue;
    ++twins.compared;
    if (group.digests.size() == 1)
      ++twins.equal;
    else
      ++twins.differing[group.operatorName];
  }
  std::set<std::string> kinds;
  if (run.environment.is_object()) {
    for (const auto& gpu : run.environment.value("gpus", json::array()))
      kinds.insert(textOf(gpu, "name") + textOf(gpu, "compute_capability") +
                   gpu.value("sm_count", json()).dump());
  }
  twins.alike = kinds.size() < 2;
  return twins;
}

std::string twinsLine(const Twins& twins) {
  if (twins.compared == 0) return "";
  std::string text = "between GPUs: " + counted(twins.compared, "check", "checks") + ", " +
                     std::to_string(twins.equal) + " with equal bytes";
  std::string names;
  for (const auto& [name, count] : twins.differing)
    names += (names.empty() ? "; different: " : ", ") + name + " (" + std::to_string(count) + ")";
  if (!twins.alike) names += " (the GPUs are of different kinds: equal bytes are not promised)";
  return text + names;
}

}  // namespace assay
