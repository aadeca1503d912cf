#include "suites/models/layers.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "fixtures/argument.h"

namespace assay::models {
namespace {

LayerBound boundOf(const at::Tensor& x) { return x.is_cuda() ? kConvolution : kProduct; }

// The kernel that LibTorch's own choice takes.
std::string kernelOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double factor) {
  switch (static_cast<at::SDPBackend>(at::_fused_sdp_choice(query, key, value, mask, 0.0,
                                                            /*is_causal=*/false, factor))) {
    case at::SDPBackend::math:
      return "math";
    case at::SDPBackend::flash_attention:
      return "flash";
    case at::SDPBackend::efficient_attention:
      return "efficient";
    case at::SDPBackend::cudnn_attention:
      return "cudnn";
    default:
      return "another";
  }
}

}  // namespace

at::Tensor linear(const Trace& trace, const std::string& name, torch::nn::Linear& module,
                  const at::Tensor& x) {
  return trace.layer(
      name, module->forward(x), kProduct,
      [=, weight = module->weight, bias = module->bias] { return host::linear(x, weight, bias); });
}

at::Tensor layerNorm(const Trace& trace, const std::string& name, torch::nn::LayerNorm& module,
                     const at::Tensor& x, double eps) {
  return trace.layer(name, module->forward(x), kRounded,
                     [=, weight = module->weight, bias = module->bias] {
                       return host::layerNorm(x, weight, bias, eps);
                     });
}

at::Tensor convolution(const Trace& trace, const std::string& name, torch::nn::Conv2d& module,
                       const at::Tensor& x) {
  const auto& options = module->options;
  const int64_t stride = options.stride()->at(0);
  const int64_t padding = std::get<torch::ExpandingArray<2>>(options.padding())->at(0);
  return trace.layer(name, module->forward(x), boundOf(x),
                     [=, weight = module->weight, bias = module->bias, groups = options.groups()] {
                       return host::convolution(x, weight, bias, stride, padding, groups);
                     });
}

at::Tensor doubling(const Trace& trace, const std::string& name, torch::nn::ConvTranspose2d& module,
                    const at::Tensor& x) {
  return trace.layer(name, module->forward(x), boundOf(x),
                     [=, weight = module->weight, bias = module->bias] {
                       return host::doubling(x, weight, bias);
                     });
}

at::Tensor batchNorm(const Trace& trace, const std::string& name, torch::nn::BatchNorm2d& module,
                     const at::Tensor& x) {
  const bool train = module->is_training();
  const auto result = module->forward(x);
  if (train) {
    trace.note(name + ".running_mean", module->running_mean.clone());
    trace.note(name + ".running_var", module->running_var.clone());
  }
  return trace.layer(name, result, kRounded,
                     [=, weight = module->weight, bias = module->bias, eps = module->options.eps(),
                      mean = train ? at::Tensor() : module->running_mean,
                      variance = train ? at::Tensor() : module->running_var] {
                       return host::batchNorm(x, weight, bias, mean, variance, eps);
                     });
}

at::Tensor maxPool(const Trace& trace, const std::string& name, const at::Tensor& x, int64_t kernel,
                   int64_t stride, int64_t padding) {
  return trace.layer(name,
                     at::max_pool2d(x, {kernel, kernel}, {stride, stride}, {padding, padding}),
                     kExact, [=] { return host::maxPool(x, kernel, stride, padding); });
}

at::Tensor relu(const Trace& trace, const std::string& name, const at::Tensor& x) {
  return trace.alone(name, at::relu(x), kExact, [=] { return host::relu(x); });
}

at::Tensor gelu(const Trace& trace, const std::string& name, const at::Tensor& x,
                const std::string& approximate) {
  return trace.layer(name, at::gelu(x, approximate), kRounded, [=] { return host::gelu(x); });
}

at::Tensor add(const Trace& trace, const std::string& name, const at::Tensor& a,
               const at::Tensor& b) {
  return trace.alone(name, a + b, kRounded, [=] { return host::sum(a, b); });
}

at::Tensor heads(const at::Tensor& x, int64_t count) {
  return x.reshape({x.size(0), x.size(1), count, x.size(2) / count}).transpose(1, 2);
}

at::Tensor attend(const Trace& trace, const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& mask, const Attention& options) {
  const double factor = 1 / std::sqrt(static_cast<double>(query.size(3)));
  if (options.fused) {
    const auto shown = options.keepMask ? std::optional(mask) : std::nullopt;
    trace.remark("attention_kernel", kernelOf(query, key, value, shown, options.factor));
    const auto mixed = at::scaled_dot_product_attention(query, key, value, shown, 0.0,
                                                        /*is_causal=*/false, options.factor);
    return trace.layer("context", mixed.transpose(1, 2).flatten(2), kProduct,
                       [=] { return host::attention(query, key, value, mask, factor); });
  }
  const auto raw = at::matmul(query, key.transpose(-2, -1)) * options.factor;
  trace.layer("scores", raw, kProduct, [=] { return host::scores(query, key, factor); });
  const auto hidden = mask.logical_not();
  const auto masked =
      options.keepMask ? raw.masked_fill(hidden, -std::numeric_limits<double>::infinity()) : raw;
  const auto p = at::softmax(masked, -1);
  trace.layer("probabilities", p, kRounded, [=] { return host::softmax(raw, mask); });
  const auto mixed = at::matmul(p, value).transpose(1, 2).flatten(2);
  return trace.layer("context", mixed, kProduct, [=] { return host::context(p, value); });
}

bool outsideOfAttention(const std::string& result) {
  return !result.ends_with(".scores") && !result.ends_with(".probabilities");
}

void loadWeights(torch::nn::Module& module, const ObservedModel& golden, const Variant& variant) {
  const torch::NoGradGuard noGrad;
  auto left = golden.weights();
  const auto take = [&](const std::string& name, at::Tensor& into) {
    const auto found = left.find(name);
    if (found == left.end() || found->second.sizes() != into.sizes())
      throw std::logic_error("the golden has no weight " + name + " of this shape");
    into.set_data(
        found->second.to(scalarType(variant.dtype)).clone().to(c10::Device(variant.device)));
    left.erase(found);
  };
  for (auto& one : module.named_parameters()) take(one.key(), one.value());
  for (auto& one : module.named_buffers()) {
    if (one.value().is_floating_point())
      take(one.key(), one.value());
    else  // the count of batches
      one.value().set_data(one.value().to(c10::Device(variant.device)));
  }
  if (!left.empty()) throw std::logic_error("the model has no weight " + left.begin()->first);
}

}  // namespace assay::models
