// The training run in one combination of library modes as a check: does it repeat itself bit for
// bit, as deterministic mode promises, is it as precise as its dtype, and how far does it end from
// the CPU and from float64?
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fixtures/suite.h"
#include "suites/determinism/training.h"

namespace assay::determinism {

// A combination: the variant's cuDNN, benchmark and deterministic mode, and report 1's own flag
// (torch.backends.cudnn.deterministic), which binds cuDNN alone.
struct TrainingMode {
  Variant variant;
  bool cudnnDeterministic = false;
  std::string name() const;
};

// cuDNN on and off × determinism off, cuDNN's alone, on × benchmark off and on, in both dtypes; on
// a CPU the mode off and on. `smoke`: float32 with the mode off and on.
std::vector<TrainingMode> trainingModes(const std::string& device, bool smoke);

// `golden`: of the small task; null for one without. `ignoreIeee`: play a machine that takes TF32
// although IEEE float32 was asked for.
Record runTraining(const TrainingTask& task, const ObservedModel* golden, const TrainingMode& mode,
                   bool smoke, bool ignoreIeee = false);

// The curve of growthOf, held against the golden's bounds: one ulp at the beginning is less than
// what rounding on the way may do.
Record runGrowth(const TrainingTask& task, const ObservedModel& golden);

std::vector<Check> trainingChecks(const Options& options);

// One line a combination: promised, seen, distances.
void printTrainings(const std::vector<Record>& records);

}  // namespace assay::determinism
