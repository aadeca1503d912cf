#ifdef ASSAY_HAS_CUDNN
#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "suites/determinism/cudnn_handle.h"
#include "suites/determinism/routine.h"

namespace assay::determinism {
namespace {

// (batch, channels, height, width) of every layer here
const std::vector<int64_t> kImage{8, 32, 24, 24};

// The tensors that a layer's forward and backward calls share.
struct Layer {
  at::Tensor x, y, dy;
  TensorDescriptor input, output;
  Layer(at::Tensor x_, at::Tensor y_, at::ScalarType dtype)
      : x(std::move(x_)),
        y(std::move(y_)),
        dy(drawn(y.sizes().vec(), 3, dtype)),
        input(x),
        output(y) {}
};

std::shared_ptr<Layer> sameSize(at::ScalarType dtype) {
  auto x = drawn(kImage, 1, dtype);
  return std::make_shared<Layer>(x, at::empty_like(x), dtype);
}

// A routine whose descriptor of type D the two halves share: forward(descriptor, layer, y) and
// backward(descriptor, layer, dx).
template <typename D>
std::vector<Routine> pair(const std::string& name, const std::string& algorithm,
                          bool backwardPromised, std::function<std::shared_ptr<D>()> make,
                          const std::function<std::shared_ptr<Layer>(at::ScalarType)>& place,
                          std::function<cudnnStatus_t(D&, Layer&, void*)> forward,
                          std::function<cudnnStatus_t(D&, Layer&, void*)> backward) {
  const std::string forwardName = name + "Forward", backwardName = name + "Backward";
  return {{forwardName, algorithm, true,
           [=](at::ScalarType dtype) -> Call {
             return [=, layer = place(dtype), descriptor = make()] {
               auto y = at::empty_like(layer->y);
               need(forward(*descriptor, *layer, y.mutable_data_ptr()), forwardName.c_str());
               return std::vector{y};
             };
           }},
          {backwardName, algorithm, backwardPromised, [=](at::ScalarType dtype) -> Call {
             auto layer = place(dtype);
             auto descriptor = make();
             need(forward(*descriptor, *layer, layer->y.mutable_data_ptr()), forwardName.c_str());
             return [=] {
               auto dx = at::empty_like(layer->x);
               need(backward(*descriptor, *layer, dx.mutable_data_ptr()), backwardName.c_str());
               return std::vector{dx};
             };
           }}};
}

void append(std::vector<Routine>& all, std::vector<Routine> more) {
  all.insert(all.end(), more.begin(), more.end());
}

std::vector<Routine> pooling(const std::string& name, cudnnPoolingMode_t mode, bool promised) {
  using D = Descriptor<cudnnPoolingDescriptor_t>;
  return pair<D>(
      "Pooling", name, promised,
      [=] {
        auto d = std::make_shared<D>(cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor);
        const std::array<int, 2> window{5, 5}, padding{2, 2}, stride{1, 1};  // windows overlap
        need(cudnnSetPoolingNdDescriptor(d->get(), mode, CUDNN_PROPAGATE_NAN, 2, window.data(),
                                         padding.data(), stride.data()),
             "cudnnSetPoolingNdDescriptor");
        return d;
      },
      sameSize,
      [](D& d, Layer& l, void* y) {
        return cudnnPoolingForward(handle(), d.get(), oneFor(l.x), l.input.get(),
                                   l.x.const_data_ptr(), zeroFor(l.x), l.output.get(), y);
      },
      [](D& d, Layer& l, void* dx) {
        return cudnnPoolingBackward(handle(), d.get(), oneFor(l.x), l.output.get(),
                                    l.y.const_data_ptr(), l.output.get(), l.dy.const_data_ptr(),
                                    l.input.get(), l.x.const_data_ptr(), zeroFor(l.x),
                                    l.input.get(), dx);
      });
}

std::vector<Routine> activation(const std::string& name, cudnnActivationMode_t mode) {
  using D = Descriptor<cudnnActivationDescriptor_t>;
  return pair<D>(
      "Activation", name, true,
      [=] {
        auto d =
            std::make_shared<D>(cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor);
        need(cudnnSetActivationDescriptor(d->get(), mode, CUDNN_PROPAGATE_NAN, 1.0),
             "cudnnSetActivationDescriptor");
        return d;
      },
      sameSize,
      [](D& d, Layer& l, void* y) {
        return cudnnActivationForward(handle(), d.get(), oneFor(l.x), l.input.get(),
                                      l.x.const_data_ptr(), zeroFor(l.x), l.output.get(), y);
      },
      [](D& d, Layer& l, void* dx) {
        return cudnnActivationBackward(handle(), d.get(), oneFor(l.x), l.output.get(),
                                       l.y.const_data_ptr(), l.output.get(), l.dy.const_data_ptr(),
                                       l.input.get(), l.x.const_data_ptr(), zeroFor(l.x),
                                       l.input.get(), dx);
      });
}

std::vector<Routine> localResponse() {
  using D = Descriptor<cudnnLRNDescriptor_t>;
  return pair<D>(
      "LRNCrossChannel", "n5", true,
      [] {
        auto d = std::make_shared<D>(cudnnCreateLRNDescriptor, cudnnDestroyLRNDescriptor);
        need(cudnnSetLRNDescriptor(d->get(), 5, 1e-4, 0.75, 2.0), "cudnnSetLRNDescriptor");
        return d;
      },
      sameSize,
      [](D& d, Layer& l, void* y) {
        return cudnnLRNCrossChannelForward(handle(), d.get(), CUDNN_LRN_CROSS_CHANNEL_DIM1,
                                           oneFor(l.x), l.input.get(), l.x.const_data_ptr(),
                                           zeroFor(l.x), l.output.get(), y);
      },
      [](D& d, Layer& l, void* dx) {
        return cudnnLRNCrossChannelBackward(handle(), d.get(), CUDNN_LRN_CROSS_CHANNEL_DIM1,
                                            oneFor(l.x), l.output.get(), l.y.const_data_ptr(),
                                            l.output.get(), l.dy.const_data_ptr(), l.input.get(),
                                            l.x.const_data_ptr(), zeroFor(l.x), l.input.get(), dx);
      });
}

std::vector<Routine> softmax(const std::string& name, cudnnSoftmaxAlgorithm_t algorithm,
                             cudnnSoftmaxMode_t mode) {
  struct None {};
  return pair<None>(
      "Softmax", name, true, [] { return std::make_shared<None>(); }, sameSize,
      [=](None&, Layer& l, void* y) {
        return cudnnSoftmaxForward(handle(), algorithm, mode, oneFor(l.x), l.input.get(),
                                   l.x.const_data_ptr(), zeroFor(l.x), l.output.get(), y);
      },
      [=](None&, Layer& l, void* dx) {
        return cudnnSoftmaxBackward(handle(), algorithm, mode, oneFor(l.x), l.output.get(),
                                    l.y.const_data_ptr(), l.output.get(), l.dy.const_data_ptr(),
                                    zeroFor(l.x), l.input.get(), dx);
      });
}

std::vector<Routine> batchNorm(const std::string& name, cudnnBatchNormMode_t mode) {
  struct State {
    std::shared_ptr<Layer> layer;
    at::Tensor scale, bias;
    TensorDescriptor parameters;
    State(at::ScalarType dtype, const std::vector<int64_t>& shape)
        : layer(sameSize(dtype)),
          scale(drawn(shape, 4, dtype)),
          bias(drawn(shape, 5, dtype)),
          parameters(scale) {}
  };
  const auto place = [=](at::ScalarType dtype) {
    std::vector<int64_t> shape{1, kImage[1], 1, 1};
    if (mode == CUDNN_BATCHNORM_PER_ACTIVATION) shape = {1, kImage[1], kImage[2], kImage[3]};
    return std::make_shared<State>(dtype, shape);
  };
  return {{"BatchNormForwardTraining", name, true,
           [=](at::ScalarType dtype) -> Call {
             return [s = place(dtype), mode] {
               auto& l = *s->layer;
               auto y = at::empty_like(l.y);
               auto mean = at::zeros_like(s->scale), variance = at::zeros_like(s->scale);
               auto saved = at::empty_like(mean), inverse = at::empty_like(mean);
               need(cudnnBatchNormalizationForwardTraining(
                        handle(), mode, oneFor(l.x), zeroFor(l.x), l.input.get(),
                        l.x.const_data_ptr(), l.output.get(), y.mutable_data_ptr(),
                        s->parameters.get(), s->scale.const_data_ptr(), s->bias.const_data_ptr(),
                        1.0, mean.mutable_data_ptr(), variance.mutable_data_ptr(), 1e-5,
                        saved.mutable_data_ptr(), inverse.mutable_data_ptr()),
                    "cudnnBatchNormalizationForwardTraining");
               return std::vector{y, mean, variance, saved, inverse};
             };
           }},
          {"BatchNormBackward", name, true, [=](at::ScalarType dtype) -> Call {
             return [s = place(dtype), mode] {
               auto& l = *s->layer;
               auto dx = at::empty_like(l.x);
               auto dScale = at::empty_like(s->scale), dBias = at::empty_like(s->scale);
               need(cudnnBatchNormalizationBackward(
                        handle(), mode, oneFor(l.x), zeroFor(l.x), oneFor(l.x), zeroFor(l.x),
                        l.input.get(), l.x.const_data_ptr(), l.output.get(), l.dy.const_data_ptr(),
                        l.input.get(), dx.mutable_data_ptr(), s->parameters.get(),
                        s->scale.const_data_ptr(), dScale.mutable_data_ptr(),
                        dBias.mutable_data_ptr(), 1e-5, nullptr, nullptr),
                    "cudnnBatchNormalizationBackward");
               return std::vector{dx, dScale, dBias};
             };
           }}};
}

Routine reduction(const std::string& name, cudnnReduceTensorOp_t operation) {
  return {"ReduceTensor", name, true, [=](at::ScalarType dtype) -> Call {
            using D = Descriptor<cudnnReduceTensorDescriptor_t>;
            auto d = std::make_shared<D>(cudnnCreateReduceTensorDescriptor,
                                         cudnnDestroyReduceTensorDescriptor);
            auto layer = std::make_shared<Layer>(drawn(kImage, 1, dtype),
                                                 drawn({1, kImage[1], 1, 1}, 2, dtype), dtype);
            need(cudnnSetReduceTensorDescriptor(d->get(), operation, dataType(layer->x),
                                                CUDNN_PROPAGATE_NAN, CUDNN_REDUCE_TENSOR_NO_INDICES,
                                                CUDNN_32BIT_INDICES),
                 "cudnnSetReduceTensorDescriptor");
            size_t bytes = 0;
            need(cudnnGetReductionWorkspaceSize(handle(), d->get(), layer->input.get(),
                                                layer->output.get(), &bytes),
                 "cudnnGetReductionWorkspaceSize");
            return [=] {
              auto y = at::empty_like(layer->y);
              auto space = at::empty({static_cast<int64_t>(bytes)}, y.options().dtype(at::kByte));
              need(
                  cudnnReduceTensor(handle(), d->get(), nullptr, 0, space.mutable_data_ptr(), bytes,
                                    oneFor(y), layer->input.get(), layer->x.const_data_ptr(),
                                    zeroFor(y), layer->output.get(), y.mutable_data_ptr()),
                  "cudnnReduceTensor");
              return std::vector{y};
            };
          }};
}

Routine biasGradient() {
  return {"ConvolutionBackwardBias", "bias", true, [](at::ScalarType dtype) -> Call {
            auto layer = std::make_shared<Layer>(drawn(kImage, 1, dtype),
                                                 drawn({1, kImage[1], 1, 1}, 2, dtype), dtype);
            return [=] {
              auto db = at::empty_like(layer->y);
              need(cudnnConvolutionBackwardBias(handle(), oneFor(db), layer->input.get(),
                                                layer->x.const_data_ptr(), zeroFor(db),
                                                layer->output.get(), db.mutable_data_ptr()),
                   "cudnnConvolutionBackwardBias");
              return std::vector{db};
            };
          }};
}

// Sampling at random places: the backward adds up where samples share pixels.
std::vector<Routine> sampler() {
  using D = Descriptor<cudnnSpatialTransformerDescriptor_t>;
  struct State {
    std::shared_ptr<Layer> layer;
    at::Tensor grid;
    D descriptor{cudnnCreateSpatialTransformerDescriptor, cudnnDestroySpatialTransformerDescriptor};
  };
  const auto place = [](at::ScalarType dtype) {
    auto s = std::make_shared<State>();
    s->layer = sameSize(dtype);
    s->grid = drawn({kImage[0], kImage[2], kImage[3], 2}, 6, dtype).tanh_();
    const std::array<int, 4> sizes{static_cast<int>(kImage[0]), static_cast<int>(kImage[1]),
                                   static_cast<int>(kImage[2]), static_cast<int>(kImage[3])};
    need(cudnnSetSpatialTransformerNdDescriptor(s->descriptor.get(), CUDNN_SAMPLER_BILINEAR,
                                                dataType(s->grid), 4, sizes.data()),
         "cudnnSetSpatialTransformerNdDescriptor");
    return s;
  };
  return {{"SpatialTfSamplerForward", "bilinear", true,
           [=](at::ScalarType dtype) -> Call {
             return [s = place(dtype)] {
               auto& l = *s->layer;
               auto y = at::empty_like(l.y);
               need(cudnnSpatialTfSamplerForward(handle(), s->descriptor.get(), oneFor(y),
                                                 l.input.get(), l.x.const_data_ptr(),
                                                 s->grid.const_data_ptr(), zeroFor(y),
                                                 l.output.get(), y.mutable_data_ptr()),
                    "cudnnSpatialTfSamplerForward");
               return std::vector{y};
             };
           }},
          {"SpatialTfSamplerBackward", "bilinear", false, [=](at::ScalarType dtype) -> Call {
             return [s = place(dtype)] {
               auto& l = *s->layer;
               auto dx = at::empty_like(l.x), dGrid = at::empty_like(s->grid);
               need(cudnnSpatialTfSamplerBackward(
                        handle(), s->descriptor.get(), oneFor(dx), l.input.get(),
                        l.x.const_data_ptr(), zeroFor(dx), l.input.get(), dx.mutable_data_ptr(),
                        oneFor(dx), l.output.get(), l.dy.const_data_ptr(), s->grid.const_data_ptr(),
                        zeroFor(dx), dGrid.mutable_data_ptr()),
                    "cudnnSpatialTfSamplerBackward");
               return std::vector{dx, dGrid};
             };
           }}};
}

// The same seed again must draw the same mask.
Routine dropout() {
  return {
      "DropoutForward", "seeded", true, [](at::ScalarType dtype) -> Call {
        auto layer = sameSize(dtype);
        size_t stateBytes = 0, reserveBytes = 0;
        need(cudnnDropoutGetStatesSize(handle(), &stateBytes), "cudnnDropoutGetStatesSize");
        need(cudnnDropoutGetReserveSpaceSize(layer->input.get(), &reserveBytes),
             "cudnnDropoutGetReserveSpaceSize");
        return [=] {
          using D = Descriptor<cudnnDropoutDescriptor_t>;
          const D d(cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor);
          const auto bytes = layer->x.options().dtype(at::kByte);
          auto states = at::empty({static_cast<int64_t>(stateBytes)}, bytes);
          auto reserve = at::empty({static_cast<int64_t>(reserveBytes)}, bytes);
          need(cudnnSetDropoutDescriptor(d.get(), handle(), 0.3F, states.mutable_data_ptr(),
                                         stateBytes, 20240229),
               "cudnnSetDropoutDescriptor");
          auto y = at::empty_like(layer->y);
          need(cudnnDropoutForward(handle(), d.get(), layer->input.get(), layer->x.const_data_ptr(),
                                   layer->output.get(), y.mutable_data_ptr(),
                                   reserve.mutable_data_ptr(), reserveBytes),
               "cudnnDropoutForward");
          return std::vector{y};
        };
      }};
}

}  // namespace

std::vector<Routine> layerRoutines() {
  std::vector<Routine> all;
  append(all, pooling("max", CUDNN_POOLING_MAX, false));
  append(all, pooling("max_deterministic", CUDNN_POOLING_MAX_DETERMINISTIC, true));
  append(all, pooling("average_padded", CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, true));
  append(all, pooling("average", CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, true));
  append(all, activation("sigmoid", CUDNN_ACTIVATION_SIGMOID));
  append(all, activation("relu", CUDNN_ACTIVATION_RELU));
  append(all, activation("tanh", CUDNN_ACTIVATION_TANH));
  append(all, activation("elu", CUDNN_ACTIVATION_ELU));
  append(all, localResponse());
  append(all, softmax("accurate_channel", CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL));
  append(all, softmax("accurate_instance", CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE));
  append(all, softmax("log_channel", CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL));
  append(all, batchNorm("per_activation", CUDNN_BATCHNORM_PER_ACTIVATION));
  append(all, batchNorm("spatial", CUDNN_BATCHNORM_SPATIAL));
  append(all, batchNorm("spatial_persistent", CUDNN_BATCHNORM_SPATIAL_PERSISTENT));
  all.push_back(reduction("add", CUDNN_REDUCE_TENSOR_ADD));
  all.push_back(reduction("mul", CUDNN_REDUCE_TENSOR_MUL));
  all.push_back(reduction("avg", CUDNN_REDUCE_TENSOR_AVG));
  all.push_back(reduction("norm2", CUDNN_REDUCE_TENSOR_NORM2));
  all.push_back(reduction("amax", CUDNN_REDUCE_TENSOR_AMAX));
  all.push_back(biasGradient());
  append(all, sampler());
  all.push_back(dropout());
  return all;
}

}  // namespace assay::determinism
#endif
