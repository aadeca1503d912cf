// The two functions of the module assay_archive.so. Each returns what went wrong in one sentence;
// empty: nothing.
#pragma once

#include <filesystem>
#include <string>

#include "tools/assay/archive.h"

namespace assay {

using PackFunction = std::string(const std::filesystem::path&, const ArchiveFiles&);
using UnpackFunction = std::string(const std::filesystem::path&, ArchiveFiles&);

}  // namespace assay
