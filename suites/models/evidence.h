// Why does the multi-view transformer differ? What a look at the model itself says about the causes
// that ports to a device have been seen to have: unmasked padding, weights of an earlier step,
// dropout left on, labels that the loss changed. Rounding alone leaves no such trace.
#pragma once

#include "suites/models/transformer.h"

namespace assay::models {

using Values = std::map<std::string, at::Tensor>;
Values valuesOf(torch::nn::Module& module);  // copies of its parameters, by name
void setValues(torch::nn::Module& module, const Values& values);

// The largest change of a probability that a text's places have, among themselves …
struct Evidence {
  double padding = 0;   // when what stands behind the mask is other tokens
  double repeated = 0;  // when the same pass runs again
  double weights = 0;   // in a new model that holds what the optimizer left
  int64_t labels = 0;   // positions that are others behind the loss than before it
  double rounding = 0;  // what rounding alone may do to a probability

  void join(const Evidence& other);  // the larger ones
  [[nodiscard]] nlohmann::json json() const;
};

// Looks at a model in eval mode. `left`: its parameters as the optimizer left them.
Evidence examine(MultiViewTransformer& model, const Values& left, const Batch& batch,
                 const std::string& branch);

// Positions that differ.
int64_t changed(const Batch& before, const Batch& after);

// The causes that fit, each with its figure; empty: none.
std::string knownCauseOf(const Evidence& evidence);
// The same for a reader: says that none fits, if so.
std::string causeOf(const Evidence& evidence);

}  // namespace assay::models
