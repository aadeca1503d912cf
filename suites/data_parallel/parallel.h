// torch::nn::parallel as a whole and in its pieces: scatter, replicate, parallel_apply, gather.
//
// LibTorch's Gather takes no CPU tensors: there the outputs are joined by at::cat. scatter,
// replicate, parallel_apply and the sum of the gradients (ReduceAdd) are LibTorch's own on every
// device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "suites/data_parallel/net.h"

namespace assay::data_parallel {

using Devices = std::vector<at::Device>;
using Nets = std::vector<std::shared_ptr<Net>>;
using Tensors = std::vector<at::Tensor>;

// Where a test reaches in between two pieces to break something. Empty in the suites.
struct Between {
  std::function<void(Tensors& shards)> scattered;
  std::function<void(Nets& replicas)> replicated;
  std::function<void(Tensors& outputs)> applied;
};

struct Pieces {
  Tensors shards;
  Nets replicas;
  Tensors outputs;  // of each replica, on its device
  at::Tensor output;
};

// Is it compiled with OpenMP, without which parallel_apply has no threads?
bool hasThreads();

// As many threads for parallel_apply as there are replicas, while it lives.
class ThreadCount {
 public:
  explicit ThreadCount(size_t threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

Tensors scatter(const at::Tensor& input, const Devices& devices, int64_t dim = 0);
Nets replicate(const std::shared_ptr<Net>& net, const Devices& devices);
// One thread a replica.
Tensors parallelApply(Nets& replicas, const Tensors& shards, const Devices& devices);
at::Tensor gather(const Tensors& outputs, at::Device outputDevice, int64_t dim = 0);

// The four pieces, one behind the other, as data_parallel calls them.
Pieces runPieces(const std::shared_ptr<Net>& net, const at::Tensor& input, Devices devices,
                 at::Device outputDevice, int64_t dim = 0, const Between& between = {});

// torch::nn::parallel::data_parallel itself; it refuses CPUs.
at::Tensor runWhole(const std::shared_ptr<Net>& net, const at::Tensor& input,
                    const Devices& devices, at::Device outputDevice, int64_t dim = 0);

}  // namespace assay::data_parallel
