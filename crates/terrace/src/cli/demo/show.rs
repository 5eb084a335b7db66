//! What the demo found, for people.

use super::report::{Change, Counters, Explained, Named, ProbeResult, Stream};
use super::table::{Cell, Table};
use crate::cli::ui::style;
use std::fmt::Write;

/// A heading: a number and what comes.
pub fn heading(number: usize, title: &str) -> String {
    let head = style::HEAD;
    format!("\n{head}{number}  {title}{head:#}")
}

/// Who reached whom.
pub fn probes(results: &[ProbeResult]) -> String {
    let mut table = Table::default();
    let time = if results.iter().any(|result| result.ms.is_some()) { "ping" } else { "" };
    table.row(["from", "to", "expected", "got", "", time].map(|text| Cell::new(text).styled(style::DIM)));
    let mut group = "";
    for result in results {
        if result.group != group {
            group = result.group;
            table.row([Cell::new(group).styled(style::NAME)]);
        }
        let (mark, colour) = if result.ok { ("ok", style::GOOD) } else { ("NOT AS EXPECTED", style::BAD) };
        table.row([
            Cell::new(result.from),
            Cell::new(&result.to),
            Cell::new(&result.expected),
            Cell::new(&result.got),
            Cell::new(mark).styled(colour),
            Cell::number(result.ms.map_or(String::new(), |ms| format!("{ms:.2} ms"))),
        ]);
    }
    table.render()
}

/// `1.23 Gbit/s`.
fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate => format!("{:.0} Mbit/s", rate / 1e6),
    }
}

/// Throughput.
pub fn streams(streams: &[Stream]) -> String {
    let mut table = Table::default();
    for stream in streams {
        table.row([
            Cell::new(format!("{} > {}", stream.from, stream.to)),
            Cell::new(stream.address),
            Cell::number(rate(stream.bits_per_second)),
            Cell::number(format!("{} retransmitted", stream.retransmits.unwrap_or(0))),
            Cell::new(stream.what).styled(style::DIM),
        ]);
    }
    table.render()
}

/// The command and what it prints.
pub fn explained(explained: &Explained) -> String {
    let dim = style::DIM;
    let mut text = format!("  {dim}${dim:#} {}\n", explained.command);
    for line in explained.text.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}

/// The gateway's counters.
pub fn counters(counters: &Counters) -> String {
    let mut table = Table::default();
    let sections: [(&str, &[Named]); 5] = [
        ("received from VPC", &counters.received_from),
        ("of that, forwarded", &counters.forwarded_from),
        ("took a route of scope", &counters.scopes),
        ("dropped, by reason", &counters.drops),
        ("to the CPU, by reason", &counters.to_cpu),
    ];
    for (title, counts) in sections {
        let mut title = title;
        for Named { name, count } in counts {
            table.row([
                Cell::new(std::mem::take(&mut title)).styled(style::NAME),
                Cell::new(name),
                Cell::number(format!("{} packets", count.packets)),
                Cell::number(format!("{} bytes", count.bytes)),
            ]);
        }
    }
    table.render()
}

/// The change and what it did to streams that it did not concern.
pub fn change(change: &Change) -> String {
    let [added, changed, removed] = change.entries;
    let mut text = format!(
        "  applied in {:.0} ms while packets flow: {added} entries added, {changed} changed, {removed} removed\n",
        change.ms
    );
    let refused = change.refused.lines().next().unwrap_or("");
    let _ = writeln!(text, "  a wrong region file is refused, and changes nothing:\n    {refused}");
    let mut table = Table::default();
    for stream in &change.untouched {
        let (sent, lost) = match (stream.packets, stream.lost) {
            (Some(packets), Some(lost)) => (format!("{packets} packets"), format!("{lost} lost")),
            _ => (rate(stream.bits_per_second), format!("{} retransmitted", stream.retransmits.unwrap_or(0))),
        };
        let colour = if stream.lost.unwrap_or(0) == 0 { style::GOOD } else { style::BAD };
        table.row([
            Cell::new(format!("{} > {}", stream.from, stream.to)),
            Cell::new(stream.address),
            Cell::new(format!("{} {}", stream.what, stream.protocol)),
            Cell::number(sent),
            Cell::new(lost).styled(colour),
        ]);
    }
    text += &table.render();
    let dropped: Vec<String> =
        change.dropped.iter().map(|Named { name, count }| format!("{} {name}", count.packets)).collect();
    let dropped = if dropped.is_empty() { "nothing".to_owned() } else { dropped.join(", ") };
    text + &format!("  dropped by the gateway meanwhile: {dropped}\n")
}
