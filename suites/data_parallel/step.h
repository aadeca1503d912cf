// One forward or training step under DataParallel, and its judgement against the golden of the
// shards that it was cut into.
#pragma once

#include "fixtures/observed_model.h"
#include "fixtures/record.h"
#include "fixtures/variant.h"
#include "suites/data_parallel/golden_net.h"
#include "suites/data_parallel/parallel.h"

namespace assay::data_parallel {

// Which devices, by which path. The first device holds the module.
struct Setup {
  Devices devices;
  at::Device output;
  bool whole = false;  // data_parallel itself, not its pieces

  size_t count() const { return devices.size(); }
  at::Device home() const { return devices.front(); }
  std::string name() const;  // "pieces_x4", "whole_x4"
};

// Gathers what is compared with goldens, or demanded otherwise, into one record: its verdict is
// that of the worst result.
class Tally {
 public:
  Tally(Record& record, std::string dtype);
  // Within the golden's bound, in units of it: docs/numerics.md#data-parallel.
  void compare(const std::string& what, const at::Tensor& result, const GoldenOutput& golden);
  // What a larger model's golden saw; each result's name stands behind `what`.
  void compare(const std::string& what, const std::vector<Seen>& seen);
  // Something that is right or wrong.
  void demand(bool right, const std::string& otherwise);
  void demandSame(const std::string& what, const at::Tensor& result, const at::Tensor& wanted);

 private:
  void add(const std::string& what, const Verdict& verdict);
  Record& record_;
  std::string dtype_;
};

// Where a test breaks a step.
struct Fault : Between {
  std::function<void(Net& net)> differentiated;  // the module's gradients, behind backward
};

struct Step {
  std::shared_ptr<Net> net;
  Pieces pieces;  // of the whole path, the output only
  at::Tensor output, loss;
};

// The first `batch` samples, on the setup's first device.
at::Tensor inputOf(const GoldenNet& golden, int64_t batch, const Setup& setup,
                   const Variant& variant);

// Forward only, in the grad mode and with the net as they are.
Pieces forward(const std::shared_ptr<Net>& net, const at::Tensor& input, const Setup& setup,
               int64_t dim = 0, const Between& between = {});

// Forward, mean cross entropy on the output's device, backward.
Step trainingStep(const GoldenNet& golden, std::shared_ptr<Net> net, int64_t batch,
                  const Setup& setup, const Variant& variant, const Fault& fault = {});

// Output, loss, gradients and running statistics of a step, against the layout's golden.
void judgeStep(Tally& tally, const Step& step, const Layout& layout, const Setup& setup,
               const GoldenNet& golden);

// A net of the golden in the mode that its golden is for: the MLP's has no dropout.
std::shared_ptr<Net> netFor(const GoldenNet& golden, const Setup& setup, const Variant& variant);

}  // namespace assay::data_parallel
