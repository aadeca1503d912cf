// What ends a command of `assay` with exit code 2: one sentence that says what is wrong and what
// to do.
#pragma once

#include <stdexcept>

namespace assay {

class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace assay
