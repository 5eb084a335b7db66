//! Checks names: notation, uniqueness, and references.

use super::NameIndex;
use crate::model::Name;
use crate::problem::{ProblemCollector, did_you_mean};
use crate::values::quoted;
use std::collections::hash_map::Entry;

/// Maximum length of a name, in bytes.
pub(crate) const MAX_NAME: usize = 63;

/// Builds the index of names of one kind. Reports malformed and repeated names.
pub(super) fn index_names<'a>(
    report: &mut ProblemCollector,
    kind: &str,
    names: impl Iterator<Item = &'a Name>,
) -> NameIndex<'a> {
    let mut index = NameIndex::with_capacity(names.size_hint().0);
    let mut first_lines = Vec::with_capacity(names.size_hint().0);
    for (i, name) in names.enumerate() {
        check_name(report, kind, name);
        first_lines.push(name.at.line);
        match index.entry(&***name) {
            Entry::Vacant(e) => {
                e.insert(i);
            }
            Entry::Occupied(e) => report.add(
                name.at,
                format!("{kind} {} is declared twice, first in line {}", quoted(name), first_lines[*e.get()]),
                "rename one of them",
            ),
        }
    }
    index
}

/// Reports the first object beyond `most`, because the gateway's tables have no id for it.
pub(super) fn check_count<'a>(
    report: &mut ProblemCollector,
    kinds: &str,
    most: usize,
    mut names: impl Iterator<Item = &'a Name>,
) {
    if let Some(name) = names.nth(most) {
        report.add(name.at, format!("there are more than {most} {kinds}, up to here"), "split the region");
    }
}

/// Checks the notation of a name. Names are ASCII, so that names that look the same are the same,
/// and logs and terminals show them unchanged.
pub(super) fn check_name(report: &mut ProblemCollector, kind: &str, name: &Name) {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts_like_an_option_or_a_path = name.starts_with(['-', '.']);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(good) || starts_like_an_option_or_a_path {
        report.add(
            name.at,
            format!("{} is not a name for {} {kind}", quoted(name), if kind == "uplink" { "an" } else { "a" }),
            format!("use 1 to {MAX_NAME} letters (a-z, A-Z), digits, `-`, `_` or `.`; the first is no `-` or `.`"),
        );
    }
}

/// Resolves a name to its index. Reports a problem if no object of this kind has the name.
pub(super) fn resolve(report: &mut ProblemCollector, kind: &str, name: &Name, index: &NameIndex) -> Option<usize> {
    if let Some(i) = index.get(&***name) {
        return Some(*i);
    }
    let near = if report.can_store_more() { did_you_mean(name, index.keys().copied()) } else { None };
    let help = match near {
        Some(near) => format!("did you mean {}?", quoted(near)),
        None => format!("declare the {kind} {}, or name one that is declared", quoted(name)),
    };
    report.add(name.at, format!("there is no {kind} {}", quoted(name)), help);
    None
}

#[cfg(test)]
mod tests {
    use super::check_count;
    use crate::problem::ProblemCollector;

    #[test]
    fn the_first_one_too_many_is_named() {
        let text = "region: r\ngateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}\nuplinks: []\n\
                    vpcs:\n- {name: a, vni: 1}\n- {name: b, vni: 2}\n";
        let vpcs = crate::parse("r.yaml", text).expect("right").file.vpcs;
        let found = |most| {
            let mut report = ProblemCollector::new("r.yaml");
            check_count(&mut report, "VPCs", most, vpcs.iter().map(|vpc| &vpc.name));
            report.finish().map_err(|problems| problems.to_string())
        };
        assert_eq!(found(2), Ok(()));
        let expected = "r.yaml:6:10: there are more than 1 VPCs, up to here\n    help: split the region";
        assert_eq!(found(1), Err(expected.to_owned()));
    }
}
