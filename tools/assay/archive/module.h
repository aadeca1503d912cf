// The two functions of the module assay_archive.so. Each leaves in `problem` what went wrong, in
// one sentence; empty: nothing.
#pragma once

#include <filesystem>
#include <string>

#include "tools/assay/archive.h"

namespace assay {

using PackFunction = void(const std::filesystem::path&, const ArchiveFiles&, std::string& problem);
using UnpackFunction = void(const std::filesystem::path&, ArchiveFiles&, std::string& problem);

}  // namespace assay
