// Mutated LeNets, as a fuzzer made them, each with a discontinuity that an error may turn into a 1.
#include "suites/models/mutation_sweep.h"

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv, assay::models::mutationSweep());
}
