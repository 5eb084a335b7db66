//! "Did you mean ...?"

/// The candidate that `name` is most likely a misspelling of: the nearest by edits (a letter inserted, left out,
/// replaced, or two neighbours swapped), if it is near enough for the length of the name.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A hostile name costs its length times the candidate's.
    if name.len() > 64 {
        return None;
    }
    let allowed = match name.len() {
        0..=4 => 1,
        5..=7 => 2,
        _ => 3,
    };
    let near = candidates.into_iter().filter(|c| c.len().abs_diff(name.len()) <= allowed && *c != name);
    near.map(|candidate| (edits(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance; letters of either case count as equal.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(ca != cb)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *ca == b[j - 1] && a[i - 1] == *cb {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn finds_what_was_meant() {
        let names = ["ethernet_t", "ipv4_t", "control", "bit"];
        assert_eq!(closest("etherent_t", names), Some("ethernet_t"));
        assert_eq!(closest("Ipv4_t", names), Some("ipv4_t"));
        assert_eq!(closest("contorl", names), Some("control"));
        assert_eq!(closest("Foo", ["bool", "foo_t"]), None);
        assert_eq!(closest("bti", names), Some("bit"));
    }

    #[test]
    fn does_not_guess_wildly() {
        assert_eq!(closest("vlan_t", ["ethernet_t", "checksum"]), None);
        assert_eq!(closest("x", ["y"]), None);
        assert_eq!(closest(&"a".repeat(1000), ["a"]), None);
    }
}
