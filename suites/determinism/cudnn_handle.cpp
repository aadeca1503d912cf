#ifdef ASSAY_HAS_CUDNN
#include "suites/determinism/cudnn_handle.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <map>

namespace assay::determinism {

void need(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cudnnGetErrorString(status);
  // cuDNN 9 counts its statuses in categories: 3000 and above are "not supported".
  if (status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_NOT_SUPPORTED + 1000)
    throw NotSupported(text);
  throw std::runtime_error(text);
}

cudnnHandle_t handle() {
  // Never destroyed: at exit the driver may be gone before this library is.
  thread_local std::map<int, cudnnHandle_t> handles;
  const auto stream = c10::cuda::getCurrentCUDAStream();
  auto& own = handles[stream.device_index()];
  if (!own) need(cudnnCreate(&own), "cudnnCreate");
  need(cudnnSetStream(own, stream), "cudnnSetStream");
  return own;
}

at::Tensor byteBuffer(size_t bytes, const at::Tensor& like) {
  return at::zeros({static_cast<int64_t>(bytes)}, like.options().dtype(at::kByte));
}

cudnnDataType_t dataType(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return CUDNN_DATA_FLOAT;
    case at::kDouble:
      return CUDNN_DATA_DOUBLE;
    case at::kInt:
      return CUDNN_DATA_INT32;
    default:
      throw std::logic_error("no such tensor is given to cuDNN here");
  }
}

TensorDescriptor::TensorDescriptor(const at::Tensor& tensor, size_t least)
    : Descriptor(cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor) {
  std::vector<int> sizes(tensor.sizes().begin(), tensor.sizes().end());
  std::vector<int> strides(tensor.strides().begin(), tensor.strides().end());
  while (sizes.size() < least) sizes.push_back(1), strides.push_back(1);
  need(cudnnSetTensorNdDescriptor(get(), dataType(tensor), static_cast<int>(sizes.size()),
                                  sizes.data(), strides.data()),
       "cudnnSetTensorNdDescriptor");
}

const void* oneFor(const at::Tensor& tensor) {
  static const float single = 1;
  static const double twice = 1;
  if (tensor.scalar_type() == at::kDouble) return &twice;
  return &single;
}

const void* zeroFor(const at::Tensor& tensor) {
  static const float single = 0;
  static const double twice = 0;
  if (tensor.scalar_type() == at::kDouble) return &twice;
  return &single;
}

std::string cudnnVersion() {
  const size_t version = cudnnGetVersion();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace assay::determinism
#endif
