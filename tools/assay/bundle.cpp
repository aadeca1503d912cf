// assay bundle: packs runs as evidence.
#include "tools/assay/bundle.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "fixtures/core/command.h"
#include "fixtures/core/files.h"
#include "fixtures/core/plan.h"
#include "fixtures/core/sha256.h"
#include "fixtures/core/text.h"
#include "fixtures/core/version.h"
#include "tools/assay/commands.h"
#include "tools/assay/records.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string need(const fs::path& path) {
  auto bytes = readFile(path);
  if (!bytes) throw Problem("cannot read " + path.string());
  return std::move(*bytes);
}

// Is it a file that a run is made of? Reports and whatever else lies there stay out.
bool belongs(const fs::path& path) {
  const auto name = path.filename().string();
  return name == "environment.json" || name.ends_with(".jsonl") || name.ends_with(".plan.json") ||
         name.ends_with(".outputs");
}

// A run that is not whole is no evidence; one that failed is.
json addRun(const std::string& name, const fs::path& output, size_t number, ArchiveFiles& files) {
  const Run run = readRun(findRun(name));
  std::error_code ignored;
  if (fs::equivalent(run.folder, fs::absolute(output).parent_path(), ignored))
    throw Problem("choose an output outside of the run's folder " + run.folder.string());
  if (run.environment.is_null())
    throw Problem(run.folder.string() + " has no environment.json: it is no evidence");
  if (!run.lost.empty()) throw Problem(run.folder.string() + ": " + run.lost.front());
  if (textOf(run.environment, "assay").find("-dirty") != std::string::npos)
    std::fprintf(stderr,
                 "%s was made by an Assay with uncommitted changes: assay verify will reject it\n",
                 run.folder.c_str());
  if (const auto bad = std::count_if(run.checks.begin(), run.checks.end(), failed); bad > 0)
    std::fprintf(stderr, "%s holds %s: assay verify will reject it\n", run.folder.c_str(),
                 counted(static_cast<size_t>(bad), "failed check", "failed checks").c_str());
  const std::string folder = "runs/" + std::to_string(number);
  for (const auto& entry : fs::directory_iterator(run.folder)) {
    if (entry.is_regular_file() && belongs(entry.path()))
      files[folder + "/" + entry.path().filename().string()] = need(entry.path());
  }
  return {{"folder", folder},
          {"host", run.environment.value("host", json())},
          {"time", run.environment.value("time", json())},
          {"checks", run.checks.size()}};
}

std::string sign(const std::string& manifest, const fs::path& key) {
  const ScratchFolder scratch;
  const auto file = scratch.path() / kManifest;
  writeFile(file, manifest);
  const auto output = runCommand("ssh-keygen -Y sign -f " + shellQuoted(key.string()) + " -n " +
                                 kSignatureSpace + " " + shellQuoted(file.string()) + " 2>&1");
  if (output.code != 0)
    throw Problem("ssh-keygen could not sign with " + key.string() + ": " + output.text);
  return need(scratch.path() / kSignature);
}

// Under a name of its own until it is whole: a good bundle is not lost to a full disk, nor to
// another process that writes it at the same time.
void writeBundle(const fs::path& output, const ArchiveFiles& files) {
  const fs::path partial = output.string() + "." + std::to_string(getpid()) + ".partial";
  std::error_code failed, ignored;
  try {
    packArchive(partial, files);
    fs::rename(partial, output, failed);
  } catch (const Problem&) {
    fs::remove(partial, ignored);
    throw;
  }
  if (!failed) return;
  fs::remove(partial, ignored);
  throw Problem("cannot write " + output.string() + ": " + failed.message());
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::error_code error;
  const auto home = fs::temp_directory_path(error);
  if (error) throw Problem("there is no folder for temporary files: set TMPDIR to one");
  std::string name = (home / "assay.XXXXXX").string();
  if (!mkdtemp(name.data())) throw Problem("cannot make a folder in " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

int bundle(const BundleOptions& options) {
  // It is renamed into its place: a device of that name would be gone.
  if (std::error_code ignored;
      fs::exists(options.output, ignored) && !fs::is_regular_file(options.output, ignored))
    throw Problem("cannot write " + options.output.string() + ": a bundle is a plain file");
  ArchiveFiles files;
  json runs = json::array();
  for (const auto& name : options.runs)
    runs.push_back(addRun(name, options.output, runs.size() + 1, files));
  files["golden-index.json"] = need(options.goldens / "index.json");
  if (!options.log.empty()) files["ctest.log"] = need(options.log);
  json hashes;
  for (const auto& [name, bytes] : files) hashes[name] = sha256Hex(bytes);
  const json manifest{{"format", 1},
                      {"assay", assayVersion()},
                      {"created", utcNow()},
                      {"runs", runs},
                      {"files", std::move(hashes)}};
  files[kManifest] = manifest.dump(2) + "\n";
  if (!options.key.empty()) files[kSignature] = sign(files[kManifest], options.key);
  writeBundle(options.output, files);
  std::printf("%s: %s, %zu files%s\n  manifest %s\n", options.output.c_str(),
              counted(runs.size(), "run", "runs").c_str(), files.size(),
              options.key.empty() ? ", not signed" : ", signed",
              sha256Hex(files[kManifest]).c_str());
  return 0;
}

}  // namespace assay
