#include "tools/assay/arithmetic.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a floating dtype can hold.
struct Floats {
  int digits;    // of the significand
  int smallest;  // exponent of the smallest normal number
  double largest;
};
constexpr Floats kFloat{24, -126, 3.4028234663852886e38};
constexpr Floats kDouble{53, -1022, std::numeric_limits<double>::max()};

// The distance between neighbours at x, a number that is `below` a power of two where x is one.
double spacing(const Floats& floats, double x, bool below) {
  int exponent = floats.smallest;
  if (x != 0) {
    exponent = std::ilogb(x);
    if (below && std::scalbn(1.0, exponent) == std::fabs(x)) --exponent;
  }
  return std::scalbn(1.0, std::max(exponent, floats.smallest) - (floats.digits - 1));
}

template <typename From, typename To>
std::vector<To> converted(std::string_view bytes) {
  std::vector<To> values(bytes.size() / sizeof(From));
  for (size_t i = 0; i < values.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<To>(value);
  }
  return values;
}

std::optional<std::vector<int64_t>> integers(const std::string& dtype, std::string_view bytes) {
  if (dtype == "Long" || dtype == "I64") return converted<int64_t, int64_t>(bytes);
  if (dtype == "Int" || dtype == "I32") return converted<int32_t, int64_t>(bytes);
  if (dtype == "Bool" || dtype == "BOOL" || dtype == "Byte")
    return converted<uint8_t, int64_t>(bytes);
  return std::nullopt;
}

std::optional<std::vector<double>> reals(const std::string& dtype, std::string_view bytes) {
  if (dtype == "Float" || dtype == "ComplexFloat" || dtype == "F32")
    return converted<float, double>(bytes);
  if (dtype == "Double" || dtype == "ComplexDouble" || dtype == "F64")
    return converted<double, double>(bytes);
  return std::nullopt;
}

std::string_view tensorBytes(const GoldenData& golden, const TensorEntry& entry) {
  return std::string_view(golden.bytes).substr(entry.begin, entry.bytes);
}

