#include "tools/assay/archive.h"

#include <dlfcn.h>

#include "fixtures/core/files.h"
#include "tools/assay/archive/module.h"
#include "tools/assay/problem.h"

namespace assay {
namespace {

template <typename Function>
Function* needFunction(const char* name) {
  static void* const module = [] {
    const auto file = besideProgram({"assay_archive.so", "../lib/assay/assay_archive.so"}, "");
    return dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  void* function = module ? dlsym(module, name) : nullptr;
  if (!function)
    throw Problem(
        "this Assay has no libarchive: install it (libarchive13; libarchive-dev and a new build "
        "where it was missing then)");
  return reinterpret_cast<Function*>(function);
}

}  // namespace

void packArchive(const std::filesystem::path& path, const ArchiveFiles& files) {
  std::string problem;
  needFunction<PackFunction>("assayPack")(path, files, problem);
  if (!problem.empty()) throw Problem(problem);
}

ArchiveFiles unpackArchive(const std::filesystem::path& path) {
  ArchiveFiles files;
  std::string problem;
  needFunction<UnpackFunction>("assayUnpack")(path, files, problem);
  if (!problem.empty()) throw Problem(problem);
  return files;
}

}  // namespace assay
