//! Renders the results of the demo as text.

use super::report::{
    GatewayCounters, KeptConnections, NamedCounter, PacketExplanation, ProbeResult, RegionChange, Stream,
};
use super::table::{StyledCell, StyledTable};
use crate::cli::ui::style;
use std::fmt::Write;

/// Renders the numbered heading of a step.
pub fn heading(number: usize, title: &str) -> String {
    let head = style::HEAD;
    format!("\n{head}{number}  {title}{head:#}")
}

/// Renders the results of all probes.
/// Columns: the sender, the target, the expected and the actual outcome, and a ping's time.
pub fn probes(results: &[ProbeResult]) -> String {
    let mut table = StyledTable::default();
    let time = if results.iter().any(|result| result.ms.is_some()) { "ping" } else { "" };
    table.row(["from", "to", "expected", "got", "", time].map(|text| StyledCell::new(text).styled(style::DIM)));
    let mut group = "";
    for result in results {
        if result.group != group {
            group = result.group;
            table.row([StyledCell::new(group).styled(style::NAME)]);
        }
        let (mark, colour) = if result.ok { ("ok", style::GOOD) } else { ("NOT AS EXPECTED", style::BAD) };
        table.row([
            StyledCell::new(result.from),
            StyledCell::new(&result.to),
            StyledCell::new(&result.expected),
            StyledCell::new(&result.got),
            StyledCell::new(mark).styled(colour),
            StyledCell::number(result.ms.map_or(String::new(), |ms| format!("{ms:.2} ms"))),
        ]);
    }
    table.render()
}

/// Formats a bit rate: `1.23 Gbit/s`.
fn format_rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate => format!("{:.0} Mbit/s", rate / 1e6),
    }
}

/// Renders the throughput of the streams.
pub fn streams(streams: &[Stream]) -> String {
    let mut table = StyledTable::default();
    for stream in streams {
        table.row([
            StyledCell::new(format!("{} > {}", stream.from, stream.to)),
            StyledCell::new(stream.address),
            StyledCell::number(format_rate(stream.bits_per_second)),
            StyledCell::number(format!("{} retransmitted", stream.retransmits.unwrap_or(0))),
            StyledCell::new(stream.what).styled(style::DIM),
        ]);
    }
    table.render()
}

/// Renders the command and its output.
pub fn explained(explained: &PacketExplanation) -> String {
    let dim = style::DIM;
    let mut text = format!("  {dim}${dim:#} {}\n", explained.command);
    for line in explained.text.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// Renders the counters of the gateway.
pub fn counters(counters: &GatewayCounters) -> String {
    let mut table = StyledTable::default();
    let sections: [(&str, &[NamedCounter]); 5] = [
        ("received from VPC", &counters.received_from),
        ("of that, forwarded", &counters.forwarded_from),
        ("took a route of scope", &counters.scopes),
        ("dropped, by reason", &counters.drops),
        ("to the CPU, by reason", &counters.to_cpu),
    ];
    for (title, counts) in sections {
        let mut title = title;
        for NamedCounter { name, count } in counts {
            table.row([
                StyledCell::new(std::mem::take(&mut title)).styled(style::NAME),
                StyledCell::new(name),
                StyledCell::number(format!("{} packets", count.packets)),
                StyledCell::number(format!("{} bytes", count.bytes)),
            ]);
        }
    }
    table.render()
}

/// Renders the region change and its effect on unaffected streams.
pub fn change(change: &RegionChange) -> String {
    let [added, changed, removed] = change.entries;
    let mut text = format!(
        "  applied in {:.0} ms while packets flow: {added} entries added, {changed} changed, {removed} removed\n",
        change.ms
    );
    let refused = change.refused.lines().next().unwrap_or("");
    let _ = writeln!(text, "  a wrong region file is refused, and changes nothing:\n    {refused}");
    let mut table = StyledTable::default();
    for stream in &change.untouched {
        let (sent, lost) = match (stream.packets, stream.lost) {
            (Some(packets), Some(lost)) => (format!("{packets} packets"), format!("{lost} lost")),
            _ => (format_rate(stream.bits_per_second), format!("{} retransmitted", stream.retransmits.unwrap_or(0))),
        };
        let colour = if stream.lost.unwrap_or(0) == 0 { style::GOOD } else { style::BAD };
        table.row([
            StyledCell::new(format!("{} > {}", stream.from, stream.to)),
            StyledCell::new(stream.address),
            StyledCell::new(format!("{} {}", stream.what, stream.protocol)),
            StyledCell::number(sent),
            StyledCell::new(lost).styled(colour),
        ]);
    }
    text += &table.render();
    let KeptConnections { from, to, backends, answered } = &change.kept;
    let colour = if change.kept.all_answered() { style::GOOD } else { style::BAD };
    let open: usize = backends.values().sum();
    let shares: Vec<String> = backends.iter().map(|(name, count)| format!("{count} of {name}")).collect();
    let _ = writeln!(
        text,
        "  {open} connections of {from} to {to} were open, {}: {colour}{answered} go on{colour:#}",
        shares.join(", ")
    );
    let dropped: Vec<String> =
        change.dropped.iter().map(|NamedCounter { name, count }| format!("{} {name}", count.packets)).collect();
    let dropped = if dropped.is_empty() { "nothing".to_owned() } else { dropped.join(", ") };
    text + &format!("  dropped by the gateway meanwhile: {dropped}\n")
}
