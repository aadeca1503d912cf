// What the operations of a graph compute, by definition, in float64 on the host, each with the
// scale of its rounding error. Images are (batch, channels, height, width); a NaN in an input is in
// every output that depends on it.
#pragma once

#include <functional>

#include "suites/determinism/direct_convolution.h"
#include "suites/determinism/measured.h"

namespace assay::determinism {

// c[n] = a[n] b[n] of batches of matrices.
Sums multiplied(const at::Tensor& a, const at::Tensor& b);

// f of each element; the index says which.
Sums each(const Sums& x, const std::function<Measured(Measured, int64_t)>& f);
// An input as it is: its scale is its magnitude.
Sums exact(const at::Tensor& x);

Measured gelu(Measured x);

// Windows of window × window; average over the cells inside the image only.
Sums pooledMaximum(const at::Tensor& x, int64_t window, int64_t stride, int64_t padding);
Sums pooledAverage(const at::Tensor& x, int64_t window, int64_t stride, int64_t padding);
// The gradient goes to the window's first maximum.
Sums maximumGradient(const at::Tensor& x, const at::Tensor& dy, int64_t window, int64_t stride,
                     int64_t padding);
Sums averageGradient(const at::Tensor& dy, const std::vector<int64_t>& shape, int64_t window,
                     int64_t stride, int64_t padding);

// The sum, or the largest, over batch, height and width.
Sums channelSum(const at::Tensor& x);
Sums channelMaximum(const at::Tensor& x);

// Normalized groups of elements: those of one image (layer), of one channel (batch), of one channel
// of one image (instance). scale and bias are broadcast to x's shape; `centred` false is RMS.
enum class Group { kImage, kChannel, kChannelOfImage };
struct Normalized {
  Sums y, mean, variance, inverse;  // one number a group, but for y
};
Normalized normalized(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double epsilon, Group group, bool centred);

struct NormGradients {
  Sums dx, dScale, dBias;
};
// Of batch norm in training, from the mean and the inverse deviation that the forward saved.
NormGradients batchNormGradients(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& scale,
                                 const at::Tensor& mean, const at::Tensor& inverse);

// y = softmax(q kᵀ factor) v, and the logarithms of the sums of exponentials; (batch, heads,
// length, width).
struct Attended {
  Sums y, logSums;
};
Attended attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double factor);

}  // namespace assay::determinism
