// An LSTM language model of several layers, forward and backward through time.
#include <ATen/ATen.h>
#include <torch/nn/modules/rnn.h>

#include "suites/models/small_models.h"
#include "suites/models/step.h"

namespace assay::models {
namespace {

struct LanguageModelImpl : torch::nn::Module {
  explicit LanguageModelImpl(const nlohmann::json& config) {
    const int64_t width = config.at("width"), hidden = config.at("hidden");
    const int64_t vocabulary = config.at("vocabulary");
    word = register_module("word", torch::nn::Embedding(vocabulary, width));
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(width, hidden)
                                                       .num_layers(config.at("layers"))
                                                       .batch_first(true)));
    head = register_module("head", torch::nn::Linear(hidden, vocabulary));
  }

  at::Tensor forward(const at::Tensor& tokens, const Trace& trace) {
    const auto x = word->forward(tokens);
    const auto [hidden, state] = lstm->forward(x);
    const auto& [last, cell] = state;
    for (int64_t k = 0; k < last.size(0); ++k) {
      trace.note("last_hidden" + std::to_string(k), last[k]);
      trace.note("last_cell" + std::to_string(k), cell[k]);
    }
    // cuDNN's recurrent kernels have an error of their own (docs/numerics.md#cudnn-rnn).
    const bool cudnn = x.is_cuda() && at::globalContext().userEnabledCuDNN();
    trace.layer("lstm", hidden, {cudnn ? 128.0 : kProduct.ieee, kProduct.tf32},
                [x, weights = lstm->parameters()] { return host::lstm(x, weights); });
    return linear(trace, "head", head, hidden);
  }

  torch::nn::Embedding word{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(LanguageModel);

// i and f change places in every weight, as between two libraries' orders of gates.
void swapGates(torch::nn::Module& lstm) {
  const at::NoGradGuard noGrad;
  for (auto& weight : lstm.parameters()) {
    auto gates = weight.chunk(4, 0);
    weight.copy_(at::cat({gates[1], gates[0], gates[2], gates[3]}, 0));
  }
}

}  // namespace

Run runLstm(const ObservedModel& golden, const Variant& variant, Look look, SmallSlip slip) {
  LanguageModel model(golden.config());
  loadWeights(*model, golden, variant);
  model->lstm->flatten_parameters();
  if (slip == SmallSlip::kGateOrder) swapGates(*model->lstm);
  const auto tokens = inputOf(golden, "tokens", variant);
  auto trace = Trace::recording();
  const auto logits = model->forward(tokens.slice(1, 0, -1), trace);
  const auto loss = at::cross_entropy_loss(logits.flatten(0, 1), tokens.slice(1, 1).flatten());
  Run run;
  addTrace(run.results, "", trace);
  addGradients(run.results, "", loss, *model);
  if (look == Look::kLayers) run.layers = judgeLayers(trace, variant);
  return run;
}

}  // namespace assay::models
