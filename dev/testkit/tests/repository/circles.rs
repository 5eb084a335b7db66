//! Checks import cycles within a crate: files that import each other, directly or indirectly, have
//! to be read together.
//!
//! An edge is a `use` of an item of another file of the crate. Re-exports are followed to the file
//! of the item. Declarations and re-exports of submodules are not edges, and neither are imports of
//! unit tests. The bounds may only decrease.

use crate::tree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Crates with cycles: maximum number of cycles, and maximum number of files in the largest. All
/// other crates have none.
const BOUNDS: &[(&str, usize, usize)] = &[("bench", 3, 2)];

/// Path of a module or an item: `crate::live::copies` is `["live", "copies"]`.
type ModulePath = Vec<String>;

/// Files of one crate.
struct Crate {
    /// Source text without comments, strings and unit tests, by module.
    files: BTreeMap<ModulePath, String>,
    imports: BTreeMap<ModulePath, Vec<Import>>,
}

struct Import {
    /// Path from the crate's root; the last segment is the item.
    path: ModulePath,
    /// Whether it is a `pub use` or `pub(crate) use`.
    is_reexport: bool,
}

impl Crate {
    fn read(source: &Path) -> Crate {
        let mut files = BTreeMap::new();
        for path in tree::files(source, &["rs"]) {
            let inside = path.strip_prefix(source).expect("a file in its folder").with_extension("");
            let mut module: ModulePath = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| last == "mod" || module.len() == 1 && (last == "lib" || last == "main"))
            {
                module.pop();
            }
            files.insert(module, inline_modules_flat(without_unit_tests(without_comments(&tree::read(&path)))));
        }
        let mut all = Crate { files, imports: BTreeMap::new() };
        all.imports = all.files.iter().map(|(module, text)| (module.clone(), all.imports_of(module, text))).collect();
        all
    }

    fn imports_of(&self, module: &ModulePath, text: &str) -> Vec<Import> {
        let mut found = Vec::new();
        for statement in text.split(';') {
            let Some(start) = word_position(statement, "use") else { continue };
            let before = statement[..start].trim_end();
            let is_reexport = before.ends_with("pub") || before.ends_with(')') && before.contains("pub(");
            let mut paths = Vec::new();
            expand_use_tree(statement[start + 3..].trim(), &mut paths);
            found.extend(
                paths.iter().filter_map(|path| self.rooted(module, path)).map(|path| Import { path, is_reexport }),
            );
        }
        found
    }

    /// Resolves a path in a module from the crate's root; `None` if it belongs to another crate.
    fn rooted(&self, module: &ModulePath, path: &str) -> Option<ModulePath> {
        let mut base = module.clone();
        let parts: Vec<&str> = path.split("::").map(str::trim).collect();
        let inside = match parts[0] {
            "crate" => {
                base.clear();
                &parts[1..]
            }
            "self" => &parts[1..],
            "super" => {
                let levels = parts.iter().take_while(|part| **part == "super").count();
                base.truncate(base.len().checked_sub(levels)?);
                &parts[levels..]
            }
            child => {
                let module = [&base[..], &[child.to_owned()]].concat();
                self.files.contains_key(&module).then_some(&parts[..])?
            }
        };
        base.extend(inside.iter().map(|part| (*part).to_owned()));
        Some(base)
    }

    /// Returns the file that has the item of a path, through at most `depth` re-exports.
    fn file_of(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let (module, inside) = (path[..length].to_vec(), &path[length..]);
        let Some(item) = inside.first().filter(|item| *item != "*" && *item != "self") else { return Some(module) };
        for import in self.imports.get(&module).filter(|_| depth > 0).into_iter().flatten() {
            let leads_on = match import.path.last() {
                Some(last) if last == "*" && import.is_reexport => {
                    let from = &import.path[..import.path.len() - 1];
                    self.files.get(from).is_some_and(|text| declares(text, item)).then(|| from.to_vec())
                }
                Some(last) => (last == item && import.path != path).then(|| import.path.clone()),
                None => None,
            };
            if let Some(mut onward) = leads_on {
                onward.extend_from_slice(&inside[1..]);
                return self.file_of(&onward, depth - 1);
            }
        }
        Some(module)
    }

    /// Returns for each file those that it imports from.
    fn arrows(&self) -> BTreeMap<&ModulePath, BTreeSet<ModulePath>> {
        let arrows_of = |(module, imports): (&ModulePath, &Vec<Import>)| {
            let own = imports.iter().filter(|import| !import.is_reexport);
            own.filter_map(|import| self.file_of(&import.path, 8)).filter(|file| file != module).collect()
        };
        self.imports.iter().map(|entry| (entry.0, arrows_of(entry))).collect()
    }
}

/// Returns sets of files that reach each other, largest first.
fn circles(arrows: &BTreeMap<&ModulePath, BTreeSet<ModulePath>>) -> Vec<BTreeSet<ModulePath>> {
    let reach = |from: &ModulePath| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            open.extend(arrows[file].iter().filter(|next| reached.insert((*next).clone())));
        }
        reached
    };
    let reached: BTreeMap<&ModulePath, BTreeSet<ModulePath>> = arrows.keys().map(|file| (*file, reach(file))).collect();
    let circle_of = |file: &ModulePath| -> BTreeSet<ModulePath> {
        reached[file].iter().filter(|other| reached[other].contains(file)).cloned().collect()
    };
    let found: BTreeSet<BTreeSet<ModulePath>> = arrows.keys().map(|file| circle_of(file)).collect();
    let mut found: Vec<_> = found.into_iter().filter(|circle| circle.len() > 1).collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// Appends the paths of a use tree: `a::{b, c::{d, e}}` is `a::b`, `a::c::d`, `a::c::e`.
