#include "suites/determinism/graph_checks.h"

namespace assay::determinism {

bool smokeGraph(const std::string& operation, const std::string& name) {
  return operation == "ConvolutionBackwardFilter" && name == "2d_k3_g4_nchw";
}

}  // namespace assay::determinism

#ifdef ASSAY_HAS_CUDNN

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>
#include <memory>

#include "fixtures/device.h"
#include "fixtures/variant.h"
#include "suites/determinism/graph_backend.h"
#include "suites/determinism/graph_engine.h"

namespace assay::determinism {
namespace {

std::string dtypeName(at::ScalarType dtype) {
  if (dtype == at::kDouble) return "float64";
  return dtype == at::kHalf ? "float16" : "float32";
}

// With the fault ignore-ieee it plays a library whose engines do not note that they take tensor
// cores.
EngineNotes told(EngineNotes notes, const Options& options) {
  if (options.fault != "ignore-ieee") return notes;
  notes.numerical.erase(Note::kTensorCore);
  notes.numerical.erase(Note::kDownConvertInputs);
  return notes;
}

// A graph on a GPU, and what all of its engines share.
class PlacedGraph {
 public:
  PlacedGraph(GraphCase graph, std::string device)
      : graph_(std::make_shared<const OperationGraph>(std::move(graph), GraphTarget())),
        device_(std::move(device)) {
    for (int64_t index = 0; index < graph_->engines(); ++index) {
      try {
        const EnginePlan asked(graph_, index);
        supporting_.push_back(index);
      } catch (const NotSupported& problem) {
        refused_[problem.what()].push_back(index);
      }
    }
  }

  const GraphCase& description() const { return graph_->description(); }
  std::shared_ptr<const OperationGraph> graph() const { return graph_; }
  int64_t engines() const { return graph_->engines(); }
  // Those that say that they support it, and the others by cuDNN's sentence.
  const std::vector<int64_t>& supporting() const { return supporting_; }
  const std::map<std::string, std::vector<int64_t>>& refused() const { return refused_; }
  const GraphHost& host() {
    if (!host_) host_ = std::make_unique<GraphHost>(hostOf(description()));
    return *host_;
  }
  // An engine of it has been executed in this process.
  bool executed = false;

  std::map<std::string, at::Tensor> placed(const Values& values) const {
    std::map<std::string, at::Tensor> result;
    for (const auto* input : description().with(Use::kInput)) {
      result[input->name] = empty(*input);
      result[input->name].copy_(values.at(input->name));
    }
    return result;
  }
  // Full of NaN: what an engine does not write shows.
  void addOutputs(std::map<std::string, at::Tensor>& tensors) const {
    for (const auto* output : description().with(Use::kOutput))
      tensors[output->name] = empty(*output).fill_(std::numeric_limits<double>::quiet_NaN());
  }

 private:
  at::Tensor empty(const GraphTensor& tensor) const {
    return at::empty_strided(tensor.sizes, tensor.strides(),
                             at::TensorOptions(c10::Device(device_)).dtype(tensor.dtype));
  }

