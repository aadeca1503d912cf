// What the suites cost: wall time of their checks over a bare loop of the same boxed operator calls
// and copies, in one process.
//
// A check calls its operator twice (and its backward twice). The bare loop makes the same calls and
// copies: each argument and upstream gradient converted to the dtype under test and copied to the
// device in the variant's layout, the arguments bound to the schema, two calls, every result copied
// to the host. It seeds, fills, judges, compares and records nothing, and sets its modes off the
// clock. The suite's side is the whole check and its record as JSON, as a worker sends it. Start-up
// and the loading of goldens, once a process, are outside of both.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "fixtures/argument.h"
#include "fixtures/call.h"
#include "fixtures/check.h"
#include "fixtures/forms.h"
#include "fixtures/lengths.h"
#include "fixtures/mode.h"
#include "fixtures/options.h"
#include "fixtures/poison.h"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Settings {
  Options options;
  std::set<std::string> families;
  int repeat = 3;
  double limit = 1.5;
};

// An argument as the golden stores it, and where it goes.
struct Source {
  std::string name;
  at::Tensor stored;  // host
  at::ScalarType type;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  int64_t extent = 0;  // of its buffer; 0: contiguous
  bool leaf = false;
};

// A stored tensor on its way to the device: converted and copied, nothing else.
at::Tensor arrive(const Source& source, const std::string& device) {
  const auto values = source.stored.to(source.type);
  if (source.extent == 0) return values.to(c10::Device(device), false, true);
  const auto buffer =
      at::empty({source.extent}, at::TensorOptions(source.type).device(c10::Device(device)));
  auto argument = buffer.as_strided(values.sizes(), source.strides, source.offset);
  argument.copy_(values);
  return argument;
}

Source sourceOf(const std::string& name, const nlohmann::json& value, const Prepared& prepared,
                const SafeTensors& data) {
  const auto& argument = prepared.argument;
  Source source{name, hostTensor(value, data, "float64"), argument.scalar_type(),
                argument.strides().vec(), argument.storage_offset()};
  // A view that the golden spells out may overlap itself: its dense copy stands in for it.
  if (!argument.is_contiguous() && !value.contains("strided"))
    source.extent = prepared.buffer.numel();
  if (argument.is_contiguous() && argument.storage_offset() > 0)
    source.extent = prepared.buffer.numel();
  return source;
}

// The calls and copies of one check.
struct Bare {
  const OperatorFile* file;
  const Case* item;
  Variant variant;
  std::vector<Source> arguments;
  std::vector<Source> upstream;
  std::vector<size_t> roots;           // numbers of the outputs that have an upstream gradient
  std::shared_ptr<const CutCase> cut;  // of a lengths variant, instead of the fields above
};

Bare bareOf(const OperatorFile& file, const Case& item, const Variant& variant) {
  Bare bare{&file, &item, variant, {}, {}, {}, {}};
  if (variant.lengths) {
    bare.cut = std::make_shared<CutCase>(cutCase(file, item, variant));
    return bare;
  }
  const auto arguments =
      variant.form.empty() ? prepare(file, item, variant) : prepareForm(file, item, variant);
  for (const auto& [name, one] : arguments) {
    const size_t dot = name.find('.');
    const auto base = name.substr(0, dot);
    if (!item.args.contains(base)) {  // an out= tensor: made where it is used
      const auto& view = one.argument;
      bare.arguments.push_back({name, view.to(at::kCPU), view.scalar_type(), view.strides().vec(),
                                view.storage_offset(), one.buffer.numel()});
      continue;
    }
    const auto& value = dot == std::string::npos
                            ? item.args.at(base)
                            : item.args.at(base).at(std::stoul(name.substr(dot + 1)));
    bare.arguments.push_back(sourceOf(name, value, one, *file.data));
    bare.arguments.back().leaf = variant.backward && item.gradients.contains(name);
  }
  for (size_t k = 0; variant.backward && k < item.upstream.size(); ++k) {
    if (item.upstream[k].is_null()) continue;
    const auto placed = place(hostTensor(item.upstream[k], *file.data, variant.dtype),
                              variant.device, variant.layout);
    bare.roots.push_back(k);
    bare.upstream.push_back(sourceOf("", item.upstream[k], placed, *file.data));
  }
  return bare;
}

// Outputs, or gradients for the leaves.
std::vector<at::Tensor> invokeFor(const BoundCall& call, const std::vector<at::Tensor>& leaves,
                                  const std::vector<size_t>& roots,
                                  const std::vector<at::Tensor>& upstream, bool backward) {
  auto results = invoke(call);
  if (!backward) return results;
  std::vector<at::Tensor> outputs;
  outputs.reserve(roots.size());
  for (const size_t k : roots) outputs.push_back(results.at(k));
  return torch::autograd::grad(outputs, leaves, upstream, false, false, true);
}

