//! Names: their form, their uniqueness, and what they refer to.

use super::Index;
use crate::model::Name;
use crate::problem::{Report, did_you_mean};
use crate::values::quoted;
use std::collections::hash_map::Entry;

/// Greatest length of a name, in bytes.
pub(crate) const MAX_NAME: usize = 63;

/// Names of one kind to indices; complains about malformed and repeated ones.
pub(super) fn index<'a>(report: &mut Report, kind: &str, names: impl Iterator<Item = &'a Name>) -> Index<'a> {
    let mut index = Index::with_capacity(names.size_hint().0);
    let mut first_lines = Vec::with_capacity(names.size_hint().0);
    for (i, name) in names.enumerate() {
        form(report, kind, name);
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

/// Complains about the first of a kind for which the gateway's tables have no number.
pub(super) fn at_most<'a>(report: &mut Report, kinds: &str, most: usize, mut names: impl Iterator<Item = &'a Name>) {
    if let Some(name) = names.nth(most) {
        report.add(name.at, format!("there are more than {most} {kinds}, up to here"), "split the region");
    }
}

/// Names are ASCII, so that two that look the same are the same, and that they show as they are in logs and on terminals.
pub(super) fn form(report: &mut Report, kind: &str, name: &Name) {
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

/// What a name refers to; complains if there is no such thing.
pub(super) fn resolve(report: &mut Report, kind: &str, name: &Name, index: &Index) -> Option<usize> {
    if let Some(i) = index.get(&***name) {
        return Some(*i);
    }
    let near = if report.has_room() { did_you_mean(name, index.keys().copied()) } else { None };
    let mend = match near {
        Some(near) => format!("did you mean {}?", quoted(near)),
        None => format!("declare the {kind} {}, or name one that is declared", quoted(name)),
    };
    report.add(name.at, format!("there is no {kind} {}", quoted(name)), mend);
    None
}

#[cfg(test)]
mod tests {
    use super::at_most;
    use crate::problem::Report;

    #[test]
    fn the_first_one_too_many_is_named() {
        let text = "region: r\ngateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}\nuplinks: []\n\
                    vpcs:\n- {name: a, vni: 1}\n- {name: b, vni: 2}\n";
        let vpcs = crate::parse("r.yaml", text).expect("right").file.vpcs;
        let found = |most| {
            let mut report = Report::new("r.yaml");
            at_most(&mut report, "VPCs", most, vpcs.iter().map(|vpc| &vpc.name));
            report.finish().map_err(|problems| problems.to_string())
        };
        assert_eq!(found(2), Ok(()));
        let expected = "r.yaml:6:10: there are more than 1 VPCs, up to here\n    mend: split the region";
        assert_eq!(found(1), Err(expected.to_owned()));
    }
}
