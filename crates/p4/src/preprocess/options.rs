//! Options and limits of the preprocessor.

use std::path::PathBuf;

/// Options of the preprocessor.
#[derive(Clone, Debug, Default)]
pub struct PreprocessOptions {
    /// Directories in which `#include` searches, in order. `#include "x"` searches the directory of
    /// the including file first.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the first line: name (with optional parameters: `f(x)`) and
    /// replacement.
    pub defines: Vec<(String, String)>,
    /// Limits on time and memory.
    pub limits: PreprocessLimits,
}

/// Limits that only hostile input exceeds.
#[derive(Clone, Debug)]
pub struct PreprocessLimits {
    /// Maximum nesting of `#include`; the same limit as cpp's.
    pub include_depth: usize,
    /// Maximum number of files.
    pub files: usize,
    /// Maximum size of one file in bytes.
    pub file_bytes: usize,
    /// Maximum total size of all files and of the output text, in bytes.
    pub text_bytes: usize,
    /// Maximum number of output tokens, and of intermediate tokens of macro expansion.
    pub tokens: usize,
    /// Maximum nesting of macro calls in arguments of macro calls.
    pub macro_depth: usize,
    /// Number of errors after which preprocessing stops.
    pub errors: usize,
}

impl Default for PreprocessLimits {
    fn default() -> Self {
        PreprocessLimits {
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