// A lengths variant: each buffer travels once, every piece is called twice, each result's pieces
// come back as one.
double runBareCut(const Bare& bare) {
  const ModeGuard guard(bare.variant, false);
  const auto& cut = *bare.cut;
  const auto start = Clock::now();
  const auto travel = [&](const auto& whole) {
    std::map<typename std::decay_t<decltype(whole)>::key_type, at::Tensor> arrived;
    for (const auto& [name, one] : whole)
      arrived.emplace(name, one.before.to(c10::Device(bare.variant.device),
                                          one.before.scalar_type(), false, true));
    return arrived;
  };
  const auto arguments = travel(cut.arguments);
  const auto seeds = travel(cut.upstream);
  const auto view = [](const at::Tensor& buffer, const Prepared& piece) {
    return buffer.as_strided(piece.argument.sizes(), piece.argument.strides(),
                             piece.argument.storage_offset());
  };
  std::vector<std::vector<at::Tensor>> parts[2];
  for (size_t k = 0; k < cut.cuts.size(); ++k) {
    std::map<std::string, at::Tensor> tensors;
    std::vector<at::Tensor> leaves;
    std::vector<at::Tensor> upstream;
    std::vector<size_t> roots;
    for (const auto& [name, one] : cut.pieces[k]) {
      auto tensor = view(arguments.at(name), one);
      if (bare.variant.backward && cut.item.gradients.contains(name))
        leaves.push_back(tensor.requires_grad_(true));
      tensors.emplace(name, std::move(tensor));
    }
    for (const auto& [number, one] : cut.pieceUpstream[k]) {
      roots.push_back(number);
      upstream.push_back(view(seeds.at(number), one));
    }
    const auto call = bindCall(*bare.file, *bare.item, bare.variant, tensors);
    for (auto& run : parts)
      run.push_back(invokeFor(call, leaves, roots, upstream, bare.variant.backward));
  }
  for (const auto& run : parts) {
    for (size_t k = 0; k < run.front().size(); ++k) {
      std::vector<at::Tensor> one;
      one.reserve(run.size());
      for (const auto& piece : run) one.push_back(piece[k]);
      if (one.front().defined()) at::cat(one).detach().to(at::kCPU);
    }
  }
  return since(start);
}

// Returns how long they took.
double runBare(const Bare& bare) {
  if (bare.cut) return runBareCut(bare);
  const ModeGuard guard(bare.variant, false);
  const auto start = Clock::now();
  std::map<std::string, at::Tensor> tensors;
  std::vector<at::Tensor> leaves;
  std::vector<at::Tensor> upstream;
  std::vector<at::Tensor> onHost;
  for (const auto& source : bare.arguments) {
    auto tensor = arrive(source, bare.variant.device);
    if (source.leaf) leaves.push_back(tensor.requires_grad_(true));
    tensors.emplace(source.name, std::move(tensor));
  }
  for (const auto& source : bare.upstream) upstream.push_back(arrive(source, bare.variant.device));
  const auto call = bindCall(*bare.file, *bare.item, bare.variant, tensors);
  for (int run = 0; run < 2; ++run) {
    const auto results = invokeFor(call, leaves, bare.roots, upstream, bare.variant.backward);
    for (const auto& result : results) {
      if (result.defined()) onHost.push_back(result.detach().to(at::kCPU));
    }
  }
  return since(start);
}

// A check and its twin in the bare loop.
struct Pair {
  std::function<Record()> check;
  Bare bare;
};

// What both sides run: checks that end in a verdict. A warm-up run of each side loads kernels and
// sorts out what this device does not have.
std::vector<Pair> pairsOf(const Settings& settings, const std::string& device,
                          const std::vector<OperatorFile>& files) {
  std::vector<Pair> pairs;
  for (const auto& file : files) {
    if (!available(file)) continue;
    for (const auto& item : file.cases) {
      if (item.expectError || !item.mutates.empty()) continue;
      for (const auto& variant : variantsOf(file, item, device, settings.options.smoke)) {
        const auto check = [&file, &item, variant] { return runCheck(file, item, variant, false); };
        const auto record = check();
        if (record.verdict.checked == 0) continue;
        pairs.push_back({check, bareOf(file, item, variant)});
        runBare(pairs.back().bare);
      }
    }
  }
  return pairs;
}

// The checks' side: what a worker does for each check, records sent to nobody.
double suiteSeconds(const std::vector<Pair>& pairs, const std::string& deviceKind,
                    std::FILE* sink) {
  poisonMemory(deviceKind);
  const auto start = Clock::now();
  for (const auto& pair : pairs) {
    const Record record = pair.check();
    const std::string line = toText(record) + "\n";
    std::fwrite(line.data(), 1, line.size(), sink);
    std::fflush(sink);
  }
  return since(start);
}

