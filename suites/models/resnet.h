// ResNet-50 with torchvision's names (stride in the 3×3 convolution), its BatchNorms folded into
// the convolutions or not, against the goldens in eval mode (full size) and in train mode (small).
#pragma once

#include "suites/models/observed_suite.h"

namespace assay::models {

// How the same model is run.
struct ResnetForm {
  bool folded = false;        // every BatchNorm in its convolution's weight and bias (eval)
  bool channelsLast = false;  // memory format of weights and images
  bool residual = true;       // false: a test's slip, the last block forgets its shortcut
  double momentum = 0.1;
  double eps = 1e-5;
};

// The golden's first two images on a CPU, all 64 in one batch on a GPU.
Run runResnet(const ObservedModel& golden, const Variant& variant, Look look,
              const ResnetForm& form = {});
// A training step's forward and backward pass.
Run trainResnet(const ObservedModel& golden, const Variant& variant, Look look,
                const ResnetForm& form = {});

// What of the full-size golden a CPU runs.
bool firstImages(const std::string& name);

}  // namespace assay::models
