// The command `assay`: what a run found, what a check means, which operators there are. Reads
// goldens and records alone, so it needs no LibTorch and starts at once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "fixtures/core/files.h"
#include "fixtures/core/version.h"
#include "tools/assay/commands.h"
#include "tools/assay/problem.h"
#include "tools/assay/registered.h"

namespace {

constexpr const char* kFooter =
    R"(RUN is a run's folder or its name under results/; without it, the newest one.
Exit codes: 0 done, 1 a check of the run failed, crashed or was lost (summary, report) or the gate rejects, 2 it
cannot be done.

  assay summary                          what the newest run found
  assay explain mm__m16_k16_n16__cpu_float32_forward
                                         one check: arguments, golden, error, bound and why
  assay list 'conv*' --cases             the operators, their cases and their bounds
  assay report                           the newest run as a page, JUnit XML and Markdown
  assay gate --baseline A B --candidate C D
                                         did an upgrade change what this machine computes?
  assay bundle RUN... -o evidence.tar.zst
                                         packs runs as evidence; verify checks such a bundle
  assay env                              this machine: LibTorch, CUDA, cuDNN, driver, GPUs, flags)";

// Adds the commands to `app`; what was chosen is in `run` after the parse.
class Commands {
 public:
  explicit Commands(CLI::App& app) {
    auto* env = app.add_subcommand("env", "the environment of a run, or of this machine now");
    env->add_option("RUN", run_,
                    "a run's folder or its name under results/; without it this machine");
    env->add_flag("--json", json_, "as JSON (docs/records.md)");
    env->callback([this] { code_ = assay::showEnvironment(run_, json_); });

    auto* resources = app.add_subcommand(
        "resources", "CTest's resource specification of this machine's GPUs, one suite on each");
    resources->add_option("RUN", run_,
                          "a run's folder or its name under results/; without it this machine");
    resources->add_option("--slots", slots_, "suites at once on a GPU (default 1)")
        ->check(CLI::Range(1, 64));
    resources->add_option("-o,--output", output_, "the file (default: standard output)");
    resources->footer("docs/multi-gpu.md tells how CTest takes it.");
    resources->callback([this] { code_ = assay::writeResources(run_, slots_, output_); });

    auto* list =
        app.add_subcommand("list", "the operators: cases, gauge and bound per dtype and math");
    list->add_option(
        "PATTERN", list_.patterns,
        "globs on an operator (conv*), family/operator or ATen's name (add, add.Tensor)");
    list->add_option("--family", list_.family, "one family alone");
    list->add_flag("--cases", list_.cases, "every case with its arguments, source and note");
    list->add_flag("--json", list_.asJson, "as JSON");
    addGoldens(list);
    list->callback([this] {
      list_.goldens = goldens_;
      code_ = assay::listOperators(list_);
    });

    auto* summary =
        app.add_subcommand("summary", "one screen: per suite and device what passed and failed");
    summary->add_option("RUN", run_,
                        "a run's folder or its name under results/; without it the newest");
    summary->callback([this] { code_ = assay::summarize(run_); });

    auto* explain = app.add_subcommand("explain", "one check from its golden to its verdict");
    explain->add_option("TEST", explain_.test, "a test's name, a part that only it has, or a glob")
        ->required();
    explain->add_option("RUN", run_,
                        "a run's folder or its name under results/; without it the newest");
    explain->add_option("--known-defects", explain_.knownDefects,
                        "known wrong answers of LibTorch");
    addGoldens(explain);
    explain->callback([this] {
      explain_.run = run_;
      explain_.goldens = goldens_;
      if (explain_.knownDefects.empty()) explain_.knownDefects = assay::defaultKnownDefects();
      code_ = assay::explain(explain_);
    });

    auto* report = app.add_subcommand("report", "a run as a page, as JUnit XML and as Markdown");
    report->add_option("RUN", run_,
                       "a run's folder or its name under results/; without it the newest");
    report->add_option("--html", report_.html,
                       "the page (default: report.html in the run's folder)");
    report->add_option("--junit", report_.junit, "JUnit XML (default: junit.xml there)");
    report->add_option("--markdown", report_.markdown, "Markdown (default: report.md there)");
    report->add_option("--waivers", report_.waivers, "accepted failures (docs/waivers.md)");
    report->callback([this] {
      report_.run = run_;
      code_ = assay::report(report_);
    });

    auto* bundle = app.add_subcommand("bundle", "packs runs as evidence for an acceptance");
    bundle->add_option("RUN", bundle_.runs, "the runs")->required();
    bundle->add_option("-o,--output", bundle_.output, "the bundle, evidence.tar.zst")->required();
    bundle->add_option("--log", bundle_.log, "CTest's log of the runs, to pack with them");
    bundle->add_option("--sign", bundle_.key, "an SSH key to sign the manifest with (ssh-keygen)");
    addGoldens(bundle);
    bundle->callback([this] {
      bundle_.goldens = goldens_;
      code_ = assay::bundle(bundle_);
    });

    auto* verify = app.add_subcommand("verify", "is a bundle what it claims to be?");
    verify->add_option("BUNDLE", verify_.bundle, "evidence.tar.zst")->required();
    verify->add_option("--profile", verify_.profile,
                       "what it must hold: datacenter, training, inference, or a file");
    verify->add_option("--signers", verify_.signers,
                       "who may have signed it: a file of allowed signers as for ssh-keygen");
    verify->add_option("--challenge", verify_.challenge,
                       "the WORD of --store N:WORD that you had given");
    verify->add_option("--assay", verify_.assay,
                       "the version of Assay that made the runs (default: this one)");
    verify->add_option("--json", verify_.json, "write the verdict to this file");
    verify->add_option("--known-defects", verify_.knownDefects, "known wrong answers of LibTorch");
    verify->add_option(
        "--checks", verify_.checks,
        "the checks of suites without operator goldens (default suites/checks.json)");
    addGoldens(verify);
    verify->footer(
        "Exit codes: 0 accept, 1 reject, 2 cannot judge. docs/acceptance.md is the handbook.");
    verify->callback([this] {
      verify_.goldens = goldens_;
      if (verify_.knownDefects.empty()) verify_.knownDefects = assay::defaultKnownDefects();
      if (verify_.checks.empty()) verify_.checks = assay::defaultRegistered();
      code_ = assay::verify(verify_);
    });

    auto* gate = app.add_subcommand("gate", "did an upgrade change what this machine computes?");
    auto* pair = gate->add_option("RUNS", twoRuns_, "BASELINE CANDIDATE, one run each");
    pair->expected(2);
    gate->add_option("--baseline", gate_.baseline,
                     "runs before the upgrade; two or more show what is unstable")
        ->excludes(pair);
    gate->add_option("--candidate", gate_.candidate, "runs after it")->excludes(pair);
    gate->add_option("--json", gate_.json, "write every check that is not identical to this file");
    gate->add_option("--markdown", gate_.markdown, "write the verdict to this file, as Markdown");
    gate->add_option("--html", gate_.html, "write the verdict to this file, as a page");
    gate->add_option("--waivers", gate_.waivers, "accepted failures (docs/waivers.md)");
    gate->footer(
        "Exit codes: 0 accept, 1 reject, 2 cannot judge. docs/gate.md says what each word means.");
    gate->callback([this] {
      if (!twoRuns_.empty()) {
        gate_.baseline = {twoRuns_[0]};
        gate_.candidate = {twoRuns_[1]};
      }
      if (gate_.baseline.empty()) throw CLI::RequiredError("--baseline (or two runs)");
      if (gate_.candidate.empty()) throw CLI::RequiredError("--candidate (or two runs)");
      code_ = assay::gate(gate_);
    });
  }

