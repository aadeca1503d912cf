// assay env: the environment manifest. assay resources: its GPUs, as CTest takes them.
#include <iostream>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "fixtures/core/text.h"
#include "tools/assay/commands.h"
#include "tools/assay/records.h"

namespace assay {
namespace {

using nlohmann::json;

json probe() {
  const auto program = programFolder() / "assay_probe";
  if (!std::filesystem::exists(program)) {
    throw Problem(
        program.string() +
        " is not there: build it (ninja assay_probe), or name a run whose manifest to show");
  }
  const CommandOutput output = runCommand(shellQuoted(program.string()));
  if (output.code == 127) {
    throw Problem(
        "the probe found no LibTorch (its message is above): put LibTorch's lib folder and those "
        "of "
        "its nvidia/* packages into LD_LIBRARY_PATH");
  }
  json environment = json::parse(output.text, nullptr, false);
  if (output.code != 0 || !environment.is_object()) {
    throw Problem("the probe failed with exit code " + std::to_string(output.code) +
                  ": its message is above");
  }
  return environment;
}

// Null: what could not be read.
std::string words(const json& value) {
  if (value.is_null()) return "none";
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void row(const std::string& name, const std::string& value) {
  std::cout << "  " << name << std::string(name.size() < 32 ? 32 - name.size() : 1, ' ') << value
            << "\n";
}

void rows(const json& object, const std::string& prefix = "") {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      rows(value, prefix + name + ".");
    } else if (const std::string text = words(value); text.find('\n') == std::string::npos) {
      row(prefix + name, text);
    }
  }
}

std::string field(const json& environment, const char* pointer) {
  return words(environment.value(json::json_pointer(pointer), json()));
}

void printSoftware(const json& environment) {
  std::cout << "software\n";
  row("assay", field(environment, "/assay"));
  row("goldens", field(environment, "/goldens_sha256"));
  row("libtorch", field(environment, "/libtorch/loaded") + " (compiled for " +
                      field(environment, "/libtorch/compiled") + ")");
  row("cuda", "compiled " + field(environment, "/cuda/compiled") + ", runtime " +
                  field(environment, "/cuda/runtime") + ", driver serves " +
                  field(environment, "/cuda/driver"));
  row("cudnn", "compiled " + field(environment, "/cudnn/compiled") + ", loaded " +
                   field(environment, "/cudnn/loaded"));
  row("nccl", field(environment, "/nccl"));
  row("driver", field(environment, "/driver"));
}

void print(const json& environment) {
  std::cout << field(environment, "/host") << ", " << field(environment, "/time") << "\n";
  if (const auto fault = textOf(environment, "fault"); !fault.empty())
    std::cout << "a run with a planted fault: " << fault << "\n";
  printSoftware(environment);
  const json gpus = environment.value("gpus", json::array());
  if (gpus.empty()) std::cout << "no GPU: " << field(environment, "/gpu_problem") << "\n";
  for (const auto& gpu : gpus) {
    std::cout << textOf(gpu, "device") << "\n";
    rows(gpu);
  }
  for (const char* part : {"cpu", "flags", "variables", "system"}) {
    std::cout << part << "\n";
    rows(environment.value(part, json::object()));
  }
}

// Of a run, or of this machine now.
json environmentOf(const std::optional<std::string>& run) {
  if (!run) return probe();
  const auto folder = findRun(run);
  auto found = readEnvironment(folder);
  if (!found)
    throw Problem("there is no environment.json in " + folder.string() +
                  ": was a suite run there?");
  return std::move(*found);
}

}  // namespace

int showEnvironment(const std::optional<std::string>& run, bool asJson) {
  const json environment = environmentOf(run);
  if (asJson) {
    std::cout << environment.dump(2) << "\n";
  } else {
    print(environment);
  }
  return 0;
}

int writeResources(const std::optional<std::string>& run, int slots,
                   const std::filesystem::path& output) {
  const json environment = environmentOf(run);
  json gpus = json::array();
  for (const auto& gpu : environment.value("gpus", json::array())) {
    const auto device = textOf(gpu, "device");  // "cuda:1"
    gpus.push_back({{"id", device.substr(device.find(':') + 1)}, {"slots", slots}});
  }
  if (gpus.empty())
    throw Problem("there is no GPU to spread suites over: " + field(environment, "/gpu_problem"));
  const json specification{{"version", {{"major", 1}, {"minor", 0}}},
                           {"local", {{{"gpus", gpus}}}}};
  const auto text = specification.dump(2) + "\n";
  if (output.empty())
    std::cout << text;
  else
    writeFile(output, text);
  return 0;
}

}  // namespace assay
