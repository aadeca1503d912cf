// A BERT encoder with a span head, and the multi-view transformer of a public report on top of it:
// expert encoders and a shared one, whose loss is (S + E/2) + (s + e)/2.
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include "suites/models/layers.h"

namespace assay::models {

// What a test plants: each is a slip that a port to a device has been seen to make.
enum class Planted {
  kNothing,
  kUnmaskedPadding,
  kDropoutInEval,
  kStaleWeights,  // the forward pass reads what the optimizer step had replaced
  kLabelClamp,    // positions are clamped below the last place
  kLossWeight,    // (S + E)/2 for S + E/2
  kLayerNormEps,
  kGeluTanh,
  kAttentionScale,
  kHeadOrder,
  kResidualDropped,
  kNoWeightDecay,
};

struct EncoderConfig {
  int64_t vocabulary = 0, length = 0, width = 0, heads = 0, inner = 0, layers = 0;
  double eps = 1e-12;
  double dropout = 0;
  Planted planted = Planted::kNothing;
  bool fused = false;  // at::scaled_dot_product_attention
};
EncoderConfig encoderConfig(const nlohmann::json& config);

// A batch, as a reader of questions and texts would hand it over.
struct Batch {
  at::Tensor tokens, mask, types;  // (B, T), int64
  at::Tensor starts, ends;         // (B) or (B, 1), int64; clamped in place
};
Batch batchOf(const std::map<std::string, at::Tensor>& inputs, const Variant& variant);

struct EncoderLayerImpl : torch::nn::Module {
  explicit EncoderLayerImpl(const EncoderConfig& config);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask, const Trace& trace);

  EncoderConfig config;
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, attentionOutput{nullptr},
      intermediate{nullptr}, output{nullptr};
  torch::nn::LayerNorm attentionNorm{nullptr}, outputNorm{nullptr};

 private:
  at::Tensor dropped(const at::Tensor& x) const;
};
TORCH_MODULE(EncoderLayer);

struct EncoderImpl : torch::nn::Module {
  explicit EncoderImpl(const EncoderConfig& config);
  // Start and end logits, (B, T) each.
  std::pair<at::Tensor, at::Tensor> forward(const Batch& batch, const Trace& trace);

  EncoderConfig config;
  torch::nn::Embedding word{nullptr}, position{nullptr}, type{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  std::vector<EncoderLayer> layers;
  torch::nn::Linear span{nullptr};
};
TORCH_MODULE(Encoder);

struct Answer {
  at::Tensor starts, ends, loss;  // probabilities (B, T); the loss where positions are given
};

struct MultiViewTransformerImpl : torch::nn::Module {
  MultiViewTransformerImpl(const EncoderConfig& config, int64_t experts);
  // branch: "average", "shared", or "expert0" …
  Answer forward(const Batch& batch, const std::string& branch, const Trace& trace);

  EncoderConfig config;
  std::vector<Encoder> experts;
  Encoder shared{nullptr};

 private:
  at::Tensor loss(const Batch& batch, const Answer& answer,
                  const std::pair<at::Tensor, at::Tensor>& shared);
};
TORCH_MODULE(MultiViewTransformer);

}  // namespace assay::models
