#include "tools/assay/words.h"

#include <cmath>
#include <map>
#include <set>

#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

std::string look(const std::map<std::string, std::string>& words, const std::string& name) {
  const auto found = words.find(name);
  return found == words.end() ? name : found->second;
}

std::string deviceInWords(const std::string& device) {
  if (device == "cpu") return "on the CPU";
  return device.rfind("cuda", 0) == 0 ? "on GPU " + device.substr(4) : "on " + device;
}

std::string layoutInWords(const std::string& layout) {
  static const std::map<std::string, std::string> kWords{
      {"contiguous", "contiguous inputs"},
      {"strided", "inputs with gaps: every stride doubled (strided)"},
      {"offset", "inputs that begin one element into their memory (offset)"},
      {"transposed", "inputs whose last two dimensions are swapped in memory (transposed)"},
      {"channels_last", "channels_last inputs"},
      {"expanded", "inputs expanded from one element, stride 0 (expanded)"}};
  return look(kWords, layout);
}

std::string formInWords(const std::string& form) {
  static const std::map<std::string, std::string> kWords{{"inplace", "the in-place form"},
                                                         {"out", "the out= form"}};
  return look(kWords, form);
}

}  // namespace

std::string variantInWords(const json& variant) {
  if (!variant.is_object()) return "";
  const auto text = [&](const char* axis) { return textOf(variant, axis); };
  const auto is = [&](const char* axis, const json& value) {
    return variant.value(axis, json()) == value;
  };
  std::string words = deviceInWords(text("device")) + ", " + text("dtype") + ", ";
  words += is("direction", "backward") ? "backward (gradients for the stored upstream gradient)"
                                       : "forward";
  words += ", " + layoutInWords(text("layout"));
  if (!is("form", "functional") && !text("form").empty()) words += ", " + formInWords(text("form"));
  if (is("lengths", true)) words += ", cut into calls of 1 to 67 elements (lengths)";
  if (is("math", "tf32")) words += ", TF32 allowed";
  if (is("math", "ieee") && is("dtype", "float32")) words += ", IEEE float32 asked for";
  if (is("cudnn", false)) words += ", cuDNN off";
  if (is("benchmark", true)) words += ", cuDNN benchmark on";
  if (is("deterministic", true)) words += ", deterministic algorithms";
  if (is("threads", 1)) words += ", one thread";
  static const std::set<std::string> kKnown{"device",    "dtype",         "direction", "layout",
                                            "form",      "lengths",       "math",      "cudnn",
                                            "benchmark", "deterministic", "threads"};
  for (const auto& [axis, value] : variant.items()) {
    if (!kKnown.contains(axis)) words += ", " + axis + " = " + value.dump();
  }
  return words;
}

std::string gaugeInWords(const std::string& gauge) {
  static const std::map<std::string, std::string> kWords{
      {"exact", "elements that differ"},
      {"ulp", "units in the last place of the golden"},
      {"conditioned",
       "|got - golden| over u * scale: roundings of the dtype, relative to what the "
       "operation is sensitive to"},
      {"residual", "LAPACK's ratio: the residual over size, norm and u"},
      {"members", "distance from the nearest allowed answer"},
      {"statistical", "distance from the middle of the allowed interval, over half its width"}};
  const auto found = kWords.find(gauge);
  return found == kWords.end() ? "" : found->second;
}

std::string bitsInWords(double bits, const std::string& dtype) {
  if (std::isnan(bits)) return "";
  const bool single = dtype == "float32";
  std::string text = single ? "24 is all that float32 has; TF32 keeps about 11"
                            : "53 is all that float64 has, float32 keeps 24";
  if (single && bits >= 9 && bits < 15) text += ": so this is as good as TF32";
  return text;
}

}  // namespace assay
