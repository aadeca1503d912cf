// DataParallel over several GPUs of one machine, and copies between all pairs of them. With fewer
// than two GPUs every check is skipped, for the reason TOO_FEW_GPUS.
#include "fixtures/poison.h"
#include "suites/data_parallel/parts.h"

namespace {

namespace dp = assay::data_parallel;

std::vector<assay::Check> checks(const assay::Options& options) {
  const auto goldens = dp::loadGoldens(options.goldens);
  const size_t gpus = assay::visibleDevices("cuda").size();
  if (gpus < 2)
    return dp::checksOf(dp::severalGpuParts(2, goldens), "cuda:0", options, "TOO_FEW_GPUS");
  assay::poisonMemory("cuda");
  return dp::checksOf(dp::severalGpuParts(gpus, goldens), "cuda:0", options);
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "data_parallel_gpus",
                          .testSuite = "DataParallel/SeveralGpus",
                          .test = "Conforms",
                          .checks = checks,
                          .epilogue = dp::printDifferences,
                          .together = true});
}
