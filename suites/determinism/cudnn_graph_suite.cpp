// Every engine of cuDNN's graph API against what cuDNN notes of it: bits that repeat, the precision
// that it promises, NaN that is not lost.
#include "suites/determinism/cudnn_checks.h"
#include "suites/determinism/graph_checks.h"
#include "suites/determinism/graph_engine.h"

namespace {

std::vector<assay::Check> checksOf(const assay::Options& options) {
  return assay::determinism::cudnnChecks(options, [&](const std::string& device) {
    return assay::determinism::graphChecks(device, options);
  });
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
