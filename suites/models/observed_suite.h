// The checks that every observed model gets: its whole run against the golden, and each layer of
// its first step against its own input; in float32 and float64, IEEE and TF32, cuDNN on and off,
// deterministic or not, on one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/suite.h"
#include "suites/models/evidence.h"

namespace assay::models {

// What one run gave. `layers`: those of its first step, judged while its weights were what they
// were.
struct Run {
  Results results;
  std::vector<Seen> layers;
  nlohmann::json details;            // more for the record
  std::optional<Evidence> evidence;  // of the known causes, where the model can be asked
};

// What a check looks at: the layers' own errors cost a recomputation on the host.
enum class Look { kResults, kLayers };

struct Subject {
  std::string name;  // the golden's
  std::string form;  // of several runs against one golden: part of the case's name
  std::function<Run(const ObservedModel&, const Variant&, Look)> run;
  // A factor on the free-running bounds where cuDNN runs the model in IEEE float32: its recurrent
  // kernels have an error of their own.
  double cudnnFactor = 1;
  bool brief = false;       // the default mode and TF32 alone: large models
  Wanted wanted = nullptr;  // on the CPU: what of the golden is run there
  Wanted gives = nullptr;   // what of the golden this form has at all
};

// One check each. `ignoreIeee`: play a machine that ignores the math flag.
Record freeRunning(const ObservedModel& golden, const Subject& subject, const Variant& variant,
                   bool ignoreIeee);
Record isolated(const ObservedModel& golden, const Subject& subject, const Variant& variant,
                bool ignoreIeee);

// The checks of several subjects on every device of the options' kind.
std::vector<Check> observedChecks(const std::vector<Subject>& subjects, const Options& options);

// Per variant one line a layer: its own error and bound, the free-running one and its bound; then
// the gradients and each step's loss. Large models: the worst layers alone.
void printTables(const std::vector<Record>& records);

}  // namespace assay::models
