// The checks of cuDNN's legacy routines other than convolution.
#pragma once

#include <string>
#include <vector>

#include "fixtures/suite.h"

namespace assay::determinism {

// The checks of one GPU: operator "PoolingBackward", case "max", variant "cuda0_float32".
std::vector<Check> routineChecks(const std::string& device, bool smoke);

}  // namespace assay::determinism
