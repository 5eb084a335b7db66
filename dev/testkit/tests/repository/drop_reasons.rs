//! Generates docs/reference/drop-reasons.md from the reasons that the engine, the ports and the
//! gateway declare. `BLESS=1` writes it.

use crate::tree::{self, root};
use packet::{EngineReason, PortReason};
use std::fmt::Write;

const PAGE: &str = "docs/reference/drop-reasons.md";

const INTRODUCTION: &str = "# Drop and punt reasons

Each dropped packet has a reason, and each packet sent to the controller as well (a *punt*). The name is the same in
`terrace show drops`, in metrics, in traces and in captures. Names do not change between versions. [Find a lost
packet](../how-to/lost-packets.md) says what to do.

<!-- made by dev/testkit/tests/repository/drop_reasons.rs; BLESS=1 writes it -->
";

/// Drop reason of the gateway program: name, number, and the comment beside it.
struct ProgramReason {
    name: String,
    number: u8,
    comment: String,
}

/// Returns the members of an enumeration in `programs/gateway/reasons.p4`, without `none`.
fn program_reasons(source: &str, enumeration: &str) -> Vec<ProgramReason> {
    let body = source.split(&format!("enum bit<8> {enumeration} {{")).nth(1).and_then(|after| after.split('}').next());
    let mut reasons = Vec::new();
    for line in body.unwrap_or_default().lines() {
        let (code, comment) = line.split_once("//").unwrap_or((line, ""));
        let Some((name, number)) = code.trim().trim_end_matches(',').split_once('=') else { continue };
        let number = number.trim().parse().expect("a number");
        let reason = ProgramReason { name: name.trim().into(), number, comment: comment.trim().into() };
        if reason.number != 0 {
            reasons.push(reason);
        }
    }
    reasons
}

fn write_fixed(
    page: &mut String,
    heading: &str,
    about: &str,
    reasons: impl Iterator<Item = (&'static str, &'static str)>,
) {
    writeln!(page, "\n## {heading}\n\n{about}\n\n| reason | meaning |\n|---|---|").expect("a string");
    for (name, description) in reasons {
        writeln!(page, "| `{name}` | {description} |").expect("a string");
    }
}

fn write_program(page: &mut String, heading: &str, about: &str, reasons: &[ProgramReason]) {
    writeln!(page, "\n## {heading}\n\n{about}\n\n| reason | number | meaning |\n|---|---:|---|").expect("a string");
    for ProgramReason { name, number, comment } in reasons {
        let meaning = if comment.is_empty() { name.replace('_', " ") } else { comment.clone() };
        writeln!(page, "| `{name}` | {number} | {meaning} |").expect("a string");
    }
}

#[test]
fn the_reference_lists_each_reason() {
    let source = tree::read(&root().join("programs/gateway/reasons.p4"));
    let (drops, punts) = (program_reasons(&source, "drop_reason_t"), program_reasons(&source, "punt_reason_t"));
    assert!(drops.len() > 35 && punts.len() > 3, "{} and {} reasons in reasons.p4", drops.len(), punts.len());
    let mut page = INTRODUCTION.to_owned();
    let about = "Of the gateway program (`programs/gateway/reasons.p4`). Another program declares its own.";
    write_program(&mut page, "Drops by the gateway", about, &drops);
    write_program(&mut page, "Punts by the gateway", "Packets that go to the controller.", &punts);
    let engine = EngineReason::ALL.iter().map(|reason| (reason.name(), reason.description()));
    write_fixed(&mut page, "Drops by the engine", "With each program.", engine);
    let port = PortReason::ALL.iter().map(|reason| (reason.name(), reason.description()));
    write_fixed(&mut page, "Losses at ports", "On receiving (`rx_`) and on sending (`tx_`).", port);
    let path = root().join(PAGE);
    if std::env::var("BLESS").is_ok() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let shown = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        shown == page,
        "{PAGE} is not what the code declares: BLESS=1 cargo test -p testkit --test repository drop_reasons"
    );
}
