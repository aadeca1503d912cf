// A mutant's layers on the host in float64 by plain loops, forward and backward, each result with
// the scale that its rounding error is judged against. LibTorch takes no part.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "suites/models/mutant.h"

namespace assay::models::host {

// A float64 tensor and Σ |∂f/∂x_j| |x_j| + |f| of each element; an undefined scale: exact.
struct Answer {
  at::Tensor value;
  at::Tensor scale;
};

// Undefined weights where the layer has none.
Answer forward(const MutantLayer& layer, const at::Tensor& x, const at::Tensor& weight,
               const at::Tensor& bias);

struct Gradients {
  Answer input;
  Answer weight;
  Answer bias;
};
// Of a layer with input x, where g is the gradient behind it. A discontinuity lets none through,
// but for fake_quantize (straight through, within its levels) and topk (what it let through).
Gradients backward(const MutantLayer& layer, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& g);

// Mean cross entropy, and its gradient by the logits.
Answer loss(const at::Tensor& logits, const at::Tensor& labels);
Answer lossGradient(const at::Tensor& logits, const at::Tensor& labels);

// What a discontinuity may answer where its input x errs by at most `error`: from `low` to `high`,
// or 0 where `open` is true.
struct Range {
  at::Tensor low, high, open;
};
Range range(const MutantLayer& layer, const at::Tensor& x, double error);

// A whole run: every layer's output, the loss, the gradients by the weights' names.
struct Run {
  std::vector<at::Tensor> outputs;
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
};
Run run(const Mutant& mutant);

}  // namespace assay::models::host
