//! What `terrace emit` writes for Tofino, judged by the chip's open compiler (p4c with its tofino back-end), beside what `terrace plan`
//! says of the same program with the same sizes.
//!
//! | file | decides |
//! |---|---|
//! | `run` | running the compiler and terrace, with a time limit |
//! | `tables` | single tables made at random, and the model of the chip's memories beside what the compiler used for them |
//! | `report` | what the compiler's report of resources and terrace's plan say, and the table of both |

mod report;
mod run;
mod tables;

pub use tables::TablesArgs;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The chip's compiler, as tasks are told of it.
#[derive(Debug, Args)]
struct CompilerArgs {
    /// The compiler: p4c's `p4c-barefoot`.
    #[arg(long, value_name = "FILE")]
    p4c: PathBuf,
    /// A directory with its include files (core.p4, tna.p4, t2na.p4); may be repeated.
    #[arg(long = "include", value_name = "DIR")]
    includes: Vec<PathBuf>,
    /// Keep the programs and all that the compiler writes in DIR.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Seconds that the compiler may take for one program.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    time_limit: u64,
}

impl CompilerArgs {
    fn compiler(&self) -> Result<run::Compiler<'_>> {
        ensure!(self.p4c.is_file(), "there is no compiler at {}", self.p4c.display());
        let limit = Duration::from_secs(self.time_limit);
        Ok(run::Compiler { p4c: &self.p4c, includes: &self.includes, limit })
    }

    /// Where programs and reports go; what is not kept is removed with the first of both.
    fn folder(&self) -> (Option<Remove>, PathBuf) {
        match &self.keep {
            Some(dir) => (None, dir.clone()),
            None => {
                let dir = std::env::temp_dir().join(format!("terrace-tofino-{}", std::process::id()));
                (Some(Remove(dir.clone())), dir)
            }
        }
    }
}

/// Give what terrace emits for Tofino to the chip's open compiler, and print what it says beside terrace's plan.
#[derive(Debug, Args)]
pub struct TofinoArgs {
    #[command(flatten)]
    compiler: CompilerArgs,
    /// The terrace binary; the one beside this program unless given (`cargo build --bin terrace`).
    #[arg(long, value_name = "FILE")]
    terrace: Option<PathBuf>,
    /// Only this chip; both unless given.
    #[arg(long)]
    chip: Option<Chip>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Cut off what the chip has no form for (`terrace emit --below`), and judge what is above.
    #[arg(long)]
    below: bool,
    /// Make tables smaller first (`terrace emit --compress`): auto, none, or steps in their order.
    #[arg(long, value_name = "auto|none|STEPS", default_value = "none")]
    compress: String,
    /// Exit with 1 if a program is refused.
    #[arg(long)]
    check: bool,
    /// Programs, each with a sizing file after a colon if wanted; the repository's gateway, overlay, vswitch and PNA programs unless given.
    #[arg(value_name = "FILE.p4[:SIZES.toml]")]
    programs: Vec<String>,
}

/// A generation of the chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Chip {
    /// The first: 12 stages.
    Tofino1,
    /// The second: 20 stages.
    Tofino2,
}

impl Chip {
    /// As the compiler, `terrace emit` and `terrace plan` call it, and the number in the compiler's macro.
    fn names(self) -> [&'static str; 4] {
        match self {
            Chip::Tofino1 => ["tofino", "tna", "tofino1", "1"],
            Chip::Tofino2 => ["tofino2", "t2na", "tofino2", "2"],
        }
    }

    /// Stages of a pipe.
    fn stages(self) -> u64 {
        match self {
            Chip::Tofino1 => 12,
            Chip::Tofino2 => 20,
        }
    }
}

/// The halves of a pipe that a program was emitted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Halves {
    /// All in ingress.
    Ingress,
    /// Ingress, and egress behind the decision about the port.
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
    /// Runs the task; false if `--check` found a refusal.
    ///
    /// # Errors
    /// A file that is not there, a program that can't be started.
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
        let (temporary, dir) = self.compiler.folder();
        let mut rows = Vec::new();
        for program in &programs {
            for chip in &chips {
                let tools = run::Tools { compiler, terrace: &terrace, below: self.below, compress: &self.compress };
                rows.push(tools.judge(program, *chip, &dir.join(chip.names()[2]).join(program.name()))?);
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

/// A directory that is removed in the end.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        // It is in the system's directory for such files; if it stays, it is lost there.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The repository's programs for PNA; `chip.toml` beside one says how many entries its tables have on a chip.
fn repository() -> Result<Vec<Program>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut programs = Vec::new();
    for name in ["gateway", "overlay"] {
        let dir = root.join("programs").join(name);
        let sizes = Some(dir.join("chip.toml")).filter(|path| path.is_file());
        programs.push(Program { path: dir.join(format!("{name}.p4")), sizes });
    }
    let vswitch = root.join("programs/vswitch");
    let mut paths: Vec<PathBuf> = files(&vswitch)?.into_iter().filter(|path| path.is_dir()).collect();
    paths = paths.iter().map(|dir| files(dir)).collect::<Result<Vec<_>>>()?.concat();
    paths.extend(files(&root.join("tests/corpus/pna"))?);
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "p4"));
    paths.sort();
    programs.extend(paths.into_iter().map(|path| {
        let sizes = Some(path.with_file_name("chip.toml")).filter(|sizes| sizes.is_file());
        Program { path, sizes }
    }));
    Ok(programs)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}
