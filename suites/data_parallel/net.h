// The modules that run under DataParallel, one class for all: what a net registers and how it runs
// forward stands in a definition, so that the same code replicates a golden's model, one that
// throws and one whose batch is not the first dimension.
#pragma once

#include <torch/nn/cloneable.h>

#include <atomic>
#include <map>
#include <string>

namespace assay::data_parallel {

class Net : public torch::nn::Cloneable<Net> {
 public:
  struct Definition {
    void (*build)(Net&);  // registers parameters, buffers and children: at first, and in each clone
    at::Tensor (*forward)(Net&, const at::Tensor&);
  };

  explicit Net(const Definition& definition);
  Net(const Net& other);
  Net& operator=(const Net&) = default;
  ~Net() override;

  void reset() override;
  at::Tensor forward(const at::Tensor& input);

  // A child by its name, as Conv2dImpl and so on.
  template <typename Impl>
  Impl& child(const std::string& name) {
    return dynamic_cast<Impl&>(*named_children()[name]);
  }
  // The value of a layer, kept under its name where `tracing` is set.
  at::Tensor keep(const std::string& layer, at::Tensor value);

  bool tracing = false;
  std::map<std::string, at::Tensor> kept;

  // Nets that exist in this process: a replica that stays alive is a leak.
  static int64_t live();

 private:
  const Definition* definition_;
};

// data_parallel_cnn, data_parallel_mlp or data_parallel_tied, as golden/models defines them.
const Net::Definition& definitionOf(const std::string& model);

// data_parallel_mlp for inputs of shape (features, batch): its batch is dimension 1.
const Net::Definition& batchLast();

// data_parallel_mlp that throws std::runtime_error("sample <k> is refused") for a batch whose first
// sample holds kRefused + k in its first feature.
const Net::Definition& refusing();
inline constexpr double kRefused = 1024;

// data_parallel_mlp with another expert, `other`, for a batch whose first sample holds kRefused in
// its first feature: a replica then takes one expert alone, as a model with an expert a domain
// does.
const Net::Definition& choosing();

}  // namespace assay::data_parallel
