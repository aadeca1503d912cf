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

// Throws Problem for a path that is a folder, or a pipe or a device, which a writer would wait for
// or overwrite; /dev/null, /dev/stdout and /dev/stderr may be written.
void demandWritable(const std::filesystem::path& path);

// Throws Problem for such a path, and where the folder takes no file.
void writeFile(const std::filesystem::path& path, const std::string& bytes);

}  // namespace assay
