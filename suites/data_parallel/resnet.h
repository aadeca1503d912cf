// ResNet-50 in eval mode under DataParallel, full size on a GPU, without a golden: its logits must
// be those of one device (and of the CPU), within what rounding can do to them. How much that is
// comes from runs in float64 in which every operation is disturbed by a random error of its local
// bound (docs/numerics.md#data-parallel).
#pragma once

#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {

struct Images {
  int64_t count = 0;
  int64_t side = 0;  // pixels
};

// ResNet-50 (stride in the 3x3 convolutions) with drawn weights and statistics, in eval mode.
std::shared_ptr<Net> makeResnet50(const std::string& dtype, const std::string& device);

// Root mean square, over the logits of the worst of the images, of what roundings of unit u = 1 do.
double roundingSpread(Net& net, const at::Tensor& images);

Record resnet(const Images& images, const Setup& setup, const Variant& variant,
              const Between& between = {});
std::vector<Part> resnetParts(const Setup& setup);

}  // namespace assay::data_parallel
