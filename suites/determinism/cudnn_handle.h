// cuDNN's legacy API, called without LibTorch in between: descriptors that free themselves, and
// errors that are exceptions. Only for sources that are compiled with ASSAY_HAS_CUDNN.
#pragma once

#include <ATen/core/Tensor.h>
#include <cudnn.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace assay::determinism {

// cuDNN has no kernel for this here: a fact about the library, not a failure.
class NotSupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws NotSupported or std::runtime_error("cudnnPoolingForward: CUDNN_STATUS_…").
void need(cudnnStatus_t status, const char* what);

// This thread's handle for the current device, on its current stream.
cudnnHandle_t handle();

// A tensor of bytes on `like`'s device, zeros: a workspace.
at::Tensor byteBuffer(size_t bytes, const at::Tensor& like);

// A descriptor: made by `create`, freed by `destroy`.
template <typename T>
class Descriptor {
 public:
  using Create = cudnnStatus_t (*)(T*);
  using Destroy = cudnnStatus_t (*)(T);
  Descriptor(Create create, Destroy destroy) : destroy_(destroy) {
    need(create(&value_), "creating a descriptor");
  }
  ~Descriptor() { destroy_(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T get() const { return value_; }

 private:
  T value_ = nullptr;
  Destroy destroy_;
};

struct TensorDescriptor : Descriptor<cudnnTensorDescriptor_t> {
  // Of the tensor's dtype, sizes and strides; fewer than `least` dimensions are filled up with
  // ones.
  explicit TensorDescriptor(const at::Tensor& tensor, size_t least = 4);
};

cudnnDataType_t dataType(const at::Tensor& tensor);

// The numbers 1 and 0 in the type in which cuDNN reads alpha and beta for tensors of this dtype.
const void* oneFor(const at::Tensor& tensor);
const void* zeroFor(const at::Tensor& tensor);

// "v9.19.0": the cuDNN that is loaded.
std::string cudnnVersion();

}  // namespace assay::determinism
