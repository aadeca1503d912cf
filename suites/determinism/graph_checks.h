// The checks of cuDNN's graph API: every engine that says that it supports an operation graph, and
// for every graph that one could be executed at all, with a list of the engines that refuse it.
#pragma once

#include <string>
#include <vector>

#include "fixtures/suite.h"

namespace assay::determinism {

// The checks of one GPU: operator "ConvolutionForward", case "2d_k3_nhwc", variant
// "cuda0_float32_engine12"; the last of a graph is "cuda0_float32_sweep".
std::vector<Check> graphChecks(const std::string& device, const Options& options);

// Which graphs a smoke test takes.
bool smokeGraph(const std::string& operation, const std::string& name);

}  // namespace assay::determinism
