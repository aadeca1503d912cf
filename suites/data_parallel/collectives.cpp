#include "suites/data_parallel/collectives.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "fixtures/argument.h"
#include "fixtures/draw.h"

// LibTorch's own functions, as torch/csrc/cuda/nccl.h declares them. That header includes the
// toolkit's cuda_fp16.h, and with it headers (CCCL) that LibTorch's packages do not all bring.
// NOLINTBEGIN(readability-identifier-naming)
namespace torch::cuda::nccl {
using Streams = std::vector<std::optional<c10::cuda::CUDAStream>>;
using Communicators = std::vector<void*>;
void reduce(const std::vector<at::Tensor>&, at::Tensor&, int32_t root, int32_t operation,
            const Streams&, const Communicators&);
void all_reduce(const std::vector<at::Tensor>&, std::vector<at::Tensor>&, int32_t operation,
                const Streams&, const Communicators&);
void reduce_scatter(const std::vector<at::Tensor>&, std::vector<at::Tensor>&, int32_t operation,
                    const Streams&, const Communicators&);
void all_gather(const std::vector<at::Tensor>&, std::vector<at::Tensor>&, const Streams&,
                const Communicators&);
}  // namespace torch::cuda::nccl
namespace torch::cuda {
// By NCCL, where the devices are several: its own broadcast has other parameters in each version.
std::vector<at::Tensor>& broadcast_out(const at::Tensor& tensor,
                                       std::vector<at::Tensor>& out_tensors);
}  // namespace torch::cuda
// NOLINTEND(readability-identifier-naming)

namespace assay::data_parallel {
namespace {

constexpr int64_t kBeside = 32;  // elements on either side of an output

// Elements of one rank's part, around vector loads, packets and the borders between NCCL's
// protocols (low latency, 128 bytes, simple).
std::vector<int64_t> sizes() {
  std::vector<int64_t> all{1, 3, (1 << 20) + 1};
  for (const int64_t border : {128, 4096, 65536})
    for (const int64_t off : {-1, 0, 1}) all.push_back(border + off);
  return all;
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

const char* nameOf(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduce:
      return "reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
  }
  return "";
}

const char* nameOf(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProduct:
      return "product";
    case Reduction::kMaximum:
      return "maximum";
    case Reduction::kMinimum:
      return "minimum";
  }
  return "";
}

at::Tensor reduced(Reduction reduction, const at::Tensor& a, const at::Tensor& b) {
  switch (reduction) {
    case Reduction::kSum:
      return a + b;
    case Reduction::kProduct:
      return a * b;
    case Reduction::kMaximum:
      return at::maximum(a, b);
    case Reduction::kMinimum:
      return at::minimum(a, b);
  }
  return {};
}

// Of all ranks' parts, in float64. The sum is compensated (Neumaier 1974): its error is below one
// rounding even where it cancels.
struct Wanted {
  at::Tensor value, scale;
};

Wanted wantedOf(Reduction reduction, const Tensors& parts) {
  const auto n = static_cast<double>(parts.size());
  auto value = parts[0].to(at::kDouble);
  auto size = value.abs(), lost = at::zeros_like(value);
  for (size_t k = 1; k < parts.size(); ++k) {
    const auto next = parts[k].to(at::kDouble);
    const auto before = value;
    value = reduced(reduction, before, next);
    if (reduction != Reduction::kSum) continue;
    lost += at::where(before.abs() >= next.abs(), (before - value) + next, (next - value) + before);
    size += next.abs();
  }
  if (reduction == Reduction::kProduct) size = value.abs();
  // The product's own n - 1 roundings come on top.
  return {value + lost, size * (reduction == Reduction::kProduct ? 2 * n : n)};
}

// An output among NaN, one element behind a border of 16 bytes where `odd`.
struct Output {
  at::Tensor inside, before, after;

