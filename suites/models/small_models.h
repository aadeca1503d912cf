// One of each other kind of model that a GPU farm runs, small: a causal decoder with a cache of
// keys and values, an LSTM language model, a 2-D U-Net, a depthwise CNN. Each run gives what its
// golden observes.
#pragma once

#include "suites/models/observed_suite.h"

namespace assay::models {

// What a test plants in one of them.
enum class SmallSlip {
  kNothing,
  kCacheOffByOne,    // a decoded token does not see the newest key
  kCacheOfWrongRow,  // the cache of another sequence of the batch
  kNoCausalMask,
  kMomentum,        // 0.9 for 0.1: the other meaning of the word
  kBiasedVariance,  // running variance over n for n - 1
  kTrainForEval,
  kGateOrder,     // i and f swapped
  kSkipDropped,   // zeros for the first level's skip
  kGroupsShifted  // each depthwise filter on its neighbour's channel
};

Run runCausalDecoder(const ObservedModel& golden, const Variant& variant, Look look,
                     SmallSlip slip = SmallSlip::kNothing);
// Its attention by at::scaled_dot_product_attention.
Run runCausalDecoderFused(const ObservedModel& golden, const Variant& variant, Look look,
                          SmallSlip slip = SmallSlip::kNothing);
Run runLstm(const ObservedModel& golden, const Variant& variant, Look look,
            SmallSlip slip = SmallSlip::kNothing);
Run runUnet(const ObservedModel& golden, const Variant& variant, Look look,
            SmallSlip slip = SmallSlip::kNothing);
Run runDepthwiseCnn(const ObservedModel& golden, const Variant& variant, Look look,
                    SmallSlip slip = SmallSlip::kNothing);

std::vector<Subject> smallSubjects();

}  // namespace assay::models
