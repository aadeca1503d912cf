#include "suites/determinism/cudnn_routines.h"
#ifdef ASSAY_HAS_CUDNN

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>
#include <optional>

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

constexpr const char* kVariable = "CUBLAS_WORKSPACE_CONFIG";

// One size of cuBLAS's buffers while it lives, in the environment, where cuBLAS looks.
class OneBufferSize {
 public:
  OneBufferSize() {
    if (const char* value = std::getenv(kVariable)) before_ = value;
    setenv(kVariable, ":4096:2", 1);
  }
  ~OneBufferSize() {
    if (before_)
      setenv(kVariable, before_->c_str(), 1);
    else
      unsetenv(kVariable);
  }
  OneBufferSize(const OneBufferSize&) = delete;
  OneBufferSize& operator=(const OneBufferSize&) = delete;

 private:
  std::optional<std::string> before_;
};

Record runRoutine(const Routine& routine, const std::string& device, at::ScalarType dtype,
                  bool smoke, bool graph) {
  const c10::cuda::CUDAGuard guard(c10::Device(device).index());
  Record record;
  record.details["row"] = routine.algorithm + (graph ? ", graph" : "") +
                          (dtype == at::kDouble ? ", float64" : ", float32");
  try {
    const Subject subject{.promise = routine.promised ? "equal bits" : "may vary",
                          .source = routine.source,
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

std::vector<Routine> withWorkspaces(const std::vector<Routine>& routines) {
  std::vector<Routine> all;
  for (auto plain : routines) {
    plain.source =
        "cuDNN's release notes, 7.6.5 and 8: recurrent networks and multi-head attention";
    auto single = plain;
    single.algorithm += "_workspace";
    single.prepare = [prepare = plain.prepare](at::ScalarType dtype) -> Call {
      const OneBufferSize size;
      return [call = prepare(dtype)] {
        const OneBufferSize again;
        return call();
      };
    };
    plain.promised = false;
    plain.smoke = false;
    all.push_back(std::move(plain));
    all.push_back(std::move(single));
  }
  return all;
}

std::vector<Check> routineChecks(const std::string& device, bool smoke) {
  std::vector<Check> checks;
  auto routines = layerRoutines();
  for (auto& more : {sequenceRoutines(), withWorkspaces(recurrentRoutines()),
                     withWorkspaces(attentionRoutines())})
    routines.insert(routines.end(), more.begin(), more.end());
  for (const auto& routine : routines) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      if (smoke && (dtype == at::kDouble || !routine.smoke)) continue;
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
