#include "suites/models/small_models.h"

#include "suites/models/layers.h"

namespace assay::models {
namespace {

template <typename Function>
Subject subject(const std::string& name, Function run, double cudnnFactor = 1) {
  return {.name = name,
          .run = [run](const ObservedModel& golden, const Variant& variant,
                       Look look) { return run(golden, variant, look, SmallSlip::kNothing); },
          .cudnnFactor = cudnnFactor};
}

}  // namespace

std::vector<Subject> smallSubjects() {
  // docs/numerics.md#cudnn-rnn: cuDNN's recurrent kernels are held to 128 where others are to 16.
  auto fused = subject("causal_decoder", runCausalDecoderFused);
  fused.form = "fused";
  fused.gives = outsideOfAttention;
  return {subject("causal_decoder", runCausalDecoder), fused,
          subject("lstm_language_model", runLstm, 128.0 / 16), subject("unet", runUnet),
          subject("depthwise_cnn", runDepthwiseCnn)};
}

}  // namespace assay::models
