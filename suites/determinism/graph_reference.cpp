#include "suites/determinism/graph_reference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace assay::determinism {
namespace {

Sums zeros(at::IntArrayRef shape) {
  return {at::zeros(shape, at::kDouble), at::zeros(shape, at::kDouble)};
}

// Elements of a Sums by flat index.
class Cells {
 public:
  explicit Cells(Sums& sums)
      : value_(sums.value.mutable_data_ptr<double>()),
        scale_(sums.scale.mutable_data_ptr<double>()) {}
  Measured operator[](int64_t k) const { return {value_[k], scale_[k]}; }
  void set(int64_t k, Measured to) const {
    value_[k] = to.value;
    scale_[k] = to.scale;
  }
  void add(int64_t k, Measured more) const { set(k, (*this)[k] + more); }

 private:
  double* value_;
  double* scale_;
};

const double* numbers(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kDouble);
  return tensor.const_data_ptr<double>();
}

// Calls visit(plane, output cell, input cells of its window) for every window.
struct Window {
  int64_t plane, output;
  std::vector<int64_t> inputs;  // flat over the whole tensor
};
template <typename Visit>
void eachWindow(at::IntArrayRef shape, int64_t window, int64_t stride, int64_t padding,
                const Visit& visit) {
  const int64_t planes = shape[0] * shape[1], h = shape[2], w = shape[3];
  const int64_t rows = (h + 2 * padding - window) / stride + 1;
  const int64_t columns = (w + 2 * padding - window) / stride + 1;
  for (int64_t cell = 0; cell < planes * rows * columns; ++cell) {
    Window one{cell / (rows * columns), cell, {}};
    const int64_t top = cell / columns % rows * stride - padding;
    const int64_t left = cell % columns * stride - padding;
    for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + window, h); ++y) {
      for (int64_t x = std::max<int64_t>(left, 0); x < std::min(left + window, w); ++x)
        one.inputs.push_back((one.plane * h + y) * w + x);
    }
    visit(one);
  }
}

std::vector<int64_t> pooledShape(at::IntArrayRef x, int64_t window, int64_t stride,
                                 int64_t padding) {
  return {x[0], x[1], (x[2] + 2 * padding - window) / stride + 1,
          (x[3] + 2 * padding - window) / stride + 1};
}

// The first of the largest; a NaN is larger than any number.
int64_t largest(const double* x, const std::vector<int64_t>& at) {
  int64_t best = at.at(0);
  for (const int64_t k : at) {
    if (std::isnan(x[best])) break;
    if (std::isnan(x[k]) || x[k] > x[best]) best = k;
  }
  return best;
}

}  // namespace

Sums exact(const at::Tensor& x) { return {x.contiguous(), x.abs().contiguous()}; }

Sums each(const Sums& x, const std::function<Measured(Measured, int64_t)>& f) {
  Sums copy{x.value.contiguous(), x.scale.contiguous()};
  auto result = zeros(copy.value.sizes());
  const Cells from(copy), to(result);
  for (int64_t k = 0; k < copy.value.numel(); ++k) to.set(k, f(from[k], k));
  return result;
}

Sums multiplied(const at::Tensor& a, const at::Tensor& b) {
  const int64_t batch = a.size(0), m = a.size(1), terms = a.size(2), n = b.size(2);
  auto result = zeros({batch, m, n});
  const Cells to(result);
  const auto *left = numbers(a), *right = numbers(b);
  for (int64_t cell = 0; cell < batch * m * n; ++cell) {
    const int64_t row = cell / n, image = row / m;
    Measured sum;
    for (int64_t k = 0; k < terms; ++k) {
      sum = sum +
            Measured(left[row * terms + k]) * Measured(right[(image * terms + k) * n + cell % n]);
    }
    to.set(cell, sum);
  }
  return result;
}

Measured gelu(Measured x) {
  return Measured(0.5) * x * (Measured(1) + errorFunction(x * Measured(std::sqrt(0.5))));
}

