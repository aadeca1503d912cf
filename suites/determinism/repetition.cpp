#include "suites/determinism/repetition.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "suites/determinism/load.h"

namespace assay::determinism {
namespace {

at::Tensor bits(const at::Tensor& tensor) {
  auto flat = tensor.contiguous();
  if (flat.is_complex()) return bits(at::view_as_real(flat));
  switch (flat.element_size()) {
    case 8:
      return flat.view(at::kLong);
    case 4:
      return flat.view(at::kInt);
    case 2:
      return flat.view(at::kShort);
    default:
      return flat;
  }
}

// Bits as integers in the order of the numbers that they spell: neighbours differ by one.
at::Tensor ordered(const at::Tensor& tensor) {
  auto raw = bits(tensor).to(at::kLong);
  if (!tensor.is_floating_point()) return raw;
  const int64_t top = tensor.element_size() == 8 ? std::numeric_limits<int64_t>::min()
                                                 : -(int64_t{1} << (8 * tensor.element_size() - 1));
  return at::where(raw < 0, top - raw, raw);
}

constexpr int64_t kMeasured = 64;  // differing runs whose distance is measured

// Elements with other bits, over all outputs; a number on the device.
at::Tensor differences(const std::vector<at::Tensor>& outputs,
                       const std::vector<at::Tensor>& first) {
  auto count = at::ne(bits(outputs[0]), bits(first[0])).sum();
  for (size_t k = 1; k < outputs.size(); ++k)
    count += at::ne(bits(outputs[k]), bits(first[k])).sum();
  return count;
}

void measure(Spread& spread, const std::vector<at::Tensor>& outputs,
             const std::vector<at::Tensor>& first) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto &a = outputs[k], &b = first[k];
    if (!a.numel()) continue;
    const auto type = a.is_complex() ? at::kComplexDouble : at::kDouble;
    const auto ulp = (ordered(a).to(at::kDouble) - ordered(b).to(at::kDouble)).abs().max();
    const auto largest = (a.to(type) - b.to(type)).abs().nan_to_num(0).max();
    const auto size = b.to(type).abs().nan_to_num(0).max().clamp_min(1e-300);
    spread.ulp = std::max(spread.ulp, ulp.item<double>());
    spread.relative = std::max(spread.relative, (largest / size).item<double>());
  }
}

}  // namespace

std::string_view kindName(Kind kind) {
  switch (kind) {
    case Kind::kAgain:
      return "again";
    case Kind::kOtherStream:
      return "other_stream";
    case Kind::kMoved:
      return "moved";
    case Kind::kUnderLoad:
      return "under_load";
    case Kind::kNeighbour:
      return "neighbour_under_load";
  }
  return "";
}

nlohmann::json Spread::json() const {
  return {{"runs", runs},
          {"differing", differing},
          {"elements", elements},
          {"ulp", ulp},
          {"relative", relative}};
}

int64_t runsFor(double rate, double miss) {
  if (!(rate > 0 && rate < 1 && miss > 0 && miss < 1))
    throw std::invalid_argument("a rate and a probability lie between 0 and 1");
  return static_cast<int64_t>(std::ceil(std::log(miss) / std::log1p(-rate)));
}

double missProbability(double rate, int64_t runs) {
  return std::pow(1 - rate, static_cast<double>(runs));
}

Spread repeat(const Call& call, const std::vector<at::Tensor>& first, int64_t runs, Kind kind) {
  const auto device = first.at(0).device();
  const Elsewhere elsewhere(device, kind == Kind::kOtherStream);
  std::optional<Load> load;
  if (kind == Kind::kUnderLoad) load.emplace(device);
  if (kind == Kind::kNeighbour) load.emplace(neighbourOf(device).value());
  std::vector<at::Tensor> held;  // memory that the allocator cannot hand out again meanwhile
  Spread spread{.runs = runs};
  for (int64_t done = 0; done < runs;) {
    // A batch of runs without a synchronisation; then how much those differ that do.
    std::vector<std::vector<at::Tensor>> batch;
    std::vector<at::Tensor> counts;
    for (; done < runs && batch.size() < 32; ++done) {
      if (load) load->feed();
      batch.push_back(call());
      if (batch.back().size() != first.size())
        throw std::logic_error("a call gave another count of outputs");
      counts.push_back(differences(batch.back(), first));
      if (kind == Kind::kMoved) held.push_back(batch.back().at(0));
    }
    const auto elements = at::stack(counts).cpu();
    for (size_t run = 0; run < batch.size(); ++run) {
      const auto count = elements[static_cast<int64_t>(run)].item<int64_t>();
      if (!count) continue;
      spread.elements = std::max(spread.elements, count);
      if (++spread.differing <= kMeasured) measure(spread, batch[run], first);
    }
  }
  return spread;
}

}  // namespace assay::determinism
