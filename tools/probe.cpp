// assay_probe [--output FILE] [--goldens FOLDER]: writes the environment manifest (JSON) of this machine. It is a program of its own
// because it must load LibTorch, which the `assay` command does not.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "fixtures/environment.h"

namespace {

namespace fs = std::filesystem;

fs::path defaultGoldens() {
  if (const char* folder = std::getenv("ASSAY_GOLDENS"); folder && *folder) return folder;
  std::error_code ignored;
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const char* place : {"../golden", "../share/assay/golden"}) {
    if (fs::exists(self / place / "index.json")) return self / place;
  }
  return fs::path(ASSAY_SOURCE_DIR) / "golden";
}

int refuse(const std::string& sentence) {
  std::cerr << "assay_probe: " << sentence << "\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  fs::path output, goldens = defaultGoldens();
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag != "--output" && flag != "--goldens") return refuse("unknown argument " + flag + "; use --output FILE or --goldens FOLDER");
    if (++i == argc) return refuse(flag + " needs a value");
    (flag == "--output" ? output : goldens) = argv[i];
  }
  try {
    const std::string text = assay::describeEnvironment(goldens).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    if (output.empty()) {
      std::cout << text << std::flush;
      return std::cout ? 0 : refuse("cannot write to standard output");
    }
    std::ofstream file(output);
    file << text << std::flush;
    return file ? 0 : refuse("cannot write " + output.string() + ": choose a writable place with --output");
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}
