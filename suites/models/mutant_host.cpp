#include "suites/models/mutant_host.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace assay::models::host {
namespace {

at::Tensor zeros(at::IntArrayRef shape) { return at::zeros(shape, at::kDouble); }
const double* in(const at::Tensor& x) { return x.const_data_ptr<double>(); }
double* out(at::Tensor& x) { return x.mutable_data_ptr<double>(); }

// Sums and the sums of their terms' sizes.
struct Sums {
  explicit Sums(at::IntArrayRef shape)
      : value(zeros(shape)), size(zeros(shape)), values(out(value)), sizes(out(size)) {}
  void add(int64_t i, double term) const {
    values[i] += term;
    sizes[i] += std::abs(term);
  }
  [[nodiscard]] Answer answer() const { return {value, size + value.abs()}; }

  at::Tensor value, size;
  double *values, *sizes;
};

// Calls see(output, input, weight) with the flat indices of every product of a layer. A transposed
// convolution is a convolution whose input and output have changed places.
template <typename See>
void visitProducts(const MutantLayer& layer, const at::Tensor& x, at::IntArrayRef outputs,
                   const at::Tensor& weight, const See& see) {
  if (layer.op == "linear") {
    const int64_t inputs = weight.size(1);
    for (int64_t n = 0; n < x.size(0); ++n)
      for (int64_t o = 0; o < layer.size; ++o)
        for (int64_t i = 0; i < inputs; ++i)
          see(n * layer.size + o, n * inputs + i, o * inputs + i);
    return;
  }
  const bool back = layer.op == "conv_transpose2d";
  const auto small = back ? x.sizes() : outputs, large = back ? outputs : x.sizes();
  const int64_t each = weight.size(1), share = small[1] / layer.groups;
  const int64_t height = weight.size(2), width = weight.size(3);
  for (int64_t n = 0; n < small[0]; ++n)
    for (int64_t o = 0; o < small[1]; ++o)
      for (int64_t c = 0; c < each; ++c)
        for (int64_t y = 0; y < small[2]; ++y)
          for (int64_t z = 0; z < small[3]; ++z)
            for (int64_t i = 0; i < height; ++i)
              for (int64_t j = 0; j < width; ++j) {
                const int64_t row = y * layer.stride[0] - layer.padding[0] + i * layer.dilation[0];
                const int64_t column =
                    z * layer.stride[1] - layer.padding[1] + j * layer.dilation[1];
                if (row < 0 || row >= large[2] || column < 0 || column >= large[3]) continue;
                const int64_t a = ((n * small[1] + o) * small[2] + y) * small[3] + z;
                const int64_t b =
                    ((n * large[1] + o / share * each + c) * large[2] + row) * large[3] + column;
                const int64_t w = ((o * each + c) * height + i) * width + j;
                see(back ? b : a, back ? a : b, w);
              }
}

// Calls see(output, input) with the flat indices of every element of every window.
template <typename See>
void visitWindows(const MutantLayer& layer, const at::Tensor& x, at::IntArrayRef outputs,
                  const See& see) {
  const int64_t height = x.size(2), width = x.size(3);
  for (int64_t plane = 0; plane < outputs[0] * outputs[1]; ++plane)
    for (int64_t y = 0; y < outputs[2]; ++y)
      for (int64_t z = 0; z < outputs[3]; ++z)
        for (int64_t i = 0; i < layer.kernel[0]; ++i)
          for (int64_t j = 0; j < layer.kernel[1]; ++j) {
            const int64_t row = y * layer.stride[0] - layer.padding[0] + i;
            const int64_t column = z * layer.stride[1] - layer.padding[1] + j;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            see((plane * outputs[2] + y) * outputs[3] + z, (plane * height + row) * width + column);
          }
}

// The first of the largest elements of each window.
std::vector<int64_t> chosen(const MutantLayer& layer, const at::Tensor& x,
                            at::IntArrayRef outputs) {
  std::vector<int64_t> best(static_cast<size_t>(c10::multiply_integers(outputs)), -1);
  visitWindows(layer, x, outputs, [&](int64_t o, int64_t i) {
    auto& now = best[static_cast<size_t>(o)];
    if (now < 0 || in(x)[i] > in(x)[now]) now = i;
  });
  return best;
}

double level(const MutantLayer& layer, double x) { return std::nearbyint(x / layer.parameter); }

// An activation, or a discontinuity that looks at one element alone.
double valueOf(const MutantLayer& layer, double x) {
  const auto& op = layer.op;
  if (op == "floor") return std::floor(x);
  if (op == "ceil") return std::ceil(x);
  if (op == "round") return std::nearbyint(x);
  if (op == "sign") return x > 0 ? 1 : x < 0 ? -1 : 0;
  if (op == "heaviside") return x > 0 ? 1 : 0;
  if (op == "fake_quantize")
    return std::clamp(level(layer, x), static_cast<double>(layer.low),
                      static_cast<double>(layer.high)) *
           layer.parameter;
  if (op == "relu") return std::max(x, 0.0);
  if (op == "elu") return x > 0 ? x : layer.parameter * std::expm1(x);
  if (op == "leaky_relu") return x > 0 ? x : layer.parameter * x;
  if (op == "tanh") return std::tanh(x);
  if (op == "sigmoid") return 1 / (1 + std::exp(-x));
  if (op == "softplus") return std::log1p(std::exp(x));
  return std::clamp(x, -1.0, 1.0);  // hardtanh
}

double slopeOf(const MutantLayer& layer, double x) {
  const auto& op = layer.op;
  if (op == "fake_quantize")
    return level(layer, x) >= static_cast<double>(layer.low) &&
                   level(layer, x) <= static_cast<double>(layer.high)
               ? 1
               : 0;
  if (layer.isStep()) return 0;
  if (op == "relu") return x > 0 ? 1 : 0;
  if (op == "elu") return x > 0 ? 1 : layer.parameter * std::exp(x);
  if (op == "leaky_relu") return x > 0 ? 1 : layer.parameter;
  if (op == "tanh") return 1 / (std::cosh(x) * std::cosh(x));
  if (op == "sigmoid") return valueOf(layer, x) * valueOf(layer, -x);
  if (op == "softplus") return 1 / (1 + std::exp(-x));
  return x > -1 && x < 1 ? 1 : 0;  // hardtanh
}

bool isExact(const MutantLayer& layer) {
  return layer.isStep() || layer.op == "relu" || layer.op == "hardtanh";
}

// f(i) for every element.
template <typename Function>
at::Tensor each(const at::Tensor& x, const Function& f) {
  auto y = zeros(x.sizes());
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = f(i);
  return y;
}

// Of the k largest along axis 1: how far each element is inside the border between them and the
// rest (positive), or outside (negative), halved; 0: a tie.
at::Tensor insideness(const MutantLayer& layer, const at::Tensor& x) {
  auto margin = zeros(x.sizes());
  const int64_t channels = x.size(1), area = x.numel() / x.size(0) / channels;
  std::vector<double> ranked(static_cast<size_t>(channels));
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t place = 0; place < area; ++place) {
      const auto at = [&](int64_t c) { return (n * channels + c) * area + place; };
      for (int64_t c = 0; c < channels; ++c) ranked[static_cast<size_t>(c)] = in(x)[at(c)];
      std::sort(ranked.begin(), ranked.end(), std::greater<>());
      const double last = ranked[static_cast<size_t>(layer.k) - 1];
      const double next = ranked[static_cast<size_t>(layer.k)];
      for (int64_t c = 0; c < channels; ++c) {
        const double value = in(x)[at(c)];
        out(margin)[at(c)] = (value - (value >= last ? next : last)) / 2;
      }
    }
  return margin;
}