const json* fieldOf(const json& object, const std::string& field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const TensorEntry* find(const GoldenData& golden, const json& output, const char* field) {
  const auto found = golden.tensors.find(textOf(output, field));
  return found == golden.tensors.end() ? nullptr : &found->second;
}

// The golden hi + rest, its scale, and the rule, element by element.
class Elements {
 public:
  Elements(const GoldenData& golden, const json& output, const Floats& floats)
      : floats_(floats),
        signedZero_(output.value("signed_zero", false)),
        complex_(output.value("complex", false)) {
    const auto* entry = find(golden, output, "tensor");
    hi_ = *reals(entry->dtype, tensorBytes(golden, *entry));
    if (const auto* lo = find(golden, output, "lo"))
      lo_ = *reals(lo->dtype, tensorBytes(golden, *lo));
    if (const auto* scale = find(golden, output, "scale"))
      scale_ = *reals(scale->dtype, tensorBytes(golden, *scale));
    eta_ = std::scalbn(1.0, floats.smallest - (floats.digits - 1));
    const auto own = output.value("eta", json::object());
    const char* name = floats.digits == 24 ? "float32" : "float64";
    if (own.contains(name)) eta_ = own[name].get<double>();
  }

  [[nodiscard]] size_t size() const { return hi_.size(); }
  [[nodiscard]] size_t scales() const { return scale_.size(); }

  // Does rounding to the dtype, or an error within a bound, decide between the golden and infinity?
  [[nodiscard]] bool nearOverflow(size_t i) const {
    return std::isfinite(hi_[i]) && std::fabs(hi_[i]) >= floats_.largest / 2;
  }

  [[nodiscard]] double exact(size_t i, double a) const {
    double want = hi_[i];
    if (floats_.digits == 24 && std::isfinite(want)) {
      const auto near = static_cast<float>(want);
      // hi may stand between two floats: what is left of the golden then decides.
      const double other = std::nextafter(near, want > near ? INFINITY : -INFINITY);
      const double rest = low(i);
      want = want != near && rest != 0 && std::fabs(other - want) == std::fabs(want - near) &&
                     (rest > 0) == (other > near)
                 ? other
                 : near;
    }
    return same(a, want) ? 0 : 1;
  }

  // Of a complex number of which the golden has no part: one NaN part is enough.
  [[nodiscard]] bool complexNaN(const std::vector<double>& got, size_t i) const {
    const size_t pair = i & ~size_t{1};
    return complex_ && std::isnan(hi_[pair]) && std::isnan(hi_[pair + 1]) &&
           (std::isnan(got[pair]) || std::isnan(got[pair + 1]));
  }

  [[nodiscard]] double inUlp(size_t i, double a) const {
    return over(i, a, spacing(floats_, hi_[i], low(i) != 0 && (low(i) < 0) == (hi_[i] > 0)));
  }

  [[nodiscard]] double conditioned(size_t i, size_t scale, double a) const {
    const double size = scale_[scale];
    const bool usable = std::isfinite(size) && size >= 0;
    return over(i, a, usable ? std::scalbn(size, -floats_.digits) + eta_ : 0);
  }

 private:
  // What is left of the golden behind hi, in units of hi's last place in float64: as a number of
  // its own it would underflow among the subnormal ones.
  [[nodiscard]] double low(size_t i) const { return lo_.empty() ? 0 : lo_[i]; }

  [[nodiscard]] bool same(double a, double want) const {
    if (std::isnan(a) || std::isnan(want)) return std::isnan(a) && std::isnan(want);
    return a == want && (a != 0 || !signedZero_ || std::signbit(a) == std::signbit(want));
  }

  [[nodiscard]] double over(size_t i, double a, double unit) const {
    const double want = hi_[i];
    if (!std::isfinite(a) || !std::isfinite(want)) return same(a, want) ? 0 : kInfinity;
    if (a == 0 && want == 0 && !same(a, want)) return kInfinity;
    if (a == want && low(i) == 0) return 0;
    return std::fabs((a - want) / unit - low(i) * (spacing(kDouble, want, false) / unit));
  }

  Floats floats_;
  bool signedZero_, complex_;
  std::vector<double> hi_, lo_, scale_;
  double eta_ = 0;
};

void add(Figure& figure, double error, double bound, int64_t elements = 1) {
  figure.checked += elements;
  figure.failing += error <= bound ? 0 : elements;
  figure.error = std::max(figure.error, error);
}

[[noreturn]] void otherSize(const StoredOutput& stored) {
  throw Problem(stored.what + " has another number of elements than its golden");
}

// Integers and bools are exact whatever the tolerance says.
Figure integersAgain(const std::vector<int64_t>& got, const std::vector<int64_t>& want,
                     const StoredOutput& stored) {
  if (got.size() != want.size()) otherSize(stored);
  Figure figure;
  for (size_t i = 0; i < got.size(); ++i) add(figure, got[i] == want[i] ? 0 : 1, 0);
  figure.error = static_cast<double>(figure.failing);
  return figure;
}

std::optional<Figure> realsAgain(const Elements& golden, const std::vector<double>& got,
                                 const GaugeBound& rule, const StoredOutput& stored) {
  if (got.size() != golden.size()) otherSize(stored);
  const bool conditioned = rule.gauge == "conditioned", ulp = rule.gauge == "ulp";
  const bool modulus = conditioned && 2 * golden.scales() == got.size();
  if (conditioned && !modulus && golden.scales() != got.size()) return std::nullopt;
  Figure figure;
  for (size_t i = 0; i < got.size(); ++i) {
    if (rule.gauge != "exact" && golden.nearOverflow(i)) return std::nullopt;
    if (modulus) {
      if (i % 2 == 0) continue;
      add(figure,
          std::hypot(golden.conditioned(i - 1, i / 2, got[i - 1]),
                     golden.conditioned(i, i / 2, got[i])),
          rule.bound);
    } else {
      add(figure,
          conditioned                 ? golden.conditioned(i, i, got[i])
          : ulp                       ? golden.inUlp(i, got[i])
          : golden.complexNaN(got, i) ? 0
                                      : golden.exact(i, got[i]),
          rule.bound);
    }
  }
  if (rule.gauge == "exact") figure.error = static_cast<double>(figure.failing);
  return figure;
}

// A math without a tolerance of its own is held to IEEE's.
const json* pick(const json* table, const std::string& dtype, const std::string& math) {
  const json* maths = table ? fieldOf(*table, dtype) : nullptr;
  if (!maths) return nullptr;
  const json* found = fieldOf(*maths, math);
  return found ? found : fieldOf(*maths, "ieee");
}

// Elements of a golden, by its tensor or by its shape; nothing where it tells neither.
std::optional<size_t> elementsOf(const GoldenData& golden, const json& output) {
  const auto* entry = find(golden, output, "tensor");
  std::vector<int64_t> shape;
  if (fieldOf(output, "shape")) {
    shape = output["shape"].get<std::vector<int64_t>>();
    if (output.value("complex", false)) shape.push_back(2);
  } else if (entry && !fieldOf(output, "sampled")) {
    shape = entry->shape;
  } else {
    return std::nullopt;
  }
  size_t count = 1;
  for (const auto extent : shape) count *= static_cast<size_t>(extent);
  return count;
}

}  // namespace

