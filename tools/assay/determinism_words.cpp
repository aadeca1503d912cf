#include "tools/assay/determinism_words.h"

#include "fixtures/core/text.h"

namespace assay {
namespace {

using nlohmann::json;
using Rows = std::vector<std::pair<std::string, std::string>>;

// A member, or null where there is none.
json member(const json& object, const char* name) {
  return object.is_object() ? object.value(name, json()) : json();
}

void addPromise(Rows& rows, const json& seen) {
  if (!seen.is_object()) return;
  rows.emplace_back("promise", textOf(seen, "promise") + " (" + textOf(seen, "source") + ")");
  std::string text = textOf(seen, "verdict");
  const json kinds = member(seen, "kinds");
  for (const auto& [kind, one] : kinds.items())
    text += ", " + figureOf(member(one, "differing"), 9) + " of " +
            figureOf(member(one, "runs"), 9) + " runs differ (" + kind + ")";
  if (member(seen, "rate").is_number())
    text += "; a call that differs in " + figureOf(100 * seen["rate"].get<double>(), 3) +
            " % of its runs is missed with probability " +
            figureOf(member(seen, "miss_probability"), 2);
  rows.emplace_back("seen", text);
}

// "1.3e-07 in the last loss, 3.7e-07 in the weights"
std::string distanceText(const json& distance) {
  const json losses = member(distance, "losses");
  return figureOf(losses.empty() ? json() : losses.back(), 2) + " in the last loss, " +
         figureOf(member(distance, "parameters"), 2) + " in the weights";
}

void addTraining(Rows& rows, const json& training) {
  if (!training.is_object()) return;
  const std::pair<const char*, const char*> kOthers[] = {
      {"cpu_float32", "from the CPU's float32: "},
      {"float64_here", "from float64 on this device: "},
      {"cpu_float64", "from the CPU's float64: "}};
  const json distances = member(training, "distances");
  for (const auto& [key, text] : kOthers) {
    if (const json one = member(distances, key); one.is_object())
      rows.emplace_back(rows.size() == 2 ? "distance" : "", text + distanceText(one));
  }
  const json curve = member(member(training, "growth"), "losses");
  std::string grown;
  for (size_t step = 0; step < curve.size(); ++step) {
    if (step == 0 || (step + 1) % 5 == 0)
      grown += (grown.empty() ? "" : ", ") + figureOf(curve[step], 2) + " behind step " +
               std::to_string(step + 1);
  }
  if (!grown.empty())
    rows.emplace_back("explains",
                      "a difference in the last digits, and how it grows: one ulp of float32 in "
                      "weights and images moves the loss by " +
                          grown);
  rows.emplace_back(
      "does not",
      "points of accuracy. Report 1's 32 % against 43 % is far beyond rounding and the "
      "order of sums, with cuDNN or without: accuracy_parity trains float32 and "
      "float64 to the same answers. Look for");
  for (const char* text :
       {"padding that attention sees, weights of an earlier step, dropout left on in eval: "
        "multi_view_transformer names each at its first step, accuracy_parity (ctest -L training) "
        "what it costs",
        "a label that is clamped to a class which does not exist: multi_view_transformer, case "
        "position_beyond_the_sequence; the loss suite's cross_entropy_loss and nll_loss"})
    rows.emplace_back("", text);
}

}  // namespace

Rows determinismInWords(const json& details) {
  Rows rows;
  addPromise(rows, member(details, "determinism"));
  addTraining(rows, member(details, "training"));
  return rows;
}

}  // namespace assay
