// The same call again and again: how often do its bits differ, in how many elements, and by how
// much? Everything stays on the device: a copy and a synchronisation a run would hide the timing in
// which a race shows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace assay::determinism {

// How a call is repeated.
enum class Kind {
  kAgain,        // the same call in the same process
  kOtherStream,  // on another stream
  kMoved,        // outputs and workspace elsewhere in memory
  kUnderLoad,    // while another stream keeps the multiprocessors busy
  kNeighbour,    // while the next GPU is kept busy, where there is one
};
std::string_view kindName(Kind kind);

// What the call writes. The tensors of two calls must not share memory.
using Call = std::function<std::vector<at::Tensor>()>;

struct Spread {
  int64_t runs = 0;       // compared with the first
  int64_t differing = 0;  // runs with other bits than the first
  int64_t elements = 0;   // elements that differ, in the worst run
  double ulp = 0;         // largest distance in units in the last place
  double relative = 0;    // largest |difference| over the output's largest magnitude
  nlohmann::json json() const;
};

// Runs that must be compared so that a call which differs in a share `rate` of its runs is missed
// with a probability of at most `miss`: the smallest n with (1 - rate)^n <= miss.
int64_t runsFor(double rate, double miss);

// (1 - rate)^runs: the probability that such a call is missed.
double missProbability(double rate, int64_t runs);

// Calls `call` `runs` times and compares each output bit by bit with `first`, what an earlier call
// wrote.
Spread repeat(const Call& call, const std::vector<at::Tensor>& first, int64_t runs, Kind kind);

}  // namespace assay::determinism
