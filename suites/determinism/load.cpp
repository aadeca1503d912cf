#include "suites/determinism/load.h"

#include <ATen/ATen.h>
#ifdef ASSAY_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <map>

namespace assay::determinism {

#ifdef ASSAY_HAS_CUDA

struct Elsewhere::State {
  c10::cuda::CUDAStream before;
  c10::cuda::CUDAStreamGuard guard;
  State(c10::cuda::CUDAStream current, c10::cuda::CUDAStream other)
      : before(current), guard(other) {}
};

Elsewhere::Elsewhere(at::Device device, bool wanted) {
  if (!wanted || !device.is_cuda()) return;
  const auto current = c10::cuda::getCurrentCUDAStream(device.index());
  current.synchronize();
  state_ = std::make_unique<State>(
      current, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
}

Elsewhere::~Elsewhere() {
  if (state_) c10::cuda::getCurrentCUDAStream().synchronize();
}

namespace {

bool takesWork(at::Device device) {
  try {
    Load(device).feed();
    return true;
  } catch (const c10::Error&) {  // full, or another process's alone: no fault of its neighbour
    return false;
  }
}

}  // namespace

std::optional<at::Device> neighbourOf(at::Device device) {
  const auto gpus = c10::cuda::device_count();
  if (!device.is_cuda() || gpus < 2) return std::nullopt;
  const at::Device next(at::kCUDA, static_cast<c10::DeviceIndex>((device.index() + 1) % gpus));
  static std::map<c10::DeviceIndex, bool> tried;
  const auto [entry, fresh] = tried.try_emplace(next.index(), false);
  if (fresh) entry->second = takesWork(next);
  return entry->second ? std::optional(next) : std::nullopt;
}

struct Load::State {
  c10::cuda::CUDAStream stream;
  at::Tensor matrix;
};

Load::Load(at::Device device) {
  if (!device.is_cuda()) return;
  const auto stream = c10::cuda::getStreamFromPool(false, device.index());
  const c10::cuda::CUDAStreamGuard guard(stream);
  state_ = std::make_unique<State>(State{stream, at::ones({512, 512}, at::TensorOptions(device))});
}

Load::~Load() {
  if (state_) state_->stream.synchronize();
}

void Load::feed() {
  if (!state_) return;
  const c10::cuda::CUDAStreamGuard guard(state_->stream);
  state_->matrix = at::mm(state_->matrix, state_->matrix).mul_(1.0 / 512);
}

#else

struct Elsewhere::State {};
Elsewhere::Elsewhere(at::Device, bool) {}
Elsewhere::~Elsewhere() = default;
std::optional<at::Device> neighbourOf(at::Device) { return std::nullopt; }
struct Load::State {};
Load::Load(at::Device) {}
Load::~Load() = default;
void Load::feed() {}

#endif

}  // namespace assay::determinism
