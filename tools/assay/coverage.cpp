#include "tools/assay/coverage.h"

#include <algorithm>
#include <set>

#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;

// What each mode of the golden adds to the plain variant's name.
std::vector<std::string> additions(const json& file, const json& item, bool gpu, bool single) {
  const auto list = [](const json& of) {
    const auto modes = of.value("modes", json::array());
    return std::set<std::string>(modes.begin(), modes.end());
  };
  const auto own = list(file), modes = item.contains("modes") ? list(item) : own;
  std::vector<std::string> names{""};
  const auto add = [&](const char* mode, bool applies, std::initializer_list<const char*> more) {
    if (applies && modes.contains(mode)) names.insert(names.end(), more.begin(), more.end());
  };
  const bool channelsLast = modes.contains("channels_last"), tf32 = gpu && single;
  add("layouts", true, {"_strided", "_offset", "_transposed"});
  add("channels_last", true, {"_channels_last"});
  add("math", tf32, {"_tf32"});
  add("math", tf32 && channelsLast, {"_channels_last_tf32"});
  add("cudnn", gpu, {"_cudnn_off"});
  add("cudnn", gpu && channelsLast, {"_channels_last_cudnn_off"});
  add("benchmark", gpu, {"_benchmark"});
  add("deterministic", true, {"_deterministic"});
  add("deterministic", own.contains("channels_last"), {"_channels_last_deterministic"});
  add("deterministic", tf32 && own.contains("math"), {"_tf32_deterministic"});
  add("threads", !gpu, {"_threads1"});
  return names;
}

}  // namespace

std::vector<std::string> expectedVariants(const json& file, const json& item,
                                          const std::string& device) {
  const bool gpu = device.starts_with("cuda");
  const std::string kind = gpu ? "cuda" : device;
  const auto only = item.value("only", json::array({kind}));
  if (std::find(only.begin(), only.end(), kind) == only.end()) return {};
  const bool throws = textOf(item, "expect") == "error";
  std::vector<std::string> names;
  for (const std::string dtype : item.value("dtypes", json::array({"float32", "float64"}))) {
    for (const char* direction : {"_forward", "_backward"}) {
      if (direction[1] == 'b' && item.value("gradients", json::object()).empty()) continue;
      const auto plain = device + "_" + dtype + direction;
      if (throws) {
        names.push_back(plain);
        continue;
      }
      for (const auto& more : additions(file, item, gpu, dtype == "float32"))
        names.push_back(plain + more);
    }
  }
  return names;
}

std::string variantNameOf(const json& variant) {
  const auto flag = [&](const char* field) { return variant.value(field, false); };
  std::string name = textOf(variant, "device") + "_" + textOf(variant, "dtype") + "_" +
                     textOf(variant, "direction");
  std::erase(name, ':');
  if (textOf(variant, "form") != "functional") name += "_" + textOf(variant, "form");
  if (flag("lengths")) name += "_lengths";
  if (textOf(variant, "layout") != "contiguous") name += "_" + textOf(variant, "layout");
  if (textOf(variant, "math") != "ieee") name += "_" + textOf(variant, "math");
  if (!variant.value("cudnn", true)) name += "_cudnn_off";
  if (flag("benchmark")) name += "_benchmark";
  if (flag("deterministic")) name += "_deterministic";
  if (variant.value("threads", 0) == 1) name += "_threads1";
  return name;
}

}  // namespace assay
