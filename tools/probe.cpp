// assay_probe [--goldens FOLDER]: prints the environment manifest (JSON) of this machine as it is
// now. A program of its own because it must load LibTorch, which the `assay` command does not.
#include <filesystem>
#include <iostream>

#include "fixtures/core/files.h"
#include "fixtures/environment.h"

namespace {

int refuse(const std::string& sentence) {
  std::cerr << "assay_probe: " << sentence << "\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--goldens"))
    return refuse("usage: assay_probe [--goldens FOLDER]");
  try {
    const auto environment =
        assay::describeEnvironment(argc == 3 ? argv[2] : assay::defaultGoldens());
    std::cout << environment.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
              << std::endl;
    return std::cout ? 0 : refuse("cannot write to standard output");
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}
