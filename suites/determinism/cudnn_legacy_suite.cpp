// Which of cuDNN's legacy routines repeat themselves bit for bit on this GPU, against what cuDNN
// says of each: its own answer for every algorithm of the convolutions, its documentation for the
// rest.
#include "suites/determinism/convolution.h"
#include "suites/determinism/cudnn_checks.h"
#include "suites/determinism/cudnn_routines.h"
#include "suites/determinism/verdict.h"

namespace {

std::vector<assay::Check> checksOf(const assay::Options& options) {
  return assay::determinism::cudnnChecks(options, [&](const std::string& device) {
    auto checks = assay::determinism::convolutionChecks(device, options);
    const auto more = assay::determinism::routineChecks(device, options.smoke);
    checks.insert(checks.end(), more.begin(), more.end());
    return checks;
  });
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