Sums pooledMaximum(const at::Tensor& x, int64_t window, int64_t stride, int64_t padding) {
  auto result = zeros(pooledShape(x.sizes(), window, stride, padding));
  const Cells to(result);
  const auto* from = numbers(x);
  eachWindow(x.sizes(), window, stride, padding,
             [&](const Window& w) { to.set(w.output, Measured(from[largest(from, w.inputs)])); });
  return result;
}

Sums pooledAverage(const at::Tensor& x, int64_t window, int64_t stride, int64_t padding) {
  auto result = zeros(pooledShape(x.sizes(), window, stride, padding));
  const Cells to(result);
  const auto* from = numbers(x);
  eachWindow(x.sizes(), window, stride, padding, [&](const Window& w) {
    const auto count = static_cast<double>(w.inputs.size());
    for (const int64_t k : w.inputs) to.add(w.output, Measured(from[k] / count));
  });
  return result;
}

Sums maximumGradient(const at::Tensor& x, const at::Tensor& dy, int64_t window, int64_t stride,
                     int64_t padding) {
  auto result = zeros(x.sizes());
  const Cells to(result);
  const auto *from = numbers(x), *upstream = numbers(dy);
  eachWindow(x.sizes(), window, stride, padding, [&](const Window& w) {
    to.add(largest(from, w.inputs), Measured(upstream[w.output]));
  });
  return result;
}

Sums averageGradient(const at::Tensor& dy, const std::vector<int64_t>& shape, int64_t window,
                     int64_t stride, int64_t padding) {
  auto result = zeros(shape);
  const Cells to(result);
  const auto* upstream = numbers(dy);
  eachWindow(shape, window, stride, padding, [&](const Window& w) {
    const auto count = static_cast<double>(w.inputs.size());
    for (const int64_t k : w.inputs) to.add(k, Measured(upstream[w.output] / count));
  });
  return result;
}

Sums channelSum(const at::Tensor& x) {
  return {x.sum({0, 2, 3}, true), x.abs().sum({0, 2, 3}, true)};
}

Sums channelMaximum(const at::Tensor& x) {
  return exact(x.amax({0, 2, 3}, true));  // a NaN is the largest
}

namespace {

// Which group an element of an image tensor belongs to.
struct Grouping {
  Group kind;
  int64_t channels, plane;
  std::vector<int64_t> shape;  // of one number a group
  Grouping(at::IntArrayRef x, Group kind_)
      : kind(kind_), channels(x[1]), plane(x[2] * x[3]), shape{x[0], x[1], 1, 1} {
    if (kind == Group::kImage) shape[1] = 1;
    if (kind == Group::kChannel) shape[0] = 1;
  }
  int64_t of(int64_t element) const {
    const int64_t cell = element / plane;
    if (kind == Group::kImage) return cell / channels;
    return kind == Group::kChannel ? cell % channels : cell;
  }
};

}  // namespace

Normalized normalized(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double epsilon, Group group, bool centred) {
  const Grouping groups(x.sizes(), group);
  Normalized result{zeros(x.sizes()), zeros(groups.shape), zeros(groups.shape),
                    zeros(groups.shape)};
  const Cells y(result.y), mean(result.mean), variance(result.variance), inverse(result.inverse);
  const auto* from = numbers(x);
  const auto wide = scale.expand_as(x).contiguous(), shift = bias.expand_as(x).contiguous();
  const auto *gain = numbers(wide), *offset = numbers(shift);
  const int64_t count = x.numel() / result.mean.value.numel();
  const Measured share(1.0 / static_cast<double>(count), 0);  // exact enough: a constant
  const auto part = [&](Measured m) {
    return Measured(m.value * share.value, m.scale * share.value);
  };
  if (centred)
    for (int64_t k = 0; k < x.numel(); ++k) mean.add(groups.of(k), part(Measured(from[k])));
  for (int64_t k = 0; k < x.numel(); ++k) {
    const auto off = Measured(from[k]) - mean[groups.of(k)];
    variance.add(groups.of(k), part(off * off));
  }
  for (int64_t g = 0; g < result.mean.value.numel(); ++g)
    inverse.set(g, inverseRoot(variance[g] + Measured(epsilon)));
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t g = groups.of(k);
    const auto off = Measured(from[k]) - mean[g];
    y.set(k, off * inverse[g] * Measured(gain[k]) + Measured(offset[k]));
  }
  return result;
}

