// Convolution by its definition, in float64 on the host: the sums that cuDNN's answers are measured
// against, and the sums of the terms' magnitudes, in whose units a rounding error is bounded.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

namespace assay::determinism {

// Three spatial axes; a 2-D problem has a first axis of 1, a 1-D problem two.
struct Problem {
  std::string name;
  int64_t batch, channels, filters, groups;
  std::array<int64_t, 3> size, kernel, stride, dilation, padding;
  int64_t spatial;  // axes that the library is told of: 2 or 3

  std::array<int64_t, 3> outputSize() const;
  // (batch, channels, …), (filters, channels / groups, …), (batch, filters, …) with `spatial` axes
  std::vector<int64_t> inputShape() const;
  std::vector<int64_t> weightShape() const;
  std::vector<int64_t> outputShape() const;
};

// A tensor and the sum of its terms' magnitudes, both float64 on the host.
struct Sums {
  at::Tensor value, scale;
};

struct Convolved {
  Sums output, inputGradient, weightGradient;
};

// input, weight, upstream: contiguous float64 on the host in the problem's shapes.
Convolved convolve(const Problem& problem, const at::Tensor& input, const at::Tensor& weight,
                   const at::Tensor& upstream);

}  // namespace assay::determinism
