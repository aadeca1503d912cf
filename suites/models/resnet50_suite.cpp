// ResNet-50, full size in eval mode and a small batch in train mode: contiguous, channels_last, and
// with its BatchNorms folded, all within the same bounds of the same goldens.
#include "suites/models/resnet.h"

namespace assay::models {
namespace {

// docs/numerics.md#models: Winograd's and FFT's errors over a direct sum's.
constexpr double kTransforms = 256.0 / 16;

Subject evaluated(const std::string& form, const ResnetForm& options) {
  return {.name = "resnet50",
          .form = form,
          .run = [=](const ObservedModel& golden, const Variant& variant,
                     Look look) { return runResnet(golden, variant, look, options); },
          .cudnnFactor = kTransforms,
          .brief = !form.empty(),
          .wanted = firstImages};
}

std::vector<Subject> subjects() {
  return {evaluated("", {}),
          evaluated("folded", {.folded = true}),
          evaluated("channels_last", {.channelsLast = true}),
          {.name = "resnet50_train",
           .run = [](const ObservedModel& golden, const Variant& variant,
                     Look look) { return trainResnet(golden, variant, look); },
           .cudnnFactor = kTransforms}};
}

std::vector<Check> checksOf(const Options& options) { return observedChecks(subjects(), options); }

}  // namespace
}  // namespace assay::models

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "resnet50",
                          .testSuite = "Models/Resnet50",
                          .test = "Conforms",
                          .checks = assay::models::checksOf,
                          .epilogue = assay::models::printTables});
}
