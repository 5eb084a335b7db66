//! Compares the demo's output in README.md with the real one, except for values that vary.

use crate::place::root;

/// Returns a line without varying parts: numbers with a unit, and the column widths that depend on
/// them.
fn lasting(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let units = ["ms", "s.", "packets", "bytes", "Mbit/s", "Gbit/s", "retransmitted"];
    let differs = |at: usize| {
        let number = words[at].trim_end_matches(':').parse::<f64>().is_ok();
        number && words.get(at + 1).is_some_and(|unit| units.contains(unit))
    };
    (0..words.len()).map(|at| if differs(at) { "#" } else { words[at] }).collect::<Vec<_>>().join(" ")
}

/// Fails if README.md shows a line that a demo did not print.
pub fn shows(printed: &str) {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let shown = text.split("```demo\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut lines = printed.lines().map(lasting);
    let mut compared = 0;
    for line in shown.lines().filter(|line| !line.trim().is_empty() && line.trim() != "…") {
        assert!(
            lines.any(|printed| printed == lasting(line)),
            "README.md: not printed, or not here: {line}\n{printed}"
        );
        compared += 1;
    }
    assert!(compared > 25, "only {compared} lines compared");
}
