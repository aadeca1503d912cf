#include "suites/models/evidence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace assay::models {
namespace {

struct Probabilities {
  at::Tensor starts, ends;
};

// Of the text's own places: what stands behind the mask has a share of the softmax by design.
Probabilities within(MultiViewTransformer& model, Batch batch, const std::string& branch) {
  batch.starts = batch.ends = at::Tensor();  // no loss: nothing is clamped
  const auto answer = model->forward(batch, branch, Trace::silent());
  const auto inside = [&](const at::Tensor& p) {
    const auto own = p.detach().to(at::kDouble) * batch.mask;
    return own / own.sum(1, /*keepdim=*/true);
  };
  return {inside(answer.starts), inside(answer.ends)};
}

double distance(const Probabilities& a, const Probabilities& b) {
  const auto moved = at::maximum((a.starts - b.starts).abs(), (a.ends - b.ends).abs());
  return moved.max().item<double>();
}

// Every token behind the mask is the next one of the vocabulary.
Batch otherPadding(const Batch& batch, int64_t vocabulary) {
  auto other = batch;
  other.tokens =
      at::where(batch.mask.gt(0), batch.tokens, (batch.tokens + 1).remainder(vocabulary));
  return other;
}

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

// A NaN is larger than anything: whatever moves to one has moved.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

Values valuesOf(torch::nn::Module& module) {
  Values values;
  for (const auto& one : module.named_parameters())
    values[one.key()] = one.value().detach().clone();
  return values;
}

void setValues(torch::nn::Module& module, const Values& values) {
  const torch::NoGradGuard noGrad;
  for (auto& one : module.named_parameters()) one.value().copy_(values.at(one.key()));
}

void Evidence::join(const Evidence& other) {
  padding = larger(padding, other.padding);
  repeated = larger(repeated, other.repeated);
  weights = larger(weights, other.weights);
  labels = std::max(labels, other.labels);
  rounding = std::max(rounding, other.rounding);
}

nlohmann::json Evidence::json() const {
  return {{"padding_moves", padding},
          {"a_second_run_moves", repeated},
          {"the_optimizers_weights_move", weights},
          {"labels_changed", labels},
          {"rounding_moves_at_most", rounding}};
}

Evidence examine(MultiViewTransformer& model, const Values& left, const Batch& batch,
                 const std::string& branch) {
  const torch::NoGradGuard noGrad;
  const auto first = within(model, batch, branch);
  Evidence evidence;
  evidence.repeated = distance(first, within(model, batch, branch));
  evidence.padding =
      distance(first, within(model, otherPadding(batch, model->config.vocabulary), branch));
  MultiViewTransformer fresh(model->config, static_cast<int64_t>(model->experts.size()));
  fresh->eval();
  fresh->to(first.starts.device(), left.begin()->second.scalar_type());
  setValues(*fresh, left);
  evidence.weights = distance(first, within(fresh, batch, branch));
  return evidence;
}

int64_t changed(const Batch& before, const Batch& after) {
  return (before.starts.ne(after.starts).sum() + before.ends.ne(after.ends).sum()).item<int64_t>();
}

std::string knownCauseOf(const Evidence& e) {
  std::string causes;
  const auto add = [&](const std::string& text) { causes += (causes.empty() ? "" : "; ") + text; };
  const auto moves = [&](double by) { return !(by <= e.rounding); };  // a NaN, too
  const bool dropout = moves(e.repeated);
  if (dropout)
    add("dropout left on in eval: a second run moves a probability by " + figure(e.repeated));
  // Where every run differs, the two below say nothing.
  if (!dropout && moves(e.padding))
    add("unmasked padding: other tokens behind the mask move a probability by " +
        figure(e.padding));
  if (!dropout && moves(e.weights))
    add("stale weights: a new model with what the optimizer left differs by " + figure(e.weights));
  if (e.labels > 0) add("label clamp: the loss changed " + std::to_string(e.labels) + " positions");
  return causes;
}

std::string causeOf(const Evidence& evidence) {
  const auto known = knownCauseOf(evidence);
  return known.empty() ? "none of the known ones fits (unmasked padding, stale weights, dropout in "
                         "eval, label clamp): the model itself is as it must be"
                       : known;
}

}  // namespace assay::models
