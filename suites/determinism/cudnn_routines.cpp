#include "suites/determinism/cudnn_routines.h"
#ifdef ASSAY_HAS_CUDNN

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "fixtures/variant.h"
#include "suites/determinism/capture.h"
#include "suites/determinism/cudnn_handle.h"
#include "suites/determinism/routine.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {

at::Tensor drawn(const std::vector<int64_t>& shape, int key, at::ScalarType dtype) {
  const auto device = c10::cuda::getCurrentCUDAStream().device_index();
  return fullMantissa(shape, key, dtype).to(c10::Device(c10::kCUDA, device));
}

namespace {

Record runRoutine(const Routine& routine, const std::string& device, at::ScalarType dtype,
                  bool smoke, bool graph) {
  const c10::cuda::CUDAGuard guard(c10::Device(device).index());
  Record record;
  record.details["row"] = routine.algorithm + (graph ? ", graph" : "") +
                          (dtype == at::kDouble ? ", float64" : ", float32");
  try {
    const Subject subject{.promise = routine.promised ? "equal bits" : "may vary",
                          .source = "cuDNN's documentation, \"Reproducibility (Determinism)\"",
                          .call = routine.prepare(dtype)};
    if (graph) {
      judgeReplayed(record, subject, smoke);
      return record;
    }
    const auto first = subject.call();
    record.status = Status::kPassed;
    for (const auto& output : first) {
      if (at::isfinite(output).all().item<bool>() && at::ne(output, 0).any().item<bool>()) continue;
      record.status = Status::kFailed;
      record.message = "an output is zero everywhere, or not finite (its first element is " +
                       std::to_string(output.flatten()[0].item<double>()) +
                       "): nothing was measured";
    }
    judge(record, subject, first, smoke);
  } catch (const NotSupported& problem) {
    record.status = Status::kUnavailable;
    record.reason = problem.what();
  }
  return record;
}

}  // namespace

std::vector<Check> routineChecks(const std::string& device, bool smoke) {
  std::vector<Check> checks;
  auto routines = layerRoutines();
  for (const auto& more : {sequenceRoutines(), attentionRoutines()})
    routines.insert(routines.end(), more.begin(), more.end());
  for (const auto& routine : routines) {
    // Of the recurrent networks a smoke run has the fastest alone.
    if (smoke && routine.name.starts_with("RNN") &&
        !routine.algorithm.starts_with("persist_static"))
      continue;
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      if (smoke && dtype == at::kDouble) continue;
      const Variant variant{.device = device,
                            .dtype = dtype == at::kDouble ? "float64" : "float32"};
      for (const bool graph : {false, true}) {
        Check check = checkOf(routine.name, routine.algorithm + (graph ? "_graph" : ""), variant);
        check.smoke = true;
        check.run = [=] { return runRoutine(routine, device, dtype, smoke, graph); };
        checks.push_back(std::move(check));
      }
    }
  }
  return checks;
}

}  // namespace assay::determinism

#else

namespace assay::determinism {
std::vector<Check> routineChecks(const std::string&, bool) { return {}; }
}  // namespace assay::determinism

#endif
