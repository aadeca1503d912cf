#include "suites/data_parallel/step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fixtures/argument.h"
#include "fixtures/gauge.h"

namespace assay::data_parallel {
namespace {

constexpr const char* kWhy = "docs/numerics.md#data-parallel: adjoints of every rounding";

std::vector<int64_t> sizesOf(const Tensors& shards) {
  std::vector<int64_t> sizes;
  for (const auto& one : shards) sizes.push_back(one.size(0));
  return sizes;
}

// The running statistics of every replica, one behind the other.
at::Tensor statesOf(const Nets& replicas, const std::string& buffer) {
  Tensors values;
  for (const auto& replica : replicas)
    values.push_back(replica->named_buffers()[buffer].detach().cpu());
  return at::stack(values);
}

// LibTorch's replicas are thrown away with their running statistics (pytorch#21144): the module
// keeps what it had, unless it ran by itself on a single device.
void judgeModuleStates(Tally& tally, const Step& step, const Layout& layout, const Setup& setup,
                       const GoldenNet& golden) {
  const bool ranItself = setup.whole && setup.count() == 1;
  for (const auto& [name, value] : golden.buffers) {
    const auto state = step.net->named_buffers()[name];
    if (ranItself && layout.states.contains(name)) {
      tally.compare(name + " of the module", state.unsqueeze(0), layout.states.at(name));
    } else {
      tally.demandSame(name + " of the module", state, value.to(state.scalar_type()));
    }
  }
}

}  // namespace

std::string Setup::name() const {
  return (whole ? "whole_x" : "pieces_x") + std::to_string(count());
}

Tally::Tally(Record& record, std::string dtype) : record_(record), dtype_(std::move(dtype)) {
  record_.status = Status::kPassed;
  record_.verdict.pass = true;
  record_.verdict.gauge = GaugeKind::kConditioned;
  record_.verdict.bound = 1;
  record_.verdict.effectiveBits = std::numeric_limits<double>::quiet_NaN();
  record_.why = kWhy;
}

void Tally::compare(const std::string& what, const at::Tensor& result, const GoldenOutput& golden) {
  auto verdict = judge(result.defined() ? result.detach() : result, golden,
                       {GaugeKind::kConditioned, 1, kWhy}, dtype_);
  // The scale is a whole step's allowance, not one operation's: no count of bits.
  verdict.effectiveBits = std::numeric_limits<double>::quiet_NaN();
  add(what, verdict);
}

void Tally::compare(const std::string& what, const std::vector<Seen>& seen) {
  demand(!seen.empty(), what + ": nothing was compared");
  for (const auto& one : seen) {
    Verdict verdict;
    verdict.pass = one.beyond == 0 && one.checked > 0;
    verdict.checked = one.checked;
    verdict.failing = one.beyond;
    verdict.error = one.ratio;
    verdict.message = c10::str("differs by ", one.difference, ", bound ", one.bound);
    add(what.empty() ? one.name : what + " " + one.name, verdict);
  }
}

void Tally::demand(bool right, const std::string& otherwise) {
  ++record_.verdict.checked;
  if (right) return;
  ++record_.verdict.failing;
  record_.verdict.pass = false;
  record_.verdict.error = std::numeric_limits<double>::infinity();
  record_.status = Status::kFailed;
  record_.message += (record_.message.empty() ? "" : "; ") + otherwise;
}

void Tally::demandSame(const std::string& what, const at::Tensor& result,
                       const at::Tensor& wanted) {
  demand(result.defined() && result.scalar_type() == wanted.scalar_type() &&
             result.sizes() == wanted.sizes() && sameBits(result.detach(), wanted.detach()),
         what + ": other bits than it must have");
}

void Tally::add(const std::string& what, const Verdict& verdict) {
  auto& all = record_.verdict;
  const bool worse = record_.what.empty() || (!verdict.pass && all.pass) ||
                     (verdict.pass == all.pass && verdict.error > all.error);
  all.checked += verdict.checked;
  all.failing += verdict.pass ? 0 : std::max<int64_t>(verdict.failing, 1);
  if (worse) {
    record_.what = what;
    all.worst = verdict.worst;
  }
  all.error = std::isnan(verdict.error) ? std::numeric_limits<double>::infinity()
                                        : std::max(all.error, verdict.error);
  if (verdict.pass) return;
  all.pass = false;
  record_.status = Status::kFailed;
  record_.message += (record_.message.empty() ? "" : "; ") + what + ": " + verdict.message;
}

at::Tensor inputOf(const GoldenNet& golden, int64_t batch, const Setup& setup,
                   const Variant& variant) {
  return place(golden.input.narrow(0, 0, batch).to(scalarType(variant.dtype)), setup.home().str(),
               variant.layout)
      .argument;
}

Pieces forward(const std::shared_ptr<Net>& net, const at::Tensor& input, const Setup& setup,
               int64_t dim, const Between& between) {
  if (!setup.whole) return runPieces(net, input, setup.devices, setup.output, dim, between);
  Pieces run;
  run.output = runWhole(net, input, setup.devices, setup.output, dim);
  return run;
}

Step trainingStep(const GoldenNet& golden, std::shared_ptr<Net> net, int64_t batch,
                  const Setup& setup, const Variant& variant, const Fault& fault) {
  Step step{.net = std::move(net)};
  step.pieces = forward(step.net, inputOf(golden, batch, setup, variant), setup, 0, fault);
  step.output = step.pieces.output;
  const auto labels = golden.labels.narrow(0, 0, batch).to(step.output.device());
  step.loss = at::cross_entropy_loss(step.output, labels);
  step.loss.backward();
  if (fault.differentiated) fault.differentiated(*step.net);
  return step;
}

void judgeStep(Tally& tally, const Step& step, const Layout& layout, const Setup& setup,
               const GoldenNet& golden) {
  tally.compare("output", step.output, layout.output);
  tally.demand(step.output.device() == setup.output, "the output is on another device than asked");
  tally.compare("loss", step.loss, layout.loss);
  auto parameters = step.net->named_parameters();
  for (const auto& [name, gradient] : layout.gradients)
    tally.compare("gradient of " + name, parameters[name].grad(), gradient);
  judgeModuleStates(tally, step, layout, setup, golden);
  if (setup.whole) return;
  tally.demand(sizesOf(step.pieces.shards) == layout.shards,
               "the batch was cut into other shards than its golden's");
  for (const auto& [name, state] : layout.states)
    tally.compare(name + " of the replicas", statesOf(step.pieces.replicas, name), state);
}

std::shared_ptr<Net> netFor(const GoldenNet& golden, const Setup& setup, const Variant& variant) {
  auto net = golden.make(variant.dtype, setup.home().str());
  net->train(golden.name != "data_parallel_mlp");
  return net;
}

}  // namespace assay::data_parallel
