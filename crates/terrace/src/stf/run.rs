//! Runs a test on a device.
//!
//! Sent packets are collected per port. They are compared with the expected ones in order at the
//! end of the script, like in p4c's driver, because an `expect` may be written before or after its
//! `packet`.

use super::compare;
use super::device::{Device, Sent};
use super::replication::Replication;
use super::report::{Finding, Report, pattern_text};
use super::resolve;
use super::script::*;
use entries::{
    ActionSpec, CloneSession, EntryId, MulticastGroup, Replica, StateUpdate, TableEntry, UpdateKind, WriteBatch,
};
use ir::{ExternId, KeyMatch, ValueSetId};
use num_bigint::BigUint;
use packet::hex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;

/// Maximum number of packets sent during a test.
const MAX_SENT: usize = 100_000;

/// A command that cannot be executed. The test does not fit the program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {message}")]
pub struct RunError {
    /// Path of the test file.
    pub file: String,
    /// Line of the command.
    pub line: u32,
    /// Description of the error, with the fix.
    pub message: String,
}

/// Options for judging a test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Fail for packets on ports that the test does not name. The driver of p4c does not have such
    /// ports, so it never sees these packets.
    pub all_ports: bool,
}

/// Runs the test.
///
/// # Errors
/// At the first command that names an object that the program lacks, or that the device refuses.
/// Expectations that do not hold are not errors but findings of the report.
pub fn run(script: &Script, device: &mut dyn Device, options: Options) -> Result<Report, RunError> {
    let mut runner = Runner {
        device,
        report: Report { file: script.file.clone(), ..Report::default() },
        replication: Replication::default(),
        handles: BTreeMap::new(),
        expected: BTreeMap::new(),
        got: BTreeMap::new(),
        named_ports: BTreeSet::new(),
        value_sets: BTreeMap::new(),
        idle: VecDeque::new(),
        digests: VecDeque::new(),
        line: 0,
        left_last: 0,
    };
    for located in &script.commands {
        runner.line = located.line;
        let outcome = runner.command(&located.command);
        outcome.map_err(|message| RunError { file: script.file.clone(), line: located.line, message })?;
    }
    runner.compare(options);
    Ok(runner.report)
}

/// A sent packet, with the line of the command that caused it.
struct SentPacket {
    line: u32,
    bytes: Vec<u8>,
}

/// State of a running test.
pub(super) struct Runner<'d> {
    pub(super) device: &'d mut dyn Device,
    report: Report,
    replication: Replication,
    pub(super) handles: BTreeMap<String, TableEntry>,
    expected: BTreeMap<u32, Vec<(u32, Option<PacketPattern>)>>,
    got: BTreeMap<u32, Vec<SentPacket>>,
    named_ports: BTreeSet<u32>,
    pub(super) value_sets: BTreeMap<ValueSetId, Vec<Vec<KeyMatch>>>,
    pub(super) idle: VecDeque<EntryId>,
    pub(super) digests: VecDeque<(ExternId, Vec<BigUint>)>,
    line: u32,
    /// Number of packets that the last `packet` (or `advance_time`) caused to be sent.
    left_last: usize,
}

/// Result of a command. The error is the reason why it cannot be executed.
pub(super) type StfResult<T = ()> = Result<T, String>;

pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Runner<'_> {
    /// Runs a command of p4c's format. Expected packets are compared only at the end of the test.
    fn command(&mut self, command: &Command) -> StfResult {
        match command {
            Command::Add { .. } => self.add(command),
            Command::SetDefault { table, action } => {
                let table = resolve::table(self.device.pipeline(), table).map_err(text)?;
                let call = resolve::table_action(self.device.pipeline(), table, action).map_err(text)?;
                self.write(StateUpdate::DefaultAction(table, Some(ActionSpec::Call(call))))
            }
            Command::RemoveAll => {
                self.handles.clear();
                let tables: Vec<_> = self.device.pipeline().tables.keys().collect();
                let entries = tables.into_iter().flat_map(|table| self.device.entries(table));
                let batch: WriteBatch = entries.map(deletion).collect();
                self.device.write(batch)
            }
            Command::Remove { handle } => {
                let entry = self.entry_id(handle)?;
                self.handles.remove(handle);
                self.write(deletion(entry))
            }
            Command::Packet { port, bytes } => {
                self.named_ports.insert(*port);
                self.report.packets_in += 1;
                let sent = self.device.inject(*port, bytes)?;
                self.collect(sent)
            }
            Command::Expect { port, pattern } => {
                self.named_ports.insert(*port);
                self.report.checks += 1;
                self.expected.entry(*port).or_default().push((self.line, pattern.clone()));
                Ok(())
            }
            Command::NoPacket => {
                let left_count = self.left_last;
                self.check(left_count == 0, || format!("no packet was to leave, but {left_count} did"));
                Ok(())
            }
            Command::Wait => Ok(()),
            Command::MirroringAdd { .. }
            | Command::MirroringAddMc { .. }
            | Command::MirroringDelete { .. }
            | Command::MirroringGet { .. }
            | Command::McGroupCreate { .. }
            | Command::McNodeCreate { .. }
            | Command::McNodeUpdate { .. }
            | Command::McNodeAssociate { .. } => self.replicate(command),
            Command::CheckCounter { .. } | Command::CounterRead { .. } | Command::CounterWrite { .. } => {
                self.counter(command)
            }
            Command::RegisterRead { .. } | Command::RegisterWrite { .. } | Command::RegisterReset { .. } => {
                self.register(command)
            }
            Command::MeterGetRates { .. } | Command::MeterSetRates { .. } | Command::MeterArraySetRates { .. } => {
                self.meter(command)
            }
            Command::Own(own) => self.own(own),
        }
    }

    /// Adds an entry, and keeps it under its handle, if it has one, for removal.
    fn add(&mut self, command: &Command) -> StfResult {
        let Command::Add { table: name, priority, keys, target, handle } = command else { return Ok(()) };
        let pipeline = self.device.pipeline();
        let id = resolve::table(pipeline, name).map_err(text)?;
        let table = &pipeline.tables[id];
        let keys = resolve::entry_keys(table, keys).map_err(text)?;
        let target = match target {
            EntryTarget::Action(action) => ActionSpec::Call(resolve::table_action(pipeline, id, action).map_err(text)?),
            EntryTarget::Member(member) => ActionSpec::Member(*member),
            EntryTarget::Group(group) => ActionSpec::Group(*group),
        };
        let name = &table.preamble.name;
        let priority = match (table.has_priority(), priority) {
            // Control planes number priorities from 1; p4c's tests use 0.
            (true, Some(priority)) => priority.saturating_add(1),
            (true, None) => {
                return Err(format!("table `{name}` needs a priority: write add {name} 10 ...; a greater one wins"));
            }
            // The priority is ignored, as in p4c's driver.
            (false, _) => 0,
        };
        let entry = TableEntry::new(id, keys, target).with_priority(priority);
        if let Some(handle) = handle {
            self.handles.insert(handle.clone(), entry.clone());
        }
        self.write(StateUpdate::Entry(UpdateKind::Insert, entry))
    }

    pub(super) fn write(&mut self, update: StateUpdate) -> StfResult {
        self.device.write(WriteBatch { updates: vec![update] })
    }

    pub(super) fn handle(&self, name: &str) -> StfResult<&TableEntry> {
        let help = || format!("no entry has the handle `{name}`; write `= {name}` after the `add` that creates it");
        self.handles.get(name).ok_or_else(help)
    }

    pub(super) fn entry_id(&self, handle: &str) -> StfResult<EntryId> {
        let entry = self.handle(handle)?;
        Ok(EntryId { table: entry.table, keys: entry.keys.clone(), priority: entry.priority })
    }

    pub(super) fn collect(&mut self, sent: Vec<Sent>) -> StfResult {
        self.left_last = sent.len();
        self.report.packets_out += sent.len();
        if self.report.packets_out > MAX_SENT {
            return Err(format!("more than {MAX_SENT} packets left; split the test"));
        }
        for Sent { port, bytes } in sent {
            self.got.entry(port).or_default().push(SentPacket { line: self.line, bytes });
        }
        self.digests.extend(self.device.take_digests());
        self.idle.extend(self.device.take_idle());
        Ok(())
    }

    pub(super) fn check(&mut self, holds: bool, message: impl FnOnce() -> String) {
        self.report.checks += 1;
        if !holds {
            self.report.findings.push(Finding::Check { line: self.line, message: message() });
        }
    }

    pub(super) fn note(&mut self, note: String) {
        self.report.notes.push(format!("{}:{}: {note}", self.report.file, self.line));
    }

    /// Runs a command that configures clone sessions or multicast groups.
    fn replicate(&mut self, command: &Command) -> StfResult {
        match command {
            Command::MirroringAdd { session, port } => {
                self.set_session(*session, vec![Replica { port: *port, instance: 0 }], None)
            }
            Command::MirroringAddMc { session, group } => self.set_session(*session, Vec::new(), Some(*group)),
            Command::MirroringDelete { session } => self.write(StateUpdate::Clone(
                UpdateKind::Delete,
                CloneSession { id: *session, ..CloneSession::default() },
            )),
            Command::McGroupCreate { group } => {
                self.replication.create_group(*group);
                self.publish_groups()
            }
            Command::McNodeCreate { rid, ports } => {
                self.replication.create_node(*rid, ports.clone());
                Ok(())
            }
            Command::McNodeUpdate { node, ports } => {
                self.replication.update_node(*node, ports.clone()).map_err(text)?;
                self.publish_groups()
            }
            Command::McNodeAssociate { group, node } => {
                self.replication.associate(*group, *node).map_err(text)?;
                self.publish_groups()
            }
            // bmv2's command line prints the session; there is nothing to check.
            _ => Ok(()),
        }
    }

    fn set_session(&mut self, id: u32, replicas: Vec<Replica>, multicast_group: Option<u32>) -> StfResult {
        let kind = if self.device.has_group(id, true) { UpdateKind::Modify } else { UpdateKind::Insert };
        self.write(StateUpdate::Clone(kind, CloneSession { id, replicas, multicast_group, ..CloneSession::default() }))
    }

    fn publish_groups(&mut self) -> StfResult {
        let device = &*self.device;
        let batch: WriteBatch = (self.replication.groups())
            .map(|(id, replicas)| {
                let kind = if device.has_group(id, false) { UpdateKind::Modify } else { UpdateKind::Insert };
                StateUpdate::Multicast(kind, MulticastGroup { id, replicas })
            })
            .collect();
        self.device.write(batch)
    }

    /// Compares sent packets with expected ones, port by port.
    fn compare(&mut self, options: Options) {
        let ports: BTreeSet<u32> = self.expected.keys().chain(self.got.keys()).copied().collect();
        for port in ports {
            let expected = self.expected.remove(&port).unwrap_or_default();
            let got = self.got.remove(&port).unwrap_or_default();
            if !self.named_ports.contains(&port) && !options.all_ports {
                let note = format!("{} packets left on port {port}, which the test does not name", got.len());
                self.report.notes.push(format!("{}: {note}", self.report.file));
                continue;
            }
            self.report.findings.extend(compare_port(port, &expected, &got));
        }
    }
}

