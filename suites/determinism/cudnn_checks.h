// What the suites of cuDNN have in common: they are of GPUs alone, and say so elsewhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fixtures/suite.h"

namespace assay::determinism {

// `ofGpu`'s checks for every visible GPU ("cuda:0"). For a CPU (NO_GPU) and in a build without
// cuDNN (NO_CUDNN) one check that is skipped.
std::vector<Check> cudnnChecks(
    const Options& options,
    const std::function<std::vector<Check>(const std::string& device)>& ofGpu);

}  // namespace assay::determinism
