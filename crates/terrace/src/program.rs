//! Reads P4 programs: runs the stages of the front-end with the include files in the binary.

use include_dir::{Dir, include_dir};
use p4::compile::{Compilation, CompileStage};
use p4::parse::ParsedProgram;
use p4::preprocess::{DiskLoader, FileLoader, PreprocessOptions};
use std::io;
use std::path::{Component, Path, PathBuf};

/// Include files: core.p4, v1model.p4, pna.p4.
static INCLUDES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/include");
/// Files of the gateway program.
static GATEWAY: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/gateway");
/// Files of the virtual switches of the cache evaluation.
pub static VSWITCH: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/vswitch");

/// Pseudo-directory of built-in files. It names their origin in diagnostics, and no real directory
/// has this name.
const CARRIED_INCLUDES: &str = "<terrace>/include";
const CARRIED_GATEWAY: &str = "<terrace>/gateway";
/// Pseudo-directory of [`VSWITCH`].
pub const CARRIED_VSWITCH: &str = "<terrace>/vswitch";

/// Default program.
pub const DEFAULT_PROGRAM: &str = "<terrace>/gateway/gateway.p4";

/// Include directories and macros.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Directories, searched before the built-in files.
    pub include_dirs: Vec<PathBuf>,
    /// Macros, as `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
}

impl Sources {
    fn options(&self) -> p4::compile::CompileOptions {
        let mut include_dirs = self.include_dirs.clone();
        include_dirs.push(PathBuf::from(CARRIED_INCLUDES));
        let defines = self.defines.iter().map(|define| match define.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (define.clone(), "1".to_owned()),
        });
        p4::compile::CompileOptions {
            include_dirs,
            defines: defines.collect(),
            ..p4::compile::CompileOptions::default()
        }
    }
}

/// Loads files of the machine and built-in files.
struct Loader;

impl FileLoader for Loader {
    fn load(&self, path: &Path, max_bytes: usize) -> io::Result<String> {
        for (place, files) in [(CARRIED_INCLUDES, &INCLUDES), (CARRIED_GATEWAY, &GATEWAY), (CARRIED_VSWITCH, &VSWITCH)]
        {
            let Ok(inside) = path.strip_prefix(place) else { continue };
            let file =
                normalize_path(inside).and_then(|inside| files.get_file(inside)).and_then(|file| file.contents_utf8());
            return file.map(str::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        DiskLoader.load(path, max_bytes)
    }
}

/// Returns the path without `..` components; `None` if it leaves its starting directory.
fn normalize_path(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.pop() => {}
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(plain)
}

/// Reads and parses the program.
pub fn parse(path: &Path, sources: &Sources) -> ParsedProgram {
    let options = sources.options();
    let options =
        PreprocessOptions { include_dirs: options.include_dirs, defines: options.defines, limits: options.limits };
    p4::parse::parse_program(&Loader, path, &options)
}

/// Reads, parses and checks the program: only the language, without lowering.
pub fn check(path: &Path, sources: &Sources) -> Compilation {
    let parsed = parse(path, sources);
    let mut compiled =
        Compilation { pipeline: None, diagnostics: parsed.diagnostics, source_map: parsed.source_map, hir: None };
    // Not run after syntax errors, because names and types that the parser skipped would be
    // reported as missing.
    if !compiled.has_errors() {
        let (typed, found) = p4::check::check(&parsed.program, &compiled.source_map);
        compiled.diagnostics.extend(found);
        compiled.hir = Some(typed);
    }
    compiled
}

/// Reads, parses, checks and lowers the program, and runs all passes.
pub fn compile(path: &Path, sources: &Sources) -> Compilation {
    compile_observed(path, sources, &mut |_| {})
}

/// Compiles like [`compile`], and calls `observe` with the result of each stage.
pub fn compile_observed(path: &Path, sources: &Sources, observe: &mut dyn FnMut(CompileStage<'_>)) -> Compilation {
    p4::compile::compile_observed(&Loader, path, &sources.options(), observe)
}
