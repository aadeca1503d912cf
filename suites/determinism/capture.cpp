#include "suites/determinism/capture.h"

#include <ATen/ATen.h>
#ifdef ASSAY_HAS_CUDA
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace assay::determinism {

#ifdef ASSAY_HAS_CUDA

namespace {

struct Recording {
  at::cuda::CUDAGraph graph;
  std::vector<at::Tensor> outputs;
};

std::string firstLine(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n')).substr(0, 200);
}

// While it lives, LibTorch throws where it would wait for the device.
class NoWaiting {
 public:
  NoWaiting() : before_(c10::cuda::warning_state().get_sync_debug_mode()) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  }
  ~NoWaiting() { c10::cuda::warning_state().set_sync_debug_mode(before_); }
  NoWaiting(const NoWaiting&) = delete;
  NoWaiting& operator=(const NoWaiting&) = delete;

 private:
  c10::cuda::SyncDebugMode before_;
};

// Ends a capture that failed. CUDAGraph does not: allocations would go on looking for its pool.
void abandon(const c10::cuda::CUDAStream& stream, c10::MempoolId_t pool) {
  cudaGraph_t half = nullptr;
  cudaStreamEndCapture(stream.stream(), &half);  // says that it was invalidated, and ends it
  if (half != nullptr) cudaGraphDestroy(half);
  cudaGetLastError();  // or the next check would find it
  const auto attempt = [](const auto& step) {
    try {
      step();
    } catch (const c10::Error&) {  // the capture had come so far as to end it itself
    }
  };
  attempt([&] {
    c10::cuda::CUDACachingAllocator::endAllocateToPool(stream.device_index(), pool);
    c10::cuda::CUDACachingAllocator::releasePool(stream.device_index(), pool);
  });
  const auto release = [&](auto* host) {  // LibTorch 2.9 has no such pools
    if constexpr (requires { host->end_allocate_to_pool(pool); }) {
      attempt([&] {
        host->end_allocate_to_pool(pool);
        host->release_pool(pool);
      });
    }
  };
  release(at::getHostAllocator(at::kCUDA));
}

// Whoever replays nothing must not be given the memory of an earlier run.
void overwrite(const at::Tensor& output) {
  const auto stream = c10::cuda::getCurrentCUDAStream(output.device().index());
  C10_CUDA_CHECK(cudaMemsetAsync(output.storage().mutable_data(), 0xA5, output.storage().nbytes(),
                                 stream.stream()));
}

}  // namespace

Captured capture(const Call& call) {
  c10::cuda::device_synchronize();
  const auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false);
  const c10::cuda::CUDAStreamGuard guard(stream);
  for (int k = 0; k < 2; ++k) call();  // libraries make their handles and workspaces
  try {
    const NoWaiting noWaiting;
    call();
  } catch (const std::exception& error) {
    return {.replay = {}, .refused = firstLine(error)};
  }
  c10::cuda::device_synchronize();
  const auto recording = std::make_shared<Recording>();
  const auto pool = at::cuda::graph_pool_handle();
  try {
    recording->graph.capture_begin(pool);
    recording->outputs = call();
    recording->graph.capture_end();
  } catch (const std::exception& error) {
    recording->outputs.clear();
    abandon(stream, pool);
    return {.replay = {}, .refused = firstLine(error)};
  }
  return {.replay =
              [recording] {
                for (const auto& output : recording->outputs) overwrite(output);
                recording->graph.replay();
                std::vector<at::Tensor> copies;
                for (const auto& output : recording->outputs) copies.push_back(output.clone());
                return copies;
              },
          .refused = ""};
}

#else

Captured capture(const Call&) { return {.replay = {}, .refused = "LibTorch without CUDA"}; }

#endif

void judgeReplayed(Record& record, const Subject& subject, bool smoke) {
  const auto first = subject.call();
  const auto captured = capture(subject.call);
  if (!captured.replay) {
    record.status = Status::kUnavailable;
    record.reason = "cannot be captured: " + captured.refused;
    record.details["determinism"] = {{"verdict", "NOT CAPTURED"},
                                     {"promise", subject.promise},
                                     {"source", subject.source},
                                     {"kinds", nlohmann::json::object()}};
    return;
  }
  const double rate = smoke ? 0.75 : 0.25;
  const Spread spread = repeat(captured.replay, first, runsFor(rate, kMiss), Kind::kAgain);
  record.status = Status::kPassed;
  conclude(record, subject, first, {{"graph", spread, nullptr}}, rate);
}

}  // namespace assay::determinism
