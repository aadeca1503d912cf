// The one file that is compiled with OpenMP: parallel_apply is a template over at::parallel_for,
// which starts threads only where its user's code is compiled so.
#include "suites/data_parallel/parallel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/parallel/data_parallel.h>

#include <algorithm>

namespace assay::data_parallel {

namespace parallel = torch::nn::parallel;

bool hasThreads() {
#ifdef _OPENMP
  return true;
#else
  return false;
#endif
}

ThreadCount::ThreadCount(size_t threads) : before_(at::get_num_threads()) {
  at::set_num_threads(static_cast<int>(threads));
}

ThreadCount::~ThreadCount() { at::set_num_threads(before_); }

Tensors scatter(const at::Tensor& input, const Devices& devices, int64_t dim) {
  torch::autograd::Scatter scatter(devices, std::nullopt, dim);
  const auto shards = scatter.apply(torch::autograd::variable_list{input});
  return {shards.begin(), shards.end()};
}

Nets replicate(const std::shared_ptr<Net>& net, const Devices& devices) {
  return parallel::replicate(net, devices);
}

Tensors parallelApply(Nets& replicas, const Tensors& shards, const Devices& devices) {
  const ThreadCount threads(replicas.size());
  return parallel::parallel_apply(replicas, shards, devices);
}

at::Tensor gather(const Tensors& outputs, at::Device outputDevice, int64_t dim) {
  const bool onCpu = std::any_of(outputs.begin(), outputs.end(),
                                 [](const at::Tensor& one) { return one.is_cpu(); });
  if (onCpu) return at::cat(outputs, dim).to(outputDevice);
  torch::autograd::Gather gather(outputDevice, dim);
  return gather.apply({outputs.begin(), outputs.end()}).front();
}

Pieces runPieces(const std::shared_ptr<Net>& net, const at::Tensor& input, Devices devices,
                 at::Device outputDevice, int64_t dim, const Between& between) {
  Pieces run;
  run.shards = scatter(input, devices, dim);
  if (between.scattered) between.scattered(run.shards);
  if (run.shards.size() < devices.size())
    devices.erase(devices.begin() + static_cast<int64_t>(run.shards.size()), devices.end());
  run.replicas = replicate(net, devices);
  if (between.replicated) between.replicated(run.replicas);
  run.outputs = parallelApply(run.replicas, run.shards, devices);
  if (between.applied) between.applied(run.outputs);
  run.output = gather(run.outputs, outputDevice, dim);
  return run;
}

at::Tensor runWhole(const std::shared_ptr<Net>& net, const at::Tensor& input,
                    const Devices& devices, at::Device outputDevice, int64_t dim) {
  const ThreadCount threads(devices.size());
  return parallel::data_parallel(net, input, devices, outputDevice, dim);
}

}  // namespace assay::data_parallel
