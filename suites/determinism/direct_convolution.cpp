#include "suites/determinism/direct_convolution.h"

#include <ATen/ATen.h>

#include <cmath>

namespace assay::determinism {
namespace {

std::vector<int64_t> shape(const Problem& problem, int64_t first, int64_t second,
                           const std::array<int64_t, 3>& axes) {
  std::vector<int64_t> result{first, second};
  result.insert(result.end(), axes.end() - problem.spatial, axes.end());
  return result;
}

Sums zeros(const std::vector<int64_t>& shape) {
  return {at::zeros(shape, at::kDouble), at::zeros(shape, at::kDouble)};
}

struct Adder {
  double* value;
  double* scale;
  explicit Adder(Sums& sums)
      : value(sums.value.mutable_data_ptr<double>()),
        scale(sums.scale.mutable_data_ptr<double>()) {}
  void add(int64_t at, double term) {
    value[at] += term;
    scale[at] += std::abs(term);
  }
};

// Calls visit(output position, input position, kernel position) for the taps inside the input, all
// as flat offsets over the three axes.
template <typename Visit>
void eachTap(const Problem& p, const Visit& visit) {
  const auto out = p.outputSize();
  const auto volume = [](const std::array<int64_t, 3>& a) { return a[0] * a[1] * a[2]; };
  for (int64_t o = 0; o < volume(out); ++o) {
    const std::array<int64_t, 3> at{o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]};
    for (int64_t k = 0; k < volume(p.kernel); ++k) {
      const std::array<int64_t, 3> tap{k / (p.kernel[1] * p.kernel[2]),
                                       k / p.kernel[2] % p.kernel[1], k % p.kernel[2]};
      int64_t from = 0;
      bool inside = true;
      for (int axis = 0; axis < 3; ++axis) {
        const int64_t x =
            at[axis] * p.stride[axis] - p.padding[axis] + tap[axis] * p.dilation[axis];
        inside = inside && x >= 0 && x < p.size[axis];
        from = from * p.size[axis] + x;
      }
      if (inside) visit(o, from, k);
    }
  }
}

}  // namespace

std::array<int64_t, 3> Problem::outputSize() const {
  std::array<int64_t, 3> result{};
  for (int axis = 0; axis < 3; ++axis) {
    result[axis] =
        (size[axis] + 2 * padding[axis] - dilation[axis] * (kernel[axis] - 1) - 1) / stride[axis] +
        1;
  }
  return result;
}

std::vector<int64_t> Problem::inputShape() const { return shape(*this, batch, channels, size); }
std::vector<int64_t> Problem::weightShape() const {
  return shape(*this, filters, channels / groups, kernel);
}
std::vector<int64_t> Problem::outputShape() const {
  return shape(*this, batch, filters, outputSize());
}

Convolved convolve(const Problem& p, const at::Tensor& input, const at::Tensor& weight,
                   const at::Tensor& upstream) {
  Convolved result{zeros(p.outputShape()), zeros(p.inputShape()), zeros(p.weightShape())};
  Adder output(result.output), inputGradient(result.inputGradient),
      weightGradient(result.weightGradient);
  const auto* x = input.const_data_ptr<double>();
  const auto* w = weight.const_data_ptr<double>();
  const auto* dy = upstream.const_data_ptr<double>();
  const int64_t perGroup = p.channels / p.groups, filtersPerGroup = p.filters / p.groups;
  const int64_t outputs = upstream.numel() / (p.batch * p.filters);
  const int64_t inputs = input.numel() / (p.batch * p.channels);
  const int64_t taps = weight.numel() / (p.filters * perGroup);
  eachTap(p, [&](int64_t o, int64_t from, int64_t k) {
    for (int64_t n = 0; n < p.batch; ++n) {
      for (int64_t f = 0; f < p.filters; ++f) {
        const int64_t y = (n * p.filters + f) * outputs + o;
        for (int64_t c = 0; c < perGroup; ++c) {
          const int64_t channel = f / filtersPerGroup * perGroup + c;
          const int64_t in = (n * p.channels + channel) * inputs + from;
          const int64_t at = (f * perGroup + c) * taps + k;
          output.add(y, x[in] * w[at]);
          inputGradient.add(in, dy[y] * w[at]);
          weightGradient.add(at, dy[y] * x[in]);
        }
      }
    }
  });
  return result;
}

}  // namespace assay::determinism
