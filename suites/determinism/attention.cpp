#ifdef ASSAY_HAS_CUDNN
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <memory>

#include "suites/determinism/cudnn_handle.h"
#include "suites/determinism/routine.h"

namespace assay::determinism {
namespace {

// Batch, steps, heads, width of a vector, and of a head's share of it.
constexpr int kRows = 8, kTime = 24, kHeads = 4, kWidth = 64, kHeadWidth = 16;

struct SequenceDescriptor : Descriptor<cudnnSeqDataDescriptor_t> {
  // Of a tensor (kRows, kTime, kWidth), all of whose steps count; beams: one.
  explicit SequenceDescriptor(const at::Tensor& tensor)
      : Descriptor(cudnnCreateSeqDataDescriptor, cudnnDestroySeqDataDescriptor) {
    std::array<int, CUDNN_SEQDATA_DIM_COUNT> sizes{};
    sizes[CUDNN_SEQDATA_BEAM_DIM] = 1;
    sizes[CUDNN_SEQDATA_BATCH_DIM] = kRows;
    sizes[CUDNN_SEQDATA_TIME_DIM] = kTime;
    sizes[CUDNN_SEQDATA_VECT_DIM] = kWidth;
    const std::array<cudnnSeqDataAxis_t, CUDNN_SEQDATA_DIM_COUNT> order{
        CUDNN_SEQDATA_BEAM_DIM, CUDNN_SEQDATA_BATCH_DIM, CUDNN_SEQDATA_TIME_DIM,
        CUDNN_SEQDATA_VECT_DIM};
    const std::vector<int> steps(kRows, kTime);
    need(cudnnSetSeqDataDescriptor(get(), dataType(tensor), CUDNN_SEQDATA_DIM_COUNT, sizes.data(),
                                   order.data(), steps.size(), steps.data(), nullptr),
         "cudnnSetSeqDataDescriptor");
  }
};

// Multi-head attention with projections of queries, keys, values and the output, every step seeing
// every step.
struct Attention {
  Descriptor<cudnnAttnDescriptor_t> attention{cudnnCreateAttnDescriptor,
                                              cudnnDestroyAttnDescriptor};
  at::Tensor queries, keys, values, dy, weights, lengths, workspace, reserve;
  SequenceDescriptor sequence;
  std::vector<int> from, to;  // the steps that each step sees; on the host

  explicit Attention(at::ScalarType dtype)
      : queries(drawn({kRows, kTime, kWidth}, 1, dtype)),
        keys(drawn({kRows, kTime, kWidth}, 2, dtype)),
        values(drawn({kRows, kTime, kWidth}, 3, dtype)),
        dy(drawn({kRows, kTime, kWidth}, 4, dtype)),
        lengths(at::full({kRows}, kTime, queries.options().dtype(at::kInt))),
        sequence(queries),
        from(kTime, 0),
        to(kTime, kTime) {
    const auto type = dataType(queries);
    need(cudnnSetAttnDescriptor(attention.get(), CUDNN_ATTN_QUERYMAP_ALL_TO_ONE, kHeads,
                                1 / std::sqrt(kHeadWidth), type, type, CUDNN_DEFAULT_MATH, nullptr,
                                nullptr, kWidth, kWidth, kWidth, kHeadWidth, kHeadWidth, kHeadWidth,
                                kWidth, kTime, kTime, kRows, 1),
         "cudnnSetAttnDescriptor");
    size_t weightBytes = 0, workBytes = 0, reserveBytes = 0;
    need(cudnnGetMultiHeadAttnBuffers(handle(), attention.get(), &weightBytes, &workBytes,
                                      &reserveBytes),
         "cudnnGetMultiHeadAttnBuffers");
    weights = drawn({static_cast<int64_t>(weightBytes / queries.element_size())}, 5, dtype);
    weights.mul_(1 / std::sqrt(kWidth));
    workspace = byteBuffer(workBytes, queries);
    reserve = byteBuffer(reserveBytes, queries);
  }

  at::Tensor forward() {
    auto y = at::empty_like(dy);
    need(cudnnMultiHeadAttnForward(
             handle(), attention.get(), -1, from.data(), to.data(), lengths.const_data_ptr<int>(),
             lengths.const_data_ptr<int>(), sequence.get(), queries.const_data_ptr(), nullptr,
             sequence.get(), keys.const_data_ptr(), sequence.get(), values.const_data_ptr(),
             sequence.get(), y.mutable_data_ptr(), weights.nbytes(), weights.const_data_ptr(),
             workspace.nbytes(), workspace.mutable_data_ptr(), reserve.nbytes(),
             reserve.mutable_data_ptr()),
         "cudnnMultiHeadAttnForward");
    return y;
  }

  // Reads what a forward left in the reserve space, and leaves there what backwardWeights reads.
  std::vector<at::Tensor> backwardData() {
    auto dq = at::empty_like(queries), dk = at::empty_like(keys), dv = at::empty_like(values);
    need(cudnnMultiHeadAttnBackwardData(
             handle(), attention.get(), from.data(), to.data(), lengths.const_data_ptr<int>(),
             lengths.const_data_ptr<int>(), sequence.get(), dy.const_data_ptr(), sequence.get(),
             dq.mutable_data_ptr(), queries.const_data_ptr(), sequence.get(), dk.mutable_data_ptr(),
             keys.const_data_ptr(), sequence.get(), dv.mutable_data_ptr(), values.const_data_ptr(),
             weights.nbytes(), weights.const_data_ptr(), workspace.nbytes(),
             workspace.mutable_data_ptr(), reserve.nbytes(), reserve.mutable_data_ptr()),
         "cudnnMultiHeadAttnBackwardData");
    return {dq, dk, dv};
  }

  at::Tensor backwardWeights() {
    auto dWeights = at::zeros_like(weights);
    need(cudnnMultiHeadAttnBackwardWeights(
             handle(), attention.get(), CUDNN_WGRAD_MODE_SET, sequence.get(),
             queries.const_data_ptr(), sequence.get(), keys.const_data_ptr(), sequence.get(),
             values.const_data_ptr(), sequence.get(), dy.const_data_ptr(), weights.nbytes(),
             weights.const_data_ptr(), dWeights.mutable_data_ptr(), workspace.nbytes(),
             workspace.mutable_data_ptr(), reserve.nbytes(), reserve.mutable_data_ptr()),
         "cudnnMultiHeadAttnBackwardWeights");
    return dWeights;
  }
};

using Passes = std::vector<at::Tensor> (*)(Attention& attention);

Routine routine(const std::string& name, Passes passes) {
  return {.name = name,
          .algorithm = "default",
          .promised = true,
          .prepare = [=](at::ScalarType dtype) -> Call {
            return [s = std::make_shared<Attention>(dtype), passes] { return passes(*s); };
          }};
}

}  // namespace

std::vector<Routine> attentionRoutines() {
  return {routine("MultiHeadAttnForward", [](Attention& a) { return std::vector{a.forward()}; }),
          routine("MultiHeadAttnBackwardData",
                  [](Attention& a) {
                    a.forward();
                    return a.backwardData();
                  }),
          routine("MultiHeadAttnBackwardWeights", [](Attention& a) {
            a.forward();
            a.backwardData();
            return std::vector{a.backwardWeights()};
          })};
}

}  // namespace assay::determinism
#endif