  std::shared_ptr<const OperationGraph> graph_;
  std::string device_;
  std::unique_ptr<GraphHost> host_;
  std::vector<int64_t> supporting_;
  std::map<std::string, std::vector<int64_t>> refused_;
};

GraphEngine engineOf(const std::shared_ptr<PlacedGraph>& placed,
                     const std::shared_ptr<const EnginePlan>& plan, int64_t index) {
  const auto inputs = placed->placed(placed->host().inputs);
  return {.name = "engine " + std::to_string(index),
          .notes = plan->notes(),
          .source = "cuDNN " + cudnnVersion(),
          .call =
              [=] {
                auto tensors = inputs;
                placed->addOutputs(tensors);
                plan->execute(tensors);
                std::vector<at::Tensor> outputs;
                for (const auto* output : placed->description().with(Use::kOutput))
                  outputs.push_back(tensors.at(output->name));
                return outputs;
              },
          .compute =
              [=](const Values& values) {
                auto tensors = placed->placed(values);
                placed->addOutputs(tensors);
                plan->execute(tensors);
                c10::cuda::getCurrentCUDAStream().synchronize();
                return tensors;
              }};
}

Record runEngine(const std::shared_ptr<PlacedGraph>& placed, int64_t index,
                 const std::string& device, const Options& options) {
  const c10::cuda::CUDAGuard guard(c10::Device(device).index());
  Record record;
  try {
    const auto plan = std::make_shared<EnginePlan>(placed->graph(), index);
    plan->plan();
    auto engine = engineOf(placed, plan, index);
    engine.notes = told(engine.notes, options);
    engine.compute(placed->host().inputs);  // may say that it does not support this, too
    placed->executed = true;
    judgeEngine(record, placed->description(), placed->host(), engine, options.smoke);
  } catch (const NotSupported& problem) {
    record = {};
    record.status = Status::kUnavailable;
    record.reason = problem.what();
  }
  return record;
}

// Fails where none of the graph's engines can be executed: then nothing was measured. A process
// that began behind the engines' checks looks for one itself.
Record runSweep(const std::shared_ptr<PlacedGraph>& placed, const std::string& device) {
  const c10::cuda::CUDAGuard guard(c10::Device(device).index());
  std::string last = "none says that it supports the graph";
  for (size_t k = 0; k < placed->supporting().size() && !placed->executed; ++k) {
    try {
      const int64_t index = placed->supporting()[k];
      const auto plan = std::make_shared<EnginePlan>(placed->graph(), index);
      plan->plan();
      engineOf(placed, plan, index).compute(placed->host().inputs);
      placed->executed = true;
    } catch (const std::exception& problem) {
      last = problem.what();
    }
  }
  Record record;
  record.status = placed->executed ? Status::kPassed : Status::kFailed;
  record.verdict.checked = placed->engines();
  record.details["graph"] = {{"engines", placed->engines()},
                             {"supporting", placed->supporting()},
                             {"refused", placed->refused()}};
  if (!placed->executed)
    record.message = "none of " + std::to_string(placed->engines()) +
                     " engines could be executed; the last reason: " + last;
  return record;
}

Check checkOf(const GraphCase& graph, const std::string& device, const std::string& more) {
  Check check = assay::checkOf(graph.operation, graph.name,
                               {.device = device, .dtype = dtypeName(graph.dtype)});
  check.name += "_" + more;
  check.variantName += "_" + more;
  check.smoke = true;
  return check;
}

}  // namespace

std::vector<Check> graphChecks(const std::string& device, const Options& options) {
  std::vector<Check> checks;
  const bool pretended = gpusArePretended();  // which engines there are, cuDNN says on the GPU
  c10::cuda::OptionalCUDAGuard guard;
  if (!pretended) guard.set_device(c10::Device(device));
  for (auto& graph : graphCases()) {
    if (options.smoke && !smokeGraph(graph.operation, graph.name)) continue;
    if (wantsKnobs(graph)) continue;
    if (pretended && graph.operation == "Attention") continue;  // a newer cuDNN leaves it out
    auto sweep = checkOf(graph, device, "sweep");
    if (pretended) {
      checks.push_back(std::move(sweep));
      continue;
    }
    try {
      const auto placed = std::make_shared<PlacedGraph>(graph, device);
      for (const int64_t index : placed->supporting()) {
        auto check = checkOf(graph, device, "engine" + std::to_string(index));
        check.run = [=] { return runEngine(placed, index, device, options); };
        checks.push_back(std::move(check));
      }
      sweep.run = [=] { return runSweep(placed, device); };
    } catch (const std::exception& problem) {
      sweep.run = [told = std::string(problem.what())] {
        Record record;
        record.status = Status::kFailed;
        record.message = "cuDNN does not take the graph, so that no engine was executed: " + told;
        return record;
      };
    }
    checks.push_back(std::move(sweep));
  }
  return checks;
}

}  // namespace assay::determinism

#else

namespace assay::determinism {
std::vector<Check> graphChecks(const std::string&, const Options&) { return {}; }
}  // namespace assay::determinism

#endif
