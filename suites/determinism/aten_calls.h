// A row as a call that can be repeated: with the row's own inputs, with some of each of them (other
// shapes), or with inputs that begin at another address.
#pragma once

#include <vector>

#include "fixtures/variant.h"
#include "suites/determinism/aten_rows.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {

struct Form {
  bool otherShape = false;  // three quarters of the batch
  int64_t offset = 0;       // bytes from an allocation's beginning to each floating input's
};

// Outputs, or the floating inputs' gradients where the row is one of a backward pass.
Call callOf(const AtenRow& row, const Variant& variant, const Form& form = {});

// The call after another shape was run in between (libraries keep plans and choices by shape), with
// inputs at other alignments, and, for what cuDNN benchmarks, with its benchmark on.
std::vector<Repeated> otherConditions(const AtenRow& row, const Variant& variant, const Call& call,
                                      const std::vector<at::Tensor>& first, bool smoke);

}  // namespace assay::determinism
