// What the suites cost: wall time of their checks over a bare loop of the same boxed operator calls
// and copies, in one process.
//
// A check calls its operator twice (and its backward twice). The bare loop makes the same calls
// with arguments that were converted and laid out before the clock runs; it copies arguments in
// once, upstream gradients in once, and every result out to the host. It judges, fills, compares
// and records nothing. The suite's side is the whole check and its record as JSON, as a worker
// sends it. Start-up and the loading of goldens, once a process, are outside of both.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
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
#include "fixtures/mode.h"
#include "fixtures/options.h"

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

// One check of the bare loop, ready to run.
struct Bare {
  Variant variant;
  std::map<std::string, Prepared> prepared;
  std::map<std::string, at::Tensor> hostBuffers;
  std::vector<at::Tensor> leaves;
  std::vector<size_t> roots;  // numbers of the outputs that have an upstream gradient
  std::vector<at::Tensor> upstream;
  std::vector<at::Tensor> hostUpstream;
  BoundCall call;
};

Bare ready(const OperatorFile& file, const Case& item, const Variant& variant) {
  auto prepared = prepare(file, item, variant);
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, at::Tensor> hostBuffers;
  std::vector<at::Tensor> leaves;
  for (const auto& [name, one] : prepared) {
    hostBuffers.emplace(name, one.before.to(at::kCPU, false, true));
    auto tensor = one.argument.detach();
    if (variant.backward && item.gradients.contains(name))
      leaves.push_back(tensor.requires_grad_(true));
    tensors.emplace(name, tensor);
  }
  Bare bare{variant,
            std::move(prepared),
            std::move(hostBuffers),
            std::move(leaves),
            {},
            {},
            {},
            bindCall(file, item, variant, tensors)};
  for (size_t k = 0; variant.backward && k < item.upstream.size(); ++k) {
    if (item.upstream[k].is_null()) continue;
    bare.roots.push_back(k);
    bare.hostUpstream.push_back(hostTensor(item.upstream[k], *file.data, variant.dtype));
    bare.upstream.push_back(
        place(bare.hostUpstream.back(), variant.device, variant.layout).argument);
  }
  return bare;
}

// The calls and copies of one check; returns how long they took.
double runBare(const Bare& bare) {
  const ModeGuard guard(bare.variant, false);
  std::vector<at::Tensor> onHost;
  const auto start = Clock::now();
  for (const auto& [name, one] : bare.prepared) {
    at::Tensor buffer = one.buffer;
    buffer.copy_(bare.hostBuffers.at(name));
  }
  for (size_t k = 0; k < bare.upstream.size(); ++k) {
    at::Tensor upstream = bare.upstream[k];
    upstream.copy_(bare.hostUpstream[k]);
  }
  for (int run = 0; run < 2; ++run) {
    auto results = invoke(bare.call);
    if (bare.variant.backward) {
      std::vector<at::Tensor> roots;
      for (const size_t k : bare.roots) roots.push_back(results[k]);
      results = torch::autograd::grad(roots, bare.leaves, bare.upstream, false, false, true);
    }
    for (const auto& result : results) {
      if (result.defined()) onHost.push_back(result.detach().to(at::kCPU, false, true));
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
        pairs.push_back({check, ready(file, item, variant)});
        runBare(pairs.back().bare);
      }
    }
  }
  return pairs;
}

// The checks' side: what a worker does for each check, records sent to nobody.
double suiteSeconds(const std::vector<Pair>& pairs, std::FILE* sink) {
  poisonCpuAllocator();
  const auto start = Clock::now();
  for (const auto& pair : pairs) {
    const Record record = pair.check();
    const std::string line = toJson(record).dump() + "\n";
    std::fwrite(line.data(), 1, line.size(), sink);
    std::fflush(sink);
  }
  return since(start);
}

double bareSeconds(const std::vector<Pair>& pairs) {
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);  // filling with NaN is the suite's cost
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
      const double now = suiteSeconds(pairs, sink);
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

Settings parse(const std::vector<std::string>& arguments, const std::string& program) {
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
        throw OptionError(flag + " takes a number from 1 to 1000, not \"" + text + "\"");
      if (flag == "--limit") {
        settings.limit = number;
      } else {
        settings.repeat = static_cast<int>(number);
      }
    } else {
      others.push_back(flag);
    }
  }
  settings.options = parseCommandLine(others, program).options;
  if (settings.families.empty()) settings.families = familiesIn(settings.options.goldens);
  return settings;
}

int run(const std::vector<std::string>& arguments, const std::string& program) {
  for (const auto& argument : arguments) {
    if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  const Settings settings = parse(arguments, program);
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
    return assay::run({argv + 1, argv + argc}, argv[0]);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "bench: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
  }
  return 2;
}
