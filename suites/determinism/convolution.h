// Every algorithm of cuDNN's three convolutions over a set of problems, as cuDNN itself lists them:
// with the determinism and the math type that it reports.
#pragma once

#include <string>
#include <vector>

#include "fixtures/suite.h"

namespace assay::determinism {

// The checks of one GPU ("cuda:0"): operator ConvolutionForward, ConvolutionBackwardData or
// ConvolutionBackwardFilter, case "2d_k3_nchw", variant "cuda0_float32_algo0_fma".
std::vector<Check> convolutionChecks(const std::string& device, const Options& options);

}  // namespace assay::determinism
