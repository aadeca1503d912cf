// A bundle of evidence: runs in one tar.zst, with a manifest of hashes that can be signed.
// docs/acceptance.md is the handbook for the one who makes it and the one who checks it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/assay/archive.h"

namespace assay {

inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kSignature = "manifest.json.sig";
inline constexpr const char* kSignatureSpace = "assay-evidence";  // ssh-keygen -Y sign -n

// A folder of its own that goes away with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace assay
