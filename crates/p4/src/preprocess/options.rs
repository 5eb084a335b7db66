//! What the caller of the preprocessor chooses.

use std::path::PathBuf;

/// What the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories in which `#include` searches, in order. For `#include "x"`, the including
    /// file's directory comes first.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the first line: name (with parameters, if any: `f(x)`) and
    /// replacement.
    pub defines: Vec<(String, String)>,
    /// Bounds on time and memory.
    pub limits: Limits,
}

/// Bounds that hostile input runs into and other input does not.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How deep `#include` nests; cpp's bound.
    pub include_depth: usize,
    /// How many files are read in all.
    pub files: usize,
    /// Bytes in one file.
    pub file_bytes: usize,
    /// Bytes of all files, and of the text that comes out.
    pub text_bytes: usize,
    /// Tokens that are put out, and tokens that macro expansion makes on the way.
    pub tokens: usize,
    /// How deep macro calls nest in arguments of macro calls.
    pub macro_depth: usize,
    /// Errors after which the rest is not looked at.
    pub errors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            include_depth: 200,
            files: 1000,
            file_bytes: 16 << 20,
            text_bytes: 128 << 20,
            tokens: 4_000_000,
            macro_depth: 200,
            errors: 100,
        }
    }
}