bool ranks(const MutantLayer& layer) { return layer.op == "argmax" || layer.op == "topk"; }

Answer pooled(const MutantLayer& layer, const at::Tensor& x, at::IntArrayRef shape) {
  if (layer.op == "avg_pool2d") {
    Sums sums(shape);
    const auto count = static_cast<double>(layer.kernel[0] * layer.kernel[1]);
    visitWindows(layer, x, shape, [&](int64_t o, int64_t i) { sums.add(o, in(x)[i] / count); });
    return sums.answer();
  }
  const auto best = chosen(layer, x, shape);
  auto y = zeros(shape);
  for (size_t o = 0; o < best.size(); ++o) out(y)[o] = in(x)[best[o]];
  return {y, {}};
}

// Softmax of each row, behind the row's largest logit.
at::Tensor softmax(const at::Tensor& logits) {
  auto p = zeros(logits.sizes());
  const int64_t classes = logits.size(1);
  for (int64_t n = 0; n < logits.size(0); ++n) {
    const double* z = in(logits) + n * classes;
    double* row = out(p) + n * classes;
    const double most = *std::max_element(z, z + classes);
    std::transform(z, z + classes, row, [&](double one) { return std::exp(one - most); });
    const double total = std::accumulate(row, row + classes, 0.0);
    std::for_each(row, row + classes, [&](double& one) { one /= total; });
  }
  return p;
}

