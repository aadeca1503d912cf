// The same check on several GPUs of one machine: do they give the same bytes? cuDNN promises it for
// one architecture and SM count; a GPU that alone differs from its twins is worth a second look.
#pragma once

#include <map>
#include <string>

#include "tools/assay/records.h"

namespace assay {

struct Twins {
  size_t compared = 0;                      // checks that passed on two or more GPUs
  size_t equal = 0;                         // with one digest
  bool alike = true;                        // all GPUs of one name, compute capability and SM count
  std::map<std::string, size_t> differing;  // operator → checks
};
Twins compareGpus(const Run& run);

// "between GPUs: 40 checks, 38 with equal bytes; different: conv2d (2)"; empty: one GPU, or none.
std::string twinsLine(const Twins& twins);

}  // namespace assay
