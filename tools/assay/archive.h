// A tar.zst archive, whole in memory, through libarchive. The library is loaded when it is first
// asked for, so that `assay` starts on a machine without it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace assay {

// Name in the archive ("runs/1/environment.json") → bytes.
using ArchiveFiles = std::map<std::string, std::string>;

// Throws Problem: no libarchive, a path that cannot be written.
void packArchive(const std::filesystem::path& path, const ArchiveFiles& files);

// Throws Problem: no libarchive, no such file, no archive or a broken one, a name that is absolute,
// leads upwards or occurs twice, an entry that is no plain file.
ArchiveFiles unpackArchive(const std::filesystem::path& path);

}  // namespace assay