// The largest distance of a logit from its row's largest one, and 1: what log softmax rounds.
double sizeOf(const at::Tensor& logits) {
  return (std::get<0>(logits.max(1, true)) - logits).max().item<double>() + 1;
}

}  // namespace

Answer forward(const MutantLayer& layer, const at::Tensor& x, const at::Tensor& weight,
               const at::Tensor& bias) {
  const auto shape = layer.outputShape(x.sizes().vec());
  if (layer.isProduct()) {
    Sums sums(shape);
    const int64_t channels = shape[1], area = sums.value.numel() / shape[0] / channels;
    for (int64_t i = 0; i < sums.value.numel(); ++i) sums.add(i, in(bias)[i / area % channels]);
    visitProducts(layer, x, shape, weight,
                  [&, xs = in(x), ws = in(weight)](int64_t o, int64_t i, int64_t w) {
                    sums.add(o, xs[i] * ws[w]);
                  });
    return sums.answer();
  }
  if (layer.op.ends_with("pool2d")) return pooled(layer, x, shape);
  if (layer.op == "flatten") return {x.reshape(shape), {}};
  if (ranks(layer)) {
    const auto margin = insideness(layer, x);
    return {each(x,
                 [&](int64_t i) {
                   if (in(margin)[i] <= 0) return 0.0;
                   return layer.op == "topk" ? in(x)[i] : 1.0;
                 }),
            {}};
  }
  const auto y = each(x, [&](int64_t i) { return valueOf(layer, in(x)[i]); });
  return {y, isExact(layer) ? at::Tensor() : y.abs() * 2};
}

Gradients backward(const MutantLayer& layer, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& g) {
  Gradients result;
  if (layer.isProduct()) {
    const Sums input(x.sizes()), kernel(weight.sizes()), bias(at::IntArrayRef(layer.size));
    visitProducts(layer, x, g.sizes(), weight,
                  [&, xs = in(x), ws = in(weight), gs = in(g)](int64_t o, int64_t i, int64_t w) {
                    input.add(i, gs[o] * ws[w]);
                    kernel.add(w, gs[o] * xs[i]);
                  });
    const int64_t area = g.numel() / g.size(0) / layer.size;
    for (int64_t o = 0; o < g.numel(); ++o) bias.add(o / area % layer.size, in(g)[o]);
    return {input.answer(), kernel.answer(), bias.answer()};
  }
  if (layer.op == "flatten") {
    result.input.value = g.reshape(x.sizes());
  } else if (layer.op.ends_with("pool2d")) {
    Sums sums(x.sizes());
    if (layer.op == "avg_pool2d") {
      const auto count = static_cast<double>(layer.kernel[0] * layer.kernel[1]);
      visitWindows(layer, x, g.sizes(),
                   [&](int64_t o, int64_t i) { sums.add(i, in(g)[o] / count); });
    } else {
      const auto best = chosen(layer, x, g.sizes());
      for (size_t o = 0; o < best.size(); ++o) sums.add(best[o], in(g)[o]);
    }
    result.input = sums.answer();
  } else if (layer.op == "topk") {
    const auto margin = insideness(layer, x);
    result.input.value = each(x, [&](int64_t i) { return in(margin)[i] > 0 ? in(g)[i] : 0.0; });
  } else {
    result.input.value = each(x, [&](int64_t i) { return in(g)[i] * slopeOf(layer, in(x)[i]); });
    if (!isExact(layer)) result.input.scale = g.abs();  // 1 - y² of a rounded y
  }
  return result;
}

