// Report 1's advice as a run: a small convolutional network trained some steps by SGD with
// momentum, the same weights and inputs on every device and in every mode.
//
// Convolution, BatchNorm, relu, max pooling, convolution, relu, adaptive mean; an embedding added;
// a linear head; cross entropy. golden/models/repeated_training.py is the same run in NumPy. The
// adaptive mean is one number a channel: LibTorch's deterministic mode refuses other sizes'
// backward.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/observed_model.h"
#include "fixtures/variant.h"

namespace assay::determinism {

// Sizes and the optimizer's numbers (the golden's config), weights and inputs: float64 on the host.
struct TrainingTask {
  std::string name;  // "small", "wide"
  nlohmann::json config;
  std::map<std::string, at::Tensor> weights, inputs;
};

// The golden's.
TrainingTask smallTask(const ObservedModel& golden);
// Large enough that kernels that add up with atomics meet themselves; no golden.
TrainingTask wideTask();

// Trains in the dtype and on the device of the variant, in the library modes that are set: the loss
// of every step ("step3/loss"), weights and running statistics behind the last ("final/head.bias").
Results train(const TrainingTask& task, const Variant& variant);

// How far two runs are from each other.
struct Distance {
  std::vector<double> losses;  // |difference| of each step's loss
  double parameters = 0;       // largest |difference| of a weight behind the last step, over the
                               // largest magnitude in its tensor
  nlohmann::json json() const;
};
Distance distanceOf(const Results& a, const Results& b);

// How rounding grows, measured: float64 on the CPU, weights and images moved by one unit in the
// last place of float32, up or down at random; the root of the mean square over `runs` such runs.
Distance growthOf(const TrainingTask& task, int runs = 8);

// One of those runs, by number.
TrainingTask movedByOneUlp(const TrainingTask& task, uint32_t number);

}  // namespace assay::determinism
