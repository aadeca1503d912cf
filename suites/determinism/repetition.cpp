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
  const auto flat = tensor.contiguous();
  if (flat.is_complex()) return bits(at::view_as_real(flat));
  switch (flat.element_size()) {
    case 8:
      return flat.view(at::kLong);
    case 4:
      return flat.view(at::kInt);
    default:
      return flat;
  }
}

// Bits as integers in the order of the numbers that they spell: neighbours differ by one.
at::Tensor ordered(const at::Tensor& tensor) {
  const auto raw = bits(tensor).to(at::kLong);
  if (!tensor.is_floating_point()) return raw;
  const int64_t top = tensor.scalar_type() == at::kDouble ? std::numeric_limits<int64_t>::min()
                                                          : -(int64_t{1} << 31);
  return at::where(raw < 0, top - raw, raw);
}

// Of two results: elements with other bits, largest distance in units in the last place, largest
// |difference| over the largest magnitude of the first. A tensor of three on the device.
at::Tensor compare(const at::Tensor& a, const at::Tensor& b) {
  if (!a.numel()) return at::zeros({3}, b.options().dtype(at::kDouble));
  const auto type = a.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto elements = at::ne(bits(a), bits(b)).sum().to(at::kDouble);
  const auto ulp = (ordered(a).to(at::kDouble) - ordered(b).to(at::kDouble)).abs().max();
  const auto largest = (a.to(type) - b.to(type)).abs().nan_to_num(0).max();
  const auto size = b.to(type).abs().nan_to_num(0).max().clamp_min(1e-300);
  return at::stack({elements, ulp, largest / size});
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
  std::vector<at::Tensor> held;  // memory that the allocator cannot hand out again meanwhile
  std::vector<at::Tensor> seen;
  for (int64_t run = 0; run < runs; ++run) {
    if (load) load->feed();
    const auto outputs = call();
    if (outputs.size() != first.size())
      throw std::logic_error("a call gave another count of outputs");
    for (size_t k = 0; k < outputs.size(); ++k) seen.push_back(compare(outputs[k], first[k]));
    if (kind == Kind::kMoved) held.push_back(outputs.at(0));
  }
  const auto figures = at::stack(seen).view({runs, -1, 3}).cpu();
  const auto elements = figures.select(2, 0).sum(1);
  return {.runs = runs,
          .differing = at::gt(elements, 0).sum().item<int64_t>(),
          .elements = static_cast<int64_t>(elements.max().item<double>()),
          .ulp = figures.select(2, 1).max().item<double>(),
          .relative = figures.select(2, 2).max().item<double>()};
}

}  // namespace assay::determinism
