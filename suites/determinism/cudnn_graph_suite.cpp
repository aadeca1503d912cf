// Every engine of cuDNN's graph API against what cuDNN notes of it: bits that repeat, the precision
// that it promises, NaN that is not lost.
#include "fixtures/variant.h"
#include "suites/determinism/graph_checks.h"
#include "suites/determinism/graph_engine.h"

namespace {

// cuDNN runs on GPUs only.
assay::Check skipped(const std::string& device, const std::string& reason) {
  auto check = assay::checkOf("cuDNN", "all", {.device = device, .dtype = "float32"});
  check.smoke = true;
  check.run = [reason] {
    assay::Record record;
    record.status = assay::Status::kSkipped;
    record.reason = reason;
    return record;
  };
  return check;
}

std::vector<assay::Check> checksOf(const assay::Options& options) {
  std::vector<assay::Check> checks;
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
    if (device.rfind("cuda", 0) != 0) {
      checks.push_back(skipped(device, "NO_GPU"));
      continue;
    }
#ifndef ASSAY_HAS_CUDNN
    checks.push_back(skipped(device, "NO_CUDNN"));
#endif
    const auto more = assay::determinism::graphChecks(device, options);
    checks.insert(checks.end(), more.begin(), more.end());
  }
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "cudnn_graph",
                          .testSuite = "Determinism/CudnnGraphTest",
                          .test = "KeepsItsPromise",
                          .checks = checksOf,
                          .epilogue = assay::determinism::printGraphTable});
}
