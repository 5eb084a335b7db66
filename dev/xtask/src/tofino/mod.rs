//! Compiles the programs that `terrace emit` writes for Tofino with the chip's open compiler (p4c
//! with its tofino back-end), and compares the result with `terrace plan` for the same program and
//! sizes.
//!
//! | file | decides |
//! |---|---|
//! | `run` | running the compiler and terrace, with a time limit |
//! | `tables` | comparison of the memory model with the compiler, for random single tables |
//! | `report` | parsing the compiler's resource report and terrace's plan, and the table of both |

mod report;
mod run;
mod tables;

pub use tables::TablesArgs;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options for the chip's compiler.
#[derive(Debug, Args)]
struct CompilerArgs {
    /// Compiler: p4c's `p4c-barefoot`.
    #[arg(long, value_name = "FILE")]
    p4c: PathBuf,
    /// Directory of its include files (core.p4, tna.p4, t2na.p4); may be repeated.
    #[arg(long = "include", value_name = "DIR")]
    includes: Vec<PathBuf>,
    /// Keep the programs and all output of the compiler in DIR.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Time limit of the compiler for one program, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    time_limit: u64,
}

impl CompilerArgs {
    fn compiler(&self) -> Result<run::Compiler<'_>> {
        ensure!(self.p4c.is_file(), "there is no compiler at {}", self.p4c.display());
        let limit = Duration::from_secs(self.time_limit);
        Ok(run::Compiler { p4c: &self.p4c, includes: &self.includes, limit })
    }

    /// Returns the folder for programs and reports. If it is not kept, dropping the first element
    /// removes it.
    fn output_folder(&self) -> (Option<TemporaryFolder>, PathBuf) {
        match &self.keep {
            Some(dir) => (None, dir.clone()),
            None => {
                let dir = std::env::temp_dir().join(format!("terrace-tofino-{}", std::process::id()));
                (Some(TemporaryFolder(dir.clone())), dir)
            }
        }
    }
}

/// Compile terrace's Tofino programs with the chip's open compiler, and print the result next to
/// terrace's plan.
#[derive(Debug, Args)]
pub struct TofinoArgs {
    #[command(flatten)]
    compiler: CompilerArgs,
    /// The terrace binary. Default: the one in this program's folder (`cargo build --bin terrace`).
    #[arg(long, value_name = "FILE")]
    terrace: Option<PathBuf>,
    /// Use only this chip. Default: both.
    #[arg(long)]
    chip: Option<Chip>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Partition off everything that the chip cannot express (`terrace emit --lower-half`), and
    /// compile the upper half.
    #[arg(long)]
    lower_half: bool,
    /// Compress tables first (`terrace emit --compress`): auto, none, or steps in order.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// Exit with 1 if a program is refused.
    #[arg(long)]
    check: bool,
    /// Programs, each optionally with a sizing file after a colon. Default: the repository's
    /// gateway, overlay, vswitch and PNA programs.
    #[arg(value_name = "FILE.p4[:SIZES.toml]")]
    programs: Vec<String>,
}

/// Generation of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Chip {
    /// Tofino 1: 12 stages.
    Tofino1,
    /// Tofino 2: 20 stages.
    Tofino2,
}

impl Chip {
    /// Returns the names in the compiler, `terrace emit` and `terrace plan`, and the number in the
    /// compiler's macro.
    fn names(self) -> [&'static str; 4] {
        match self {
            Chip::Tofino1 => ["tofino", "tna", "tofino1", "1"],
            Chip::Tofino2 => ["tofino2", "t2na", "tofino2", "2"],
        }
    }

    /// Returns the number of stages of a pipe.
    fn stages(self) -> u64 {
        match self {
            Chip::Tofino1 => 12,
            Chip::Tofino2 => 20,
        }
    }
}

/// Gresses that a program was emitted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Halves {
    /// Only ingress.
    Ingress,
    /// Ingress, with the code after the choice of the egress port in egress.
    Both,
}

/// A program to compile, with the sizes of its tables.
#[derive(Clone, Debug)]
struct Program {
    path: PathBuf,
    sizes: Option<PathBuf>,
}

impl Program {
    fn parse(text: &str) -> Program {
        match text.rsplit_once(':') {
            Some((path, sizes)) => Program { path: path.into(), sizes: Some(sizes.into()) },
            None => Program { path: text.into(), sizes: None },
        }
    }

    fn name(&self) -> String {
        self.path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

impl TofinoArgs {
    /// Runs the task. Returns false if a program was refused with `--check`.
    ///
    /// # Errors
    /// If a file is missing, or a program cannot be started.
    pub fn run(self) -> Result<bool> {
        let compiler = self.compiler.compiler()?;
        let terrace = match &self.terrace {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("finding this program")?.with_file_name("terrace"),
        };
        ensure!(terrace.is_file(), "there is no terrace at {}: cargo build --bin terrace", terrace.display());
        let programs = match self.programs.is_empty() {
            true => repository()?,
            false => self.programs.iter().map(|text| Program::parse(text)).collect(),
        };
        let chips = self.chip.map_or_else(|| vec![Chip::Tofino1, Chip::Tofino2], |chip| vec![chip]);
        let (temporary, dir) = self.compiler.output_folder();
        let mut rows = Vec::new();
        for program in &programs {
            for chip in &chips {
                let tools =
                    run::Tools { compiler, terrace: &terrace, lower_half: self.lower_half, compress: &self.compress };
                rows.push(tools.compile_and_plan(program, *chip, &dir.join(chip.names()[2]).join(program.name()))?);
            }
        }
        drop(temporary);
        match self.json {
            true => println!("{}", serde_json::to_string_pretty(&rows)?),
            false => print!("{}", report::table(&rows)),
        }
        Ok(!self.check || rows.iter().all(|row| row.compiled.is_ok()))
    }
}

/// A directory that is removed when dropped.
struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Errors are ignored, because the directory is in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the repository's programs for PNA. A `chip.toml` next to one has its table sizes on a
/// chip.
fn repository() -> Result<Vec<Program>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut programs = Vec::new();
    for name in ["gateway", "overlay"] {
        let dir = root.join("programs").join(name);
        let sizes = Some(dir.join("chip.toml")).filter(|path| path.is_file());
        programs.push(Program { path: dir.join(format!("{name}.p4")), sizes });
    }
    let vswitch = root.join("programs/vswitch");
    let mut paths: Vec<PathBuf> = sorted_files(&vswitch)?.into_iter().filter(|path| path.is_dir()).collect();
    paths = paths.iter().map(|dir| sorted_files(dir)).collect::<Result<Vec<_>>>()?.concat();
    paths.extend(sorted_files(&root.join("tests/corpus/pna"))?);
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "p4"));
    paths.sort();
    programs.extend(paths.into_iter().map(|path| {
        let sizes = Some(path.with_file_name("chip.toml")).filter(|sizes| sizes.is_file());
        Program { path, sizes }
    }));
    Ok(programs)
}

fn sorted_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}
