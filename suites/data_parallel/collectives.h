// NCCL's collectives over one tensor per device, as LibTorch calls them (torch/csrc/cuda/nccl.h).
#pragma once

#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {

enum class Collective { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter };
enum class Reduction { kSum, kProduct, kMaximum, kMinimum };  // ncclRedOp_t's numbers

// What a check asks for. A broadcast goes from the first device; a reduction ends on the last.
struct Exchange {
  Collective collective = Collective::kAllReduce;
  Reduction reduction = Reduction::kSum;  // of what reduces

  std::string name() const;  // "all_reduce_sum", "broadcast"
};
std::vector<Exchange> allExchanges();

// Fills `outputs`, one flat tensor per device in order of rank (a reduction's: of the last alone;
// a broadcast's hold the first device's input already, the others NaN). all_gather's have n times
// an input's elements, reduce_scatter's an n-th. Gradients, layouts and dtypes other than float32
// and float64 are not asked for.
using Communicator =
    std::function<void(const Exchange& exchange, const Tensors& inputs, Tensors& outputs)>;
Communicator nccl();
// The same on any device, in the order of a ring: rank 0's element first.
Communicator ringInOrder();

// Values against sums in float64, whatever the order of n - 1 roundings (docs/numerics.md
// #collectives); moved elements bit for bit; equal bits on every rank and in `repeats` more calls;
// inputs, and what stands beside an output in memory, as they were.
Record exchange(const Exchange& exchange, const Devices& devices, const Variant& variant,
                const Communicator& communicator, int repeats = 8);

std::vector<Part> collectiveParts(const std::vector<Devices>& groups);

}  // namespace assay::data_parallel
