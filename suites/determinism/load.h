// Other streams of a GPU: to run a call on one, and to keep the multiprocessors busy with work on
// another. On a CPU, and with a LibTorch without CUDA, both do nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

namespace assay::determinism {

// While it lives, calls of this thread go to another stream of `device`, if `wanted`. The streams
// wait for each other at both ends.
class Elsewhere {
 public:
  Elsewhere(at::Device device, bool wanted);
  ~Elsewhere();
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The next GPU of this machine that takes work, tried once a process; none where there is but one,
// and for a CPU.
std::optional<at::Device> neighbourOf(at::Device device);

// Matrix products on a stream of its own, queued by feed(): about as long as a small call runs.
class Load {
 public:
  explicit Load(at::Device device);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  void feed();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace assay::determinism
