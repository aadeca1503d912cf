// cuDNN's graph API through its C interface: descriptors that free themselves, operation graphs
// made from their descriptions, their engines and what cuDNN notes of each, plans that can be
// executed. Every status that is not success is an exception that repeats cuDNN's own sentence:
// NotSupported for its statuses of 3000 to 3999, std::runtime_error for the others. Only for
// sources that are compiled with ASSAY_HAS_CUDNN.
#pragma once

#include <memory>
#include <vector>

#include "suites/determinism/cudnn_handle.h"
#include "suites/determinism/graph_case.h"
#include "suites/determinism/graph_notes.h"

namespace assay::determinism {

class BackendDescriptor {
 public:
  explicit BackendDescriptor(cudnnBackendDescriptorType_t type);
  ~BackendDescriptor();
  BackendDescriptor(const BackendDescriptor&) = delete;
  BackendDescriptor& operator=(const BackendDescriptor&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);
  // One value, whose C type is the attribute's.
  template <typename T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, static_cast<const void*>(&value));
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  void set(cudnnBackendAttributeName_t name, const BackendDescriptor& other);
  void finalize();

  // How many values there are; at most `most` are written.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;
  cudnnBackendDescriptor_t raw() const { return value_; }

 private:
  cudnnBackendDescriptor_t value_ = nullptr;
  cudnnBackendDescriptorType_t type_;
};

// What a graph is compiled for: the current GPU, or one that is only described (as JSON, in the
// form in which cuDNN itself writes a device's properties): engines can be listed, and plans made,
// where no GPU is.
class GraphTarget {
 public:
  GraphTarget() = default;
  explicit GraphTarget(const std::string& deviceProperties);
  const BackendDescriptor* described() const { return properties_.get(); }

 private:
  std::shared_ptr<BackendDescriptor> properties_;
};

// A finalized operation graph.
class OperationGraph {
 public:
  OperationGraph(GraphCase graph, GraphTarget target);
  const GraphCase& description() const { return graph_; }
  const GraphTarget& target() const { return target_; }
  const BackendDescriptor& descriptor() const { return *descriptor_; }
  int64_t engines() const;
  int64_t id(const std::string& tensor) const;

 private:
  const BackendDescriptor& tensor(const std::string& name);
  BackendDescriptor& keep(cudnnBackendDescriptorType_t type);
  void add(const ConvolutionStep& step);
  void add(const MatmulStep& step);
  void add(const PointwiseStep& step);
  void add(const ReductionStep& step);
  void add(const PoolingStep& step);
  void add(const NormStep& step);
  // Sets the attribute to the tensor unless the name is empty.
  void give(BackendDescriptor& to, cudnnBackendAttributeName_t attribute, const std::string& name);

  GraphCase graph_;
  GraphTarget target_;
  std::vector<std::unique_ptr<BackendDescriptor>> kept_;  // freed after those that refer to them
  std::map<std::string, BackendDescriptor*> tensors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::unique_ptr<BackendDescriptor> descriptor_;
};

// The engines of a later cuDNN's attention want a knob that has no default (seen with 9.26): such a
// graph is left out, since its engines are run with all knobs as cuDNN sets them.
bool wantsKnobs(const GraphCase& graph);

// One engine of a graph with all knobs as cuDNN sets them, its notes, and its plan.
class EnginePlan {
 public:
  // Asks whether the engine supports the graph; `plan` does the rest, which may compile. Both throw
  // NotSupported where it does not.
  EnginePlan(std::shared_ptr<const OperationGraph> graph, int64_t index);
  const EngineNotes& notes() const { return notes_; }
  void plan();

  // Runs the plan on tensors by name, the outputs' among them, with a fresh workspace.
  void execute(const std::map<std::string, at::Tensor>& tensors) const;

 private:
  std::shared_ptr<const OperationGraph> graph_;
  std::unique_ptr<BackendDescriptor> engine_, configuration_, plan_;
  EngineNotes notes_;
  int64_t workspace_ = 0;
};

}  // namespace assay::determinism
