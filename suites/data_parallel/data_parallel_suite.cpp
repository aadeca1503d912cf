// DataParallel by shards on one device: the CPU, and every GPU by itself. On a CPU its pieces (it
// refuses CPUs as a whole), on a GPU the pieces and the whole, {cuda:0, cuda:0, …}.
#include "fixtures/poison.h"
#include "suites/data_parallel/parts.h"

namespace {

namespace dp = assay::data_parallel;

std::vector<assay::Check> checks(const assay::Options& options) {
  const auto goldens = dp::loadGoldens(options.goldens);
  assay::poisonMemory(options.deviceKind);
  std::vector<assay::Check> all;
  for (const auto& device : assay::visibleDevices(options.deviceKind)) {
    auto more = dp::checksOf(dp::oneDeviceParts(c10::Device(device), goldens), device, options);
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "data_parallel",
                          .testSuite = "DataParallel/OneDevice",
                          .test = "Conforms",
                          .checks = checks,
                          .epilogue = dp::printDifferences});
}
