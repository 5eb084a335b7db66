//! Checks the structure of the repository: dependencies of crates, forbidden code, lengths of
//! files, licences.

use crate::tree::{self, root};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates of the workspace that a crate may depend on. ARCHITECTURE.md draws the same.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("ir", &[]),
    ("p4", &["ir"]),
    ("packet", &[]),
    ("entries", &["ir", "packet"]),
    ("lookup", &["ir", "packet", "entries"]),
    ("flowtable", &[]),
    ("interp", &["ir", "packet", "entries"]),
    ("jit", &["ir", "packet", "entries", "lookup", "flowtable", "interp"]),
    ("io", &["packet"]),
    ("p4runtime", &["ir", "entries"]),
    ("node", &["ir", "packet", "entries", "interp", "jit", "io", "p4runtime", "region", "underlay"]),
    ("terraced", &["node", "switch_engines", "cache_engines"]),
    ("asic", &["ir", "packet", "entries", "interp"]),
    ("flowcache", &["ir", "packet", "entries", "lookup", "interp", "jit"]),
    ("cache_engines", &["ir", "packet", "entries", "interp", "jit", "io", "p4runtime", "node", "flowcache"]),
    ("offload", &["ir", "entries", "asic"]),
    ("switch_engines", &["ir", "packet", "entries", "interp", "jit", "io", "p4runtime", "node", "asic", "offload"]),
    ("region", &["ir", "entries", "underlay"]),
    ("underlay", &[]),
    (
        "terrace",
        &[
            "ir",
            "p4",
            "packet",
            "entries",
            "interp",
            "jit",
            "io",
            "node",
            "region",
            "terraced",
            "asic",
            "offload",
            "flowcache",
            "cache_engines",
        ],
    ),
    ("testkit", &["ir", "p4", "packet", "entries", "interp", "jit", "io", "region", "terrace", "asic", "offload"]),
    ("bench", &["ir", "packet", "entries", "lookup", "interp", "jit", "io", "region", "flowcache"]),
    ("xtask", &["ir", "p4", "packet", "entries", "interp", "terrace", "asic"]),
];

/// Licences that code in a build may have.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "CC0-1.0",
    "0BSD",
    "BSL-1.0",
    "MIT-0",
    "Unlicense",
];

/// Locations of unsafe code: ports, native code, lookup kernels, and measurements of foreign
/// libraries.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/io/",
    "crates/jit/",
    "crates/lookup/",
    "crates/flowtable/",
    "crates/entries/src/prefetch.rs",
    "dev/bench/",
];

/// Maximum length of a source file in lines; 100 to 400 lines are easy to read. An include file is
/// one interface and is not split; tests that are lists of cases may be longer.
const MAX_LINES: usize = 600;

fn metadata() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).other_options(vec!["--locked".into(), "--offline".into()]);
    command.exec().expect("cargo metadata works in a built workspace")
}

fn all_sources() -> Vec<(String, String)> {
    let folders = tree::FOLDERS.iter().chain(&["programs", "fuzz"]);
    let found: Vec<_> = folders.flat_map(|folder| tree::files(&root().join(folder), &["rs", "p4"])).collect();
    assert!(found.len() > 50, "only {} source files found: has the tree moved?", found.len());
    let name = |p: &Path| p.strip_prefix(root()).unwrap_or(p).display().to_string();
    found.iter().map(|p| (name(p), tree::read(p))).collect()
}

#[test]
fn crates_depend_on_what_they_may() {
    let metadata = metadata();
    let members: BTreeSet<&str> = metadata.workspace_packages().iter().map(|p| p.name.as_str()).collect();
    let allowed: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.iter().copied().collect();
    assert_eq!(
        members,
        allowed.keys().copied().collect(),
        "a crate is missing in MAY_DEPEND_ON, or gone from the workspace"
    );
    for package in metadata.workspace_packages() {
        for dependency in &package.dependencies {
            let inside = members.contains(dependency.name.as_str());
            if inside && dependency.kind == DependencyKind::Normal {
                let may = allowed[package.name.as_str()].contains(&dependency.name.as_str());
                assert!(
                    may,
                    "`{}` may not depend on `{}`: see the table in ARCHITECTURE.md",
                    package.name, dependency.name
                );
            }
        }
    }
}

