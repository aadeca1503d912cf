// Report 1's question: does this device train as well as another one? On a GPU against the CPU; on
// a CPU, all threads and float64 against float32 on one thread.
#include <cstdio>

#include "fixtures/mode.h"
#include "fixtures/suite.h"
#include "suites/models/parity.h"

namespace assay::models {
namespace {

// On one thread: so small a model gains nothing from more, and loses much where others run too.
Variant referenceVariant() { return {.device = "cpu", .dtype = "float32", .oneThread = true}; }

std::vector<Score> trained(const Training& training, const Variant& variant, bool ignoreIeee,
                           Evidence& evidence) {
  const ModeGuard guard(variant, ignoreIeee && variant.math == "ieee");
  std::vector<Score> scores;
  for (int64_t seed = 1; seed <= training.seeds; ++seed) {
    Evidence one;
    scores.push_back(
        train(training, static_cast<uint32_t>(seed), variant, Planted::kNothing, &one));
    evidence.join(one);
  }
  return scores;
}

// Once a process: every variant is compared with the same models.
const std::vector<Score>& reference(const Training& training) {
  static const auto scores = [&] {
    Evidence unused;
    return trained(training, referenceVariant(), false, unused);
  }();
  return scores;
}

Record parityCheck(const Variant& variant, bool ignoreIeee) {
  const Training training;
  const auto& known = reference(training);
  Evidence evidence;
  const auto scores = trained(training, variant, ignoreIeee, evidence);
  return judgeParity(known, scores, evidence);
}

std::vector<Variant> variantsOn(const std::string& device) {
  const Variant base{.device = device, .dtype = "float32"};
  if (!base.onGpu()) {
    Variant wide = base;
    wide.dtype = "float64";
    return {base, wide};
  }
  Variant tf32 = base;
  tf32.math = "tf32";
  return {base, tf32};  // without cuDNN it would be the same: nothing here calls it
}

std::vector<Check> checksOf(const Options& options) {
  std::vector<Check> checks;
  for (const auto& device : visibleDevices(options.deviceKind)) {
    for (const auto& variant : variantsOn(device)) {
      auto check = checkOf("multi_view_transformer", "accuracy_parity", variant);
      check.run = [=, fault = options.fault == "ignore-ieee"] {
        return parityCheck(variant, fault);
      };
      checks.push_back(std::move(check));
    }
  }
  return checks;
}

void printTable(const std::vector<Record>& records) {
  for (const auto& one : records) {
    if (!one.details.is_object() || !one.details.contains("seeds")) continue;
    const auto number = [&](const char* field) { return one.details.at(field).get<double>(); };
    std::printf(
        "%s against one thread of the CPU in float32, %zu seeds: exact match %.2f %% and %.2f %%\n",
        one.variantName.c_str(), one.details.at("seeds").size(), number("device_exact"),
        number("reference_exact"));
    std::printf("  exact match differs by %+.2f ± %.2f points, F1 by %+.2f ± %.2f; margin %g\n",
                number("exact_difference"), number("exact_half_width"), number("f1_difference"),
                number("f1_half_width"), kMargin);
    std::printf("  questions that one answered alone: %.0f here, %.0f there; McNemar's p %.3g\n",
                number("only_device"), number("only_reference"), number("mcnemar"));
  }
}

}  // namespace
}  // namespace assay::models

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "accuracy_parity",
                          .testSuite = "Models/AccuracyParity",
                          .test = "TrainsAsWell",
                          .checks = assay::models::checksOf,
                          .epilogue = assay::models::printTable});
}
