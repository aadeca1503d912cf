#include "suites/determinism/aten_calls.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <map>
#include <stdexcept>

#include "fixtures/argument.h"
#include "fixtures/call.h"
#include "fixtures/draw.h"
#include "fixtures/mode.h"

namespace assay::determinism {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// Gradients of the floating inputs for one drawn upstream gradient an output.
std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs, const Tensors& inputs,
                                  std::vector<at::Tensor>& upstream) {
  std::vector<at::Tensor> roots, leaves;
  for (const auto& output : outputs) {
    if (output.defined() && output.requires_grad()) roots.push_back(output);
  }
  for (const auto& [name, one] : inputs) {
    if (one.requires_grad()) leaves.push_back(one);
  }
  if (roots.empty()) throw std::logic_error("no output has a gradient");
  while (upstream.size() < roots.size()) {
    const auto& root = roots[upstream.size()];
    upstream.push_back(
        draw({{"kind", "normal"}, {"shape", root.sizes().vec()}, {"key", {20240229, 77}}})
            .mul_(0.73105857863000487)
            .to(root.options()));
  }
  auto result = torch::autograd::grad(roots, leaves, upstream, false, false, true);
  std::erase_if(result, [](const at::Tensor& one) { return !one.defined(); });
  if (result.empty()) throw std::logic_error("no input has a gradient");
  return result;
}

// Three quarters of the batch: the dimension that the inputs share and the weights lack.
void shrink(const AtenRow& row, Tensors& tensors) {
  const int64_t dim = row.name == "ctc_loss" ? 2 : 0;  // there the classes: lengths are numbers
  const auto shared = [&](const std::string& name, const at::Tensor& one) {
    if (row.name == "addmm") return name == "mat1";
    return name != "weight" && name != "bias" && (name != "mat2" || one.dim() == 3) &&
           one.dim() > dim;
  };
  int64_t batch = 0;
  for (const auto& [name, one] : tensors) {
    if (shared(name, one)) batch = std::max(batch, one.size(dim));
  }
  if (batch < 2) throw std::logic_error("no other shape of " + row.name);
  for (auto& [name, one] : tensors) {
    if (shared(name, one) && one.size(dim) == batch)
      one = one.narrow(dim, 0, batch - (batch + 3) / 4).contiguous();
  }
}

// The same values, `bytes` behind the beginning of an allocation; allocators align that to at least
// 64 bytes.
at::Tensor shifted(const at::Tensor& tensor, int64_t bytes) {
  const auto skip = bytes / static_cast<int64_t>(tensor.element_size());
  const auto buffer = at::empty({tensor.numel() + skip}, tensor.options());
  return buffer.narrow(0, skip, tensor.numel()).view(tensor.sizes()).copy_(tensor);
}

// How the first run under a condition differs from the one without it.
nlohmann::json changeOf(const std::vector<at::Tensor>& under,
                        const std::vector<at::Tensor>& without) {
  return repeat([&] { return under; }, without, 1, Kind::kAgain).json();
}

void widen(Spread& all, const Spread& one) {
  all.runs += one.runs;
  all.differing += one.differing;
  all.elements = std::max(all.elements, one.elements);
  all.ulp = std::max(all.ulp, one.ulp);
  all.relative = std::max(all.relative, one.relative);
}

// Inputs at other addresses. Each alignment must repeat itself. That two alignments agree is
// promised by nobody (a library may choose a kernel by alignment): reported.
Repeated aligned(const AtenRow& row, const Variant& variant, const std::vector<at::Tensor>& first,
                 bool smoke) {
  const std::vector<int64_t> offsets =
      smoke ? std::vector<int64_t>{16} : std::vector<int64_t>{8, 16, 32, 64, 128, 272};
  Repeated seen{.kind = "aligned", .spread = {}, .more = {{"changed", nlohmann::json::object()}}};
  for (const auto offset : offsets) {
    const auto call = callOf(row, variant, {.offset = offset});
    const auto there = call();
    widen(seen.spread, repeat(call, there, 2, Kind::kAgain));
    const auto change = changeOf(there, first);
    if (change["differing"] != 0) seen.more["changed"][std::to_string(offset) + " bytes"] = change;
  }
  return seen;
}

// cuDNN's benchmark may choose another algorithm: reported. What it chose must repeat itself.
Repeated benchmarked(const Variant& variant, const Call& call, const std::vector<at::Tensor>& first,
                     bool smoke) {
  Variant mode = variant;
  mode.benchmark = true;
  const ModeGuard guard(mode, false);
  call();  // chooses
  const auto chosen = call();
  Repeated seen{.kind = "benchmark",
                .spread = repeat(call, chosen, smoke ? 4 : 24, Kind::kAgain),
                .more = {{"changed", nlohmann::json::object()}}};
  const auto change = changeOf(chosen, first);
  if (change["differing"] != 0) seen.more["changed"]["another algorithm"] = change;
  return seen;
}

}  // namespace

Call callOf(const AtenRow& row, const Variant& variant, const Form& form) {
  const auto file = row.file();
  const auto item = row.item();
  checkArguments(file);
  Tensors tensors;
  for (const auto& [name, one] : prepare(file, item, variant)) tensors[name] = one.argument;
  if (form.otherShape) shrink(row, tensors);
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.detach();
    if (!tensor.is_floating_point()) continue;
    // All bits of the mantissa: sums of the generator's own numbers are exact in any order.
    if (name != "grid") tensor = tensor.mul(0.73105857863000487);
    if (form.offset > 0) tensor = shifted(tensor, form.offset);
    if (row.backward) tensor.requires_grad_();
  }
  auto upstream = std::make_shared<std::vector<at::Tensor>>();
  return [=, backward = row.backward]() -> std::vector<at::Tensor> {
    auto outputs = assay::call(file, item, variant, tensors);
    if (backward) return gradients(outputs, tensors, *upstream);
    for (auto& output : outputs) output = output.detach();
    return outputs;
  };
}

std::vector<Repeated> otherConditions(const AtenRow& row, const Variant& variant, const Call& call,
                                      const std::vector<at::Tensor>& first, bool smoke) {
  std::vector<Repeated> seen;
  const auto other = callOf(row, variant, {.otherShape = true});
  const Call behind = [&] {
    other();
    return call();
  };
  seen.push_back(
      {"after_other_shape", repeat(behind, first, smoke ? 2 : 8, Kind::kAgain), nullptr});
  seen.push_back(aligned(row, variant, first, smoke));
  if (variant.onGpu() && row.name.starts_with("conv"))
    seen.push_back(benchmarked(variant, call, first, smoke));
  return seen;
}

}  // namespace assay::determinism
