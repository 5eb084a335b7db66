//! Renders the trace of a packet over several processes: `terrace trace --node A --node B`.

use super::render::{render_explanation, render_steps};
use crate::cli::ui::style;
use node::admin::cross_node::{CrossNodeTrace, NodeHypotheticalTrace};
use node::config::TierLink;
use node::explain::trace_json::{TraceJson, VerdictJson};
use node::explain::{TierTime, TraceSourceJson};
use std::fmt::Write;

/// Renders each process's explanation of a hypothetical packet: in `explanations`, one for each
/// process that the packet reaches, in order. A single one ends with a note if a lower tier would
/// continue.
pub fn hypothetical_trace(explanations: &[NodeHypotheticalTrace], verbose: bool) -> String {
    let (bold, warn) = (style::HEAD, style::WARN);
    let mut text = String::new();
    for node_trace in explanations {
        if explanations.len() > 1 {
            let from = match node_trace.from {
                None => "",
                Some(TierLink::Upper) => ", from the switch",
                Some(TierLink::Lower) => ", back from the tiers below",
            };
            let _ = writeln!(text, "{bold}at {}{from}{bold:#}", node_trace.node.display());
        }
        let explanation = &node_trace.told.explanation;
        text += &render_steps(&explanation.steps, &explanation.verdicts, verbose);
        if let Some(offload) = &node_trace.told.offload {
            text += &offload.text;
        }
    }
    let goes_to_lower_tier = |node_trace: &NodeHypotheticalTrace| {
        node_trace.told.explanation.tier_handoffs.iter().any(|handoff| handoff.tier_link == TierLink::Lower)
    };
    if explanations.len() == 1 && explanations.iter().any(goes_to_lower_tier) {
        let _ = writeln!(
            text,
            "{warn}note{warn:#}: a tier in another process continues with it; add that process with another --node"
        );
    }
    text
}

/// Renders the path of a packet after the process that received it, with times. Times between two
/// machines depend on their clocks.
pub fn cross_node_trace(traced: &TraceJson, elsewhere: &CrossNodeTrace, verbose: bool) -> String {
    let (bold, dim, warn) = (style::HEAD, style::DIM, style::WARN);
    let mut text = String::new();
    if traced.trace_id == 0 {
        let _ = writeln!(
            text,
            "  {warn}note{warn:#}: it was not followed, because too many other followed packets were in flight"
        );
        return text;
    }
    for node_part in &elsewhere.parts {
        let part = &node_part.part;
        if part.source == TraceSourceJson::Front {
            text += &tier_times("  ", traced.packet.at_ns, &part.tiers);
            continue;
        }
        let from = if part.source == TraceSourceJson::Above { "from the switch" } else { "back from the tiers below" };
        let _ = write!(text, "{bold}  at {}, {from}{bold:#}", node_part.node.display());
        if let Some(link_ns) = node_part.on_the_way_ns {
            let clocks =
                if node_part.machine == elsewhere.parts[0].machine { "" } else { " by the clocks of two machines" };
            let _ = write!(text, " {dim}{} µs on the link{clocks}{dim:#}", format_micros(link_ns));
        }
        let _ = writeln!(text, " {dim}port {}, {} bytes{dim:#}", part.packet.port, part.packet.bytes);
        text += &tier_times("    ", part.packet.at_ns, &part.tiers);
        for verdict in &part.verdicts {
            let style = if matches!(verdict, VerdictJson::Drop { .. }) { style::BAD } else { style::GOOD };
            let _ = writeln!(text, "    verdict: {style}{verdict}{style:#}");
        }
        text += &render_explanation(
            "    ",
            part.mismatch.as_deref(),
            part.explanation.as_ref(),
            part.explained_after_ns,
            verbose,
        );
    }
    for missing in &elsewhere.missing {
        let place = if missing.tier_link == TierLink::Lower { "tier below" } else { "switch" };
        let _ = writeln!(
            text,
            "  {warn}note{warn:#}: the packet sent on port {} to a {place} was seen by none of the given nodes: it was lost, or went to another node",
            missing.port
        );
    }
    if let Some(last_done_ns) =
        elsewhere.parts.iter().filter_map(|node_part| node_part.part.tiers.last()).map(|tier| tier.done_ns).max()
    {
        let total_ns = last_done_ns.wrapping_sub(traced.packet.at_ns) as i64;
        let tiers = elsewhere.parts.iter().flat_map(|node_part| &node_part.part.tiers);
        let engine_ns: u64 = tiers.map(|tier| tier.done_ns.saturating_sub(tier.began_ns)).sum();
        let other_ns = total_ns.saturating_sub_unsigned(engine_ns);
        let _ = writeln!(
            text,
            "  {dim}in all {} µs: {} in engines, {} waiting and on links{dim:#}",
            format_micros(total_ns),
            format_micros(engine_ns as i64),
            format_micros(other_ns)
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
