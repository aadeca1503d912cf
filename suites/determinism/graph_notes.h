// What cuDNN notes of an engine, and what follows from it: which bits, which precision and which
// treatment of NaN it promises. Pure logic, without cuDNN.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "suites/determinism/graph_case.h"

namespace assay::determinism {

// cudnnBackendNumericalNote_t, by the same numbers.
enum class Note {
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kWinogradTile4x4 = 6,
  kWinogradTile6x6 = 7,
  kWinogradTile13x13 = 8,
  kStrictNanPropagation = 9,
};

struct EngineNotes {
  std::set<Note> numerical;           // also numbers that are not in the list above
  std::vector<std::string> behavior;  // "RUNTIME_COMPILATION"
  bool has(Note note) const { return numerical.contains(note); }
  // "TENSOR_CORE, NONDETERMINISTIC"; "none"
  std::string text() const;
};

std::string noteName(Note note);         // "TENSOR_CORE"; "NOTE_12" for one that is not known here
std::string behaviorNoteName(int note);  // "RUNTIME_COMPILATION"

enum class Precision {
  kFull,     // the tensors' own: FMA
  kTf32,     // float32 operands on tensor cores: cut to 11 bits
  kReduced,  // operands in 16 bits, or sums in less than float32
};
std::string_view precisionName(Precision precision);  // "full", "TF32", "reduced"

struct Promise {
  std::string bits;  // as in Subject: "equal bits", "may vary"
  std::string bitsSource;
  Precision precision = Precision::kFull;
  bool wholeTiles = false;  // FFT, Winograd: errors are in units of the largest element's scale
  double bound = 0;         // in u of the graph's dtype times the scale; float16: u of float32
  std::string nan;          // why a NaN in an input must reach the outputs that depend on it
};

// docs/determinism.md#the-graph-api derives the bounds.
Promise promiseOf(const EngineNotes& notes, const GraphCase& graph);

}  // namespace assay::determinism
