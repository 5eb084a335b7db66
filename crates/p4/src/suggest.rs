//! Finds similar names for "did you mean ...?" in diagnostics.

/// Returns the candidate with the smallest edit distance to `name`. An edit inserts, deletes or
/// replaces a letter, or swaps two neighbours. Returns `None` if every candidate is too different
/// for the length of the name (1 to 3 edits).
pub fn closest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance costs the product of both lengths, so long (hostile) names are skipped.
    if name.len() > 64 {
        return None;
    }
    let allowed = match name.len() {
        0..=4 => 1,
        5..=7 => 2,
        _ => 3,
    };
    let near = candidates.into_iter().filter(|c| c.len().abs_diff(name.len()) <= allowed && *c != name);
    near.map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the optimal string alignment distance, ignoring ASCII case.
fn edit_distance(a: &str, b: &str) -> usize {
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
    use super::closest_name;

    #[test]
    fn finds_what_was_meant() {
        let names = ["ethernet_t", "ipv4_t", "control", "bit"];
        assert_eq!(closest_name("etherent_t", names), Some("ethernet_t"));
        assert_eq!(closest_name("Ipv4_t", names), Some("ipv4_t"));
        assert_eq!(closest_name("contorl", names), Some("control"));
        assert_eq!(closest_name("Foo", ["bool", "foo_t"]), None);
        assert_eq!(closest_name("bti", names), Some("bit"));
    }

    #[test]
    fn does_not_guess_wildly() {
        assert_eq!(closest_name("vlan_t", ["ethernet_t", "checksum"]), None);
        assert_eq!(closest_name("x", ["y"]), None);
        assert_eq!(closest_name(&"a".repeat(1000), ["a"]), None);
    }
}