NormGradients batchNormGradients(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& scale,
                                 const at::Tensor& mean, const at::Tensor& inverse) {
  const Grouping groups(x.sizes(), Group::kChannel);
  NormGradients result{zeros(x.sizes()), zeros(groups.shape), zeros(groups.shape)};
  const Cells dx(result.dx), dScale(result.dScale), dBias(result.dBias);
  const auto *from = numbers(x), *upstream = numbers(dy), *gain = numbers(scale);
  const auto *centre = numbers(mean), *root = numbers(inverse);
  const auto hat = [&](int64_t k, int64_t g) {
    return (Measured(from[k]) - Measured(centre[g])) * Measured(root[g]);
  };
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t g = groups.of(k);
    dBias.add(g, Measured(upstream[k]));
    dScale.add(g, hat(k, g) * Measured(upstream[k]));
  }
  const double count = static_cast<double>(x.numel()) / static_cast<double>(scale.numel());
  const auto part = [&](Measured m) { return Measured(m.value / count, m.scale / count); };
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t g = groups.of(k);
    const auto rest = Measured(upstream[k]) - part(dBias[g]) - hat(k, g) * part(dScale[g]);
    dx.set(k, Measured(gain[g]) * Measured(root[g]) * rest);
  }
  return result;
}

Attended attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double factor) {
  const int64_t planes = q.size(0) * q.size(1), rows = q.size(2), keys = k.size(2);
  const auto flat = [&](const at::Tensor& t) {
    return t.reshape({planes, t.size(2), t.size(3)}).contiguous();
  };
  auto scores = multiplied(flat(q), flat(k).transpose(1, 2).contiguous());
  const Cells score(scores);
  auto weights = zeros({planes, rows, keys}), logSums = zeros({planes, rows});
  const Cells weight(weights), logSum(logSums);
  for (int64_t row = 0; row < planes * rows; ++row) {
    // Differences to the largest score, as every implementation takes them: exp does not overflow.
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < keys; ++c)
      top = std::max(top, score[row * keys + c].value * factor);  // a NaN shows in the exponential
    Measured sum;
    for (int64_t c = 0; c < keys; ++c) {
      const int64_t at = row * keys + c;
      weight.set(at, exponential(score[at] * Measured(factor) - Measured(top)));
      sum = sum + weight[at];
    }
    logSum.set(row, Measured(top) + logarithm(sum));
    const auto share = reciprocal(sum);
    for (int64_t c = 0; c < keys; ++c) {
      const int64_t at = row * keys + c;
      weight.set(at, weight[at] * share);
    }
  }
  auto result = zeros({planes, rows, v.size(3)});
  const Cells to(result);
  const auto values = flat(v);
  const auto* value = numbers(values);
  for (int64_t cell = 0; cell < planes * rows * v.size(3); ++cell) {
    const int64_t row = cell / v.size(3), plane = row / rows;
    for (int64_t c = 0; c < keys; ++c) {
      to.add(cell, weight[row * keys + c] *
                       Measured(value[(plane * keys + c) * v.size(3) + cell % v.size(3)]));
    }
  }
  auto shape = q.sizes().vec();
  auto narrow = shape;
  shape[3] = v.size(3);
  narrow[3] = 1;
  return {{result.value.reshape(shape), result.scale.reshape(shape)},
          {logSums.value.reshape(narrow), logSums.scale.reshape(narrow)}};
}

}  // namespace assay::determinism
