#include "tools/assay/archive/module.h"

#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <sstream>

namespace assay {
namespace {

// More than any honest bundle holds: a small file must not fill the memory.
constexpr size_t kMostBytes = size_t{4} << 30;
constexpr size_t kMostFiles = 10'000, kLongestName = 200;

// Why an entry cannot be taken; empty: it can.
std::string refusal(const ArchiveFiles& files, const std::string& name, mode_t type) {
  if (type != AE_IFREG) return "is no plain file";
  if (name.empty() || name.front() == '/') return "has an absolute name";
  if (files.size() >= kMostFiles) return "is one too many: no bundle of Assay holds so many files";
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part.empty() || part == "." || part == "..") return "leads out of the archive";
  }
  return files.contains(name) ? "occurs twice" : "";
}

std::string readEntries(archive* in, const std::string& where, ArchiveFiles& files) {
  archive_entry* entry = nullptr;
  size_t total = 0;
  while (true) {
    const int status = archive_read_next_header(in, &entry);
    if (status == ARCHIVE_EOF) return "";
    if (status != ARCHIVE_OK)
      return where + " is no archive of Assay, or is damaged: " + archive_error_string(in);
    const char* given = archive_entry_pathname(entry);
    const std::string name = given ? given : "";
    if (name.size() > kLongestName)
      return where + " has a name of " + std::to_string(name.size()) +
             " bytes: it is no bundle of Assay";
    if (const auto why = refusal(files, name, archive_entry_filetype(entry)); !why.empty())
      return where + ": the entry \"" + name + "\" " + why;
    auto& bytes = files[name];
    std::string piece(1 << 16, '\0');
    while (true) {
      const auto got = archive_read_data(in, piece.data(), piece.size());
      if (got == 0) break;
      if (got < 0) return where + " is damaged in " + name + ": " + archive_error_string(in);
      bytes.append(piece, 0, static_cast<size_t>(got));
      total += static_cast<size_t>(got);
      if (total > kMostBytes) return where + " holds more than 4 GiB: it is no bundle of Assay";
    }
  }
}

std::string writeEntries(archive* out, const ArchiveFiles& files) {
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  for (const auto& [name, bytes] : files) {
    archive_entry_clear(entry.get());
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<int64_t>(bytes.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_mtime(entry.get(), 0, 0);  // the same runs make the same bundle
    if (archive_write_header(out, entry.get()) != ARCHIVE_OK ||
        archive_write_data(out, bytes.data(), bytes.size()) !=
            static_cast<la_ssize_t>(bytes.size()))
      return archive_error_string(out);
  }
  return archive_write_close(out) == ARCHIVE_OK ? "" : archive_error_string(out);
}

}  // namespace

extern "C" void assayPack(const std::filesystem::path& path, const ArchiveFiles& files,
                          std::string& problem) {
  const std::unique_ptr<archive, int (*)(archive*)> out(archive_write_new(), archive_write_free);
  if (archive_write_add_filter_zstd(out.get()) != ARCHIVE_OK ||
      archive_write_set_format_pax_restricted(out.get()) != ARCHIVE_OK ||
      archive_write_open_filename(out.get(), path.c_str()) != ARCHIVE_OK) {
    problem = archive_error_string(out.get());
  } else {
    problem = writeEntries(out.get(), files);
  }
  if (!problem.empty()) problem = "cannot write " + path.string() + ": " + problem;
}

extern "C" void assayUnpack(const std::filesystem::path& path, ArchiveFiles& files,
                            std::string& problem) {
  const std::unique_ptr<archive, int (*)(archive*)> in(archive_read_new(), archive_read_free);
  archive_read_support_filter_zstd(in.get());
  archive_read_support_format_tar(in.get());
  if (archive_read_open_filename(in.get(), path.c_str(), 1 << 16) != ARCHIVE_OK)
    problem = "cannot read " + path.string() + ": " + archive_error_string(in.get());
  else
    problem = readEntries(in.get(), path.string(), files);
}

}  // namespace assay
