//! What a run over capture files did: for people, and as JSON.

use io::RunReport;
use node::engine::Controlled;
use node::observe::counter_cells;
use node::status::CounterCell;
use packet::{Counter, EngineCounters, PortCounters, ReasonTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStats {
    /// The port's number.
    pub port: u32,
    /// Its interface or file.
    pub name: String,
    /// Received, and given to the engine.
    pub received: Counter,
    /// Sent.
    pub sent: Counter,
    /// Lost at the port, by reason: `rx_` on the way in, `tx_` on the way out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, Counter>,
}

/// All of it. Each packet is in one place: those of `received` and `copies` together are those of `forwarded`, `to_cpu` and `drops`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The program's name.
    pub program: String,
    /// What runs it: `jit`, `interp` or `asic`.
    #[serde(default)]
    pub engine: String,
    /// What to know, in sentences: of how it runs (on a chip, where each table is), and of what was
    /// not processed at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The region file, if there is one.
    pub region: Option<String>,
    /// How often tables were written; a packet sees one version.
    pub version: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// Everything that came to the ports, also what was lost before the engine was given it, and what the kernel did by itself.
    pub received: Counter,
    /// What ports sent, in the kernel, too.
    pub forwarded: Counter,
    /// Packets that the program made: further copies of one that it was given.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: u64,
    /// For the control plane, by reason.
    pub to_cpu: BTreeMap<String, Counter>,
    /// Dropped, by reason: by the program, the engine, or a port.
    pub drops: BTreeMap<String, Counter>,
    /// The ports.
    pub ports: Vec<PortStats>,
    /// Counters of the program.
    pub counters: Vec<CounterCell>,
}

impl Stats {
    /// From what a runner reports. Counters of the program are for the caller to add.
    pub fn of(report: &RunReport, reasons: &ReasonTable) -> Stats {
        let mut stats = Stats { seconds: report.run_time.as_secs_f64(), ..Stats::default() };
        stats.received = report.arrived();
        stats.forwarded = report.sent();
        stats.copies = report.engine.copies;
        for (reason, counter) in &report.engine.to_cpu {
            stats.to_cpu.insert(reasons.cpu_name(*reason).into_owned(), *counter);
        }
        // What went to the CPU is named there; that nobody takes it here is no second loss.
        let taken_by_nobody = packet::DropReason::from(packet::PortReason::CpuQueueFull);
        for (reason, counter) in report.drops().iter().filter(|(reason, _)| *reason != taken_by_nobody) {
            stats.drops.insert(reasons.drop_name(reason).into_owned(), counter);
        }
        let one =
            |(id, (name, counters)): (&packet::PortId, &(String, PortCounters))| port(id.0, name, counters, reasons);
        stats.ports = report.ports.iter().map(one).collect();
        stats
    }

    /// Adds what an engine says of itself.
    pub fn tell_of(&mut self, engine: &dyn Controlled, reasons: &ReasonTable) {
        self.add_beside(&engine.beside_workers(), reasons);
        self.version = engine.tables_version();
        self.counters = counter_cells(engine, reasons, &|_| None);
        self.engine = engine.name().to_owned();
        self.notes.extend(engine.notes());
    }

    /// Adds what the kernel did by itself. What it received and sent is in the ports' counts already.
    fn add_beside(&mut self, beside: &EngineCounters, reasons: &ReasonTable) {
        self.received.packets += beside.received.packets;
        self.received.bytes += beside.received.bytes;
        for (reason, counter) in beside.drops.iter() {
            let sum = self.drops.entry(reasons.drop_name(reason).into_owned()).or_default();
            sum.packets += counter.packets;
            sum.bytes += counter.bytes;
        }
    }

    /// As text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let of = self.region.as_ref().map_or(String::new(), |region| format!(", region {region}"));
        let _ = writeln!(text, "program {}{of}, table version {}, {:.1} s", self.program, self.version, self.seconds);
        let _ = writeln!(
            text,
            "{:<10} {:>12} packets {:>16} bytes",
            "received", self.received.packets, self.received.bytes
        );
        let _ = writeln!(
            text,
            "{:<10} {:>12} packets {:>16} bytes",
            "forwarded", self.forwarded.packets, self.forwarded.bytes
        );
        if self.copies > 0 {
            let _ = writeln!(text, "{:<10} {:>12} packets, made by the program", "copies", self.copies);
        }
        for (title, reasons) in [("to the CPU", &self.to_cpu), ("dropped", &self.drops)] {
            if !reasons.is_empty() {
                let _ = writeln!(text, "{title}");
            }
            for (reason, count) in reasons {
                let _ = writeln!(text, "  {reason:<32} {:>12} packets {:>14} bytes", count.packets, count.bytes);
            }
        }
        if !self.ports.is_empty() {
            let _ = writeln!(text, "ports");
        }
        for port in &self.ports {
            let name = format!("{} {}", port.port, port.name);
            let _ =
                writeln!(text, "  {name:<32} {:>12} received {:>13} sent", port.received.packets, port.sent.packets);
            for (reason, count) in &port.lost {
                let _ = writeln!(text, "    {reason:<30} {:>12} lost", count.packets);
            }
        }
        if !self.notes.is_empty() {
            let _ = writeln!(text, "notes (engine {})", self.engine);
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        if !self.counters.is_empty() {
            let _ = writeln!(text, "counters");
        }
        for cell in &self.counters {
            let label = cell.label.clone().unwrap_or_else(|| cell.index.to_string());
            let name = format!("{}[{label}]", cell.counter);
            let _ = writeln!(text, "  {name:<48} {:>12} packets {:>14} bytes", cell.count.packets, cell.count.bytes);
        }
        text
    }
}

fn port(number: u32, name: &str, counters: &PortCounters, reasons: &ReasonTable) -> PortStats {
    let (received, sent) = (counters.received, counters.sent);
    let lost = counters.drops.iter().map(|(reason, counter)| (reasons.drop_name(reason).into_owned(), counter));
    PortStats { port: number, name: name.to_owned(), received, sent, lost: lost.collect() }
}

/// As serde asks it.
fn is_zero(count: &u64) -> bool {
    *count == 0
}
