#include "suites/models/reference.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace assay::models::host {
namespace {

// A tensor on the host in float64, row-major, with its sizes at hand.
struct Host {
  explicit Host(const at::Tensor& any)
      : tensor(any.defined() ? any.detach().to(at::kCPU).to(at::kDouble).contiguous() : any),
        data(any.defined() ? tensor.const_data_ptr<double>() : nullptr) {}
  [[nodiscard]] int64_t size(int64_t axis) const { return tensor.size(axis); }
  [[nodiscard]] double orElse(int64_t i, double absent) const { return data ? data[i] : absent; }

  at::Tensor tensor;
  const double* data;
};

// Sums products and their magnitudes.
struct Sum {
  double value = 0;
  double size = 0;
  void add(double term) {
    value += term;
    size += std::abs(term);
  }
  [[nodiscard]] Element element() const { return {value, size + std::abs(value)}; }
};

// Where a flat index of (N, C, H, W) lies.
struct Pixel {
  int64_t n, c, y, x;
  Pixel(int64_t flat, int64_t channels, int64_t height, int64_t width)
      : n(flat / (channels * height * width)),
        c(flat / (height * width) % channels),
        y(flat / width % height),
        x(flat % width) {}
};

int64_t sideOf(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

// (x_i - mean) / sqrt(var + eps) · w + b of one group of numbers, with the scale of its Jacobian:
// ∂y_i/∂x_j = w / sd · (δ_ij - 1/n - z_i z_j / n).
struct Normalised {
  double n = 0, mean = 0, variance = 0, size = 0, weighted = 0;

  template <typename Each>  // calls its argument with every number of the group
  void measure(const Each& each, double eps) {
    each([&](double x) { ++n, mean += x, size += std::abs(x); });
    mean /= n;
    size /= n;
    each([&](double x) { variance += (x - mean) * (x - mean); });
    variance /= n;
    each([&](double x) { weighted += std::abs((x - mean) * x); });
    weighted /= n * std::sqrt(variance + eps);
  }
  [[nodiscard]] Element element(double x, double w, double b, double eps) const {
    const double deviation = std::sqrt(variance + eps);
    const double z = (x - mean) / deviation;
    const double moved = std::abs(w / deviation) * (std::abs(x) + size + std::abs(z) * weighted);
    const double y = z * w + b;
    return {y, moved + std::abs(z * w) + std::abs(b) + std::abs(y)};
  }
};

}  // namespace

Reference linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return [x = Host(x), w = Host(weight), b = Host(bias)](int64_t flat) {
    const int64_t inputs = w.size(1), outputs = w.size(0);
    const int64_t row = flat / outputs, o = flat % outputs;
    Sum sum;
    for (int64_t i = 0; i < inputs; ++i) sum.add(x.data[row * inputs + i] * w.data[o * inputs + i]);
    sum.add(b.orElse(o, 0));
    return sum.element();
  };
}

Reference convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      int64_t stride, int64_t padding, int64_t groups) {
  return [=, x = Host(x), w = Host(weight), b = Host(bias)](int64_t flat) {
    const int64_t outputs = w.size(0), inputs = w.size(1), kernel = w.size(2);
    const int64_t height = x.size(2), width = x.size(3);
    const Pixel p(flat, outputs, sideOf(height, kernel, stride, padding),
                  sideOf(width, kernel, stride, padding));
    const int64_t first = p.c / (outputs / groups) * inputs;
    Sum sum;
    for (int64_t c = 0; c < inputs; ++c) {
      for (int64_t i = 0; i < kernel; ++i) {
        for (int64_t j = 0; j < kernel; ++j) {
          const int64_t y = p.y * stride + i - padding, z = p.x * stride + j - padding;
          if (y < 0 || y >= height || z < 0 || z >= width) continue;
          sum.add(x.data[((p.n * x.size(1) + first + c) * height + y) * width + z] *
                  w.data[((p.c * inputs + c) * kernel + i) * kernel + j]);
        }
      }
    }
    sum.add(b.orElse(p.c, 0));
    return sum.element();
  };
}

