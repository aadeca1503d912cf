#include "suites/models/multi_view.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include "suites/models/evidence.h"

namespace assay::models {
namespace {

torch::optim::AdamWOptions optimizerOptions(const nlohmann::json& json, Planted planted) {
  torch::optim::AdamWOptions options(json.at("lr").get<double>());
  options.betas({json.at("beta1").get<double>(), json.at("beta2").get<double>()});
  options.eps(json.at("eps"));
  options.weight_decay(planted == Planted::kNoWeightDecay ? 0.0
                                                          : json.at("weight_decay").get<double>());
  return options;
}

// The golden's names of weights behind a step, "step3/weight/…", that this step has.
void noteWeights(Results& results, const ObservedModel& golden, torch::nn::Module& module,
                 const std::string& step) {
  const auto values = valuesOf(module);
  for (const auto& name : golden.namesBehind(step + "/weight/"))
    results[step + "/weight/" + name] = values.at(name);
}

// Behind the last step's forward pass, before the optimizer moves the weights.
void noteEvidence(Run& run, const ObservedModel& golden, MultiViewTransformer& model,
                  const Values& left, const Batch& batch, const std::string& branch) {
  const Variant variant{.device = batch.tokens.device().str(), .dtype = "float64"};
  auto evidence = examine(model, left, batch, branch);
  evidence.labels = changed(batchOf(golden.inputs(), variant), batch);
  run.evidence = evidence;
}

}  // namespace

Run trainSteps(const ObservedModel& golden, const Variant& variant, Look look,
               const EncoderForm& form) {
  auto config = encoderConfig(golden.config());
  const auto planted = form.planted;
  config.planted = planted;
  config.fused = form.fused;
  config.dropout = planted == Planted::kDropoutInEval ? 0.1 : 0;
  MultiViewTransformer model(config, golden.config().at("experts").get<int64_t>());
  loadWeights(*model, golden, variant);
  model->eval();  // no dropout: the golden has none
  torch::optim::AdamW optimizer(model->parameters(),
                                optimizerOptions(golden.config().at("optimizer"), planted));
  const auto steps = golden.config().at("steps").get<std::vector<std::string>>();
  const auto batch = batchOf(golden.inputs(), variant);
  Run run;
  Values stale, current, left;
  for (size_t k = 0; k < steps.size(); ++k) {
    const auto step = "step" + std::to_string(k);
    if (!stale.empty()) setValues(*model, stale);
    auto trace = Trace::recording();
    const auto answer = model->forward(batch, steps[k], trace);
    optimizer.zero_grad();
    answer.loss.backward();
    for (const auto& [name, value] : trace.results())
      if (k == 0 || name.find('.') == std::string::npos) run.results[step + "/" + name] = value;
    if (k == 0) {
      for (const auto& [name, text] : trace.remarks()) run.details[name] = text;
      if (look == Look::kLayers) run.layers = judgeLayers(trace, variant);
      for (const auto& one : model->named_parameters())
        run.results[step + "/gradient/" + one.key()] = one.value().grad().clone();
    }
    if (k + 1 == steps.size()) noteEvidence(run, golden, model, left, batch, steps[k]);
    if (!current.empty()) setValues(*model, current);
    if (planted == Planted::kStaleWeights) stale = valuesOf(*model);
    optimizer.step();
    left = valuesOf(*model);
    if (planted == Planted::kStaleWeights) current = left;
    noteWeights(run.results, golden, *model, step);
  }
  return run;
}

}  // namespace assay::models
