// One sampled output of a layer, recomputed on the host in float64 by a plain loop from the layer's
// own input as the device had it: what the layer should have answered, whatever came before it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace assay::models::host {

// An element and the scale that its error is judged against: Σ |∂f/∂x_j| |x_j| + |f|, as of the
// conditioned gauge.
struct Element {
  double value = 0;
  double scale = 0;
};

// The element at a flat index.
using Reference = std::function<Element(int64_t)>;

// Each takes tensors on any device; they are copied to the host when the reference is made.
Reference linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
Reference convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      int64_t stride, int64_t padding, int64_t groups);
// ConvTranspose2d with kernel 2 and stride 2.
Reference doubling(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
Reference layerNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    double eps);
// By the given statistics, or by the batch's own where they are undefined.
Reference batchNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& mean, const at::Tensor& variance, double eps);
// (B, H, T, D) · (B, H, S, D)ᵀ · factor.
Reference scores(const at::Tensor& query, const at::Tensor& key, double factor);
// Over the last axis; `mask`, broadcast to x, is true where a position counts.
Reference softmax(const at::Tensor& x, const at::Tensor& mask);
// (B, H, T, S) · (B, H, S, D), joined to (B, T, H·D).
Reference context(const at::Tensor& probabilities, const at::Tensor& value);
// softmax(q kᵀ factor) v as one function of q, k and v.
Reference attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const at::Tensor& mask, double factor);
Reference gelu(const at::Tensor& x);
Reference relu(const at::Tensor& x);
Reference maxPool(const at::Tensor& x, int64_t kernel, int64_t stride, int64_t padding);
// torch::nn::LSTM, batch first, from zero states: the last layer's hidden states (B, T, H).
// `weights`: weight_ih, weight_hh, bias_ih, bias_hh of each layer in turn. The scale is the running
// error of the recurrence in units of u: each step's roundings, and what it makes of those before
// it.
Reference lstm(const at::Tensor& x, const std::vector<at::Tensor>& weights);
Reference sum(const at::Tensor& a, const at::Tensor& b);

}  // namespace assay::models::host
