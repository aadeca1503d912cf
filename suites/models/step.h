// Pieces that every model's run shares: inputs on the device, and one backward pass whose gradients
// become results.
#pragma once

#include "suites/models/layers.h"
#include "suites/models/observed_suite.h"

namespace assay::models {

// An input of the golden; integers as they are.
at::Tensor inputOf(const ObservedModel& golden, const std::string& name, const Variant& variant);

// Floating numbers in the variant's dtype, on its device.
at::Tensor placed(const at::Tensor& host, const Variant& variant);

// loss.backward(), the loss and every parameter's gradient under `prefix`.
void addGradients(Results& results, const std::string& prefix, const at::Tensor& loss,
                  torch::nn::Module& module);

// Every result of the trace under `prefix`.
void addTrace(Results& results, const std::string& prefix, const Trace& trace);

}  // namespace assay::models
