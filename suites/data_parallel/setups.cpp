#include "suites/data_parallel/collectives.h"
#include "suites/data_parallel/resnet.h"

namespace assay::data_parallel {
namespace {

at::Device gpu(size_t k) { return {at::kCUDA, static_cast<c10::DeviceIndex>(k)}; }

void append(std::vector<Part>& parts, std::vector<Part> more, const std::string& suffix = "") {
  for (auto& part : more) {
    part.name += suffix;
    parts.push_back(std::move(part));
  }
}

void appendAll(std::vector<Part>& parts, const Goldens& goldens, const Setup& setup) {
  append(parts, trainingParts(goldens, setup));
  append(parts, contractParts(goldens, setup));
  append(parts, differenceParts(goldens, setup));
  append(parts, resnetParts(goldens.resnet, setup));
}

// The first two, three, four and eight GPUs, all of them, and all in reverse.
std::vector<Devices> groups(size_t gpus) {
  std::vector<Devices> all;
  Devices devices;
  for (size_t k = 0; k < gpus; ++k) {
    devices.push_back(gpu(k));
    const size_t count = devices.size();
    if (count == gpus || count == 2 || count == 3 || count == 4 || count == 8)
      all.push_back(devices);
  }
  all.emplace_back(devices.rbegin(), devices.rend());
  return all;
}

}  // namespace

Setup onOneDevice(at::Device device, size_t count, bool whole) {
  return {Devices(count, device), device, whole};
}

Setup overGpus(size_t gpus, size_t count, bool whole, bool outputLast) {
  Setup setup{{}, gpu(0), whole};
  for (size_t k = 0; k < count; ++k) setup.devices.push_back(gpu(k % gpus));
  if (outputLast) setup.output = setup.devices.back();
  return setup;
}

std::vector<Part> oneDeviceParts(at::Device device, const Goldens& goldens) {
  std::vector<Part> parts;
  for (const size_t count : {1, 2, 3, 4, 8}) {
    appendAll(parts, goldens, onOneDevice(device, count, false));
    // data_parallel itself refuses a list of CPUs.
    if (!device.is_cpu()) appendAll(parts, goldens, onOneDevice(device, count, true));
  }
  append(parts, copyParts({{device, device}}));
  return parts;
}

std::vector<Part> severalGpuParts(size_t gpus, const Goldens& goldens) {
  std::vector<Part> parts;
  for (const size_t count : {2, 3, 4, 8}) {
    for (const bool whole : {false, true})
      appendAll(parts, goldens, overGpus(gpus, count, whole, false));
    const auto last = overGpus(gpus, count, true, true);
    if (last.output != last.home()) append(parts, trainingParts(goldens, last), "_output_last");
  }
  std::vector<std::pair<at::Device, at::Device>> pairs;
  for (size_t from = 0; from < gpus; ++from) {
    for (size_t to = 0; to < gpus; ++to) pairs.emplace_back(gpu(from), gpu(to));
  }
  append(parts, copyParts(pairs));
  append(parts, collectiveParts(groups(gpus)));
  return parts;
}

}  // namespace assay::data_parallel
