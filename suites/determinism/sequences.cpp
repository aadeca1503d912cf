#ifdef ASSAY_HAS_CUDNN
#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "suites/determinism/cudnn_handle.h"
#include "suites/determinism/routine.h"

namespace assay::determinism {
namespace {

// Steps, batch and alphabet of the CTC losses; blank is 0.
constexpr int kSteps = 50, kBatch = 16, kAlphabet = 20, kLabels = 12;

struct Ctc {
  at::Tensor logits, labels, labelLengths, inputLengths;
  TensorDescriptor descriptor;
  Descriptor<cudnnCTCLossDescriptor_t> loss{cudnnCreateCTCLossDescriptor,
                                            cudnnDestroyCTCLossDescriptor};
  explicit Ctc(at::ScalarType dtype)
      : logits(drawn({kSteps, kBatch, kAlphabet}, 1, dtype)),
        // labels repeat, so that several steps add to one symbol's gradient
        labels(at::arange(kBatch * kLabels, at::kInt).remainder(5).add(1)),
        labelLengths(at::full({kBatch}, kLabels, at::kInt)),
        inputLengths(at::full({kBatch}, kSteps, at::kInt)),
        descriptor(logits, 3) {}
};

Routine ctc(const std::string& name, cudnnCTCLossAlgo_t algorithm, bool promised) {
  return {"CTCLoss", name, promised, [=](at::ScalarType dtype) -> Call {
            auto s = std::make_shared<Ctc>(dtype);
            need(cudnnSetCTCLossDescriptorEx(s->loss.get(), dataType(s->logits),
                                             CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN),
                 "cudnnSetCTCLossDescriptorEx");
            return [=] {
              size_t bytes = 0;
              const auto* labels = s->labels.const_data_ptr<int>();
              const auto* labelLengths = s->labelLengths.const_data_ptr<int>();
              const auto* inputLengths = s->inputLengths.const_data_ptr<int>();
              need(cudnnGetCTCLossWorkspaceSize(handle(), s->descriptor.get(), s->descriptor.get(),
                                                labels, labelLengths, inputLengths, algorithm,
                                                s->loss.get(), &bytes),
                   "cudnnGetCTCLossWorkspaceSize");
              auto space = byteBuffer(bytes, s->logits);
              auto costs = at::empty({kBatch}, s->logits.options());
              auto gradients = at::empty_like(s->logits);
              need(cudnnCTCLoss(handle(), s->descriptor.get(), s->logits.const_data_ptr(), labels,
                                labelLengths, inputLengths, costs.mutable_data_ptr(),
                                s->descriptor.get(), gradients.mutable_data_ptr(), algorithm,
                                s->loss.get(), space.mutable_data_ptr(), bytes),
                   "cudnnCTCLoss");
              return std::vector{costs, gradients};
            };
          }};
}

Routine ctcOnDevice(const std::string& name, cudnnCTCLossAlgo_t algorithm, bool promised) {
  return {"CTCLoss_v8", name, promised, [=](at::ScalarType dtype) -> Call {
            auto s = std::make_shared<Ctc>(dtype);
            for (auto* one : {&s->labels, &s->labelLengths, &s->inputLengths})
              *one = one->to(s->logits.device());
            need(cudnnSetCTCLossDescriptor_v8(s->loss.get(), dataType(s->logits),
                                              CUDNN_LOSS_NORMALIZATION_SOFTMAX, CUDNN_PROPAGATE_NAN,
                                              kLabels),
                 "cudnnSetCTCLossDescriptor_v8");
            return [=] {
              size_t bytes = 0;
              need(
                  cudnnGetCTCLossWorkspaceSize_v8(handle(), algorithm, s->loss.get(),
                                                  s->descriptor.get(), s->descriptor.get(), &bytes),
                  "cudnnGetCTCLossWorkspaceSize_v8");
              auto space = byteBuffer(bytes, s->logits);
              auto costs = at::empty({kBatch}, s->logits.options());
              auto gradients = at::empty_like(s->logits);
              need(cudnnCTCLoss_v8(handle(), algorithm, s->loss.get(), s->descriptor.get(),
                                   s->logits.const_data_ptr(), s->labels.const_data_ptr<int>(),
                                   s->labelLengths.const_data_ptr<int>(),
                                   s->inputLengths.const_data_ptr<int>(), costs.mutable_data_ptr(),
                                   s->descriptor.get(), gradients.mutable_data_ptr(), bytes,
                                   space.mutable_data_ptr()),
                   "cudnnCTCLoss_v8");
              return std::vector{costs, gradients};
            };
          }};
}

// A two-layer LSTM: steps, batch, inputs, units.
constexpr int kTime = 20, kRows = 16, kInputs = 64, kUnits = 64, kLayers = 2;

struct Recurrent {
  Descriptor<cudnnRNNDescriptor_t> network{cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor};
  Descriptor<cudnnRNNDataDescriptor_t> input{cudnnCreateRNNDataDescriptor,
                                             cudnnDestroyRNNDataDescriptor};
  Descriptor<cudnnRNNDataDescriptor_t> output{cudnnCreateRNNDataDescriptor,
                                              cudnnDestroyRNNDataDescriptor};
  Descriptor<cudnnDropoutDescriptor_t> noDropout{cudnnCreateDropoutDescriptor,
                                                 cudnnDestroyDropoutDescriptor};
  at::Tensor x, dy, lengths, states, weights, workspace, reserve;
  TensorDescriptor hidden;

