// Which of cuDNN's legacy routines repeat themselves bit for bit on this GPU, against what cuDNN
// says of each: its own answer for every algorithm of the convolutions, its documentation for the
// rest.
#include "fixtures/variant.h"
#include "suites/determinism/convolution.h"
#include "suites/determinism/cudnn_routines.h"
#include "suites/determinism/verdict.h"

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
    for (const auto& more : {assay::determinism::convolutionChecks(device, options),
                             assay::determinism::routineChecks(device, options.smoke)}) {
      checks.insert(checks.end(), more.begin(), more.end());
    }
  }
  return checks;
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "cudnn_legacy",
                          .testSuite = "Determinism/CudnnLegacyTest",
                          .test = "KeepsItsPromise",
                          .checks = checksOf,
                          .epilogue = assay::determinism::printTable});
}
