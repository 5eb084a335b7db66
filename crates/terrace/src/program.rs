//! Reads P4 programs: the stages of the front-end one after the other, with the include files that the binary carries.

use include_dir::{Dir, include_dir};
use p4::compile::{Compiled, Stage};
use p4::parse::Parsed;
use p4::preprocess::{DiskLoader, FileLoader, Options};
use std::io;
use std::path::{Component, Path, PathBuf};

/// core.p4, v1model.p4, pna.p4.
static INCLUDES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/include");
/// The gateway program.
static GATEWAY: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/gateway");
/// The virtual switches of the cache evaluation, with what else belongs to them.
pub static VSWITCH: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../programs/vswitch");

/// Where carried files seem to be. No directory of a machine is called so, and it says in diagnostics where they come from.
const CARRIED_INCLUDES: &str = "<terrace>/include";
const CARRIED_GATEWAY: &str = "<terrace>/gateway";
/// See [`VSWITCH`].
pub const CARRIED_VSWITCH: &str = "<terrace>/vswitch";

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
    fn options(&self) -> p4::compile::Options {
        let mut include_dirs = self.include_dirs.clone();
        include_dirs.push(PathBuf::from(CARRIED_INCLUDES));
        let defines = self.defines.iter().map(|define| match define.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (define.clone(), "1".to_owned()),
        });
        p4::compile::Options { include_dirs, defines: defines.collect(), ..p4::compile::Options::default() }
    }
}

/// Reads files of the machine, and those that the binary carries.
struct Loader;

impl FileLoader for Loader {
    fn load(&self, path: &Path, max_bytes: usize) -> io::Result<String> {
        for (place, files) in [(CARRIED_INCLUDES, &INCLUDES), (CARRIED_GATEWAY, &GATEWAY), (CARRIED_VSWITCH, &VSWITCH)]
        {
            let Ok(inside) = path.strip_prefix(place) else { continue };
            let file = within(inside).and_then(|inside| files.get_file(inside)).and_then(|file| file.contents_utf8());
            return file.map(str::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        DiskLoader.load(path, max_bytes)
    }
}

/// A path without `..`; `None` if it leaves where it begins.
fn within(path: &Path) -> Option<PathBuf> {
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
pub fn parse(path: &Path, sources: &Sources) -> Parsed {
    let options = sources.options();
    let options = Options { include_dirs: options.include_dirs, defines: options.defines, limits: options.limits };
    p4::parse::parse_program(&Loader, path, &options)
}

/// Reads, parses and checks the program: the language alone, without lowering.
pub fn check(path: &Path, sources: &Sources) -> Compiled {
    let parsed = parse(path, sources);
    let mut compiled =
        Compiled { pipeline: None, diagnostics: parsed.diagnostics, source_map: parsed.source_map, hir: None };
    // Names and types of what the parser skipped would only be reported as missing.
    if !compiled.has_errors() {
        let (typed, found) = p4::check::check(&parsed.program, &compiled.source_map);
        compiled.diagnostics.extend(found);
        compiled.hir = Some(typed);
    }
    compiled
}

/// Reads, parses, checks and lowers the program, and runs all passes.
pub fn compile(path: &Path, sources: &Sources) -> Compiled {
    compile_observed(path, sources, &mut |_| {})
}

/// As [`compile`]; `observe` sees what each stage made.
pub fn compile_observed(path: &Path, sources: &Sources, observe: &mut dyn FnMut(Stage<'_>)) -> Compiled {
    p4::compile::compile_observed(&Loader, path, &sources.options(), observe)
}
