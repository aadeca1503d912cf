#include "suites/data_parallel/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <set>

namespace assay::data_parallel {
namespace {

std::atomic<int64_t> bytesAlive = 0, storagesAlive = 0;

// Stands before each counted allocation: libraries take raw pointers too, so that nothing but the
// pointer itself may be needed to free one.
struct Header {
  c10::DeleterFnPtr release;
  int64_t bytes;
};
constexpr size_t kHeader = 64;  // keeps the alignment that vector loads want
static_assert(sizeof(Header) <= kHeader);

void release(void* data) {
  if (data == nullptr) return;
  auto* const base = static_cast<char*>(data) - kHeader;
  const Header header = *reinterpret_cast<Header*>(base);
  bytesAlive -= header.bytes;
  --storagesAlive;
  header.release(base);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::Allocator* inner = nullptr;

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, release, at::kCPU};
    auto* const base = static_cast<char*>(inner->raw_allocate(bytes + kHeader));
    *reinterpret_cast<Header*>(base) = {inner->raw_deleter(), static_cast<int64_t>(bytes)};
    bytesAlive += static_cast<int64_t>(bytes);
    ++storagesAlive;
    return {base + kHeader, base + kHeader, release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    inner->copy_data(to, from, bytes);
  }
};

CountingAllocator& counting() {
  static CountingAllocator allocator;
  return allocator;
}

// The priority of fixtures/poison.cpp's allocator, which this one may wrap.
constexpr uint8_t kPriority = 1;

MemoryWatch::InUse onGpu(c10::DeviceIndex gpu) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(gpu);
  return {stats.allocated_bytes[kAll].current, stats.allocation[kAll].current};
}

}  // namespace

MemoryWatch::MemoryWatch(Devices devices)
    : devices_(std::move(devices)), before_(c10::GetCPUAllocator()) {
  bytesAlive = storagesAlive = 0;
  counting().inner = before_;
  c10::SetCPUAllocator(&counting(), kPriority);
}

MemoryWatch::~MemoryWatch() { c10::SetCPUAllocator(before_, kPriority); }

MemoryWatch::InUse MemoryWatch::inUse() const {
  InUse all{bytesAlive, storagesAlive};
  std::set<c10::DeviceIndex> counted;
  for (const auto& device : devices_) {
    if (device.is_cpu() || !counted.insert(device.index()).second) continue;
    const auto gpu = onGpu(device.index());
    all.bytes += gpu.bytes;
    all.storages += gpu.storages;
  }
  return all;
}

}  // namespace assay::data_parallel
