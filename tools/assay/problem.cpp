#include "tools/assay/problem.h"

#include <fstream>
#include <set>

namespace assay {

void demandWritable(const std::filesystem::path& path) {
  static const std::set<std::filesystem::path> kStreams{"/dev/null", "/dev/stdout", "/dev/stderr"};
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !kStreams.contains(path))
    throw Problem("cannot write " + path.string() + ": it is a " +
                  (std::filesystem::is_directory(status) ? "folder" : "pipe or a device") +
                  "; name a file, /dev/stdout or /dev/null");
}

void writeFile(const std::filesystem::path& path, const std::string& bytes) {
  demandWritable(path);
  std::ofstream file(path, std::ios::binary);
  const bool opened = file.is_open();
  file << bytes;
  file.close();
  if (file) return;
  std::error_code ignored;
  if (opened && std::filesystem::is_regular_file(path, ignored))
    std::filesystem::remove(path, ignored);  // half a report is none
  throw Problem("cannot write " + path.string() +
                ": is the disk full, or the folder missing or read-only?");
}

}  // namespace assay
