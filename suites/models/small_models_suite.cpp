// Small models of every other kind against NumPy's runs of them, layer by layer, with gradients.
#include "suites/models/small_models.h"

int main(int argc, char** argv) {
  using namespace assay;
  return runSuite(argc, argv,
                  {.name = "small_models",
                   .testSuite = "Models/SmallModels",
                   .test = "Conforms",
                   .checks =
                       [](const Options& options) {
                         return models::observedChecks(models::smallSubjects(), options);
                       },
                   .epilogue = models::printTables});
}