Reference doubling(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return [x = Host(x), w = Host(weight), b = Host(bias)](int64_t flat) {
    const int64_t inputs = w.size(0), outputs = w.size(1);
    const int64_t height = x.size(2), width = x.size(3);
    const Pixel p(flat, outputs, 2 * height, 2 * width);
    Sum sum;
    for (int64_t c = 0; c < inputs; ++c)
      sum.add(x.data[((p.n * inputs + c) * height + p.y / 2) * width + p.x / 2] *
              w.data[((c * outputs + p.c) * 2 + p.y % 2) * 2 + p.x % 2]);
    sum.add(b.orElse(p.c, 0));
    return sum.element();
  };
}

Reference layerNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    double eps) {
  return [=, x = Host(x), w = Host(weight), b = Host(bias)](int64_t flat) {
    const int64_t width = w.size(0);
    const double* row = x.data + flat / width * width;
    Normalised group;
    group.measure(
        [&](const auto& see) {
          for (int64_t i = 0; i < width; ++i) see(row[i]);
        },
        eps);
    return group.element(x.data[flat], w.data[flat % width], b.data[flat % width], eps);
  };
}

Reference batchNorm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    const at::Tensor& mean, const at::Tensor& variance, double eps) {
  return [=, x = Host(x), w = Host(weight), b = Host(bias), mean = Host(mean),
          variance = Host(variance)](int64_t flat) {
    const int64_t area = x.size(2) * x.size(3), channels = x.size(1);
    const int64_t c = flat / area % channels;
    Normalised group;
    if (mean.data) {
      // A fixed affine map: mean and deviation are inputs, as x is.
      group.mean = mean.data[c];
      group.size = std::abs(mean.data[c]);
      group.variance = variance.data[c];
    } else {
      group.measure(
          [&](const auto& see) {
            for (int64_t n = 0; n < x.size(0); ++n)
              for (int64_t i = 0; i < area; ++i) see(x.data[(n * channels + c) * area + i]);
          },
          eps);
    }
    return group.element(x.data[flat], w.data[c], b.data[c], eps);
  };
}

Reference scores(const at::Tensor& query, const at::Tensor& key, double factor) {
  return [=, q = Host(query), k = Host(key)](int64_t flat) {
    const int64_t width = q.size(3), queries = q.size(2), keys = k.size(2);
    const int64_t head = flat / (queries * keys), i = flat / keys % queries, j = flat % keys;
    Sum sum;
    for (int64_t d = 0; d < width; ++d)
      sum.add(q.data[(head * queries + i) * width + d] * k.data[(head * keys + j) * width + d] *
              factor);
    return sum.element();
  };
}

Reference softmax(const at::Tensor& x, const at::Tensor& mask) {
  const auto counts = mask.defined() ? mask.expand(x.sizes()) : at::ones_like(x);
  return [x = Host(x), mask = Host(counts)](int64_t flat) {
    const int64_t width = x.size(-1), first = flat / width * width;
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t j = first; j < first + width; ++j)
      if (mask.data[j] != 0) largest = std::max(largest, x.data[j]);
    double total = 0, moved = 0;
    for (int64_t j = first; j < first + width; ++j) {
      if (mask.data[j] == 0) continue;
      total += std::exp(x.data[j] - largest);
      moved += std::exp(x.data[j] - largest) * std::abs(x.data[j]);
    }
    if (mask.data[flat] == 0) return Element{};
    const double p = std::exp(x.data[flat] - largest) / total;
    // Σ_j p |δ_ij - p_j| |x_j| is at most p (|x_i| + Σ p_j |x_j|).
    return Element{p, p * (std::abs(x.data[flat]) + moved / total) + p};
  };
}