  [[nodiscard]] int code() const { return code_; }

 private:
  void addGoldens(CLI::App* command) {
    command->add_option(
        "--goldens", goldens_,
        "the folder with index.json (default ASSAY_GOLDENS, else beside the program "
        "or the source tree)");
  }

  std::optional<std::string> run_;
  bool json_ = false;
  int slots_ = 1;
  std::filesystem::path output_;
  std::filesystem::path goldens_ = assay::defaultGoldens();
  assay::ListOptions list_;
  assay::ExplainOptions explain_;
  assay::ReportOptions report_;
  assay::GateOptions gate_;
  std::vector<std::string> twoRuns_;
  assay::BundleOptions bundle_;
  assay::VerifyOptions verify_;
  int code_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("assay: what a conformance run found, and why", "assay");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "assay " + assay::assayVersion());
  const Commands commands(app);
  try {
    const auto all = app.get_subcommands([](const CLI::App*) { return true; });
    if (argc > 1 && *argv[1] != '-' &&
        std::none_of(all.begin(), all.end(),
                     [&](const CLI::App* one) { return one->get_name() == argv[1]; }))
      throw CLI::ParseError(std::string("there is no command '") + argv[1] + "'", 2);
    app.parse(argc, argv);
    return commands.code();
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    std::cerr << "assay: " << error.what() << "; assay --help lists what there is\n";
  } catch (const std::exception& error) {
    std::cerr << "assay: " << error.what() << "\n";
  }
  return 2;
}
