//! Updates the size of each crate in ARCHITECTURE.md: lines of Rust without tests, in thousands.
//! `BLESS=1` writes it.

use crate::tree::{self, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- sizes: made by dev/testkit/tests/repository/sizes.rs -->\n";
const END: &str = "<!-- end of sizes -->\n";
/// Relative deviation of a size before the page must be updated.
const TOLERANCE: f64 = 0.05;

/// Returns whether a part of a path contains only tests.
fn is_test(part: &str) -> bool {
    part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs")
}

/// Counts lines of the Rust files below a folder, up to the test module of each file.
fn lines(folder: &Path) -> usize {
    let own = |path: &PathBuf| {
        let inside = path.strip_prefix(folder).unwrap_or(path);
        !inside.iter().any(|part| is_test(&part.to_string_lossy()))
    };
    let of = |path: PathBuf| tree::read(&path).lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
    tree::files(folder, &["rs"]).into_iter().filter(own).map(of).sum()
}

fn sizes() -> BTreeMap<String, usize> {
    tree::packages().into_iter().map(|(name, folder)| (name, lines(&folder.join("src")))).collect()
}

/// Formats `| name | 12.3 |` for each crate, the largest first, and for all.
fn table(sizes: &BTreeMap<String, usize>) -> String {
    let mut rows: Vec<(&str, usize)> = sizes.iter().map(|(name, lines)| (name.as_str(), *lines)).collect();
    rows.sort_by_key(|(name, lines)| (std::cmp::Reverse(*lines), *name));
    let row = |name: &str, lines: usize| format!("| {name} | {:.1} |\n", lines as f64 / 1000.0);
    let body: String = rows.iter().map(|(name, lines)| row(&format!("`{name}`"), *lines)).collect();
    let all = row("all", rows.iter().map(|(_, lines)| lines).sum());
    format!("| crate | thousands of lines |\n|---|---:|\n{body}{all}")
}

#[test]
fn the_map_has_the_size_of_each_crate() {
    let path = root().join("ARCHITECTURE.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (before, behind) = page.split_once(BEGIN).expect("ARCHITECTURE.md has a place for sizes");
    let (written, behind) = behind.split_once(END).expect("the sizes end somewhere");
    let sizes = sizes();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{behind}", table(&sizes))).expect("the page can be written");
        return;
    }
    let kilo = |name: &str| -> Option<f64> {
        let line = written.lines().find(|line| line.starts_with(&format!("| `{name}` |")))?;
        line.split('|').nth(2)?.trim().parse().ok()
    };
    for (name, lines) in &sizes {
        let told = kilo(name).map(|kilo| kilo * 1000.0);
        let is_near = told.is_some_and(|told| (told - *lines as f64).abs() <= TOLERANCE * *lines as f64 + 60.0);
        assert!(is_near, "`{name}` has {lines} lines, ARCHITECTURE.md says {told:?}: run this test with BLESS=1");
    }
}
