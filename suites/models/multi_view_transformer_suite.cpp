// The multi-view transformer of a public report: 32 % accuracy on a GPU, 43 % on the CPU. Its
// forward pass, gradients and training steps against NumPy's, and the report's clamp.
#include <ATen/ATen.h>

#include "fixtures/mode.h"
#include "suites/models/multi_view.h"

namespace assay::models {
namespace {

Subject subject(bool fused) {
  return {.name = "multi_view_transformer",
          .form = fused ? "fused" : "",
          .run = [=](const ObservedModel& golden, const Variant& variant,
                     Look look) { return trainSteps(golden, variant, look, {.fused = fused}); },
          .gives = fused ? Wanted(outsideOfAttention) : nullptr};
}

const std::vector<Subject> kSubjects{subject(false), subject(true)};

// The report clamps positions to the sequence's length, which no class has: an answer beyond the
// sequence must be an error on a CPU and a device assert on a GPU, never a number.
Record clampHazard(const ObservedModel& golden, const Variant& variant) {
  Record record;
  record.what = "a position beyond the sequence";
  record.verdict.checked = 1;
  const ModeGuard guard(variant, false);
  MultiViewTransformer model(encoderConfig(golden.config()),
                             golden.config().at("experts").get<int64_t>());
  loadWeights(*model, golden, variant);
  auto batch = batchOf(golden.inputs(), variant);
  batch.starts[1][0] = golden.config().at("length").get<int64_t>() + 5;
  try {
    const auto loss = model->forward(batch, "shared", Trace::silent()).loss.item<double>();
    record.status = Status::kFailed;
    record.verdict.failing = 1;
    record.verdict.error = 1;
    record.message = "a loss of " + std::to_string(loss) + " where an error is demanded";
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::Error& error) {
    record.status = Status::kPassed;
    record.verdict.pass = true;
    record.details["error"] = std::string(error.what_without_backtrace()).substr(0, 200);
  }
  return record;
}

std::vector<Check> checksOf(const Options& options) {
  auto checks = observedChecks(kSubjects, options);
  const auto golden =
      std::make_shared<ObservedModel>(ObservedModel::load(options.goldens, kSubjects.front().name));
  for (const auto& device : visibleDevices(options.deviceKind)) {
    for (const char* dtype : {"float32", "float64"}) {
      const Variant variant{.device = device, .dtype = dtype};
      auto check = checkOf(kSubjects.front().name, "position_beyond_the_sequence", variant);
      check.endsProcess = variant.onGpu();
      check.run = [=] { return clampHazard(*golden, variant); };
      checks.push_back(std::move(check));
    }
  }
  return checks;
}

}  // namespace
}  // namespace assay::models

int main(int argc, char** argv) {
  return assay::runSuite(argc, argv,
                         {.name = "multi_view_transformer",
                          .testSuite = "Models/MultiViewTransformer",
                          .test = "Conforms",
                          .checks = assay::models::checksOf,
                          .epilogue = assay::models::printTables});
}
