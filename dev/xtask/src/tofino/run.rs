//! Runs the compiler and terrace.

use super::report::{self, ChipResources, Row};
use super::{Chip, Halves, Program};
use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wait_timeout::ChildExt;

/// Maximum number of bytes to read of a compiler's output.
const MAX_OUTPUT: usize = 1 << 20;
/// Maximum number of bytes to read of a compiler's report.
const MAX_REPORT: u64 = 64 << 20;

/// Seed of key digests. It is constant, because no entries are written with it.
const DIGEST_SEED: &str = "7";

/// The chip's compiler.
#[derive(Clone, Copy)]
pub(super) struct Compiler<'a> {
    pub(super) p4c: &'a Path,
    pub(super) includes: &'a [PathBuf],
    /// Time limit for a program.
    pub(super) limit: Duration,
}

/// Programs to run.
pub(super) struct Tools<'a> {
    pub(super) compiler: Compiler<'a>,
    pub(super) terrace: &'a Path,
    pub(super) lower_half: bool,
    pub(super) compress: &'a str,
}

impl Tools<'_> {
    /// Emits a program, compiles it and plans it.
    pub(super) fn compile_and_plan(&self, program: &Program, chip: Chip, dir: &Path) -> Result<Row> {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let text = dir.join(format!("{}.p4", program.name()));
        let mut halves = Halves::Ingress;
        let mut compiled = self.emit_and_compile(halves, program, chip, &text, dir)?;
        if compiled.is_err() {
            // Both gresses together have more stages. A program that is refused for another reason
            // is refused again.
            let both = self.emit_and_compile(Halves::Both, program, chip, &text, dir)?;
            if both.is_ok() {
                (halves, compiled) = (Halves::Both, both);
            }
        }
        let planned = self.plan(halves, program, chip, dir)?;
        Ok(Row { program: program.name(), chip, halves, compiled, planned })
    }

    fn emit_and_compile(
        &self,
        halves: Halves,
        program: &Program,
        chip: Chip,
        text: &Path,
        dir: &Path,
    ) -> Result<Result<ChipResources, String>> {
        Ok(match self.emit(halves, program, chip, text, dir)? {
            Ok(()) => {
                self.compiler.compile(chip, text, dir)?.and_then(|used| report::check_stages(used, chip.stages()))
            }
            Err(why) => Err(format!("not emitted: {why}")),
        })
    }

    /// Emits a program for a chip to the file `text`, with one gress or both. The inner error is
    /// the first message of a refusal.
    fn emit(
        &self,
        halves: Halves,
        program: &Program,
        chip: Chip,
        text: &Path,
        dir: &Path,
    ) -> Result<Result<(), String>> {
        let mut command = Command::new(self.terrace);
        command.arg("emit").arg(&program.path).args(["--target", chip.names()[1], "-o"]).arg(text);
        command.args(["--compress", self.compress, "--digest-seed", DIGEST_SEED]);
        if halves == Halves::Both {
            command.arg("--use-egress");
        }
        if let Some(sizes) = &program.sizes {
            command.arg("--sizes").arg(sizes);
        }
        if self.lower_half {
            command.arg("--lower-half").arg(dir.join("below.p4"));
        }
        let (is_emitted, output) = run_program(self.compiler.limit, command, &dir.join("emit.log"), false)?;
        Ok(if is_emitted { Ok(()) } else { Err(report::first_error(&output)) })
    }

    /// Plans one pipe, for the emitted program.
    fn plan(&self, halves: Halves, program: &Program, chip: Chip, dir: &Path) -> Result<Result<ChipResources, String>> {
        let mut command = Command::new(self.terrace);
        command.arg("plan").arg(&program.path).args(["--target", chip.names()[2]]);
        command.args(["--fold", "1", "--compress", self.compress, "--as-emitted", "--json"]);
        if halves == Halves::Both {
            command.arg("--use-egress");
        }
        if let Some(sizes) = &program.sizes {
            command.arg("--sizes").arg(sizes);
        }
        let path = dir.join("plan.json");
        command.stdout(File::create(&path).with_context(|| format!("making {}", path.display()))?);
        let (_, output) = run_program(self.compiler.limit, command, &dir.join("plan.log"), true)?;
        let json = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(match serde_json::from_slice(&json) {
            Ok(json) => report::parse_plan(&json),
            Err(_) => Err(report::first_error(&output)),
        })
    }
}

impl Compiler<'_> {
    /// Compiles a program. Returns its resources on a chip with an unlimited number of stages, or
    /// the reason of a refusal.
    pub(super) fn compile(&self, chip: Chip, text: &Path, dir: &Path) -> Result<Result<ChipResources, String>> {
        let out = dir.join("out");
        let [target, arch, _, number] = chip.names();
        let mut command = Command::new(self.p4c);
        command.args(["--target", target, "--arch", arch, "--std", "p4-16", "-g", "-o"]).arg(&out);
        command.arg(format!("-D__TARGET_TOFINO__={number}"));
        // Macros of the compiler's driver, because the include files require a version.
        command.args(["-D__p4c__=1", "-D__p4c_major__=9", "-D__p4c_minor__=13", "-D__p4c_patchlevel__=4"]);
        for include in self.includes {
            command.arg("-I").arg(include);
        }
        command.arg(text);
        let (is_compiled, output) = run_program(self.limit, command, &dir.join("compile.log"), false)?;
        if !is_compiled {
            return Ok(Err(report::first_error(&output)));
        }
        let path = out.join("pipe/logs/resources.json");
        let size = std::fs::metadata(&path).with_context(|| format!("the compiler wrote no {}", path.display()))?.len();
        anyhow::ensure!(size <= MAX_REPORT, "{} has {size} bytes", path.display());
        let json = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let json = serde_json::from_slice(&json).with_context(|| format!("reading {}", path.display()))?;
        Ok(Ok(report::parse_resources(&json)))
    }
}

/// Runs a program with its output in a file. Returns the start of the output.
fn run_program(limit: Duration, mut command: Command, log: &Path, keeps_output: bool) -> Result<(bool, String)> {
    let file = File::create(log).with_context(|| format!("making {}", log.display()))?;
    if !keeps_output {
        command.stdout(file.try_clone().context("writing a log")?);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stderr(file)
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    let Some(status) = child.wait_timeout(limit).context("waiting for a program")? else {
        child.kill().context("ending a program")?;
        child.wait().context("ending a program")?;
        return Ok((false, format!("error: it took more than {} s", limit.as_secs())));
    };
    let bytes = std::fs::read(log).with_context(|| format!("reading {}", log.display()))?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_OUTPUT)]).into_owned();
    Ok((status.success(), text))
}