Reference context(const at::Tensor& probabilities, const at::Tensor& value) {
  return [p = Host(probabilities), v = Host(value)](int64_t flat) {
    const int64_t heads = v.size(1), keys = v.size(2), width = v.size(3), queries = p.size(2);
    const int64_t d = flat % width, h = flat / width % heads;
    const int64_t row = flat / (width * heads);  // batch and query
    const int64_t head = row / queries * heads + h;
    Sum sum;
    for (int64_t j = 0; j < keys; ++j)
      sum.add(p.data[(head * queries + row % queries) * keys + j] *
              v.data[(head * keys + j) * width + d]);
    return sum.element();
  };
}

Reference attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const at::Tensor& mask, double factor) {
  const auto shape = {query.size(0), query.size(1), query.size(2), key.size(2)};
  return [q = Host(query), k = Host(key), v = Host(value), seen = Host(mask.expand(shape)),
          factor](int64_t flat) {
    const int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2), width = q.size(3);
    const int64_t d = flat % width, h = flat / width % heads, row = flat / (width * heads);
    const int64_t head = row / queries * heads + h, place = head * queries + row % queries;
    const auto product = [&](int64_t j, int64_t i) {
      return factor * q.data[place * width + i] * k.data[(head * keys + j) * width + i];
    };
    std::vector<Sum> scores(static_cast<size_t>(keys));
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < keys; ++j) {
      if (seen.data[place * keys + j] == 0) continue;
      auto& score = scores[static_cast<size_t>(j)];
      for (int64_t i = 0; i < width; ++i) score.add(product(j, i));
      top = std::max(top, score.value);
    }
    double total = 0;
    Sum mixed;
    std::vector<double> p(scores.size());
    for (int64_t j = 0; j < keys; ++j) {
      if (seen.data[place * keys + j] == 0) continue;
      const auto n = static_cast<size_t>(j);
      p[n] = std::exp(scores[n].value - top);
      total += p[n];
      mixed.add(p[n] * v.data[(head * keys + j) * width + d]);
    }
    // By the derivatives: of v_j p_j, of k_j p_j (v_j - y) q, of q the sum of p_j (v_j - y) k_j.
    const double y = mixed.value / total;
    double size = mixed.size / total + std::abs(y);
    for (int64_t i = 0; i < width; ++i) {
      Sum pulled;
      for (int64_t j = 0; j < keys; ++j) {
        const auto n = static_cast<size_t>(j);
        pulled.add(p[n] / total * (v.data[(head * keys + j) * width + d] - y) * product(j, i));
      }
      size += std::abs(pulled.value) + pulled.size;
    }
    return Element{y, size};
  };
}

Reference gelu(const at::Tensor& x) {
  return [x = Host(x)](int64_t flat) {
    const double z = x.data[flat];
    // 1 + erf cancels in the tail: a rounding of the 1 is worth u |x|.
    const double y = z / 2 * std::erfc(-z / std::sqrt(2.0));
    return Element{y, std::abs(z) + std::abs(y)};
  };
}

Reference relu(const at::Tensor& x) {
  return [x = Host(x)](int64_t flat) { return Element{std::max(x.data[flat], 0.0), 0}; };
}

Reference maxPool(const at::Tensor& x, int64_t kernel, int64_t stride, int64_t padding) {
  return [=, x = Host(x)](int64_t flat) {
    const int64_t height = x.size(2), width = x.size(3);
    const Pixel p(flat, x.size(1), sideOf(height, kernel, stride, padding),
                  sideOf(width, kernel, stride, padding));
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < kernel; ++i) {
      for (int64_t j = 0; j < kernel; ++j) {
        const int64_t y = p.y * stride + i - padding, z = p.x * stride + j - padding;
        if (y < 0 || y >= height || z < 0 || z >= width) continue;
        largest = std::max(largest, x.data[((p.n * x.size(1) + p.c) * height + y) * width + z]);
      }
    }
    return Element{largest, 0};
  };
}

Reference sum(const at::Tensor& a, const at::Tensor& b) {
  return [a = Host(a), b = Host(b)](int64_t flat) {
    Sum sum;
    sum.add(a.data[flat]);
    sum.add(b.data[flat]);
    return sum.element();
  };
}

}  // namespace assay::models::host
