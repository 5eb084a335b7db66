//! A packet's story over several processes, as text: `terrace trace --node A --node B`.

use super::render::{explained, steps};
use crate::cli::ui::style;
use node::admin::elsewhere::{Asked, Story};
use node::config::Leads;
use node::explain::answer::{Traced, Verdicted};
use node::explain::{CameFrom, InTier};
use std::fmt::Write;

/// What each process says of a packet that might come.
pub fn asked(all: &[Asked], verbose: bool) -> String {
    let (head, warn) = (style::HEAD, style::WARN);
    let mut text = String::new();
    for asked in all {
        if all.len() > 1 {
            let from = match asked.from {
                None => "",
                Some(Leads::Up) => ", from the switch",
                Some(Leads::Down) => ", back from the tiers below",
            };
            let _ = writeln!(text, "{head}at {}{from}{head:#}", asked.node.display());
        }
        let explanation = &asked.told.explanation;
        text += &steps(&explanation.steps, &explanation.verdicts, verbose);
        if let Some(offload) = &asked.told.offload {
            text += &offload.text;
        }
    }
    let down = |asked: &Asked| asked.told.explanation.onward.iter().any(|onward| onward.leads == Leads::Down);
    if all.len() == 1 && all.iter().any(down) {
        let _ = writeln!(
            text,
            "{warn}note{warn:#}: a tier in another process goes on with it; name that with a further --node"
        );
    }
    text
}

/// What became of a packet behind the process where it came in, with times.
pub fn story(traced: &Traced, story: &Story, verbose: bool) -> String {
    let (head, dim, warn) = (style::HEAD, style::DIM, style::WARN);
    let mut text = String::new();
    if traced.mark == 0 {
        let _ =
            writeln!(text, "  {warn}note{warn:#}: it was not followed, as many others were on their way with a mark");
        return text;
    }
    for heard in &story.parts {
        let part = &heard.part;
        if part.came == CameFrom::Front {
            text += &times("  ", traced.packet.at_ns, &part.tiers);
            continue;
        }
        let from = if part.came == CameFrom::Above { "from the switch" } else { "back from the tiers below" };
        let _ = write!(text, "{head}  at {}, {from}{head:#}", heard.node.display());
        if let Some(way) = heard.on_the_way_ns {
            let clocks = if heard.machine == story.parts[0].machine { "" } else { " by the clocks of two machines" };
            let _ = write!(text, " {dim}{} µs on the link{clocks}{dim:#}", micros(way));
        }
        let _ = writeln!(text, " {dim}port {}, {} bytes{dim:#}", part.packet.port, part.packet.bytes);
        text += &times("    ", part.packet.at_ns, &part.tiers);
        for fate in &part.became {
            let style = if matches!(fate, Verdicted::Drop { .. }) { style::BAD } else { style::GOOD };
            let _ = writeln!(text, "    became: {style}{fate}{style:#}");
        }
        text += &explained("    ", part.differs.as_deref(), part.explanation.as_ref(), part.later_ns, verbose);
    }
    for missing in &story.missing {
        let whom = if missing.leads == Leads::Down { "tier below" } else { "switch" };
        let _ = writeln!(
            text,
            "  {warn}note{warn:#}: what left on port {} for a {whom} was seen by none of the nodes that were named: it was lost, or went to another",
            missing.port
        );
    }
    if let Some(last) = story.parts.iter().filter_map(|heard| heard.part.tiers.last()).map(|tier| tier.done_ns).max() {
        let all = last.wrapping_sub(traced.packet.at_ns) as i64;
        let tiers = story.parts.iter().flat_map(|heard| &heard.part.tiers);
        let engines: u64 = tiers.map(|tier| tier.done_ns.saturating_sub(tier.began_ns)).sum();
        let rest = all.saturating_sub_unsigned(engines);
        let _ = writeln!(
            text,
            "  {dim}in all {} µs: {} in engines, {} waiting and on links{dim:#}",
            micros(all),
            micros(engines as i64),
            micros(rest)
        );
    }
    text
}

/// How long it waited, and was in engines.
fn times(indent: &str, at_ns: u64, tiers: &[InTier]) -> String {
    let dim = style::DIM;
    let (mut text, mut before) = (String::new(), at_ns);
    for InTier { tier, engine, began_ns, done_ns, told } in tiers {
        let (waited, took) = (began_ns.wrapping_sub(before) as i64, done_ns.wrapping_sub(*began_ns) as i64);
        let _ =
            write!(text, "{indent}{dim}{} µs waiting, {} µs in{dim:#} {tier} ({engine})", micros(waited), micros(took));
        let _ = match told {
            Some(told) => writeln!(text, ": {told}"),
            None => writeln!(text),
        };
        before = *done_ns;
    }
    text
}

fn micros(nanoseconds: i64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1e3)
}
