//! The tree's own files, for tests that check them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folders of packages.
pub const FOLDERS: [&str; 4] = ["crates", "switch", "caches", "dev"];

/// Returns the packages of the workspace, by name, with their folders.
pub fn packages() -> BTreeMap<String, PathBuf> {
    let inside = |folder: &str| std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    let named = |path: PathBuf| {
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).ok()?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))?;
        Some((name.to_owned(), path))
    };
    FOLDERS.iter().flat_map(|folder| inside(folder)).filter_map(|entry| named(entry.path())).collect()
}

/// Returns the files below a folder with one of these extensions, except in hidden folders and
/// build output.
pub fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, extensions));
        } else if path.extension().is_some_and(|own| extensions.iter().any(|wanted| own == *wanted)) {
            found.push(path);
        }
    }
    found
}

/// Reads a file's text.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("sources are text")
}

/// Returns whether a text has words that end at the end of a name: `struct Foo`, but not in `struct
/// Foobar`.
pub fn has_words(text: &str, words: &str) -> bool {
    let goes_on = |at: usize| text[at + words.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(words).any(|(at, _)| !goes_on(at))
}

/// Returns whether a text in backquotes is a path: a name of files, with a slash or an extension.
pub fn is_path(quoted: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    quoted.chars().all(is_name) && (quoted.contains('/') || Path::new(quoted).extension().is_some())
}
