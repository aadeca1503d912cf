// ATen's contract for one row: what use_deterministic_algorithms promises, against what repetitions
// and a CUDA graph show.
#pragma once

#include "fixtures/record.h"
#include "fixtures/variant.h"
#include "suites/determinism/aten_rows.h"

namespace assay::determinism {

// The row repeated in every way that needs no graph.
Record runRow(const AtenRow& row, const Variant& variant, bool smoke);

// The row captured as a CUDA graph: replays must have the bits of the eager call. UNAVAILABLE with
// the reason where it cannot be captured. On a GPU only.
Record runReplayed(const AtenRow& row, const Variant& variant, bool smoke);

}  // namespace assay::determinism
