// LibTorch's layers as the models call them: each writes its result into the trace, with the
// reference of its own input beside it.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "suites/models/trace.h"

namespace assay::models {

at::Tensor linear(const Trace& trace, const std::string& name, torch::nn::Linear& module,
                  const at::Tensor& x);
// `eps`: what the reference takes, whatever the module was made with.
at::Tensor layerNorm(const Trace& trace, const std::string& name, torch::nn::LayerNorm& module,
                     const at::Tensor& x, double eps);
at::Tensor convolution(const Trace& trace, const std::string& name, torch::nn::Conv2d& module,
                       const at::Tensor& x);
// The module must have kernel 2 and stride 2.
at::Tensor doubling(const Trace& trace, const std::string& name, torch::nn::ConvTranspose2d& module,
                    const at::Tensor& x);
// In the module's own mode, train or eval; running statistics are noted in train mode.
at::Tensor batchNorm(const Trace& trace, const std::string& name, torch::nn::BatchNorm2d& module,
                     const at::Tensor& x);
at::Tensor maxPool(const Trace& trace, const std::string& name, const at::Tensor& x,
                   int64_t kernel = 2, int64_t stride = 2, int64_t padding = 0);
at::Tensor relu(const Trace& trace, const std::string& name, const at::Tensor& x);
// `approximate`: "none" or "tanh", as at::gelu's; the reference is the exact one.
at::Tensor gelu(const Trace& trace, const std::string& name, const at::Tensor& x,
                const std::string& approximate = "none");
at::Tensor add(const Trace& trace, const std::string& name, const at::Tensor& a,
               const at::Tensor& b);

// (B, T, D) → (B, heads, T, D / heads).
at::Tensor heads(const at::Tensor& x, int64_t count);

struct Attention {
  double factor;  // of the scores; the reference takes 1 / sqrt(width of a head)
  bool keepMask = true;
  bool fused = false;  // at::scaled_dot_product_attention: scores and probabilities stay in it
};
// The fused form remarks which kernel ran. softmax(q kᵀ factor) v over (B, H, T, D), joined to (B,
// T, H·D); `mask` (broadcast to the scores): true where a query may look.
at::Tensor attend(const Trace& trace, const at::Tensor& query, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& mask, const Attention& options);

// What of a golden the fused form shows.
bool outsideOfAttention(const std::string& result);

// The golden's weights (parameters and buffers), moved into the module, which must have exactly
// these, in the variant's dtype on its device.
void loadWeights(torch::nn::Module& module, const ObservedModel& golden, const Variant& variant);

}  // namespace assay::models
