#include "suites/determinism/cudnn_checks.h"

#include "fixtures/variant.h"

namespace assay::determinism {
namespace {

Check skipped(const std::string& device, const std::string& reason) {
  auto check = checkOf("cuDNN", "all", {.device = device, .dtype = "float32"});
  check.smoke = true;
  check.run = [reason] {
    Record record;
    record.status = Status::kSkipped;
    record.reason = reason;
    return record;
  };
  return check;
}

}  // namespace

std::vector<Check> cudnnChecks(
    const Options& options,
    const std::function<std::vector<Check>(const std::string& device)>& ofGpu) {
  std::vector<Check> checks;
  for (const auto& device : visibleDevices(options.deviceKind)) {
    if (device.rfind("cuda", 0) != 0) {
      checks.push_back(skipped(device, "NO_GPU"));
      continue;
    }
#ifndef ASSAY_HAS_CUDNN
    checks.push_back(skipped(device, "NO_CUDNN"));
#endif
    const auto more = ofGpu(device);
    checks.insert(checks.end(), more.begin(), more.end());
  }
  return checks;
}

}  // namespace assay::determinism
