#include <ATen/ATen.h>

#include <cstring>

#include "fixtures/draw.h"
#include "suites/data_parallel/parts.h"

namespace assay::data_parallel {
namespace {

// Around the borders of vector loads, pages, packets, small and large pages of a GPU and the
// pieces in which a driver stages a copy.
std::vector<int64_t> sizes() {
  std::vector<int64_t> all{1, 2, 3, 4, 7, 8, 15, 16, 17};
  for (const int64_t border : {32, 64, 128, 256, 512, 1024, 4096, 65536, 1 << 20, 1 << 21}) {
    for (const int64_t off : {-1, 0, 1}) all.push_back(border + off);
  }
  all.push_back((1 << 22) + 12345);
  return all;
}

at::Tensor randomBytes(int64_t count) {
  const nlohmann::json spec{{"kind", "integers"},
                            {"shape", {count}},
                            {"key", {20240229, count}},
                            {"low", 0},
                            {"high", 256}};
  return draw(spec).to(at::kByte);
}

// Bits of every class of a format with `fraction` bits behind the point: both signs, every
// exponent, and of each the fractions 0, 1, all ones, the quiet bit alone, and alternating bits:
// NaNs with payloads, quiet and signalling, subnormals, zeros and infinities among them.
template <typename Word>
at::Tensor patterns(int fraction, int exponentBits, at::ScalarType bits, at::ScalarType type) {
  const uint64_t ones = (uint64_t{1} << fraction) - 1;
  const uint64_t quiet = uint64_t{1} << (fraction - 1);
  const uint64_t alternating = 0x5555555555555555ULL & ones;
  std::vector<Word> all;
  for (uint64_t high = 0; high < uint64_t{1} << (exponentBits + 1); ++high) {
    for (const uint64_t rest :
         {uint64_t{0}, uint64_t{1}, ones, quiet, quiet | 1, quiet - 1, alternating})
      all.push_back(static_cast<Word>(high << fraction | rest));
  }
  auto tensor = at::empty({static_cast<int64_t>(all.size())}, bits);
  std::memcpy(tensor.data_ptr(), all.data(), all.size() * sizeof(Word));
  return tensor.view(type);
}

// As bytes, wherever it is: no float is read on the way, which could quiet a NaN.
at::Tensor bytesOf(const at::Tensor& tensor) {
  return tensor.contiguous().view(at::kByte).cpu().flatten();
}

// What goes the direct way and the way through the host.
struct Route {
  Tally& tally;
  at::Device from, to;
  const Copy& copy;

  // `host` on `from`, seen by `view`, then on `to`.
  void send(const std::string& what, const at::Tensor& host,
            const std::function<at::Tensor(const at::Tensor&)>& view) const {
    const auto want = bytesOf(view(host));
    const auto source = view(host.to(from));
    const auto direct = copy(source, to);
    tally.demand(direct.device() == to, what + " came to another device");
    compare(what, direct, want);
    compare(what + " through the host", source.to(at::kCPU).to(to), want);
    compare(what + " at its source, behind the copy", source, want);
  }

 private:
  void compare(const std::string& what, const at::Tensor& got, const at::Tensor& want) const {
    const auto bytes = bytesOf(got);
    const bool fits = bytes.sizes() == want.sizes();
    const int64_t wrong = fits ? bytes.ne(want).sum().item<int64_t>() : want.numel();
    tally.demand(wrong == 0, what + ": " + std::to_string(wrong) + " of " +
                                 std::to_string(want.numel()) + " bytes differ");
  }
};

void sendViews(const Route& route, const std::string& what, const at::Tensor& host) {
  route.send(what, host, [](const at::Tensor& x) { return x; });
  route.send(what + ", behind one element", host,
             [](const at::Tensor& x) { return x.slice(0, 1); });
  route.send(what + ", every second element", host,
             [](const at::Tensor& x) { return x.slice(0, 0, x.size(0), 2); });
}

}  // namespace

Copy directCopy() {
  return [](const at::Tensor& tensor, at::Device to) {
    return tensor.to(to, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  };
}

Record copies(at::Device from, at::Device to, const Variant&, const Copy& copy) {
  Record record;
  Tally tally(record, "float32");
  record.verdict.gauge = GaugeKind::kExact;
  record.verdict.bound = 0;
  record.why = "a copy";
  record.details["pair"] = {from.str(), to.str()};
  const Route route{tally, from, to, copy};
  for (const int64_t count : sizes()) {
    const auto bytes = randomBytes(count);
    route.send(std::to_string(count) + " bytes", bytes, [](const at::Tensor& x) { return x; });
    if (count > 1)
      route.send(std::to_string(count) + " bytes, behind one", bytes,
                 [](const at::Tensor& x) { return x.slice(0, 1); });
  }
  sendViews(route, "float32 patterns", patterns<uint32_t>(23, 8, at::kInt, at::kFloat));
  sendViews(route, "float64 patterns", patterns<uint64_t>(52, 11, at::kLong, at::kDouble));
  sendViews(route, "float16 patterns", patterns<uint16_t>(10, 5, at::kShort, at::kHalf));
  sendViews(route, "bfloat16 patterns", patterns<uint16_t>(7, 8, at::kShort, at::kBFloat16));
  return record;
}

std::vector<Part> copyParts(const std::vector<std::pair<at::Device, at::Device>>& pairs) {
  std::vector<Part> parts;
  parts.reserve(pairs.size());
  for (const auto& [from, to] : pairs) {
    parts.push_back({.model = "copy",
                     .name = deviceName(from.str()) + "_to_" + deviceName(to.str()),
                     .smoke = true,
                     .dtypes = {"float32"},  // the patterns of every dtype are in each
                     .run = [from = from, to = to](const Variant& variant) {
                       return copies(from, to, variant, directCopy());
                     }});
  }
  return parts;
}

}  // namespace assay::data_parallel
