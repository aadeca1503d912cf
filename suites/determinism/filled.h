// Memory that nobody wrote: under use_deterministic_algorithms(true) with
// fill_uninitialized_memory, a new tensor is full of NaN, of the largest integer, or of true.
#pragma once

#include <string>
#include <vector>

#include "fixtures/record.h"
#include "fixtures/variant.h"

namespace assay::determinism {

// The calls that the documentation of torch.utils.deterministic.fill_uninitialized_memory names.
const std::vector<std::string>& fillingCalls();

// One of them in the variant's dtype (also int64 and bool) and device. `fill`: the setting; off,
// the memory's old contents show and the check fails.
Record runFilled(const std::string& call, const Variant& variant, bool fill = true);

}  // namespace assay::determinism
