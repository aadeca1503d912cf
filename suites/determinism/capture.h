// A call as a CUDA graph, captured once and replayed.
#pragma once

#include <string>

#include "suites/determinism/verdict.h"

namespace assay::determinism {

// `replay`: fills the outputs' memory with a pattern, replays the graph and copies the outputs;
// empty where the call cannot be captured, and then `refused` says why.
struct Captured {
  Call replay;
  std::string refused;
};

// Captures the call on the current GPU. A call that waits for the device is refused before the
// capture is tried, since CUDA would invalidate the capture there.
Captured capture(const Call& call);

// Replays must have the bits of the eager call where those are promised. UNAVAILABLE with the
// reason where the call cannot be captured.
void judgeReplayed(Record& record, const Subject& subject, bool smoke);

}  // namespace assay::determinism
