#include "suites/models/trace.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace assay::models {
namespace {

constexpr int64_t kSamples = 64;

Seen judgeLayer(const Layer& layer, const Variant& variant) {
  const auto reference = layer.reference();
  const auto host = layer.output.detach().to(at::kCPU).to(at::kDouble).contiguous().reshape({-1});
  const double unit = variant.dtype == "float64" ? 0x1p-53 : 0x1p-24;
  const bool tf32 = variant.math == "tf32" && variant.dtype == "float32";
  Seen seen{.name = layer.name};
  seen.bound = tf32 ? layer.bound.tf32 : layer.bound.ieee;
  // An odd step reaches every row and column of shapes that are powers of 2.
  const int64_t count = std::min(host.numel(), kSamples);
  const int64_t step = std::max<int64_t>(host.numel() / count, 1) | 1;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t flat = k * step % host.numel();
    const auto want = reference(flat);
    const double difference = std::abs(host.const_data_ptr<double>()[flat] - want.value);
    const double allowed = seen.bound * unit * want.scale;
    const double figure = difference == 0 ? 0 : difference / (unit * want.scale);
    if (!(difference <= allowed)) ++seen.beyond;
    ++seen.checked;
    seen.difference = std::isnan(figure) ? std::numeric_limits<double>::infinity()
                                         : std::max(seen.difference, figure);
  }
  seen.ratio = seen.difference == 0 ? 0 : seen.difference / seen.bound;
  return seen;
}

}  // namespace

at::Tensor Trace::note(const std::string& name, const at::Tensor& value) const {
  if (!state_ || !noting_) return value;
  if (!state_->results.emplace(prefix_ + name, value.detach()).second)
    throw std::logic_error("two results are called " + prefix_ + name);
  return value;
}

at::Tensor Trace::alone(const std::string& name, const at::Tensor& value, LayerBound bound,
                        std::function<Reference()> reference) const {
  if (state_ && state_->keepLayers)
    state_->layers.push_back({prefix_ + name, value.detach(), bound, std::move(reference)});
  return value;
}

at::Tensor Trace::layer(const std::string& name, const at::Tensor& value, LayerBound bound,
                        std::function<Reference()> reference) const {
  return alone(name, note(name, value), bound, std::move(reference));
}

std::vector<Seen> judgeLayers(const Trace& trace, const Variant& variant,
                              const std::string& prefix) {
  std::vector<Seen> seen;
  for (const auto& layer : trace.layers()) {
    seen.push_back(judgeLayer(layer, variant));
    seen.back().name = prefix + layer.name;
  }
  return seen;
}

}  // namespace assay::models
