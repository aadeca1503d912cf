// One engine against what it promises: bits, precision, NaN. The engine is a function, so that a
// planted one can be judged on a CPU.
#pragma once

#include "suites/determinism/graph_notes.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {

// A graph's inputs on the host, what its outputs must be, and which of their elements a NaN in the
// middle of an input reaches. Made once a graph.
struct GraphHost {
  struct Poisoned {
    std::string input;
    Values inputs;
    std::map<std::string, at::Tensor> reached;  // by output: bool
  };
  Values inputs;
  Results want;
  std::vector<Poisoned> poisoned;
};
GraphHost hostOf(const GraphCase& graph);

// Computes the graph on these inputs: its outputs, each written to memory of its own.
using Compute = std::function<std::map<std::string, at::Tensor>(const Values& inputs)>;

struct GraphEngine {
  std::string name;  // "engine 12"
  EngineNotes notes;
  std::string source;  // "cuDNN 9.19.0"
  // On inputs that are in place already: called for every repetition. Outputs in the order of the
  // description.
  Call call;
  Compute compute;
};

// Fills in status, message, verdict and details (docs/determinism.md#the-graph-api): fails the
// record where bits, precision or NaN are not what the notes promise.
void judgeEngine(Record& record, const GraphCase& graph, const GraphHost& host,
                 const GraphEngine& engine, bool smoke);

// graph · engine · notes · seen · precision · NaN, a line each engine; then, for each graph, how
// many engines there are and by which status how many of them refuse it.
void printGraphTable(const std::vector<Record>& records);

}  // namespace assay::determinism
