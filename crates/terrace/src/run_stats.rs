//! Statistics of a run over capture files, as text and as JSON.

use io::RunStats;
use node::engine::EngineControl;
use node::observe::counter_cells;
use node::status::CounterCell;
use packet::{Counter, EngineCounters, PortCounters, ReasonTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Statistics of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortStats {
    /// Port number.
    pub port: u32,
    /// Name of the interface or file.
    pub name: String,
    /// Received packets that were given to the engine.
    pub received: Counter,
    /// Sent packets.
    pub sent: Counter,
    /// Packets lost at the port, by reason: `rx_` for ingress, `tx_` for egress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<String, Counter>,
}

/// Statistics of a run. Each packet is counted once: `received` plus `copies` equals `forwarded`
/// plus `to_cpu` plus `drops`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Name of the program.
    pub program: String,
    /// Engine: `jit`, `interp` or `asic`.
    #[serde(default)]
    pub engine: String,
    /// Notes in sentences: about the execution (on a chip, the location of each table), and about
    /// packets that were not processed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Region file, if one was given.
    pub region: Option<String>,
    /// Table version: the number of writes to tables. Each packet sees one version.
    pub version: u64,
    /// Duration since the start, in seconds.
    pub seconds: f64,
    /// All packets that arrived at the ports, including those lost before the engine and those that
    /// the kernel processed alone.
    pub received: Counter,
    /// All packets that ports sent, including those sent by the kernel alone.
    pub forwarded: Counter,
    /// Packets that the program created: additional copies of received packets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: u64,
    /// Packets to the control plane, by reason.
    pub to_cpu: BTreeMap<String, Counter>,
    /// Dropped packets, by reason of the program, the engine, or a port.
    pub drops: BTreeMap<String, Counter>,
    /// Statistics of the ports.
    pub ports: Vec<PortStats>,
    /// Counters of the program.
    pub counters: Vec<CounterCell>,
}

impl RunSummary {
    /// Converts the report of a runner. The caller adds the program's counters.
    pub fn of(report: &RunStats, reasons: &ReasonTable) -> RunSummary {
        let mut stats = RunSummary { seconds: report.run_time.as_secs_f64(), ..RunSummary::default() };
        stats.received = report.arrived();
        stats.forwarded = report.sent();
        stats.copies = report.engine.generated;
        for (reason, counter) in &report.engine.to_cpu {
            stats.to_cpu.insert(reasons.cpu_name(*reason).into_owned(), *counter);
        }
        // Packets to the CPU are counted under their own reason. That no controller takes them here
        // is not a second loss.
        let not_taken = packet::DropReason::from(packet::PortReason::PacketInQueueFull);
        for (reason, counter) in report.drops().iter().filter(|(reason, _)| *reason != not_taken) {
            stats.drops.insert(reasons.drop_name(reason).into_owned(), counter);
        }
        let port_entry = |(id, (name, counters)): (&packet::PortId, &(String, PortCounters))| {
            port_stats(id.0, name, counters, reasons)
        };
        stats.ports = report.ports.iter().map(port_entry).collect();
        stats
    }

    /// Adds the engine's counters, version, name and notes.
    pub fn add_engine_stats(&mut self, engine: &dyn EngineControl, reasons: &ReasonTable) {
        self.add_bypass_counters(&engine.bypass_counters(), reasons);
        self.version = engine.tables_version();
        self.counters = counter_cells(engine, reasons, &|_| None);
        self.engine = engine.name().to_owned();
        self.notes.extend(engine.status_notes());
    }

    /// Adds the packets that the kernel processed alone. The packets that it sent are already in
    /// the ports' counts.
    fn add_bypass_counters(&mut self, beside: &EngineCounters, reasons: &ReasonTable) {
        self.received.packets += beside.received.packets;
        self.received.bytes += beside.received.bytes;
        for (reason, counter) in beside.drops.iter() {
            let sum = self.drops.entry(reasons.drop_name(reason).into_owned()).or_default();
            sum.packets += counter.packets;
            sum.bytes += counter.bytes;
        }
    }

    /// Renders the statistics as text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let region_text = self.region.as_ref().map_or(String::new(), |region| format!(", region {region}"));
        let _ = writeln!(
            text,
            "program {}{region_text}, table version {}, {:.1} s",
            self.program, self.version, self.seconds
        );
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

fn port_stats(number: u32, name: &str, counters: &PortCounters, reasons: &ReasonTable) -> PortStats {
    let (received, sent) = (counters.received, counters.sent);
    let lost = counters.drops.iter().map(|(reason, counter)| (reasons.drop_name(reason).into_owned(), counter));
    PortStats { port: number, name: name.to_owned(), received, sent, lost: lost.collect() }
}

/// Returns whether a count is 0. Serde requires the reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}
