#include "tools/assay/problem.h"

#include <fstream>

namespace assay {

void writeFile(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file)
    throw Problem("cannot write " + path.string() + ": is the disk full, or the folder missing?");
}

}  // namespace assay