  Output(int64_t count, const at::Device& device, const Variant& variant, bool odd) {
    const int64_t start = kBeside + (odd ? 1 : 0);
    const auto all = at::full({start + count + kBeside}, NAN,
                              at::dtype(scalarType(variant.dtype)).device(device));
    before = all.slice(0, 0, start);
    inside = all.slice(0, start, start + count);
    after = all.slice(0, start + count);
  }
  bool besideIsUntouched() const {
    return at::logical_and(before.isnan().all(), after.isnan().all()).item<bool>();
  }
};

// One size: its parts on the host and on the devices, and what each rank must get.
class Round {
 public:
  Round(const Exchange& exchange, const Devices& devices, const Variant& variant, int64_t count)
      : exchange_(exchange), devices_(devices), variant_(variant) {
    const auto n = static_cast<int64_t>(devices.size());
    const auto given = exchange.collective == Collective::kReduceScatter ? count * n : count;
    taken_ = exchange.collective == Collective::kAllGather ? count * n : count;
    for (int64_t rank = 0; rank < n; ++rank) {
      parts_.push_back(fullMantissa({given}, static_cast<int>(rank), scalarType(variant.dtype)));
      inputs_.push_back(at::clone(parts_.back()).to(devices[static_cast<size_t>(rank)]));
    }
    if (reduces(exchange.collective)) wanted_ = wantedOf(exchange.reduction, parts_);
  }

  // The outputs of one call by rank, on its device; undefined where a rank gets nothing.
  Tensors call(Tally& tally, const Communicator& communicator, const std::string& what, bool odd) {
    std::vector<Output> memory;
    Tensors outputs;
    for (size_t rank = 0; rank < devices_.size(); ++rank) {
      memory.emplace_back(taken_, devices_[rank], variant_, odd);
      if (exchange_.collective == Collective::kBroadcast && rank == 0)
        memory.back().inside.copy_(inputs_[0]);
      if (gets(rank)) outputs.push_back(memory.back().inside);
    }
    communicator(exchange_, inputs_, outputs);
    Tensors results;
    for (size_t rank = 0, k = 0; rank < devices_.size(); ++rank) {
      results.push_back(gets(rank) ? outputs.at(k++) : at::Tensor());
      tally.demand(memory[rank].besideIsUntouched(), what + ": memory beside the output of rank " +
                                                         std::to_string(rank) + " was written");
      tally.demandSame(what + ", input of rank " + std::to_string(rank) + " behind the call",
                       inputs_[rank], parts_[rank]);
    }
    return results;
  }

  void judge(Tally& tally, const std::string& what, const Tensors& results) const {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      if (!gets(rank)) continue;
      const auto where = what + ", rank " + std::to_string(rank);
      const auto got = results[rank].cpu();
      if (!reduces(exchange_.collective)) {
        tally.demandSame(where, got, moved());
      } else if (devices_.size() == 1 || exchange_.reduction == Reduction::kMaximum ||
                 exchange_.reduction == Reduction::kMinimum) {
        tally.demandSame(where, got, own(wanted_.value, rank).to(got.scalar_type()));
      } else {
        GoldenOutput golden;
        golden.golden = own(wanted_.value, rank);
        golden.scale = own(wanted_.scale, rank);
        tally.compare(where, got, golden);
      }
      if (exchange_.collective == Collective::kAllReduce)
        tally.demandSame(where + " beside rank 0", got, results[0].cpu());
    }
  }

 private:
  bool gets(size_t rank) const {
    return exchange_.collective != Collective::kReduce || rank + 1 == devices_.size();
  }
  // A rank's share of what all ranks reduce together.
  at::Tensor own(const at::Tensor& all, size_t rank) const {
    if (exchange_.collective != Collective::kReduceScatter) return all;
    const auto from = static_cast<int64_t>(rank) * taken_;
    return all.slice(0, from, from + taken_).contiguous();
  }
  at::Tensor moved() const {
    return exchange_.collective == Collective::kBroadcast ? parts_[0] : at::cat(parts_);
  }

  Exchange exchange_;
  Devices devices_;
  Variant variant_;
  int64_t taken_ = 0;
  Tensors parts_, inputs_;  // on the host, on the devices
  Wanted wanted_;
};

// NVLink SHARP adds in the switch, in the order in which the parts come: sums repeat only where it
// is ruled out (NVIDIA/nccl#1497).
bool promisesEqualBits(const Exchange& exchange) {
  const bool sumsInTheSwitch =
      exchange.reduction == Reduction::kSum && (exchange.collective == Collective::kAllReduce ||
                                                exchange.collective == Collective::kReduceScatter);
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  return !sumsInTheSwitch || variable("NCCL_NVLS_ENABLE") == "0" ||
         variable("NCCL_ALGO").find("^NVLS") != std::string::npos;
}

std::string groupName(const Devices& devices) {
  std::string name = "ranks";
  for (const auto& device : devices) name += "_" + std::to_string(device.index());
  return name;
}

}  // namespace