double bareSeconds(const std::vector<Pair>& pairs) {
  stopPoisoning();  // filling with NaN is the suite's cost
  double total = 0;
  for (const auto& pair : pairs) total += runBare(pair.bare);
  return total;
}

void printRow(const std::string& name, size_t checks, double suite, double bare) {
  std::printf("%-16s %7zu %10.4f %10.4f %7.2f %10.0f\n", name.c_str(), checks, suite, bare,
              suite / bare, static_cast<double>(checks) / suite);
}

// The best of `repeat` rounds a side, the two sides in turns: other work on the machine only adds.
int measure(const Settings& settings, const std::string& device) {
  std::FILE* sink = std::fopen("/dev/null", "w");
  std::printf("%-16s %7s %10s %10s %7s %10s\n", device.c_str(), "checks", "suite s", "bare s",
              "ratio", "checks/s");
  size_t checks = 0;
  double suite = 0;
  double bare = 0;
  for (const auto& family : settings.families) {
    const auto files = loadFamily(settings.options.goldens, family);
    const auto pairs = pairsOf(settings, device, files);
    double bestSuite = 0;
    double bestBare = 0;
    for (int round = 0; round < settings.repeat; ++round) {
      const double now = suiteSeconds(pairs, settings.options.deviceKind, sink);
      const double nowBare = bareSeconds(pairs);
      bestSuite = round == 0 ? now : std::min(bestSuite, now);
      bestBare = round == 0 ? nowBare : std::min(bestBare, nowBare);
    }
    printRow(family, pairs.size(), bestSuite, bestBare);
    checks += pairs.size();
    suite += bestSuite;
    bare += bestBare;
  }
  std::fclose(sink);
  printRow("all", checks, suite, bare);
  if (checks == 0) throw GoldenError("no check ran: nothing was measured");
  std::printf("suite %.4f s, bare %.4f s, ratio %.2f (limit %.2f), %.0f checks/s\n", suite, bare,
              suite / bare, settings.limit, static_cast<double>(checks) / suite);
  return suite / bare <= settings.limit ? 0 : 1;
}

std::set<std::string> familiesIn(const std::filesystem::path& goldens) {
  std::ifstream stream(goldens / "index.json");
  const auto index = nlohmann::json::parse(stream, nullptr, false);
  if (index.is_discarded())
    throw GoldenError("no goldens in " + goldens.string() + ": name their folder with --goldens");
  std::set<std::string> families;
  for (const auto& row : index.at("operators")) families.insert(row.at("family"));
  return families;
}

constexpr const char* kUsage =
    "usage: bench [options]   time of the suites' checks over a bare loop of the same calls\n"
    "  --device cpu|cuda    where (default: cpu)\n"
    "  --family NAME        only this family; may be repeated (default: all)\n"
    "  --repeat N           rounds a side, the best counts (default: 3)\n"
    "  --limit X            exit code 1 where the ratio is larger (default: 1.5)\n"
    "  --goldens DIR        the goldens (default: beside the program or the source tree)\n"
    "  --smoke              only the default variants\n";

Settings parse(const std::vector<std::string>& arguments) {
  Settings settings;
  std::vector<std::string> others;  // what a suite takes too
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto value = [&] {
      if (i + 1 >= arguments.size()) throw OptionError(arguments[i] + " needs a value");
      return arguments[++i];
    };
    const std::string flag = arguments[i];
    if (flag == "--family") {
      settings.families.insert(value());
    } else if (flag == "--repeat" || flag == "--limit") {
      const std::string text = value();
      char* end = nullptr;
      const double number = std::strtod(text.c_str(), &end);
      if (*end != '\0' || !(number >= 1 && number <= 1000))
        throw OptionError(c10::str(flag, " takes a number from 1 to 1000, not \"", text, "\""));
      if (flag == "--limit") {
        settings.limit = number;
      } else {
        settings.repeat = static_cast<int>(number);
      }
    } else {
      others.push_back(flag);
    }
  }
  settings.options = parseCommandLine(others).options;
  if (settings.families.empty()) settings.families = familiesIn(settings.options.goldens);
  return settings;
}

int run(const std::vector<std::string>& arguments) {
  for (const auto& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  const Settings settings = parse(arguments);
  const auto devices = visibleDevices(settings.options.deviceKind);
  if (devices.empty()) {
    std::printf("no %s device here: skipped\n", settings.options.deviceKind.c_str());
    return 77;
  }
  return measure(settings, devices.front());
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  try {
    return assay::run({argv + 1, argv + argc});
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "bench: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
  }
  return 2;
}