Answer loss(const at::Tensor& logits, const at::Tensor& labels) {
  const int64_t images = logits.size(0), classes = logits.size(1);
  double sum = 0;
  for (int64_t n = 0; n < images; ++n) {
    const double* z = in(logits) + n * classes;
    const double most = *std::max_element(z, z + classes);
    const double total = std::accumulate(
        z, z + classes, 0.0, [&](double all, double one) { return all + std::exp(one - most); });
    sum += std::log(total) - (z[labels.const_data_ptr<int64_t>()[n]] - most);
  }
  return {at::full({}, sum / static_cast<double>(images), at::kDouble),
          at::full({}, 4 * sizeOf(logits), at::kDouble)};
}

Answer lossGradient(const at::Tensor& logits, const at::Tensor& labels) {
  const auto p = softmax(logits);
  auto g = p.clone();
  const int64_t images = logits.size(0), classes = logits.size(1);
  for (int64_t n = 0; n < images; ++n)
    out(g)[n * classes + labels.const_data_ptr<int64_t>()[n]] -= 1;
  g /= images;
  return {g, p * sizeOf(logits) + g.abs()};
}

Range range(const MutantLayer& layer, const at::Tensor& x, double error) {
  const auto shut = at::zeros(x.sizes(), at::kBool);
  if (!ranks(layer)) {
    return {each(x, [&](int64_t i) { return valueOf(layer, in(x)[i] - error); }),
            each(x, [&](int64_t i) { return valueOf(layer, in(x)[i] + error); }), shut};
  }
  const auto margin = insideness(layer, x);
  const auto open = margin.abs().le(error);  // whether it is among the largest is undecided
  const auto inside = at::logical_or(margin.gt(0), open).to(at::kDouble);
  if (layer.op == "argmax") return {inside, inside, open};
  return {(x - error) * inside, (x + error) * inside, open};
}

Run run(const Mutant& mutant) {
  Run result;
  const auto weightOf = [&](const MutantLayer& layer, const char* part) {
    const auto found = mutant.weights.find(layer.name + part);
    return found == mutant.weights.end() ? at::Tensor() : found->second;
  };
  auto x = mutant.image;
  for (const auto& layer : mutant.layers) {
    x = forward(layer, x, weightOf(layer, ".weight"), weightOf(layer, ".bias")).value;
    result.outputs.push_back(x);
  }
  result.loss = loss(x, mutant.labels).value;
  auto g = lossGradient(x, mutant.labels).value;
  for (size_t k = mutant.layers.size(); k-- > 0;) {
    const auto& layer = mutant.layers[k];
    const auto& before = k == 0 ? mutant.image : result.outputs[k - 1];
    const auto found = backward(layer, before, weightOf(layer, ".weight"), g);
    if (layer.isProduct()) {
      result.gradients[layer.name + ".weight"] = found.weight.value;
      result.gradients[layer.name + ".bias"] = found.bias.value;
    }
    g = found.input.value;
  }
  return result;
}

}  // namespace assay::models::host
