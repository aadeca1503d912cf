// The calls whose repetition ATen's deterministic mode is measured on: large enough that a kernel
// which adds up with atomics meets itself.
#pragma once

#include <string>
#include <vector>

#include "fixtures/case.h"

namespace assay::determinism {

// What torch.use_deterministic_algorithms's documentation says of the call on a GPU.
enum class Listed {
  kDeterministic,  // "will act deterministically"
  kThrows,         // "will throw a RuntimeError"
  kNotListed,      // hence deterministic, or it has to throw
};

struct AtenRow {
  std::string name;  // "index_add"
  std::string overload;
  bool backward;
  Listed listed;
  nlohmann::json args;

  OperatorFile file() const;
  Case item() const;
};

std::vector<AtenRow> atenRows();

}  // namespace assay::determinism
