#include "suites/determinism/graph_notes.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace assay::determinism {

std::string noteName(Note note) {
  constexpr std::array kNames{"TENSOR_CORE",
                              "DOWN_CONVERT_INPUTS",
                              "REDUCED_PRECISION_REDUCTION",
                              "FFT",
                              "NONDETERMINISTIC",
                              "WINOGRAD",
                              "WINOGRAD_TILE_4x4",
                              "WINOGRAD_TILE_6x6",
                              "WINOGRAD_TILE_13x13",
                              "STRICT_NAN_PROP"};
  const auto number = static_cast<size_t>(note);
  return number < kNames.size() ? kNames[number] : "NOTE_" + std::to_string(number);
}

std::string behaviorNoteName(int note) {
  constexpr std::array kNames{"RUNTIME_COMPILATION", "REQUIRES_FILTER_INT8x32_REORDER",
                              "REQUIRES_BIAS_INT8x32_REORDER", "SUPPORTS_CUDA_GRAPH_NATIVE_API",
                              "CUBLASLT_DEPENDENCY"};
  if (note >= 0 && static_cast<size_t>(note) < kNames.size()) return kNames[note];
  return "NOTE_" + std::to_string(note);
}

std::string EngineNotes::text() const {
  std::string result;
  for (const auto note : numerical) result += (result.empty() ? "" : ", ") + noteName(note);
  return result.empty() ? "none" : result;
}

std::string_view precisionName(Precision precision) {
  switch (precision) {
    case Precision::kFull:
      return "full";
    case Precision::kTf32:
      return "TF32";
    case Precision::kReduced:
      return "reduced";
  }
  return "";
}

namespace {

// More than five standard deviations of a walk of `terms` roundings, and the rest of the operation.
double fullBound(const GraphCase& graph, bool wholeTiles) {
  if (wholeTiles) return 256;  // docs/numerics.md#convolution-algorithms
  return std::max(16.0, 256 * std::sqrt(static_cast<double>(graph.terms) / 2048));
}

bool multiplies(const GraphCase& graph) {
  return std::any_of(graph.steps.begin(), graph.steps.end(), [](const Step& step) {
    return std::holds_alternative<ConvolutionStep>(step) ||
           std::holds_alternative<MatmulStep>(step);
  });
}

}  // namespace

Promise promiseOf(const EngineNotes& notes, const GraphCase& graph) {
  Promise promise;
  const bool varies = notes.has(Note::kNondeterministic);
  promise.bits = varies ? "may vary" : "equal bits";
  promise.bitsSource =
      std::string("the engine ") + (varies ? "has" : "lacks") + " the note NONDETERMINISTIC";
  promise.wholeTiles = notes.has(Note::kFft) || notes.has(Note::kWinograd) ||
                       notes.has(Note::kWinogradTile4x4) || notes.has(Note::kWinogradTile6x6) ||
                       notes.has(Note::kWinogradTile13x13);
  promise.bound = fullBound(graph, promise.wholeTiles);
  // Without a product of two tensors there is nothing that a tensor core could cut to TF32.
  if (graph.dtype == at::kFloat && notes.has(Note::kTensorCore) && multiplies(graph)) {
    promise.precision = Precision::kTf32;
    promise.bound += 32800;
  }
  if (graph.dtype == at::kHalf) promise.bound += 4 * 8192;  // two roundings to 11 bits, with room
  if (notes.has(Note::kDownConvertInputs)) {
    promise.precision = Precision::kReduced;
    promise.bound += 131072;  // both operands cut to bfloat16's 8 bits
  }
  if (notes.has(Note::kReducedPrecisionReduction)) {
    promise.precision = Precision::kReduced;
    promise.bound += 8192 * static_cast<double>(graph.terms);  // each partial sum in float16
  }
  promise.nan = notes.has(Note::kStrictNanPropagation) ? "the engine has the note STRICT_NAN_PROP"
                : graph.compares ? "the operation asks for CUDNN_PROPAGATE_NAN"
                                 : "arithmetic on a NaN is a NaN";
  return promise;
}

}  // namespace assay::determinism
