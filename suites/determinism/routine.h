// A routine of cuDNN's legacy API as something that can be repeated.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fixtures/draw.h"
#include "suites/determinism/repetition.h"

namespace assay::determinism {

struct Routine {
  std::string name;       // "PoolingBackward"
  std::string algorithm;  // "max", "algo1"
  bool promised;          // that equal inputs give equal bits
  // Puts the inputs on the current GPU in this dtype; what it returns makes the call.
  std::function<Call(at::ScalarType)> prepare;
};

std::vector<Routine> layerRoutines();     // pooling, softmax, norms, reductions, samplers, dropout
std::vector<Routine> sequenceRoutines();  // CTC losses and recurrent networks
std::vector<Routine> attentionRoutines();

// fullMantissa on the current GPU.
at::Tensor drawn(const std::vector<int64_t>& shape, int key, at::ScalarType dtype);

}  // namespace assay::determinism
