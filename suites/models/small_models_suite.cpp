// Small models of every other kind against NumPy's runs of them, layer by layer, with gradients.
#include "suites/models/small_models.h"

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "small_models",
                          .testSuite = "Models/SmallModels",
                          .test = "Conforms",
                          .checks =
                              [](const assay::Options& options) {
                                return assay::models::observedChecks(assay::models::smallSubjects(),
                                                                     options);
                              },
                          .epilogue = assay::models::printTables});
}