/// Binaries that are composed of the core and, with the feature `wings`, of the wings.
const COMPOSED: [&str; 2] = ["terrace", "terraced"];

#[test]
fn the_core_reaches_a_wing_in_binaries_alone() {
    let folders = tree::packages();
    let is_below =
        |name: &str, folder: &str| folders.get(name).is_some_and(|path| path.parent() == Some(&root().join(folder)));
    let metadata = metadata();
    let mut wings = 0;
    for package in metadata.workspace_packages() {
        let (name, is_core) = (package.name.as_str(), is_below(&package.name, "crates"));
        let is_composed = COMPOSED.contains(&name);
        for dependency in package.dependencies.iter().filter(|it| it.kind == DependencyKind::Normal) {
            let is_wing = is_below(&dependency.name, "switch") || is_below(&dependency.name, "caches");
            if is_core && is_wing {
                assert!(is_composed && dependency.optional, "`{name}` links `{}` in each build", dependency.name);
                wings += 1;
            }
            assert!(!is_core || dependency.name != "testkit", "`{name}` links what is for development");
        }
        let features: Vec<&str> = package.features.keys().map(String::as_str).collect();
        let expected: &[&str] = if is_composed { &["default", "wings"] } else { &[] };
        assert_eq!(features, expected, "`{name}`: the binaries alone have a feature, and it is `wings`");
    }
    assert!(wings >= 4, "the folders of the wings have moved");
}

#[test]
fn the_map_names_every_crate() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    for (name, may) in MAY_DEPEND_ON {
        let depends = if may.is_empty() { "-".to_owned() } else { may.join(", ") };
        let row = map.lines().find(|l| l.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for `{name}`"));
        assert!(
            row.trim_end().ends_with(&format!("| {depends} |")),
            "ARCHITECTURE.md: `{name}` depends on: {depends}\n{row}"
        );
    }
}

#[test]
fn dependencies_have_known_licences() {
    let metadata = metadata();
    assert!(metadata.packages.len() > 20);
    for package in &metadata.packages {
        let expression = package.license.clone().unwrap_or_default();
        assert!(permitted(&expression), "{} {} has licence `{expression}`", package.name, package.version);
    }
}

/// Returns whether an SPDX expression is permitted: one of its alternatives, and all terms of a
/// conjunction.
fn permitted(expression: &str) -> bool {
    let plain = expression.replace(" WITH LLVM-exception", "").replace(['(', ')'], "");
    let all_known = |part: &str| part.split(" AND ").all(|l| LICENCES.contains(&l.trim()));
    plain.replace('/', " OR ").split(" OR ").any(all_known) && !expression.is_empty()
}

#[test]
fn unsafe_stays_where_it_belongs() {
    for (name, text) in all_sources() {
        let may = MAY_BE_UNSAFE.iter().any(|place| name.starts_with(place)) || name.ends_with("tidy.rs");
        let has = text.lines().any(|l| {
            let code = l.split("//").next().unwrap_or_default();
            code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")
        });
        assert!(may || !has, "{name} has unsafe code: it belongs into one of {MAY_BE_UNSAFE:?}");
    }
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let too_long: Vec<String> = all_sources()
        .iter()
        .filter(|(name, _)| !name.starts_with("programs/include/") && !name.contains("/tests/"))
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert!(too_long.is_empty(), "longer than {MAX_LINES} lines:\n{}", too_long.join("\n"));
}

#[test]
fn files_are_named_for_what_they_hold() {
    for (name, _) in all_sources() {
        let stem = Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let vague = ["utils", "util", "helpers", "helper", "common", "misc", "manager"];
        assert!(!vague.contains(&stem.as_str()), "{name}: name the file for the one thing that it holds");
    }
}

#[test]
fn no_promises_instead_of_code() {
    for (name, text) in all_sources() {
        for (i, line) in text.lines().enumerate() {
            let stub = ["todo!(", "unimplemented!(", "#[ignore"].iter().any(|s| line.contains(s));
            assert!(!stub || name.ends_with("tidy.rs"), "{name}:{}: {line}", i + 1);
        }
    }
}