/// Compares the packets that left a port with those expected, in their order. `expected` has the
/// line in the test of each, and a pattern if the bytes matter.
fn compare_port(port: u32, expected: &[(u32, Option<PacketPattern>)], sent: &[SentPacket]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (expect_line, pattern)) in expected.iter().enumerate() {
        let Some(packet) = sent.get(index) else {
            let expected = pattern.as_ref().map(pattern_text);
            findings.push(Finding::Missing { port, index, expect_line: *expect_line, expected });
            continue;
        };
        if let Some(pattern) = pattern
            && let Some(difference) = compare::difference(pattern, &packet.bytes)
        {
            let (expectation, actual) = ((*expect_line, pattern), (packet.line, packet.bytes.as_slice()));
            findings.push(Finding::differs(port, index, expectation, actual, &difference));
        }
    }
    for (index, packet) in sent.iter().enumerate().skip(expected.len()) {
        findings.push(Finding::Unexpected { port, index, packet_line: packet.line, got: hex(&packet.bytes) });
    }
    findings
}

/// Returns an update that deletes the entry. Only the identity of the entry is relevant.
fn deletion(id: EntryId) -> StateUpdate {
    let entry = TableEntry::new(id.table, id.keys, ActionSpec::Member(0)).with_priority(id.priority);
    StateUpdate::Entry(UpdateKind::Delete, entry)
}