std::string Exchange::name() const {
  std::string name = nameOf(collective);
  return reduces(collective) ? name + "_" + nameOf(reduction) : name;
}

std::vector<Exchange> allExchanges() {
  std::vector<Exchange> all;
  for (const auto collective :
       {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
    for (const auto reduction :
         {Reduction::kSum, Reduction::kProduct, Reduction::kMaximum, Reduction::kMinimum})
      all.push_back({collective, reduction});
  all.push_back({Collective::kBroadcast});
  all.push_back({Collective::kAllGather});
  return all;
}

Communicator nccl() {
  return [](const Exchange& exchange, const Tensors& inputs, Tensors& outputs) {
    namespace nccl = torch::cuda::nccl;
    const auto operation = static_cast<int32_t>(exchange.reduction);
    switch (exchange.collective) {
      case Collective::kAllReduce:
        return nccl::all_reduce(inputs, outputs, operation, {}, {});
      case Collective::kReduce:
        return nccl::reduce(inputs, outputs.at(0), static_cast<int32_t>(inputs.size()) - 1,
                            operation, {}, {});
      case Collective::kBroadcast: {
        Tensors others(outputs.begin() + 1, outputs.end());
        torch::cuda::broadcast_out(outputs[0], others);
        return;
      }
      case Collective::kAllGather:
        return nccl::all_gather(inputs, outputs, {}, {});
      case Collective::kReduceScatter:
        return nccl::reduce_scatter(inputs, outputs, operation, {}, {});
    }
  };
}

Communicator ringInOrder() {
  return [](const Exchange& exchange, const Tensors& inputs, Tensors& outputs) {
    at::Tensor all = inputs[0];
    if (exchange.collective == Collective::kAllGather) all = at::cat(inputs);
    for (size_t k = 1; reduces(exchange.collective) && k < inputs.size(); ++k)
      all = reduced(exchange.reduction, all, inputs[k]);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const auto from = exchange.collective == Collective::kReduceScatter
                            ? static_cast<int64_t>(k) * outputs[k].numel()
                            : 0;
      outputs[k].copy_(all.slice(0, from, from + outputs[k].numel()));
    }
  };
}

Record exchange(const Exchange& exchange, const Devices& devices, const Variant& variant,
                const Communicator& communicator, int repeats) {
  Record record;
  Tally tally(record, variant.dtype);
  record.why = "docs/numerics.md#collectives";
  const bool repeatable = promisesEqualBits(exchange);
  int64_t calls = 0, differing = 0;
  for (const int64_t count : sizes()) {
    Round round(exchange, devices, variant, count);
    for (const bool odd : {false, true}) {
      const auto what = std::to_string(count) + " elements" + (odd ? ", odd addresses" : "");
      const auto first = round.call(tally, communicator, what, odd);
      round.judge(tally, what, first);
      for (int again = 1; again <= repeats; ++again, ++calls) {
        const auto next = round.call(tally, communicator, what, odd);
        const auto call = what + ", call " + std::to_string(again + 1);
        if (!repeatable) round.judge(tally, call, next);
        bool same = true;
        for (size_t rank = 0; rank < first.size(); ++rank) {
          if (!first[rank].defined()) continue;
          same = same && sameBits(next[rank], first[rank]);
          if (repeatable)
            tally.demandSame(call + ", rank " + std::to_string(rank), next[rank], first[rank]);
        }
        differing += same ? 0 : 1;
      }
    }
  }
  record.details = {{"ranks", devices.size()},
                    {"repeated_calls", calls},
                    {"calls_with_other_bits", differing},
                    {"equal_bits_promised", repeatable}};
  return record;
}

namespace {

Record byNccl(const Exchange& one, const Devices& devices, const Variant& variant) {
  try {
    return exchange(one, devices, variant, nccl());
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("without NCCL") == std::string::npos) throw;
    Record record;
    record.status = Status::kUnavailable;
    record.reason = text.substr(0, 200);
    return record;
  }
}

}  // namespace

std::vector<Part> collectiveParts(const std::vector<Devices>& groups) {
  std::vector<Part> parts;
  for (const auto& devices : groups) {
    for (const auto& one : allExchanges()) {
      parts.push_back(
          {.model = one.name(),
           .name = groupName(devices),
           .smoke = one.reduction == Reduction::kSum,
           .run = [=](const Variant& variant) { return byNccl(one, devices, variant); }});
    }
  }
  return parts;
}

}  // namespace assay::data_parallel
