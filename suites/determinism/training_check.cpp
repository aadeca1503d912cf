#include "suites/determinism/training_check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "fixtures/mode.h"
#include "suites/determinism/verdict.h"

namespace assay::determinism {
namespace {

constexpr const char* kName = "repeated_training";

// torch.backends.cudnn.deterministic, for a scope.
class CudnnDeterministic {
 public:
  explicit CudnnDeterministic(bool wanted) : before_(at::globalContext().deterministicCuDNN()) {
    at::globalContext().setDeterministicCuDNN(wanted);
  }
  ~CudnnDeterministic() { at::globalContext().setDeterministicCuDNN(before_); }
  CudnnDeterministic(const CudnnDeterministic&) = delete;
  CudnnDeterministic& operator=(const CudnnDeterministic&) = delete;

 private:
  bool before_;
};

std::string promiseOf(const TrainingMode& mode) {
  if (mode.variant.deterministic) return "equal bits";
  return mode.variant.onGpu() && !mode.cudnnDeterministic ? "may vary" : "none";
}

const char* sourceOf(const TrainingMode& mode) {
  if (mode.cudnnDeterministic)
    return "torch.backends.cudnn.deterministic's documentation: cuDNN's algorithms alone";
  return "torch.use_deterministic_algorithms's documentation";
}

std::vector<at::Tensor> valuesOf(const Results& results) {
  std::vector<at::Tensor> values;
  for (const auto& [name, value] : results) values.push_back(value);
  return values;
}

// The CPU's run in its default mode, made once a process and task.
const Results& onTheCpu(const TrainingTask& task, const std::string& dtype) {
  static std::map<std::string, Results> kept;
  const auto key = task.name + dtype;
  if (!kept.contains(key)) {
    const Variant variant{.device = "cpu", .dtype = dtype};
    const ModeGuard guard(variant, false);
    kept[key] = train(task, variant);
  }
  return kept.at(key);
}

const nlohmann::json& growthCurve(const TrainingTask& task) {
  static std::map<std::string, nlohmann::json> kept;
  if (!kept.contains(task.name)) {
    const ModeGuard guard({.device = "cpu", .dtype = "float64"}, false);
    kept[task.name] = growthOf(task).json();
  }
  return kept.at(task.name);
}

nlohmann::json distances(const TrainingTask& task, const TrainingMode& mode, const Results& run) {
  Variant wide = mode.variant;
  wide.dtype = "float64";
  return {{"cpu_float32", distanceOf(run, onTheCpu(task, "float32")).json()},
          {"float64_here", distanceOf(run, train(task, wide)).json()},
          {"cpu_float64", distanceOf(run, onTheCpu(task, "float64")).json()}};
}

// Beyond what rounding explains, and within what TF32 would: a flag that was ignored.
void sayClass(Record& record, const ObservedModel& golden, const TrainingMode& mode,
              const Results& run) {
  if (record.verdict.pass) return;
  record.details["determinism"]["verdict"] = "BROKEN PROMISE";
  Variant tf32 = mode.variant;
  tf32.math = "tf32";
  const auto seen = golden.compare(run, tf32);
  const bool explained =
      mode.variant.dtype == "float32" &&
      std::all_of(seen.begin(), seen.end(), [](const Seen& one) { return one.beyond == 0; });
  record.message =
      "BROKEN PROMISE: " + mode.variant.dtype +
      (mode.variant.dtype == "float32" ? " in IEEE arithmetic" : "") + " was asked for, and " +
      (explained ? "TF32's precision came; " : "something less came; ") + record.message;
}

void repeatTraining(Record& record, const TrainingTask& task, const ObservedModel* golden,
                    const TrainingMode& mode, bool smoke, bool ignoreIeee) {
  record.details["row"] = task.name + ", " + mode.name();
  const ModeGuard guard(mode.variant, ignoreIeee);
  const CudnnDeterministic cudnn(mode.cudnnDeterministic);
  const Subject subject{.promise = promiseOf(mode), .source = sourceOf(mode), .call = [&] {
                          return valuesOf(train(task, mode.variant));
                        }};
  const auto run = train(task, mode.variant);
  const auto first = valuesOf(run);
  record.status = Status::kPassed;
  if (golden) judgeSeen(record, golden->compare(run, mode.variant));
  record.what = "losses, weights and running statistics";
  // A step is 1/20 of a run: a step that varies in 1 of 29 makes every second run differ.
  const double rate = smoke ? 0.9 : golden ? 0.5 : 0.75;
  conclude(record, subject, first,
           {{"again", repeat(subject.call, first, runsFor(rate, kMiss), Kind::kAgain), nullptr}},
           rate);
  if (golden) sayClass(record, *golden, mode, run);
  record.details["training"] = {{"distances", distances(task, mode, run)},
                                {"growth", growthCurve(task)}};
}

}  // namespace

std::string TrainingMode::name() const {
  return variant.name() + (cudnnDeterministic ? "_cudnn_deterministic" : "");
}

std::vector<TrainingMode> trainingModes(const std::string& device, bool smoke) {
  std::vector<TrainingMode> modes;
  for (const char* dtype : {"float32", "float64"}) {
    const Variant base{.device = device, .dtype = dtype};
    if (smoke && base.dtype == "float64") continue;
    const bool all = base.onGpu() && !smoke;
    for (const bool cudnn : {true, false}) {
      for (const bool benchmark : {false, true}) {
        if ((!cudnn || benchmark) && !all) continue;
        for (const auto* determinism : {"off", "cudnn", "on"}) {
          TrainingMode mode{.variant = base};
          mode.variant.cudnn = cudnn;
          mode.variant.benchmark = benchmark;
          mode.variant.deterministic = std::string(determinism) == "on";
          mode.cudnnDeterministic = std::string(determinism) == "cudnn";
          if (mode.cudnnDeterministic && (!cudnn || !all)) continue;
          modes.push_back(mode);
        }
      }
    }
  }
  return modes;
}

Record runTraining(const TrainingTask& task, const ObservedModel* golden, const TrainingMode& mode,
                   bool smoke, bool ignoreIeee) {
  Record record;
  try {
    repeatTraining(record, task, golden, mode, smoke, ignoreIeee);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (!mode.variant.deterministic || text.find("deterministic") == std::string::npos) throw;
    record = {};
    record.status = Status::kSkipped;
    record.reason = "NO_DETERMINISTIC_KERNEL";
    record.details["refused"] = text.substr(0, 200);
  }
  return record;
}

Record runGrowth(const TrainingTask& task, const ObservedModel& golden) {
  Record record;
  const Variant variant{.device = "cpu", .dtype = "float64"};
  const Variant single{.device = "cpu", .dtype = "float32"};
  const ModeGuard guard(variant, false);
  judgeSeen(record, golden.compare(train(movedByOneUlp(task, 1), variant), single));
  record.what = "a run whose beginning was moved by one ulp of float32";
  const auto& growth = growthCurve(task);
  record.details["training"] = {{"growth", growth}};
  for (const auto& loss : growth["losses"]) {
    if (loss.get<double>() > 0) continue;
    record.status = Status::kFailed;
    record.message = "a moved beginning moved nothing";
  }
  return record;
}

std::vector<Check> trainingChecks(const Options& options) {
  const auto golden =
      std::make_shared<const ObservedModel>(ObservedModel::load(options.goldens, kName));
  const auto small = std::make_shared<const TrainingTask>(smallTask(*golden));
  const auto wide = std::make_shared<const TrainingTask>(wideTask());
  const bool ignoreIeee = options.fault == "ignore-ieee";
  std::vector<Check> checks;
  for (const auto& device : visibleDevices(options.deviceKind)) {
    for (const auto& task : {small, wide}) {
      if (options.smoke && task != small) continue;
      for (const auto& mode : trainingModes(device, options.smoke)) {
        Check check = checkOf(kName, task->name, mode.variant);
        if (mode.cudnnDeterministic) {
          check.name += "_cudnn_deterministic";
          check.variantName += "_cudnn_deterministic";
          check.variant["cudnn_deterministic"] = true;
        }
        check.smoke = true;
        check.run = [=, smoke = options.smoke] {
          return runTraining(*task, task == small ? golden.get() : nullptr, mode, smoke,
                             ignoreIeee);
        };
        checks.push_back(std::move(check));
      }
    }
    if (device != "cpu") continue;
    Check check = checkOf(kName, "growth", {.device = device, .dtype = "float64"});
    check.smoke = true;
    check.run = [=] { return runGrowth(*small, *golden); };
    checks.push_back(std::move(check));
  }
  return checks;
}

void printTrainings(const std::vector<Record>& records) {
  std::printf(
      "\nLoss of the last step, and weights behind it, against\n%-62s %-10s %-20s %9s %-19s %-19s "
      "%-19s %s\n",
      "run", "promised", "seen", "differing", "  the CPU's float32", "  float64 here",
      "  the CPU's float64", "of bound");
  for (const auto& record : records) {
    if (!record.details.is_object() || !record.details.contains("determinism")) continue;
    const auto& seen = record.details["determinism"];
    const auto& again = seen["kinds"]["again"];
    std::printf(
        "%-62s %-10s %-20s %3lld of %3lld", record.details["row"].get<std::string>().c_str(),
        seen["promise"].get<std::string>().c_str(), seen["verdict"].get<std::string>().c_str(),
        again["differing"].get<long long>(), again["runs"].get<long long>());
    for (const char* other : {"cpu_float32", "float64_here", "cpu_float64"}) {
      const auto& distance = record.details["training"]["distances"][other];
      std::printf("  %8.1e %8.1e", distance["losses"].back().get<double>(),
                  distance["parameters"].get<double>());
    }
    if (record.details.contains("rows"))
      std::printf("  %8.2g\n", record.verdict.error);
    else
      std::printf("  no golden\n");
  }
  for (const auto& record : records) {
    if (record.caseName != "growth" || !record.details.is_object()) continue;
    std::printf("One ulp of float32 at the beginning, in the loss behind each step:");
    for (const auto& loss : record.details["training"]["growth"]["losses"])
      std::printf(" %.1e", loss.get<double>());
    std::printf("\n");
  }
}

}  // namespace assay::determinism
