// One training of the parity suite: same start, same questions, in the same order.
#include <ATen/ATen.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

#include "fixtures/argument.h"
#include "suites/models/parity.h"

namespace assay::models {
namespace {

Batch to(const Batch& batch, const std::string& name) {
  const c10::Device device(name);
  return {batch.tokens.to(device), batch.mask.to(device), batch.types.to(device),
          batch.starts.defined() ? batch.starts.to(device) : at::Tensor(),
          batch.ends.defined() ? batch.ends.to(device) : at::Tensor()};
}

std::string expertOf(int64_t domain) { return "expert" + std::to_string(domain); }

void append(Score& all, const Score& more) {
  all.exact.insert(all.exact.end(), more.exact.begin(), more.exact.end());
  all.f1.insert(all.f1.end(), more.f1.begin(), more.f1.end());
}

Score answer(MultiViewTransformer& model, const Training& training, const Variant& variant) {
  const at::NoGradGuard noGrad;
  model->eval();
  Score all;
  for (const int64_t domain : {0, 1}) {
    // Held-out questions are the same for every seed.
    const auto batch =
        training.task.draw(training.heldOut, domain, 0xE7A10000U + static_cast<uint32_t>(domain));
    auto given = to(batch, variant.device);
    given.starts = given.ends = at::Tensor();
    const auto answer = model->forward(given, expertOf(domain), Trace::silent());
    append(all, score(batch, answer.starts, answer.ends));
  }
  return all;
}

}  // namespace

Score train(const Training& training, uint32_t seed, const Variant& variant, Planted planted,
            Evidence* evidence) {
  auto config = training.encoder;
  config.planted = planted;
  at::manual_seed(seed);
  MultiViewTransformer model(config, training.experts);  // drawn on the CPU in float32
  model->to(c10::Device(variant.device), scalarType(variant.dtype));
  torch::optim::AdamW optimizer(model->parameters(),
                                torch::optim::AdamWOptions(training.rate).weight_decay(0.01));
  model->train();
  std::vector<at::Tensor> stale;
  int64_t labels = 0;
  for (int64_t step = 0; step < training.steps; ++step) {
    const int64_t domain = step % 2;
    const auto number = seed * 100000U + static_cast<uint32_t>(step);
    const auto batch = to(training.task.draw(training.batch, domain, number), variant.device);
    const auto loss = model->forward(batch, expertOf(domain), Trace::silent()).loss;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (evidence && step + 1 == training.steps)
      labels = changed(training.task.draw(training.batch, domain, number), to(batch, "cpu"));
    if (planted == Planted::kStaleWeights && step == training.steps / 4)
      for (const auto& one : model->parameters()) stale.push_back(one.detach().clone());
  }
  const auto left = valuesOf(*model);
  // A device whose copy was not refreshed answers with the weights of an earlier step.
  if (!stale.empty()) {
    const at::NoGradGuard noGrad;
    auto parameters = model->parameters();
    for (size_t k = 0; k < stale.size(); ++k) parameters[k].copy_(stale[k]);
  }
  if (evidence) {
    model->eval();
    const auto batch = to(training.task.draw(training.batch, 0, 0xE7A10000U), variant.device);
    *evidence = examine(model, left, batch, expertOf(0));
    evidence->labels = labels;
    evidence->rounding = kRoundingMoves;
  }
  return answer(model, training, variant);
}

}  // namespace assay::models
