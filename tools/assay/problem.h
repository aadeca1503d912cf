// What ends a command of `assay` with exit code 2: one sentence that says what is wrong and what
// to do.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace assay {

class Problem : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws Problem where the folder takes no file.
void writeFile(const std::filesystem::path& path, const std::string& bytes);

}  // namespace assay
