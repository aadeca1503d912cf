// What calls leave behind: tensor memory that is still in use on the devices they ran on.
#pragma once

#include <cstdint>

#include "suites/data_parallel/parallel.h"

namespace assay::data_parallel {

// While it lives, the CPU's allocations are counted (those of GPUs LibTorch's caching allocator
// counts anyway). One at a time, and no allocation on another thread while it begins or ends.
class MemoryWatch {
 public:
  struct InUse {
    int64_t bytes = 0, storages = 0;
  };

  explicit MemoryWatch(Devices devices);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Of a CPU: allocated since the watch began, and not freed.
  InUse inUse() const;

 private:
  Devices devices_;
  c10::Allocator* before_;
};

}  // namespace assay::data_parallel
