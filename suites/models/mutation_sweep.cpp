#include "suites/models/mutation_sweep.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "fixtures/argument.h"
#include "fixtures/case.h"
#include "fixtures/check.h"
#include "fixtures/poison.h"
#include "suites/models/observed_suite.h"
#include "suites/models/step.h"
#include "suites/models/trace.h"

namespace assay::models {
namespace {

using Answer = host::Answer;

constexpr const char* kFloat64 = "float64_ieee";

at::Tensor onHost(const at::Tensor& x) {
  return x.detach().to(at::kCPU).to(at::kDouble).contiguous();
}

// Names in the order of the golden's rows: layers, loss, gradients from the last layer on.
std::vector<std::string> resultNames(const Mutant& mutant) {
  std::vector<std::string> names;
  for (const auto& layer : mutant.layers) names.push_back(layer.name);
  names.emplace_back("loss");
  for (size_t k = mutant.layers.size(); k-- > 0;)
    if (mutant.layers[k].isProduct())
      for (const char* part : {".weight", ".bias"})
        names.push_back("gradient/" + mutant.layers[k].name + part);
  return names;
}

at::Tensor resultOf(const SweepMutant& one, const std::string& name) {
  if (name == "loss") return one.host.loss;
  if (name.starts_with("gradient/")) return one.host.gradients.at(name.substr(9));
  const auto& layers = one.mutant.layers;
  const auto found = std::find_if(layers.begin(), layers.end(),
                                  [&](const MutantLayer& layer) { return layer.name == name; });
  return one.host.outputs.at(static_cast<size_t>(found - layers.begin()));
}

// Flat indices of the elements that the golden stores: all logits, else those at a third and two
// thirds.
std::vector<int64_t> positions(const std::string& name, int64_t size) {
  if (name != "fc3" && size >= 3) return {size / 3, 2 * size / 3};
  std::vector<int64_t> all;
  for (int64_t i = 0; i < size; ++i) all.push_back(i);
  return all;
}

// Takes one mutant's rows from the front of `values` and compares the host's run with them.
void demandAgreement(const SweepMutant& one, const double*& values, const double* end) {
  for (const auto& name : resultNames(one.mutant)) {
    const auto flat = resultOf(one, name).reshape({-1});
    const auto where = positions(name, flat.numel());
    if (end - values < static_cast<int64_t>(where.size()) + 1)
      throw GoldenError("mutation_sweep: fewer values than results");
    const double allowed = one.bounds.at(name).at(kFloat64);
    const auto same = [&](double got, double error) {
      // Not `>`: a NaN must not agree. The golden was rounded once to float64.
      if (std::abs(got - *values) <= error + std::abs(*values) * 0x1p-52) return;
      throw GoldenError("mutation_sweep/" + one.mutant.name + "/" + name +
                        ": the host's run is not the golden's");
    };
    for (const int64_t i : where) {
      same(flat[i].item<double>(), allowed);
      ++values;
    }
    // |weight| of the checksum is at most 1.
    same(checksum(flat), allowed * static_cast<double>(flat.numel()));
    ++values;
  }
}

std::string modeOf(const Variant& variant) {
  if (variant.dtype == "float64") return kFloat64;
  if (variant.math == "tf32") return "float32_tf32";
  return variant.onGpu() && variant.cudnn ? "float32_cudnn" : "float32_ieee";
}

// A layer's own bound in u * scale.
double ownBound(const MutantLayer& layer, const Variant& variant) {
  const auto bound = layer.isConvolution()  ? kConvolution
                     : layer.op == "linear" ? kProduct
                                            : kRounded;
  const auto mode = modeOf(variant);
  if (mode == "float32_tf32") return bound.tf32;
  return mode == "float32_cudnn" ? bound.ieee : kRounded.ieee;
}

double unitOf(const Variant& variant) { return variant.dtype == "float64" ? 0x1p-53 : 0x1p-24; }

// Judges element by element: `off` is its distance from what is allowed at no cost, `allowed` how
// far it may be.
Seen judge(const std::string& name, const at::Tensor& off, const at::Tensor& allowed) {
  Seen seen{.name = name};
  const auto ratio =
      at::where(off.eq(0), at::zeros_like(off), off / allowed).nan_to_num(INFINITY, INFINITY);
  seen.checked = off.numel();
  seen.beyond = at::logical_not(off.le(allowed)).sum().item<int64_t>();
  const auto worst = ratio.argmax().item<int64_t>();
  seen.difference = off.reshape({-1})[worst].item<double>();
  seen.bound = allowed.reshape({-1})[worst].item<double>();
  seen.ratio = ratio.reshape({-1})[worst].item<double>();
  if (!std::isfinite(seen.difference)) seen.difference = INFINITY;
  return seen;
}

// Another shape, or no result at all.
Seen missing(const std::string& name) {
  return {.name = name, .difference = INFINITY, .ratio = INFINITY, .checked = 1, .beyond = 1};
}

Seen compare(const std::string& name, const at::Tensor& got, const at::Tensor& want,
             double allowed) {
  if (got.sizes() != want.sizes()) return missing(name);
  const auto off = (onHost(got) - want).abs();
  return judge(name, off, at::full_like(off, allowed));
}

// A layer, or a gradient, fed what the device fed it. `bound` in u * scale; no scale: exact.
Seen alone(const std::string& name, const at::Tensor& got, const Answer& want, double bound,
           const Variant& variant) {
  if (got.sizes() != want.value.sizes()) return missing(name);
  const auto off = (onHost(got) - want.value).abs();
  if (!want.scale.defined()) return judge(name, off, at::zeros_like(off));
  return judge(name, off, want.scale * (bound * unitOf(variant)));
}

// How far an answer lies outside what the error of a discontinuity's input leaves open.
at::Tensor outside(const host::Range& range, const at::Tensor& got) {
  const auto far = at::maximum(range.low - got, got - range.high).clamp_min(0);
  return at::where(at::logical_and(range.open, got.eq(0)), at::zeros_like(far), far);
}

// The device's weights on the host, as its dtype has them (exact: they are drawn in float32).
at::Tensor weightOf(const Mutant& mutant, const MutantLayer& layer, const char* part) {
  const auto found = mutant.weights.find(layer.name + part);
  return found == mutant.weights.end() ? at::Tensor() : found->second;
}

double boundOf(const SweepMutant& golden, const std::string& name, const Variant& variant) {
  const auto& row = golden.bounds.at(name);
  return row.at(modeOf(variant)) + row.at(kFloat64);  // the host errs, too
}

void conclude(Record& record, const std::vector<Seen>& rows, const std::string& error,
              const std::string& why) {
  judgeSeen(record, rows);
  record.why = why;
  if (error.empty()) return;
  record.status = Status::kFailed;
  record.verdict.pass = false;
  record.message +=
      (record.message.empty() ? "" : "; ") + ("behind that the model threw: " + error);
}

// One layer of a free-running pass; a discontinuity that moved is told in `moved`.
Seen freeLayer(const SweepMutant& golden, size_t k, const at::Tensor& got, const Variant& variant,
               nlohmann::json& moved) {
  const auto& layer = golden.mutant.layers[k];
  const auto& want = golden.host.outputs[k];
  if (!layer.isStep()) return compare(layer.name, got, want, boundOf(golden, layer.name, variant));
  if (got.sizes() != want.sizes()) return missing(layer.name);
  const double error = boundOf(golden, golden.mutant.layers[k - 1].name, variant);
  const auto range = host::range(layer, golden.host.outputs[k - 1], error);
  const auto answer = onHost(got);
  const auto off = outside(range, answer);
  const auto open = at::logical_or(range.open, range.low.ne(range.high));
  // topk's values move with their input: only those that came or went are counted.
  const auto differs =
      layer.op == "topk" ? at::logical_xor(answer.eq(0), want.eq(0)) : answer.ne(want);
  const auto count = differs.sum().item<int64_t>();
  if (count > 0)
    moved.push_back({{"layer", layer.name + " (" + layer.op + ")"},
                     {"elements", count},
                     {"undecided", open.sum().item<int64_t>()},
                     {"input_error", error},
                     {"beyond", off.gt(0).sum().item<int64_t>()}});
  return judge(layer.name, off, at::zeros_like(off));
}

std::string storyOf(const nlohmann::json& moved) {
  std::string text;
  for (const auto& one : moved)
    text += (text.empty() ? "" : "; ") + one.at("layer").get<std::string>() + " moved " +
            std::to_string(one.at("elements").get<int64_t>()) + " elements, " +
            std::to_string(one.at("beyond").get<int64_t>()) +
            " of them outside what the error before it leaves open";
  return text;
}

at::Tensor gradientOf(const at::Tensor& x) {
  const auto& g = x.grad();
  return g.defined() ? g : at::zeros_like(x);  // in front of a step that has no derivative
}

// The bound of a weight's gradient, in u * scale: over a convolution's thousands of places a sum in
// any order walks; six times its root mean square where all terms have one sign.
double manyTerms(const at::Tensor& x, const at::Tensor& g) {
  if (x.dim() != 4) return 0;
  const auto places = [](const at::Tensor& y) { return y.numel() / y.size(1); };
  return 16 + 2 * std::sqrt(static_cast<double>(std::max(places(x), places(g))));
}

// Every layer's backward against the gradient that the device had behind it.
void judgeBackward(std::vector<Seen>& rows, const Mutant& device, MutantNet& net,
                   const std::vector<at::Tensor>& outputs, const Variant& variant) {
  const auto logits = onHost(outputs.back());
  auto g = onHost(gradientOf(outputs.back()));
  rows.push_back(
      alone("backward/loss", g, host::lossGradient(logits, device.labels), kRounded.ieee, variant));
  auto parameters = net.named_parameters();
  for (size_t k = device.layers.size(); k-- > 0;) {
    const auto& layer = device.layers[k];
    const auto before = k == 0 ? device.image : onHost(outputs[k - 1]);
    const auto want = host::backward(layer, before, weightOf(device, layer, ".weight"), g);
    const double bound = ownBound(layer, variant);
    const auto name = "backward/" + layer.name;
    if (layer.isProduct()) {
      const double many = manyTerms(before, g);
      rows.push_back(alone(name + ".weight", gradientOf(parameters[layer.name + ".weight"]),
                           want.weight, std::max(bound, many), variant));
      rows.push_back(alone(name + ".bias", gradientOf(parameters[layer.name + ".bias"]), want.bias,
                           std::max(kRounded.ieee, many), variant));
    }
    if (k == 0) break;  // the image wants no gradient
    g = want.input.value;
    if (!outputs[k - 1].requires_grad())
      continue;  // of a step that has no derivative: not computed
    const auto next = gradientOf(outputs[k - 1]);
    rows.push_back(alone(name, next, want.input, bound, variant));
    g = onHost(next);
  }
}

// On a GPU both math modes, with cuDNN and without; no flag changes float64.
std::vector<Variant> variantsOn(const std::string& device) {
  const Variant base{.device = device, .dtype = "float32"};
  std::vector<Variant> variants{base, {.device = device, .dtype = "float64"}};
  if (!base.onGpu()) return variants;
  for (auto one : std::vector<Variant>(variants)) {
    one.cudnn = false;
    variants.push_back(one);
  }
  for (const bool cudnn : {true, false}) {
    auto one = base;
    one.math = "tf32";
    one.cudnn = cudnn;
    variants.push_back(one);
  }
  return variants;
}

using Judge = Record (*)(const SweepMutant&, const Mutant&, const Variant&, bool);

std::vector<Check> checksOf(const Options& options) {
  const auto sweep = std::make_shared<const std::vector<SweepMutant>>(loadSweep(options.goldens));
  const bool ignoreIeee = options.fault == "ignore-ieee";
  poisonMemory(options.deviceKind);
  const std::vector<std::pair<std::string, Judge>> parts{
      {"free_running", sweepFree}, {"layers", sweepLayers}, {"training", sweepTraining}};
  std::vector<Check> checks;
  for (const auto& device : visibleDevices(options.deviceKind))
    for (const auto& variant : variantsOn(device))
      for (size_t k = 0; k < sweep->size(); ++k)
        for (const auto& [part, run] : parts) {
          auto check = checkOf("mutation_sweep", (*sweep)[k].mutant.name + "_" + part, variant);
          check.smoke = k < 8 && part == "free_running" && variant.dtype == "float32";
          check.run = [=, run = run] {
            const auto& one = (*sweep)[k];
            return run(one, one.mutant, variant, ignoreIeee);
          };
          checks.push_back(std::move(check));
        }
  return checks;
}

// Of each variant and part: how many mutants, the worst result, what failed, and how many
// discontinuities moved.
void printSweep(const std::vector<Record>& records) {
  struct Line {
    int64_t mutants = 0, failed = 0, moved = 0;
    double worst = 0;
    std::string where;
  };
  std::map<std::string, Line> lines;
  for (const auto& record : records) {
    if (record.operatorName != "mutation_sweep" || !record.details.is_object()) continue;
    std::string part;
    for (const char* one : {"free_running", "layers", "training"})
      if (record.caseName.ends_with(one)) part = one;
    auto& line = lines[record.variantName + " " + part];
    ++line.mutants;
    line.failed += record.status == Status::kFailed ? 1 : 0;
    if (record.details.contains("moved")) line.moved += record.details.at("moved").empty() ? 0 : 1;
    for (const auto& row : seenIn(record, "rows")) {
      if (row.ratio < line.worst) continue;
      line.worst = row.ratio;
      line.where = record.caseName + " " + row.name;
    }
  }
  std::printf("%-40s %8s %7s %9s %7s\n", "mutation_sweep", "mutants", "failed", "worst", "moved");
  for (const auto& [name, line] : lines)
    std::printf("  %-38s %8lld %7lld %9.3g %7lld  %s\n", name.c_str(),
                static_cast<long long>(line.mutants), static_cast<long long>(line.failed),
                line.worst, static_cast<long long>(line.moved), line.where.c_str());
}

}  // namespace

std::vector<SweepMutant> loadSweep(const std::filesystem::path& goldens) {
  const auto [json, data] = openModel(goldens, "mutation_sweep",
                                      {"format", "model", "kind", "source", "golden_unit", "modes",
                                       "mutants", "values", "bounds", "data", "sha256"});
  const auto modes = json.at("modes").get<std::vector<std::string>>();
  const auto values = data->tensor(json.at("values"));
  const auto bounds = data->tensor(json.at("bounds")).to(at::kDouble).contiguous();
  if (!at::logical_and(bounds.ge(0), bounds.isfinite()).all().item<bool>())
    throw GoldenError("mutation_sweep: a bound that is no number, or negative");
  const auto* next = values.const_data_ptr<double>();
  const double* end = next + values.numel();
  std::vector<SweepMutant> sweep;
  int64_t row = 0;
  for (const auto& one : json.at("mutants")) {
    SweepMutant mutant{.mutant = parseMutant(one), .host = {}, .bounds = {}};
    mutant.host = host::run(mutant.mutant);
    for (const auto& name : resultNames(mutant.mutant)) {
      if (row >= bounds.size(0)) throw GoldenError("mutation_sweep: fewer bounds than results");
      for (size_t k = 0; k < modes.size(); ++k)
        mutant.bounds[name][modes[k]] = bounds[row][static_cast<int64_t>(k)].item<double>();
      ++row;
    }
    demandAgreement(mutant, next, end);
    sweep.push_back(std::move(mutant));
  }
  if (sweep.empty() || next != end || row != bounds.size(0))
    throw GoldenError("mutation_sweep: not one mutant for each value and bound");
  return sweep;
}

Record sweepFree(const SweepMutant& golden, const Mutant& device, const Variant& variant,
                 bool ignoreIeee) {
  return guarded(variant, ignoreIeee, [&](Record& record) {
    const at::NoGradGuard noGrad;
    MutantNet net(device, variant);
    const auto outputs = net.forward(placed(device.image, variant), false);
    auto moved = nlohmann::json::array();
    std::vector<Seen> rows;
    for (size_t k = 0; k < outputs.values.size(); ++k)
      rows.push_back(freeLayer(golden, k, outputs.values[k], variant, moved));
    record.what = "all layers, each fed what the device made";
    conclude(record, rows, outputs.error, "docs/numerics.md#models: running error analysis");
    record.details["moved"] = moved;
    if (!moved.empty()) record.message += (record.message.empty() ? "" : "; ") + storyOf(moved);
  });
}

Record sweepLayers(const SweepMutant& golden, const Mutant& device, const Variant& variant,
                   bool ignoreIeee) {
  return guarded(variant, ignoreIeee, [&](Record& record) {
    const at::NoGradGuard noGrad;
    MutantNet net(device, variant);
    const auto outputs = net.forward(placed(device.image, variant), false);
    std::vector<Seen> rows;
    for (size_t k = 0; k < outputs.values.size(); ++k) {
      // What the layer should be is the golden's to say, whatever the device was built from.
      const auto& layer = golden.mutant.layers[k];
      const auto before = k == 0 ? device.image : onHost(outputs.values[k - 1]);
      const auto& got = outputs.values[k];
      const auto& wanted = golden.host.outputs[k];
      if (got.sizes() != wanted.sizes()) {  // what is behind it was fed something else
        rows.push_back(missing(layer.name));
        break;
      }
      if (layer.isStep()) {
        const auto off = outside(host::range(layer, before, 0), onHost(got));
        rows.push_back(judge(layer.name, off, at::zeros_like(off)));
        continue;
      }
      const auto want = host::forward(layer, before, weightOf(golden.mutant, layer, ".weight"),
                                      weightOf(golden.mutant, layer, ".bias"));
      rows.push_back(alone(layer.name, got, want, ownBound(layer, variant), variant));
    }
    record.what = "each layer against its own input, in u * scale over its bound";
    conclude(record, rows, outputs.error, "docs/numerics.md#models: a layer's own bound");
  });
}

Record sweepTraining(const SweepMutant& golden, const Mutant& device, const Variant& variant,
                     bool ignoreIeee) {
  return guarded(variant, ignoreIeee, [&](Record& record) {
    MutantNet net(device, variant);
    const auto outputs = net.forward(placed(device.image, variant), true);
    record.what = "loss and gradients, and each layer's backward against what the device fed it";
    const std::string why = "docs/numerics.md#models: running error analysis";
    if (!outputs.error.empty()) {
      conclude(record, {missing("loss")}, outputs.error, why);
      return;
    }
    const auto loss = at::cross_entropy_loss(outputs.values.back(), placed(device.labels, variant));
    loss.backward();
    std::vector<Seen> rows{
        compare("loss", loss, golden.host.loss, boundOf(golden, "loss", variant)),
        alone("backward/cross_entropy", loss,
              host::loss(onHost(outputs.values.back()), golden.mutant.labels), kRounded.ieee,
              variant)};
    auto parameters = net.named_parameters();
    for (const auto& name : resultNames(golden.mutant))
      if (name.starts_with("gradient/"))
        rows.push_back(compare(name, gradientOf(parameters[name.substr(9)]),
                               golden.host.gradients.at(name.substr(9)),
                               boundOf(golden, name, variant)));
    judgeBackward(rows, golden.mutant, net, outputs.values, variant);
    conclude(record, rows, "", why);
  });
}

Suite mutationSweep() {
  return {.name = "mutation_sweep",
          .testSuite = "Models/MutationSweep",
          .test = "Conforms",
          .checks = checksOf,
          .epilogue = printSweep};
}

}  // namespace assay::models
