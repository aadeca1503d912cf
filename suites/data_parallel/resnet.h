// ResNet-50 under DataParallel, the model of a public report, against goldens: in eval mode the one
// that a single device has too, in train mode one whose BatchNorms take each shard's own
// statistics.
#pragma once

#include "fixtures/observed_model.h"
#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {

// Each on its first use: to draw 25 million weights takes seconds.
class ResnetGoldens {
 public:
  explicit ResnetGoldens(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const ObservedModel& eval();
  const ObservedModel& train();

 private:
  std::filesystem::path folder_;
  std::unique_ptr<const ObservedModel> eval_, train_;
};

// With the golden's weights, on the setup's first device.
std::shared_ptr<Net> makeResnet50(const ObservedModel& golden, const std::string& dtype,
                                  const std::string& device);

// Under no_grad: DataParallel, one device and (from a GPU) the CPU, all against the golden. A CPU
// runs the first two images, a GPU all 64.
Record evaluateResnet(const ObservedModel& golden, const Setup& setup, const Variant& variant,
                      const Between& between = {});

// A training step: stages, output, loss, gradients, running statistics of the replicas and of the
// module; and how far each is from the golden of the whole batch.
Record trainResnet(const ObservedModel& golden, const Setup& setup, const Variant& variant,
                   const Fault& fault = {});

std::vector<Part> resnetParts(const std::shared_ptr<ResnetGoldens>& goldens, const Setup& setup);

}  // namespace assay::data_parallel
