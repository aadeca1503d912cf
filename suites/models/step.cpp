#include "suites/models/step.h"

#include <ATen/ATen.h>

#include "fixtures/argument.h"

namespace assay::models {

at::Tensor placed(const at::Tensor& host, const Variant& variant) {
  const auto typed = host.is_floating_point() ? host.to(scalarType(variant.dtype)) : host;
  return typed.clone().to(c10::Device(variant.device));
}

at::Tensor inputOf(const ObservedModel& golden, const std::string& name, const Variant& variant) {
  return placed(golden.inputs().at(name), variant);
}

void addGradients(Results& results, const std::string& prefix, const at::Tensor& loss,
                  torch::nn::Module& module) {
  results[prefix + "loss"] = loss.detach();
  module.zero_grad();
  loss.backward();
  for (const auto& one : module.named_parameters())
    results[prefix + "gradient/" + one.key()] = one.value().grad().clone();
}

void addTrace(Results& results, const std::string& prefix, const Trace& trace) {
  for (const auto& [name, value] : trace.results()) results[prefix + name] = value;
}

}  // namespace assay::models
