//! Checks that the documentation is complete: links and anchors have targets, each page is in the
//! book, and paths in the glossary exist.

use crate::tree::{self, root};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the checked Markdown files: at the top, in `docs`, and beside programs and tests.
fn pages() -> Vec<PathBuf> {
    let top = std::fs::read_dir(root()).expect("the repository").flatten().map(|entry| entry.path());
    let top = top.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let below = ["docs", "programs", "tests"].into_iter().flat_map(|folder| tree::files(&root().join(folder), &["md"]));
    let pages: Vec<PathBuf> = top.chain(below).collect();
    assert!(pages.len() > 30, "only {} pages found", pages.len());
    pages
}

/// Returns the anchor that forges and mdBook give a heading: lower case, blanks as `-`, without
/// punctuation.
fn anchor_of(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// Returns the links and the anchors of a page.
fn scan(page: &Path) -> (Vec<String>, BTreeSet<String>) {
    let text = tree::read(page);
    let (mut links, mut anchors, mut heading) = (Vec::new(), BTreeSet::new(), None);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string())
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                anchors.extend(heading.take().map(|text| anchor_of(&text)));
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    (links, anchors)
}

/// Returns the reason why a link of a page is broken.
fn fault(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_owned() } else { page.parent()?.join(path) };
    if !target.exists() {
        return Some(format!("no file `{path}`"));
    }
    let is_page = target.extension().is_some_and(|extension| extension == "md");
    let is_missing = !anchor.is_empty() && is_page && !scan(&target).1.contains(anchor);
    is_missing.then(|| format!("no heading `#{anchor}`"))
}

#[test]
fn links_and_anchors_lead_somewhere() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in pages() {
        for link in scan(&page).0 {
            count += 1;
            let name = page.strip_prefix(root()).unwrap_or(&page).display();
            faults.extend(fault(&page, &link).map(|fault| format!("{name}: {link}: {fault}")));
        }
    }
    assert!(count > 150, "only {count} links found");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn each_page_is_in_the_book() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let listed: BTreeSet<PathBuf> = scan(&summary).0.into_iter().map(|link| docs.join(link)).collect();
    for page in tree::files(&docs, &["md"]) {
        let is_listed = page == summary || listed.contains(&page);
        assert!(is_listed, "docs/SUMMARY.md does not list {}", page.display());
    }
}

#[test]
fn the_glossary_names_places_that_exist() {
    let text = tree::read(&root().join("docs/glossary.md"));
    let mut terms = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")) {
        let place = row.trim_end_matches("` |").rsplit('`').next().unwrap_or_default();
        assert!(root().join(place).exists(), "docs/glossary.md: `{place}` is gone: {row}");
        terms += 1;
    }
    assert!(terms >= 100, "only {terms} terms have a place");
}

/// The folders that a path in backquotes may begin with.
const FOLDERS: [&str; 7] = ["crates/", "switch/", "caches/", "dev/", "docs/", "programs/", "tests/"];

#[test]
fn paths_in_backquotes_exist() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in pages() {
        let name = page.strip_prefix(root()).unwrap_or(&page).display().to_string();
        // The journal tells of files as they were.
        if name.starts_with("docs/journal") || name == "CHANGELOG.md" {
            continue;
        }
        let text = tree::read(&page);
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            let Event::Code(code) = event else { continue };
            if tree::is_path(&code) && FOLDERS.iter().any(|folder| code.starts_with(folder)) {
                count += 1;
                if !root().join(&*code).exists() {
                    faults.push(format!("{name}: `{code}` is gone"));
                }
            }
        }
    }
    assert!(count > 150, "only {count} paths found");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The names of all properties of a JSON Schema.
fn properties(schema: &serde_json::Value, names: &mut BTreeSet<String>) {
    match schema {
        serde_json::Value::Object(map) => {
            if let Some(serde_json::Value::Object(keys)) = map.get("properties") {
                names.extend(keys.keys().cloned());
            }
            map.values().for_each(|value| properties(value, names));
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| properties(value, names)),
        _ => {}
    }
}

/// Whether a page has a word in backquotes or in a code block.
fn mentions(page: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    page.match_indices(word)
        .any(|(at, _)| !is_part(page[..at].chars().next_back()) && !is_part(page[at + word.len()..].chars().next()))
}

#[test]
fn each_key_of_a_file_is_in_its_reference() {
    for (schema, page, least) in [("node.schema.json", "node.md", 40), ("region.schema.json", "region.md", 30)] {
        let folder = root().join("docs/reference");
        let parsed = serde_json::from_str(&tree::read(&folder.join(schema))).expect("a schema");
        let (mut names, text) = (BTreeSet::new(), tree::read(&folder.join(page)));
        properties(&parsed, &mut names);
        assert!(names.len() >= least, "only {} keys in {schema}", names.len());
        let missing: Vec<_> = names.iter().filter(|name| !mentions(&text, name)).collect();
        assert!(missing.is_empty(), "docs/reference/{page} lacks the keys {missing:?}");
    }
}

#[test]
fn each_flag_is_in_the_reference() {
    let page = tree::read(&root().join("docs/reference/cli.md"));
    let goldens = tree::files(&root().join("crates/terrace/tests/golden"), &["txt"]);
    let mut flags = BTreeSet::new();
    for golden in goldens.iter().filter(|path| path.display().to_string().contains("/help-")) {
        let text = tree::read(golden);
        let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        for word in lines.flat_map(|line| line.split([' ', ','])).filter(|w| w.starts_with("--")) {
            let flag: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '-').collect();
            flags.insert(flag);
        }
    }
    assert!(flags.len() > 60, "only {} flags found", flags.len());
    let missing: Vec<_> = flags.iter().filter(|flag| !mentions(&page, flag)).collect();
    assert!(missing.is_empty(), "docs/reference/cli.md lacks {missing:?}");
}

#[test]
fn anchors_are_those_of_forges() {
    assert_eq!(anchor_of("Who may do what: tokens"), "who-may-do-what-tokens");
    assert_eq!(anchor_of("`terrace show`"), "terrace-show");
}
