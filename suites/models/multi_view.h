// Some steps of training of the multi-view transformer, as the golden made them.
#pragma once

#include "suites/models/observed_suite.h"
#include "suites/models/transformer.h"

namespace assay::models {

// How the same model is run.
struct EncoderForm {
  Planted planted = Planted::kNothing;
  bool fused = false;  // at::scaled_dot_product_attention
};

// The golden's steps on the variant's device: every step's loss, probabilities and watched weights,
// and all layers and gradients of the first.
Run trainSteps(const ObservedModel& golden, const Variant& variant, Look look,
               const EncoderForm& form = {});

}  // namespace assay::models