fn expand_use_tree(tree: &str, out: &mut Vec<String>) {
    let Some((prefix, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        if !path.is_empty() {
            out.push(path.to_owned());
        }
        return;
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let mut branches = Vec::new();
                expand_use_tree(inner[start..at].trim(), &mut branches);
                out.extend(branches.iter().map(|branch| format!("{}{branch}", prefix.trim())));
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the position of a whole word.
fn word_position(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(|at| !text[..*at].ends_with(is_part) && text[at + word.len()..].starts_with(char::is_whitespace))
        .last()
}

/// Returns whether a file declares an item of that name.
fn declares(text: &str, item: &str) -> bool {
    let keywords = ["struct", "enum", "trait", "type", "fn", "const", "static", "union", "mod"];
    keywords.iter().any(|keyword| tree::has_words(text, &format!("{keyword} {item}")))
}

/// Returns the text without comments, and with empty strings.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut quoted, mut previous) = (false, ' ');
        for (at, c) in line.char_indices() {
            if c == '"' && previous != '\\' && previous != '\'' {
                quoted = !quoted;
            } else if !quoted && line[at..].starts_with("//") {
                break;
            } else if !quoted {
                out.push(c);
            }
            previous = if previous == '\\' { ' ' } else { c };
        }
        out.push('\n');
    }
    out
}

/// Returns the text without `#[cfg(test)] mod tests { .. }`.
fn without_unit_tests(mut text: String) -> String {
    while let Some(start) = text.find("#[cfg(test)]\nmod ") {
        let end = text[start..].find(['{', ';']).map_or(text.len(), |at| start + at);
        let close = end + body_end(&text[end..]);
        text.replace_range(start..close, "");
    }
    text
}

/// Returns the text with `super::` in inline modules resolved to the file itself.
fn inline_modules_flat(mut text: String) -> String {
    let starts: Vec<usize> = text.match_indices("mod ").map(|(at, _)| at).collect();
    for start in starts.into_iter().rev() {
        let Some(open) = text[start..].find(['{', ';']).map(|at| start + at) else { continue };
        if text[open..].starts_with('{') {
            let body = text[open..].replace("use super::", "use self::");
            let end = body_end(&body);
            text.replace_range(open..open + body_end(&text[open..]), &body[..end]);
        }
    }
    text
}

/// Returns the end of a block that starts with its brace.
fn body_end(text: &str) -> usize {
    let mut depth = 0;
    let close = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0
    });
    close.map_or(text.len(), |(at, c)| at + c.len_utf8())
}

/// Formats the cycles of a crate with their edges.
fn described(arrows: &BTreeMap<&ModulePath, BTreeSet<ModulePath>>, circles: &[BTreeSet<ModulePath>]) -> String {
    let name = |file: &ModulePath| if file.is_empty() { "lib".to_owned() } else { file.join("/") };
    let mut text = String::new();
    for circle in circles {
        let _ = writeln!(text, "  a circle of {} files:", circle.len());
        for file in circle {
            let next: Vec<String> = arrows[file].intersection(circle).map(name).collect();
            let _ = writeln!(text, "    {} imports from {}", name(file), next.join(", "));
        }
    }
    text
}

#[test]
fn circles_of_files_do_not_grow() {
    let bounds: BTreeMap<&str, (usize, usize)> =
        BOUNDS.iter().map(|(name, all, most)| (*name, (*all, *most))).collect();
    let (mut wrong, mut total) = (Vec::new(), 0);
    for (name, folder) in tree::packages() {
        let all = Crate::read(&folder.join("src"));
        let arrows = all.arrows();
        let found = circles(&arrows);
        let largest = found.first().map_or(0, BTreeSet::len);
        let (most_circles, most_files) = bounds.get(name.as_str()).copied().unwrap_or_default();
        println!("{name}: {} circles, the largest of {largest} files\n{}", found.len(), described(&arrows, &found));
        total += found.len();
        if found.len() > most_circles || largest > most_files {
            let now = format!("{} circles, the largest of {largest} files", found.len());
            wrong.push(format!("{name} has {now}; {most_circles} and {most_files} are allowed"));
        }
    }
    println!("{total} circles in all");
    assert!(
        wrong.is_empty(),
        "{}\nMove what both files need to a file below both; `cargo test --workspace --test repository circles -- --nocapture` shows them.",
        wrong.join("\n")
    );
}

#[test]
fn circles_are_found() {
    let file = |name: &str| vec![name.to_owned()];
    let to = |names: &[&str]| names.iter().map(|name| file(name)).collect::<BTreeSet<_>>();
    let names = ["a", "b", "c", "d"].map(file);
    let arrows = names.iter().zip([to(&["b"]), to(&["c", "d"]), to(&["a"]), to(&[])]).collect();
    assert_eq!(circles(&arrows), [to(&["a", "b", "c"])]);
    let mut paths = Vec::new();
    expand_use_tree("crate::{a::B, c::{D as E, f::*}}", &mut paths);
    assert_eq!(paths, ["crate::a::B", "crate::c::D", "crate::c::f::*"]);
}
