// The checks of the DataParallel suites as plain functions: each fills a record for one variant.
// The suites (data_parallel_suite.cpp: shards on one device; data_parallel_gpus_suite.cpp: several
// GPUs) only say where they run, and the tests break them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fixtures/suite.h"
#include "suites/data_parallel/step.h"

namespace assay::data_parallel {

// One check in waiting: everything but device and dtype.
struct Part {
  std::string model;  // what the record calls its operator
  std::string name;   // of the case
  bool backward = false;
  bool smoke = false;
  std::string layout = "contiguous";  // of the input
  std::vector<std::string> dtypes{"float32", "float64"};
  std::function<Record(const Variant&)> run;
};

class ResnetGoldens;  // resnet.h

struct Goldens {
  std::shared_ptr<const GoldenNet> cnn, mlp, tied;
  std::shared_ptr<ResnetGoldens> resnet;
  std::vector<std::shared_ptr<const GoldenNet>> all() const { return {cnn, mlp, tied}; }
};
Goldens loadGoldens(const std::filesystem::path& folder);  // throws GoldenError

inline constexpr int64_t kBatches[] = {1, 2, 3, 5, 7, 63, 64, 65};

// ---- training.cpp: outputs, losses, gradients and statistics
Record train(const GoldenNet& golden, int64_t batch, const Setup& setup, const Variant& variant,
             const Fault& fault = {});
Record evaluate(const GoldenNet& golden, int64_t batch, const Setup& setup, const Variant& variant,
                const Between& between = {});
Record emptyBatch(const GoldenNet& golden, const Setup& setup, const Variant& variant);
Record otherDimension(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
                      const Between& between = {});
// Two tensors cut alike: labels go to the replicas too, each shard has its part of the loss there.
Record severalTensors(const GoldenNet& golden, const Setup& setup, const Variant& variant,
                      const std::function<void(Tensors& labels)>& cut = {});
std::vector<Part> trainingParts(const Goldens& goldens, const Setup& setup);

// ---- difference.cpp: how far shards are from the whole batch, and what that is
Record difference(const GoldenNet& cnn, const Setup& setup, const Variant& variant);
std::vector<Part> differenceParts(const Goldens& goldens, const Setup& setup);
void printDifferences(const std::vector<Record>& records);

// ---- contract.cpp: what DataParallel does beside numbers
Record dropout(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
               const Fault& fault = {});
Record gradMode(const GoldenNet& golden, const Setup& setup, const Variant& variant, bool enabled,
                const Between& between = {});
Record refusal(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
               const Between& between = {});
Record replicas(const GoldenNet& golden, const Setup& setup, const Variant& variant,
                const Between& between = {});
Record repeated(const GoldenNet& golden, const Setup& setup, const Variant& variant,
                const Between& between = {});
Record twoModules(const GoldenNet& one, const GoldenNet& other, const Setup& setup,
                  const Variant& variant, const Fault& fault = {});
std::vector<Part> contractParts(const Goldens& goldens, const Setup& setup);

// ---- gradients.cpp: which gradients reach the module
// Some parameters are frozen: the others' gradients are the golden's, theirs undefined.
Record frozen(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
              const Fault& fault = {});
Record allFrozen(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
                 const Between& between = {});
// The loss is of the first shard alone: the other replicas add nothing.
Record oneUsed(const GoldenNet& golden, const Setup& setup, const Variant& variant,
               const Fault& fault = {});

// The first shard's replica takes one expert, all others take another one.
Record experts(const GoldenNet& mlp, const Setup& setup, const Variant& variant,
               const Fault& fault = {});

// ---- copies.cpp: bytes from device to device
using Copy = std::function<at::Tensor(const at::Tensor& tensor, at::Device to)>;
Record copies(at::Device from, at::Device to, const Variant& variant, const Copy& copy);
Copy directCopy();
std::vector<Part> copyParts(const std::vector<std::pair<at::Device, at::Device>>& pairs);

// ---- setups.cpp: which parts run where
// `count` shards on one device.
Setup onOneDevice(at::Device device, size_t count, bool whole);
// `count` shards over GPUs 0 to gpus - 1 in turn; the output on the first GPU, or on the last
// shard's.
Setup overGpus(size_t gpus, size_t count, bool whole, bool outputLast);
std::vector<Part> oneDeviceParts(at::Device device, const Goldens& goldens);
std::vector<Part> severalGpuParts(size_t gpus, const Goldens& goldens);

// ---- checks.cpp
// The parts as checks on `device`, in each of their dtypes. `blocked`: the reason why none can run.
std::vector<Check> checksOf(const std::vector<Part>& parts, const std::string& device,
                            const Options& options, const std::string& blocked = "");

}  // namespace assay::data_parallel
