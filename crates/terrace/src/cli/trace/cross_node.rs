//! Renders the trace of a packet over several processes: `terrace trace --node A --node B`.

use super::render::{render_explanation, render_steps};
use crate::cli::ui::style;
use node::admin::cross_node::{CrossNodeTrace, NodeHypotheticalTrace};
use node::config::TierLink;
use node::explain::trace_json::{TraceJson, VerdictJson};
use node::explain::{TierTime, TraceSourceJson};
use std::fmt::Write;

/// Renders each process's explanation of a hypothetical packet.
pub fn hypothetical_trace(all: &[NodeHypotheticalTrace], verbose: bool) -> String {
    let (head, warn) = (style::HEAD, style::WARN);
    let mut text = String::new();
    for asked in all {
        if all.len() > 1 {
            let from = match asked.from {
                None => "",
                Some(TierLink::Upper) => ", from the switch",
                Some(TierLink::Lower) => ", back from the tiers below",
            };
            let _ = writeln!(text, "{head}at {}{from}{head:#}", asked.node.display());
        }
        let explanation = &asked.told.explanation;
        text += &render_steps(&explanation.steps, &explanation.verdicts, verbose);
        if let Some(offload) = &asked.told.offload {
            text += &offload.text;
        }
    }
    let down = |asked: &NodeHypotheticalTrace| {
        asked.told.explanation.tier_handoffs.iter().any(|handoff| handoff.tier_link == TierLink::Lower)
    };
    if all.len() == 1 && all.iter().any(down) {
        let _ = writeln!(
            text,
            "{warn}note{warn:#}: a tier in another process continues with it; add that process with another --node"
        );
    }
    text
}

/// Renders the path of a packet after the process that received it, with times.
pub fn cross_node_trace(traced: &TraceJson, story: &CrossNodeTrace, verbose: bool) -> String {
    let (head, dim, warn) = (style::HEAD, style::DIM, style::WARN);
    let mut text = String::new();
    if traced.trace_id == 0 {
        let _ = writeln!(
            text,
            "  {warn}note{warn:#}: it was not followed, because too many other followed packets were in flight"
        );
        return text;
    }
    for heard in &story.parts {
        let part = &heard.part;
        if part.source == TraceSourceJson::Front {
            text += &tier_times("  ", traced.packet.at_ns, &part.tiers);
            continue;
        }
        let from = if part.source == TraceSourceJson::Above { "from the switch" } else { "back from the tiers below" };
        let _ = write!(text, "{head}  at {}, {from}{head:#}", heard.node.display());
        if let Some(way) = heard.on_the_way_ns {
            let clocks = if heard.machine == story.parts[0].machine { "" } else { " by the clocks of two machines" };
            let _ = write!(text, " {dim}{} µs on the link{clocks}{dim:#}", format_micros(way));
        }
        let _ = writeln!(text, " {dim}port {}, {} bytes{dim:#}", part.packet.port, part.packet.bytes);
        text += &tier_times("    ", part.packet.at_ns, &part.tiers);
        for fate in &part.verdicts {
            let style = if matches!(fate, VerdictJson::Drop { .. }) { style::BAD } else { style::GOOD };
            let _ = writeln!(text, "    verdict: {style}{fate}{style:#}");
        }
        text += &render_explanation(
            "    ",
            part.mismatch.as_deref(),
            part.explanation.as_ref(),
            part.explained_after_ns,
            verbose,
        );
    }
    for missing in &story.missing {
        let whom = if missing.tier_link == TierLink::Lower { "tier below" } else { "switch" };
        let _ = writeln!(
            text,
            "  {warn}note{warn:#}: the packet sent on port {} to a {whom} was seen by none of the given nodes: it was lost, or went to another node",
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
            format_micros(all),
            format_micros(engines as i64),
            format_micros(rest)
        );
    }
    text
}

/// Renders the times that a packet waited and was processed, for each tier.
fn tier_times(indent: &str, at_ns: u64, tiers: &[TierTime]) -> String {
    let dim = style::DIM;
    let (mut text, mut before) = (String::new(), at_ns);
    for TierTime { tier, engine, began_ns, done_ns, engine_note } in tiers {
        let (waited, took) = (began_ns.wrapping_sub(before) as i64, done_ns.wrapping_sub(*began_ns) as i64);
        let _ = write!(
            text,
            "{indent}{dim}{} µs waiting, {} µs in{dim:#} {tier} ({engine})",
            format_micros(waited),
            format_micros(took)
        );
        let _ = match engine_note {
            Some(note) => writeln!(text, ": {note}"),
            None => writeln!(text),
        };
        before = *done_ns;
    }
    text
}

fn format_micros(nanoseconds: i64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1e3)
}
