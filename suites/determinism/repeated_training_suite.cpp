// Report 1: accuracy that differs between CPU and GPU, and the advice to train with cuDNN off. The
// same training run with cuDNN on and off, deterministic or not, with benchmark or not: which
// repeat themselves, and how far apart they end.
#include "suites/determinism/training_check.h"

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "repeated_training",
                          .testSuite = "Determinism/RepeatedTrainingTest",
                          .test = "KeepsItsPromise",
                          .checks = assay::determinism::trainingChecks,
                          .epilogue = assay::determinism::printTrainings});
}
