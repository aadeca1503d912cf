#include <ATen/ATen.h>

#include <cmath>

#include "suites/models/reference.h"

namespace assay::models::host {
namespace {

// A number and how far rounding may have moved it, in units of u.
struct Moved {
  double value = 0;
  double error = 0;
};

Moved product(const Moved& a, const Moved& b) {
  const double value = a.value * b.value;
  return {value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + std::abs(value)};
}

Moved sum(const Moved& a, const Moved& b) {
  const double value = a.value + b.value;
  return {value, a.error + b.error + std::abs(value)};
}

Moved sigmoid(const Moved& a) {
  const double y = 1 / (1 + std::exp(-a.value));
  return {y, y * (1 - y) * a.error + y};
}

Moved tangent(const Moved& a) {
  const double y = std::tanh(a.value);
  return {y, (1 - y * y) * a.error + std::abs(y)};
}

using Row = std::vector<Moved>;

std::vector<double> valuesOf(const at::Tensor& any) {
  const auto host = any.detach().to(at::kCPU).to(at::kDouble).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

struct Weights {
  std::vector<double> input, hidden, inputBias, hiddenBias;
};

// Σ w x of one gate, added to `into`.
void accumulate(Moved& into, const std::vector<double>& weight, size_t gate, const Row& x) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = weight[gate * x.size() + i];
    into.value += w * x[i].value;
    into.error += std::abs(w) * x[i].error + std::abs(w * x[i].value);
  }
}

// One step of one layer: h and c move on.
void step(const Weights& weights, const Row& x, Row& h, Row& c) {
  const size_t size = h.size();
  Row gates(4 * size);
  for (size_t g = 0; g < gates.size(); ++g) {
    accumulate(gates[g], weights.input, g, x);
    accumulate(gates[g], weights.hidden, g, h);
    for (const double bias : {weights.inputBias[g], weights.hiddenBias[g]})
      gates[g] = sum(gates[g], {bias, std::abs(bias)});
  }
  for (size_t k = 0; k < size; ++k) {
    const auto kept = product(sigmoid(gates[size + k]), c[k]);
    c[k] = sum(kept, product(sigmoid(gates[k]), tangent(gates[2 * size + k])));
    h[k] = product(sigmoid(gates[3 * size + k]), tangent(c[k]));
  }
}

}  // namespace

Reference lstm(const at::Tensor& x, const std::vector<at::Tensor>& tensors) {
  std::vector<Weights> layers;
  for (size_t k = 0; k + 3 < tensors.size(); k += 4)
    layers.push_back({valuesOf(tensors[k]), valuesOf(tensors[k + 1]), valuesOf(tensors[k + 2]),
                      valuesOf(tensors[k + 3])});
  const auto size = static_cast<size_t>(tensors.at(1).size(1));
  const auto given = valuesOf(x);
  const auto width = static_cast<size_t>(x.size(2));
  const auto length = static_cast<size_t>(x.size(1));
  std::vector<Element> out;
  for (size_t b = 0; b < static_cast<size_t>(x.size(0)); ++b) {
    std::vector<Row> h(layers.size(), Row(size)), c = h;
    for (size_t t = 0; t < length; ++t) {
      Row input(width);
      for (size_t i = 0; i < width; ++i) input[i].value = given[(b * length + t) * width + i];
      for (size_t k = 0; k < layers.size(); ++k) {
        step(layers[k], input, h[k], c[k]);
        input = h[k];
      }
      for (const auto& one : input) out.push_back({one.value, one.error});
    }
  }
  return [out = std::move(out)](int64_t flat) { return out.at(static_cast<size_t>(flat)); };
}

}  // namespace assay::models::host
