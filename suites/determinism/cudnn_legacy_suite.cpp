// Which of cuDNN's legacy routines repeat themselves bit for bit on this GPU, against what cuDNN
// says of each: its own answer for every algorithm of the convolutions, its documentation for the
// rest.
#include "fixtures/variant.h"
#include "suites/determinism/convolution.h"
#include "suites/determinism/cudnn_routines.h"
#include "suites/determinism/verdict.h"

namespace {

std::vector<assay::Check> checksOf(const assay::Options& options) {
  std::vector<assay::Check> checks;
#ifndef ASSAY_HAS_CUDNN
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
    checks.push_back(assay::checkOf("cuDNN", "all", {.device = device, .dtype = "float32"}));
    checks.back().smoke = true;
    checks.back().run = [] {
      assay::Record record;
      record.status = assay::Status::kSkipped;
      record.reason = "NO_CUDNN";
      return record;
    };
  }
#endif
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
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
