//! Checks that any text is accepted, or refused with a position: without a panic, an endless loop,
//! or more than the maximum number of problems.

use super::{REGION, problems};
use proptest::prelude::*;

/// Strings with a special meaning for YAML or the model.
const PIECES: &[&str] = &[
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "\n  ",
    "\n    - ",
    "&a ",
    "*a",
    "<<: *a",
    "~",
    "null",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "# ",
    "!!int ",
    "!!str ",
    "!x ",
    "? ",
    "%YAML 1.2\n",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\t",
    "\r",
    "0x10",
    "1_0",
    "-1",
    ".nan",
    "1e999",
    "99999999999999999999",
    "name",
    "vni",
    "vpcs:",
    "acl:",
    "169.254.0.0/16",
    "10.0.0.0/8",
    "::ffff:1.2.3.4",
    "\u{0}",
    "\u{202e}",
    "ö",
    "𝄞",
];

/// Returns the region with strings inserted and ranges removed at random positions.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0usize..12, prop::sample::select(PIECES));
    prop::collection::vec(edit, 1..8).prop_map(|edits| {
        let mut characters: Vec<char> = REGION.chars().collect();
        for (place, gone, piece) in edits {
            let at = place.index(characters.len());
            let end = (at + gone).min(characters.len());
            characters.splice(at..end, piece.chars());
        }
        characters.into_iter().collect()
    })
}

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn a_broken_region(text in mutated()) {
        prop_assert!(problems(&text).len() <= region::MAX_PROBLEMS);
    }

    #[test]
    fn pieces_of_yaml(text in pieces()) {
        prop_assert!(problems(&text).len() <= region::MAX_PROBLEMS);
    }

    #[test]
    fn characters(text in any::<String>()) {
        prop_assert!(!problems(&text).is_empty());
    }
}
