// What a model did, layer by layer: its results by name, and for each layer the reference that its
// own input gives. A model writes into what its trace points to; a silent one keeps nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fixtures/observed_model.h"
#include "suites/models/reference.h"

namespace assay::models {

using host::Reference;

// Bounds of a layer's own error in u · scale (docs/numerics.md#models).
struct LayerBound {
  double ieee;
  double tf32;  // the same where no tensor core may run it
};
inline constexpr LayerBound kExact{0, 0};
inline constexpr LayerBound kRounded{16, 16};
inline constexpr LayerBound kProduct{16, 32800};
inline constexpr LayerBound kConvolution{256, 32800};  // on a GPU: may be Winograd or FFT

struct Layer {
  std::string name;
  at::Tensor output;
  LayerBound bound;
  std::function<Reference()> reference;  // made when it is asked for: it copies to the host
};

class Trace {
 public:
  static Trace silent() { return {nullptr, "", false}; }
  // `layers`: keep every layer's input for its reference, too; a large model's take much memory.
  static Trace recording(bool layers = true) {
    Trace trace(std::make_shared<State>(), "", true);
    trace.state_->keepLayers = layers;
    return trace;
  }

  // The same trace, names behind `name` and a dot.
  [[nodiscard]] Trace under(const std::string& name) const {
    return {state_, prefix_ + name + ".", noting_};
  }
  // The same trace for layers that the golden does not observe: their own input alone judges them.
  [[nodiscard]] Trace quiet() const { return {state_, prefix_, false}; }
  // A result that only the golden judges.
  at::Tensor note(const std::string& name, const at::Tensor& value) const;
  // A layer's result that the golden judges, and its own input.
  at::Tensor layer(const std::string& name, const at::Tensor& value, LayerBound bound,
                   std::function<Reference()> reference) const;
  // One that its own input alone judges.
  at::Tensor alone(const std::string& name, const at::Tensor& value, LayerBound bound,
                   std::function<Reference()> reference) const;

  // What is worth telling, and no number: the last word counts.
  void remark(const std::string& name, const std::string& text) const {
    if (state_) state_->remarks[name] = text;
  }

  [[nodiscard]] const std::map<std::string, std::string>& remarks() const {
    return state_->remarks;
  }
  [[nodiscard]] const Results& results() const { return state_->results; }
  [[nodiscard]] const std::vector<Layer>& layers() const { return state_->layers; }

 private:
  struct State {
    Results results;
    std::vector<Layer> layers;
    std::map<std::string, std::string> remarks;
    bool keepLayers = true;
  };
  Trace(std::shared_ptr<State> state, std::string prefix, bool noting)
      : state_(std::move(state)), prefix_(std::move(prefix)), noting_(noting) {}

  std::shared_ptr<State> state_;
  std::string prefix_;
  bool noting_;
};

// Every layer fed what the device fed it: sampled outputs against the reference. To be called while
// the weights are what they were. Names get the prefix that the results have.
std::vector<Seen> judgeLayers(const Trace& trace, const Variant& variant,
                              const std::string& prefix = "");

}  // namespace assay::models
