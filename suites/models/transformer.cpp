#include "suites/models/transformer.h"

#include <ATen/ATen.h>

#include <cmath>

namespace assay::models {
namespace {

torch::nn::LayerNorm norm(const EncoderConfig& config) {
  const double eps = config.planted == Planted::kLayerNormEps ? 1e-5 : config.eps;
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.width}).eps(eps));
}

}  // namespace

EncoderConfig encoderConfig(const nlohmann::json& json) {
  return {.vocabulary = json.at("vocabulary"),
          .length = json.at("length"),
          .width = json.at("width"),
          .heads = json.at("heads"),
          .inner = json.at("inner"),
          .layers = json.at("layers"),
          .eps = json.at("layer_norm_eps")};
}

Batch batchOf(const std::map<std::string, at::Tensor>& inputs, const Variant& variant) {
  const auto on = [&](const char* name) {
    return inputs.at(name).clone().to(c10::Device(variant.device));
  };
  return {on("tokens"), on("mask"), on("types"), on("starts"), on("ends")};
}

EncoderLayerImpl::EncoderLayerImpl(const EncoderConfig& c) : config(c) {
  query = register_module("query", torch::nn::Linear(c.width, c.width));
  key = register_module("key", torch::nn::Linear(c.width, c.width));
  value = register_module("value", torch::nn::Linear(c.width, c.width));
  attentionOutput = register_module("attention_output", torch::nn::Linear(c.width, c.width));
  attentionNorm = register_module("attention_norm", norm(c));
  intermediate = register_module("intermediate", torch::nn::Linear(c.width, c.inner));
  output = register_module("output", torch::nn::Linear(c.inner, c.width));
  outputNorm = register_module("output_norm", norm(c));
}

at::Tensor EncoderLayerImpl::dropped(const at::Tensor& x) const {
  const bool on = is_training() || config.planted == Planted::kDropoutInEval;
  return config.dropout > 0 ? at::dropout(x, config.dropout, on) : x;
}

at::Tensor EncoderLayerImpl::forward(const at::Tensor& x, const at::Tensor& mask,
                                     const Trace& trace) {
  const int64_t depth = config.width / config.heads;
  Attention options{.factor = 1 / std::sqrt(static_cast<double>(depth)),
                    .keepMask = config.planted != Planted::kUnmaskedPadding,
                    .fused = config.fused};
  if (config.planted == Planted::kAttentionScale)
    options.factor = 1 / std::sqrt(static_cast<double>(config.width));
  auto q = heads(linear(trace, "query", query, x), config.heads);
  const auto k = heads(linear(trace, "key", key, x), config.heads);
  const auto v = heads(linear(trace, "value", value, x), config.heads);
  if (config.planted == Planted::kHeadOrder) q = q.flip({1});
  const auto seen = dropped(
      linear(trace, "attention_output", attentionOutput, attend(trace, q, k, v, mask, options)));
  const auto first = config.planted == Planted::kResidualDropped ? seen : seen + x;
  const auto middle = layerNorm(trace, "attention_norm", attentionNorm, first, config.eps);
  const auto inner = gelu(trace, "gelu", linear(trace, "intermediate", intermediate, middle),
                          config.planted == Planted::kGeluTanh ? "tanh" : "none");
  const auto second = dropped(linear(trace, "output", output, inner)) + middle;
  return layerNorm(trace, "output_norm", outputNorm, second, config.eps);
}

EncoderImpl::EncoderImpl(const EncoderConfig& c) : config(c) {
  word = register_module("word", torch::nn::Embedding(c.vocabulary, c.width));
  position = register_module("position", torch::nn::Embedding(c.length, c.width));
  type = register_module("type", torch::nn::Embedding(2, c.width));
  norm = register_module("norm", models::norm(c));
  for (int64_t k = 0; k < c.layers; ++k)
    layers.emplace_back(register_module("layer" + std::to_string(k), EncoderLayer(c)));
  span = register_module("span", torch::nn::Linear(c.width, 2));
}

std::pair<at::Tensor, at::Tensor> EncoderImpl::forward(const Batch& batch, const Trace& trace) {
  const auto place = at::arange(batch.tokens.size(1), batch.tokens.options());
  auto x = word->forward(batch.tokens) + type->forward(batch.types) + position->forward(place);
  x = layerNorm(trace, "norm", norm, x, config.eps);
  const auto mask = batch.mask.to(at::kBool).unsqueeze(1).unsqueeze(1);
  for (size_t k = 0; k < layers.size(); ++k)
    x = layers[k]->forward(x, mask, trace.under("layer" + std::to_string(k)));
  const auto both = linear(trace, "span", span, x);
  return {both.select(-1, 0), both.select(-1, 1)};
}

MultiViewTransformerImpl::MultiViewTransformerImpl(const EncoderConfig& c, int64_t count)
    : config(c) {
  for (int64_t k = 0; k < count; ++k)
    experts.emplace_back(register_module("expert" + std::to_string(k), Encoder(c)));
  shared = register_module("shared", Encoder(c));
}

at::Tensor MultiViewTransformerImpl::loss(const Batch& batch, const Answer& answer,
                                          const std::pair<at::Tensor, at::Tensor>& logits) {
  auto starts = batch.starts.dim() > 1 ? batch.starts.squeeze(-1) : batch.starts;
  auto ends = batch.ends.dim() > 1 ? batch.ends.squeeze(-1) : batch.ends;
  // As the report's code: to a class that no sequence has, and no class is ignored.
  int64_t last = answer.starts.size(1);
  if (config.planted == Planted::kLabelClamp) last = last / 2 - 1;
  starts.clamp_(0, last);
  ends.clamp_(0, last);
  const auto start = at::nll_loss(at::log(answer.starts), starts);
  const auto end = at::nll_loss(at::log(answer.ends), ends);
  const auto sharedStart = at::cross_entropy_loss(logits.first, starts);
  const auto sharedEnd = at::cross_entropy_loss(logits.second, ends);
  const auto chosen = config.planted == Planted::kLossWeight ? (start + end) / 2 : start + end / 2;
  return chosen + (sharedStart + sharedEnd) / 2;
}

Answer MultiViewTransformerImpl::forward(const Batch& batch, const std::string& branch,
                                         const Trace& trace) {
  const auto common = shared->forward(batch, trace.under("shared"));
  Answer answer;
  if (branch == "average") {
    std::vector<at::Tensor> starts, ends;
    for (size_t k = 0; k < experts.size(); ++k) {
      const auto one = experts[k]->forward(batch, trace.under("expert" + std::to_string(k)));
      starts.push_back(at::softmax(one.first, 1));
      ends.push_back(at::softmax(one.second, 1));
    }
    starts.push_back(at::softmax(common.first, 1));
    ends.push_back(at::softmax(common.second, 1));
    const auto count = static_cast<int64_t>(starts.size());
    const auto weights =
        at::full({1, count, 1}, 1.0 / static_cast<double>(count), common.first.options());
    answer.starts = (at::stack(starts, 1) * weights).sum(1);
    answer.ends = (at::stack(ends, 1) * weights).sum(1);
  } else {
    auto one = common;
    if (branch != "shared")
      one = experts.at(std::stoul(branch.substr(6)))->forward(batch, trace.under(branch));
    answer.starts = at::softmax(one.first, 1);
    answer.ends = at::softmax(one.second, 1);
  }
  trace.note("start_probabilities", answer.starts);
  trace.note("end_probabilities", answer.ends);
  if (batch.starts.defined() && batch.ends.defined())
    answer.loss = trace.note("loss", loss(batch, answer, common));
  return answer;
}

}  // namespace assay::models