const json& goldenCase(const json& file, const std::string& name) {
  for (const auto& item : file.at("cases")) {
    if (item.at("name") == name) return item;
  }
  throw Problem("the golden of " + textOf(file, "operator") + " has no case " + name);
}

const json* goldenOutput(const json& item, const std::string& what, const json& variant) {
  const std::string output = "output ", gradient = "gradient of ", argument = "argument ",
                    after = " after the call";
  const auto* outputs = fieldOf(item, "outputs");
  if (what.starts_with(output)) {
    const auto k = std::strtoul(what.c_str() + output.size(), nullptr, 10);
    return outputs && k < outputs->size() ? &(*outputs)[k] : nullptr;
  }
  if (what.starts_with(gradient)) {
    const auto* list = fieldOf(item, "gradients");
    return list ? fieldOf(*list, what.substr(gradient.size())) : nullptr;
  }
  if (!what.starts_with(argument) || !what.ends_with(after)) return nullptr;
  const auto* list = fieldOf(item, "mutates");
  const auto name = what.substr(argument.size(), what.size() - argument.size() - after.size());
  if (const auto* found = list ? fieldOf(*list, name) : nullptr) return found;
  // In place and out=: the argument takes the output.
  const bool form = textOf(variant, "form") != "functional" && !textOf(variant, "form").empty();
  return form && outputs && outputs->size() == 1 ? &outputs->front() : nullptr;
}

std::optional<GaugeBound> gaugeBoundOf(const json& file, const json& item, const json& output,
                                       const json& variant) {
  const auto read = [](const json& one) {
    return GaugeBound{textOf(one, "gauge"), one.value("bound", 0.0)};
  };
  if (fieldOf(output, "gauge")) return read(output);
  const bool backward = textOf(variant, "direction") == "backward";
  const std::string dtype = textOf(variant, "dtype"), math = textOf(variant, "math");
  const char* own = backward ? "backward_tolerance" : "tolerance";
  if (const auto* found = pick(fieldOf(item, own), dtype, math)) return read(*found);
  if (textOf(variant, "device").starts_with("cuda") && variant.value("cudnn", true)) {
    const auto* libraries = fieldOf(file, "library_tolerance");
    const auto* cudnn = libraries ? fieldOf(*libraries, "cudnn") : nullptr;
    if (const auto* found = pick(cudnn, dtype, math)) return read(*found);
  }
  const json* table = backward ? fieldOf(file, "backward_tolerance") : nullptr;
  const auto* found = pick(table ? table : fieldOf(file, "tolerance"), dtype, math);
  return found ? std::optional(read(*found)) : std::nullopt;
}

std::optional<size_t> goldenBytes(const GoldenData& golden, const json& output) {
  const auto elements = elementsOf(golden, output);
  return elements ? std::optional(*elements * sizeof(double)) : std::nullopt;
}

std::string expectedDtype(const GoldenData& golden, const json& output, const std::string& dtype) {
  static const std::map<std::string, std::string> kNames{{"float32", "Float"},
                                                         {"float64", "Double"},
                                                         {"int64", "Long"},
                                                         {"int32", "Int"},
                                                         {"bool", "Bool"},
                                                         {"complex64", "ComplexFloat"},
                                                         {"complex128", "ComplexDouble"}};
  const auto* entry = find(golden, output, "tensor");
  std::string name = textOf(output, "dtype");
  if (name.empty() && entry && entry->dtype != "F64")
    name = entry->dtype == "I64" ? "int64" : entry->dtype == "I32" ? "int32" : "bool";
  if (name.empty() && !entry) return "";  // a fill or members: the golden tells it elsewhere
  if (name.empty() || name == "tested")
    name = output.value("complex", false) ? "complex_tested" : dtype;
  if (name == "complex_tested") name = dtype == "float32" ? "complex64" : "complex128";
  const auto found = kNames.find(name);
  return found == kNames.end() ? "" : found->second;
}

std::optional<Figure> figureAgain(const GoldenData& golden, const json& output,
                                  const GaugeBound& rule, const StoredOutput& stored) {
  for (const char* other : {"members", "residual", "statistic", "sampled", "fill", "unchecked"}) {
    if (fieldOf(output, other)) return std::nullopt;
  }
  const auto* entry = find(golden, output, "tensor");
  if (!entry) return std::nullopt;
  const auto want = integers(entry->dtype, tensorBytes(golden, *entry));
  if (const auto got = integers(stored.dtype, stored.bytes); got && want)
    return integersAgain(*got, *want, stored);
  const auto got = reals(stored.dtype, stored.bytes);
  if (!got || want) return std::nullopt;
  const bool single = stored.dtype == "Float" || stored.dtype == "ComplexFloat";
  return realsAgain(Elements(golden, output, single ? kFloat : kDouble), *got, rule, stored);
}

}  // namespace assay