  Recurrent(at::ScalarType dtype, cudnnRNNAlgo_t algorithm, cudnnMathType_t math)
      : x(drawn({kTime, kRows, kInputs}, 1, dtype)),
        dy(drawn({kTime, kRows, kUnits}, 2, dtype)),
        lengths(at::full({kRows}, kTime, at::TensorOptions(x.device()).dtype(at::kInt))),
        states(at::zeros({kLayers, kRows, kUnits}, x.options())),
        hidden(states, 3) {
    const auto type = dataType(x);
    need(cudnnSetDropoutDescriptor(noDropout.get(), handle(), 0, nullptr, 0, 0),
         "cudnnSetDropoutDescriptor");
    need(cudnnSetRNNDescriptor_v8(network.get(), algorithm, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
                                  CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, type, math,
                                  kInputs, kUnits, kUnits, kLayers, noDropout.get(), 0),
         "cudnnSetRNNDescriptor_v8");
    if (algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC)
      need(cudnnBuildRNNDynamic(handle(), network.get(), kRows), "cudnnBuildRNNDynamic");
    const std::vector<int> steps(kRows, kTime);
    for (auto [data, width] : {std::pair{&input, kInputs}, std::pair{&output, kUnits}}) {
      need(cudnnSetRNNDataDescriptor(data->get(), type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                     kTime, kRows, width, steps.data(), nullptr),
           "cudnnSetRNNDataDescriptor");
    }
    size_t weightBytes = 0, workBytes = 0, reserveBytes = 0;
    need(cudnnGetRNNWeightSpaceSize(handle(), network.get(), &weightBytes),
         "cudnnGetRNNWeightSpaceSize");
    need(cudnnGetRNNTempSpaceSizes(handle(), network.get(), CUDNN_FWD_MODE_TRAINING, input.get(),
                                   &workBytes, &reserveBytes),
         "cudnnGetRNNTempSpaceSizes");
    weights = drawn({static_cast<int64_t>(weightBytes / x.element_size())}, 3, dtype).mul_(0.1);
    workspace = byteBuffer(workBytes, x);
    reserve = byteBuffer(reserveBytes, x);
  }

  at::Tensor forward() {
    auto y = at::empty_like(dy);
    need(cudnnRNNForward(handle(), network.get(), CUDNN_FWD_MODE_TRAINING,
                         lengths.const_data_ptr<int>(), input.get(), x.const_data_ptr(),
                         output.get(), y.mutable_data_ptr(), hidden.get(), states.const_data_ptr(),
                         nullptr, hidden.get(), states.const_data_ptr(), nullptr, weights.nbytes(),
                         weights.const_data_ptr(), workspace.nbytes(), workspace.mutable_data_ptr(),
                         reserve.nbytes(), reserve.mutable_data_ptr()),
         "cudnnRNNForward");
    return y;
  }

  std::vector<at::Tensor> backward(const at::Tensor& y) {
    auto dx = at::empty_like(x), dWeights = at::zeros_like(weights);
    need(cudnnRNNBackwardData_v8(handle(), network.get(), lengths.const_data_ptr<int>(),
                                 output.get(), y.const_data_ptr(), dy.const_data_ptr(), input.get(),
                                 dx.mutable_data_ptr(), hidden.get(), states.const_data_ptr(),
                                 nullptr, nullptr, hidden.get(), states.const_data_ptr(), nullptr,
                                 nullptr, weights.nbytes(), weights.const_data_ptr(),
                                 workspace.nbytes(), workspace.mutable_data_ptr(), reserve.nbytes(),
                                 reserve.mutable_data_ptr()),
         "cudnnRNNBackwardData_v8");
    need(cudnnRNNBackwardWeights_v8(
             handle(), network.get(), CUDNN_WGRAD_MODE_ADD, lengths.const_data_ptr<int>(),
             input.get(), x.const_data_ptr(), hidden.get(), states.const_data_ptr(), output.get(),
             y.const_data_ptr(), weights.nbytes(), dWeights.mutable_data_ptr(), workspace.nbytes(),
             workspace.mutable_data_ptr(), reserve.nbytes(), reserve.mutable_data_ptr()),
         "cudnnRNNBackwardWeights_v8");
    return {dx, dWeights};
  }
};

std::vector<Routine> recurrent(const std::string& name, cudnnRNNAlgo_t algorithm,
                               cudnnMathType_t math) {
  return {{"RNNForward", name, true,
           [=](at::ScalarType dtype) -> Call {
             return [s = std::make_shared<Recurrent>(dtype, algorithm, math)] {
               return std::vector{s->forward()};
             };
           }},
          {"RNNBackward", name, true, [=](at::ScalarType dtype) -> Call {
             // The backward reads what a forward left in the reserve space, and may spoil it.
             return [s = std::make_shared<Recurrent>(dtype, algorithm, math)] {
               return s->backward(s->forward());
             };
           }}};
}

}  // namespace

std::vector<Routine> sequenceRoutines() {
  std::vector<Routine> all;
  const auto both = [&](const std::string& name, cudnnCTCLossAlgo_t algorithm, bool promised) {
    all.push_back(ctc(name, algorithm, promised));
    all.push_back(ctcOnDevice(name, algorithm, promised));
  };
  both("deterministic", CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, true);
  both("non_deterministic", CUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC, false);
  for (const auto& [name, algorithm] :
       {std::pair{"standard", CUDNN_RNN_ALGO_STANDARD},
        std::pair{"persist_static", CUDNN_RNN_ALGO_PERSIST_STATIC},
        std::pair{"persist_dynamic", CUDNN_RNN_ALGO_PERSIST_DYNAMIC},
        std::pair{"persist_static_small_h", CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H}}) {
    for (const auto& [suffix, math] :
         {std::pair{"_fma", CUDNN_FMA_MATH}, std::pair{"_tensor", CUDNN_DEFAULT_MATH}}) {
      for (auto& one : recurrent(std::string(name) + suffix, algorithm, math)) all.push_back(one);
    }
  }
  return all;
}

}  // namespace assay::determinism
#endif
