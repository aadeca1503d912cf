// A causal decoder: prefill of a whole sequence, and the same token by token with a cache.
#include <ATen/ATen.h>

#include <cmath>

#include "suites/models/small_models.h"
#include "suites/models/step.h"

namespace assay::models {
namespace {

struct Config {
  int64_t vocabulary, length, prefix, width, heads, inner, layers;
  double eps;
  bool fused = false;  // at::scaled_dot_product_attention
};

Config configOf(const nlohmann::json& json) {
  return {json.at("vocabulary"), json.at("length"), json.at("prefix"), json.at("width"),
          json.at("heads"),      json.at("inner"),  json.at("layers"), json.at("layer_norm_eps")};
}

// Keys and values so far, (B, heads, T, D / heads); undefined at first.
struct Cache {
  at::Tensor keys, values;
};

struct DecoderLayerImpl : torch::nn::Module {
  explicit DecoderLayerImpl(const Config& c) : config(c) {
    const auto norm = torch::nn::LayerNormOptions({c.width}).eps(c.eps);
    attentionNorm = register_module("attention_norm", torch::nn::LayerNorm(norm));
    query = register_module("query", torch::nn::Linear(c.width, c.width));
    key = register_module("key", torch::nn::Linear(c.width, c.width));
    value = register_module("value", torch::nn::Linear(c.width, c.width));
    attentionOutput = register_module("attention_output", torch::nn::Linear(c.width, c.width));
    innerNorm = register_module("inner_norm", torch::nn::LayerNorm(norm));
    intermediate = register_module("intermediate", torch::nn::Linear(c.width, c.inner));
    output = register_module("output", torch::nn::Linear(c.inner, c.width));
  }

  at::Tensor forward(at::Tensor x, const at::Tensor& mask, Cache& cache, const Trace& trace) {
    const auto before = layerNorm(trace, "attention_norm", attentionNorm, x, config.eps);
    const auto q = heads(linear(trace, "query", query, before), config.heads);
    auto k = heads(linear(trace, "key", key, before), config.heads);
    auto v = heads(linear(trace, "value", value, before), config.heads);
    if (cache.keys.defined()) {
      k = at::cat({cache.keys, k}, 2);
      v = at::cat({cache.values, v}, 2);
    }
    cache = {k, v};
    const Attention options{.factor = 1 / std::sqrt(static_cast<double>(q.size(3))),
                            .fused = config.fused};
    x = x +
        linear(trace, "attention_output", attentionOutput, attend(trace, q, k, v, mask, options));
    const auto inner = layerNorm(trace, "inner_norm", innerNorm, x, config.eps);
    return x + linear(trace, "output", output,
                      gelu(trace, "gelu", linear(trace, "intermediate", intermediate, inner)));
  }

  Config config;
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, attentionOutput{nullptr},
      intermediate{nullptr}, output{nullptr};
  torch::nn::LayerNorm attentionNorm{nullptr}, innerNorm{nullptr};
};
TORCH_MODULE(DecoderLayer);

struct DecoderImpl : torch::nn::Module {
  DecoderImpl(const Config& c, SmallSlip planted) : config(c), slip(planted) {
    word = register_module("word", torch::nn::Embedding(c.vocabulary, c.width));
    position = register_module("position", torch::nn::Embedding(c.length, c.width));
    for (int64_t k = 0; k < c.layers; ++k)
      layers.emplace_back(register_module("layer" + std::to_string(k), DecoderLayer(c)));
    norm = register_module("norm",
                           torch::nn::LayerNorm(torch::nn::LayerNormOptions({c.width}).eps(c.eps)));
    head = register_module(
        "head", torch::nn::Linear(torch::nn::LinearOptions(c.width, c.vocabulary).bias(false)));
  }

  // Logits of tokens (B, T) that stand behind what the cache holds; the cache grows.
  at::Tensor forward(const at::Tensor& tokens, std::vector<Cache>& cache, const Trace& trace) {
    const int64_t begin = cache.empty() ? 0 : cache[0].keys.size(2);
    cache.resize(layers.size());
    const int64_t count = tokens.size(1);
    const auto place = at::arange(begin, begin + count, tokens.options());
    auto x = word->forward(tokens) + position->forward(place);
    const int64_t behind = slip == SmallSlip::kCacheOffByOne && begin > 0 ? 1 : 0;
    auto mask = at::arange(begin + count, tokens.options()) <= place.unsqueeze(1) - behind;
    if (slip == SmallSlip::kNoCausalMask) mask.fill_(true);
    for (size_t k = 0; k < layers.size(); ++k)
      x = layers[k]->forward(x, mask, cache[k], trace.under("layer" + std::to_string(k)));
    return linear(trace, "head", head, layerNorm(trace, "norm", norm, x, config.eps));
  }

  Config config;
  SmallSlip slip;
  torch::nn::Embedding word{nullptr}, position{nullptr};
  std::vector<DecoderLayer> layers;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Decoder);

// The sequence token by token behind a prefix: the last logits of each part.
void decode(Results& results, Decoder& model, const at::Tensor& tokens, SmallSlip slip) {
  const at::NoGradGuard noGrad;
  std::vector<Cache> cache;
  const int64_t prefix = model->config.prefix;
  for (int64_t end = prefix; end <= model->config.length; ++end) {
    const auto part = end == prefix ? tokens.slice(1, 0, prefix) : tokens.slice(1, end - 1, end);
    const auto logits = model->forward(part, cache, Trace::silent());
    results["decode" + std::to_string(end - prefix) + "/head"] = logits.select(1, -1);
    if (slip == SmallSlip::kCacheOfWrongRow && end == prefix)
      for (auto& one : cache) one = {one.keys.flip({0}), one.values.flip({0})};
  }
}

Run runDecoder(const ObservedModel& golden, const Variant& variant, Look look, SmallSlip slip,
               bool fused) {
  auto config = configOf(golden.config());
  config.fused = fused;
  Decoder model(config, slip);
  loadWeights(*model, golden, variant);
  const auto tokens = inputOf(golden, "tokens", variant);
  const int64_t length = model->config.length;
  auto trace = Trace::recording();
  std::vector<Cache> cache;
  const auto logits = model->forward(tokens.slice(1, 0, length), cache, trace);
  const auto loss = at::cross_entropy_loss(logits.flatten(0, 1), tokens.slice(1, 1).flatten());
  Run run;
  addTrace(run.results, "", trace);
  addGradients(run.results, "", loss, *model);
  if (look == Look::kLayers) run.layers = judgeLayers(trace, variant);
  for (const auto& [name, text] : trace.remarks()) run.details[name] = text;
  decode(run.results, model, tokens, slip);
  return run;
}

}  // namespace

Run runCausalDecoder(const ObservedModel& golden, const Variant& variant, Look look,
                     SmallSlip slip) {
  return runDecoder(golden, variant, look, slip, false);
}

Run runCausalDecoderFused(const ObservedModel& golden, const Variant& variant, Look look,
                          SmallSlip slip) {
  return runDecoder(golden, variant, look, slip, true);
}

}  // namespace assay::models
