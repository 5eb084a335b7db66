//! Runs a test on a device.
//!
//! Packets that leave are collected per port and compared with what is expected there, in order, when the script has ended, as p4c's
//! driver does: so an `expect` may stand before or after the `packet` that it belongs to.

use super::compare;
use super::device::{Cell, Device, Sent};
use super::replication::Replication;
use super::report::{Finding, Report, hex, pattern_text};
use super::resolve;
use super::script::*;
use ir::{DataType, ExternId, ExternKind, KeyMatch, NamedType, Pipeline, ValueSetId};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tables::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, CloneSession, CounterData, EntryId, GroupMember, MeterConfig,
    MulticastGroup, Replica, TableEntry, Update, UpdateKind, WriteBatch,
};
use thiserror::Error;

/// The most packets that may leave during a test.
const MAX_SENT: usize = 100_000;
/// The most meters that `meter_array_set_rates` sets.
const MAX_METERS: u64 = 1 << 20;

/// A command that cannot be carried out: the test is wrong for this program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {message}")]
pub struct RunError {
    /// The test file.
    pub file: String,
    /// The command's line.
    pub line: u32,
    /// What is wrong, with the mend.
    pub message: String,
}

/// How strictly a test is judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Fail for packets on ports that the test never names. p4c's driver does not even have such ports and never sees these packets.
    pub all_ports: bool,
}

/// Runs the test.
///
/// # Errors
/// The first command that names something the program lacks, or that the device refuses. Expectations that do
/// not hold are no errors but findings of the report.
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

/// A packet that left, with the line of the command that made it.
struct Got {
    line: u32,
    bytes: Vec<u8>,
}

struct Runner<'d> {
    device: &'d mut dyn Device,
    report: Report,
    replication: Replication,
    handles: BTreeMap<String, TableEntry>,
    expected: BTreeMap<u32, Vec<(u32, Option<PacketPattern>)>>,
    got: BTreeMap<u32, Vec<Got>>,
    named_ports: BTreeSet<u32>,
    value_sets: BTreeMap<ValueSetId, Vec<Vec<KeyMatch>>>,
    idle: VecDeque<EntryId>,
    digests: VecDeque<(ExternId, Vec<BigUint>)>,
    line: u32,
    /// How many packets the last `packet` (or `advance_time`) made leave.
    left_last: usize,
}

type Outcome<T = ()> = Result<T, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Runner<'_> {
    fn command(&mut self, command: &Command) -> Outcome {
        match command {
            Command::Add { .. } => self.add(command),
            Command::SetDefault { table, action } => {
                let table = resolve::table(self.device.pipeline(), table).map_err(text)?;
                let call = resolve::table_action(self.device.pipeline(), table, action).map_err(text)?;
                self.write(Update::DefaultAction(table, Some(ActionSpec::Call(call))))
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
                let left = self.left_last;
                self.check(left == 0, || format!("no packet was to leave, but {left} did"));
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

    fn add(&mut self, command: &Command) -> Outcome {
        let Command::Add { table: name, priority, keys, target, handle } = command else { return Ok(()) };
        let pipeline = self.device.pipeline();
        let id = resolve::table(pipeline, name).map_err(text)?;
        let table = &pipeline.tables[id];
        let keys = resolve::entry_keys(table, keys).map_err(text)?;
        let target = match target {
            Target::Action(action) => ActionSpec::Call(resolve::table_action(pipeline, id, action).map_err(text)?),
            Target::Member(member) => ActionSpec::Member(*member),
            Target::Group(group) => ActionSpec::Group(*group),
        };
        let name = &table.preamble.name;
        let priority = match (table.has_priority(), priority) {
            // Control planes count from 1; p4c's tests use 0.
            (true, Some(priority)) => priority.saturating_add(1),
            (true, None) => {
                return Err(format!("table `{name}` needs a priority: write add {name} 10 ...; a greater one wins"));
            }
            // p4c's driver takes a number here and drops it, so do we.
            (false, _) => 0,
        };
        let entry = TableEntry::new(id, keys, target).with_priority(priority);
        if let Some(handle) = handle {
            self.handles.insert(handle.clone(), entry.clone());
        }
        self.write(Update::Entry(UpdateKind::Insert, entry))
    }

    fn write(&mut self, update: Update) -> Outcome {
        self.device.write(WriteBatch { updates: vec![update] })
    }

    fn handle(&self, name: &str) -> Outcome<&TableEntry> {
        let help = || format!("no entry has the handle `{name}`; write `= {name}` behind the `add` that makes it");
        self.handles.get(name).ok_or_else(help)
    }

    fn entry_id(&self, handle: &str) -> Outcome<EntryId> {
        let entry = self.handle(handle)?;
        Ok(EntryId { table: entry.table, keys: entry.keys.clone(), priority: entry.priority })
    }

    fn collect(&mut self, sent: Vec<Sent>) -> Outcome {
        self.left_last = sent.len();
        self.report.packets_out += sent.len();
        if self.report.packets_out > MAX_SENT {
            return Err(format!("more than {MAX_SENT} packets left; split the test"));
        }
        for Sent { port, bytes } in sent {
            self.got.entry(port).or_default().push(Got { line: self.line, bytes });
        }
        self.digests.extend(self.device.take_digests());
        self.idle.extend(self.device.take_idle());
        Ok(())
    }

    fn check(&mut self, holds: bool, message: impl FnOnce() -> String) {
        self.report.checks += 1;
        if !holds {
            self.report.findings.push(Finding::Check { line: self.line, message: message() });
        }
    }

    fn note(&mut self, note: String) {
        self.report.notes.push(format!("{}:{}: {note}", self.report.file, self.line));
    }

    fn replicate(&mut self, command: &Command) -> Outcome {
        match command {
            Command::MirroringAdd { session, port } => {
                self.set_session(*session, vec![Replica { port: *port, instance: 0 }], None)
            }
            Command::MirroringAddMc { session, group } => self.set_session(*session, Vec::new(), Some(*group)),
            Command::MirroringDelete { session } => {
                self.write(Update::Clone(UpdateKind::Delete, CloneSession { id: *session, ..CloneSession::default() }))
            }
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
            // bmv2's command line prints the session; nothing is checked.
            _ => Ok(()),
        }
    }

    fn set_session(&mut self, id: u32, replicas: Vec<Replica>, multicast_group: Option<u32>) -> Outcome {
        let kind = if self.device.has_group(id, true) { UpdateKind::Modify } else { UpdateKind::Insert };
        self.write(Update::Clone(kind, CloneSession { id, replicas, multicast_group, ..CloneSession::default() }))
    }

    fn publish_groups(&mut self) -> Outcome {
        let device = &*self.device;
        let batch: WriteBatch = (self.replication.groups())
            .map(|(id, replicas)| {
                let kind = if device.has_group(id, false) { UpdateKind::Modify } else { UpdateKind::Insert };
                Update::Multicast(kind, MulticastGroup { id, replicas })
            })
            .collect();
        self.device.write(batch)
    }

    fn cell(&self, cell: &CellText) -> Outcome<Cell> {
        Ok(match cell {
            CellText::Index(index) => Cell::Index(*index),
            CellText::Handle(handle) => Cell::Entry(self.entry_id(handle)?),
        })
    }

    fn counter(&mut self, command: &Command) -> Outcome {
        let wanted = |kind: &ExternKind| matches!(kind, ExternKind::Counter { .. } | ExternKind::DirectCounter { .. });
        let find = |pipeline: &Pipeline, name: &str| resolve::object(pipeline, "counter", name, wanted).map_err(text);
        match command {
            Command::CheckCounter { name, cell, check } => {
                let cell = self.cell(cell)?;
                let count = self.device.counter(find(self.device.pipeline(), name)?, &cell)?;
                let Some((unit, comparison, bound)) = check else {
                    self.note(format!("{name}: {} packets, {} bytes", count.packets, count.bytes));
                    return Ok(());
                };
                let (value, unit) = match unit {
                    CountUnit::Packets => (count.packets, "packets"),
                    CountUnit::Bytes => (count.bytes, "bytes"),
                };
                let symbol = comparison.symbol();
                self.check(comparison.holds(&value, bound), || {
                    format!("counter {name} has {value} {unit}, expected {symbol} {bound}")
                });
            }
            Command::CounterRead { name, index } => {
                let count = self.device.counter(find(self.device.pipeline(), name)?, &Cell::Index(*index))?;
                self.note(format!("{name}[{index}] = {} packets, {} bytes", count.packets, count.bytes));
            }
            Command::CounterWrite { name, index, packets, bytes } => {
                let counter = find(self.device.pipeline(), name)?;
                self.write(Update::Counter(counter, *index, CounterData { packets: *packets, bytes: *bytes }))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn find_register(&self, name: &str) -> Outcome<ExternId> {
        let wanted = |kind: &ExternKind| matches!(kind, ExternKind::Register { .. });
        resolve::object(self.device.pipeline(), "register", name, wanted).map_err(text)
    }

    fn register(&mut self, command: &Command) -> Outcome {
        match command {
            Command::RegisterRead { name, index } => {
                let leaves = self.device.register(self.find_register(name)?, *index)?;
                let values: Vec<String> = leaves.iter().map(ToString::to_string).collect();
                self.note(format!("{name}[{index}] = {}", values.join(", ")));
                Ok(())
            }
            Command::RegisterWrite { name, index, value } => {
                let register = self.find_register(name)?;
                let ExternKind::Register { elem, .. } = &self.device.pipeline().externs[register].kind else {
                    return Ok(());
                };
                let [ty] = elem.as_slice() else {
                    return Err(format!(
                        "register `{name}` holds {} values an element; register_write sets only one",
                        elem.len()
                    ));
                };
                let bits = resolve::scalar(name, *ty, value).map_err(text)?;
                self.write(Update::Register(register, Some(*index), vec![bits]))
            }
            Command::RegisterReset { name } => {
                let register = self.find_register(name)?;
                let zeros = match &self.device.pipeline().externs[register].kind {
                    ExternKind::Register { elem, .. } => vec![BigUint::ZERO; elem.len()],
                    _ => Vec::new(),
                };
                self.write(Update::Register(register, None, zeros))
            }
            _ => Ok(()),
        }
    }

    fn meter(&mut self, command: &Command) -> Outcome {
        let wanted = |kind: &ExternKind| matches!(kind, ExternKind::Meter { .. } | ExternKind::DirectMeter { .. });
        let find = |pipeline: &Pipeline, name: &str| resolve::object(pipeline, "meter", name, wanted).map_err(text);
        match command {
            Command::MeterGetRates { name, index } => {
                let rates = self.device.meter(find(self.device.pipeline(), name)?, &Cell::Index(*index))?;
                self.note(match rates {
                    Some(m) => {
                        format!("{name}[{index}] = {}/s burst {}, peak {}/s burst {}", m.cir, m.cburst, m.pir, m.pburst)
                    }
                    None => format!("{name}[{index}] has no rates"),
                });
                Ok(())
            }
            Command::MeterSetRates { name, cell, rates } => {
                let meter = find(self.device.pipeline(), name)?;
                let cell = self.cell(cell)?;
                let config = Some(meter_config(rates)?);
                self.write(match cell {
                    Cell::Index(index) => Update::Meter(meter, index, config),
                    Cell::Entry(entry) => Update::DirectMeter(entry, config),
                })
            }
            Command::MeterArraySetRates { name, rates } => {
                let meter = find(self.device.pipeline(), name)?;
                let ExternKind::Meter { size, .. } = self.device.pipeline().externs[meter].kind else {
                    return Err(format!(
                        "meter `{name}` is direct and has no array; set the rates of an entry by its handle"
                    ));
                };
                let config = meter_config(rates)?;
                let indices = 0..size.min(MAX_METERS);
                self.device.write(indices.map(|index| Update::Meter(meter, index, Some(config))).collect())
            }
            _ => Ok(()),
        }
    }

    fn own(&mut self, command: &OwnCommand) -> Outcome {
        let pipeline = self.device.pipeline();
        let is_profile =
            |kind: &ExternKind| matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. });
        match command {
            OwnCommand::CheckRegister { name, index, comparison, value } => {
                let leaves = self.device.register(self.find_register(name)?, *index)?;
                let wanted =
                    value.value.to_biguint().ok_or("a register's bits are not negative; give a bit pattern")?;
                let holds = leaves.len() == 1 && comparison.holds(&leaves[0], &wanted);
                let shown: Vec<String> = leaves.iter().map(ToString::to_string).collect();
                let (shown, symbol) = (shown.join(", "), comparison.symbol());
                self.check(holds, || format!("register {name}[{index}] is {shown}, expected {symbol} {wanted}"));
                Ok(())
            }
            OwnCommand::CheckDigest { name, fields } => self.check_digest(name, fields.as_deref()),
            OwnCommand::AdvanceTime { nanoseconds } => {
                let sent = self.device.advance(*nanoseconds)?;
                self.collect(sent)
            }
            OwnCommand::CheckEntries { table, comparison, count } => {
                let id = resolve::table(pipeline, table).map_err(text)?;
                let entries = self.device.entries(id).len() as u64;
                let symbol = comparison.symbol();
                self.check(comparison.holds(&entries, count), || {
                    format!("table {table} has {entries} entries, expected {symbol} {count}")
                });
                Ok(())
            }
            OwnCommand::MemberCreate { profile, member, action } => {
                let id = resolve::object(pipeline, "action profile", profile, is_profile).map_err(text)?;
                let tables = pipeline.tables.values().filter(|table| table.implementation == Some(id));
                let mut actions: Vec<_> = tables.flat_map(|table| table.actions.iter().map(|a| a.action)).collect();
                actions.sort_unstable();
                actions.dedup();
                let call = resolve::action_call(pipeline, actions.into_iter(), action).map_err(text)?;
                let member = ActionProfileMember { profile: id, id: *member, action: call };
                self.write(Update::Member(UpdateKind::Insert, member))
            }
            OwnCommand::GroupCreate { profile, group, members } => {
                let id = resolve::object(pipeline, "action selector", profile, is_profile).map_err(text)?;
                let members = members.iter().map(|member| GroupMember { member: *member, weight: 1 }).collect();
                let group = ActionProfileGroup { profile: id, id: *group, members };
                self.write(Update::Group(UpdateKind::Insert, group))
            }
            OwnCommand::IdleTimeout { handle, nanoseconds } => {
                let mut entry = self.handle(handle)?.clone();
                entry.idle_timeout_ns = *nanoseconds;
                self.handles.insert(handle.clone(), entry.clone());
                self.write(Update::Entry(UpdateKind::Modify, entry))
            }
            OwnCommand::ExpireTime { profile, nanoseconds } => self.write(Update::ExpireTime(*profile, *nanoseconds)),
            OwnCommand::CheckIdle { handle } => self.check_idle(handle.as_deref()),
            OwnCommand::ValueSetAdd { name, keys } => {
                let set = resolve::value_set(pipeline, name).map_err(text)?;
                let keys = resolve::set_keys(&pipeline.value_sets[set].keys, keys).map_err(text)?;
                let members = self.value_sets.entry(set).or_default();
                members.push(keys);
                let members = members.clone();
                self.write(Update::ValueSet(set, members))
            }
        }
    }

    fn check_idle(&mut self, handle: Option<&str>) -> Outcome {
        let wanted = handle.map(|handle| self.entry_id(handle)).transpose()?;
        // For `none`, a notification stays for the check that may ask for it by name.
        let got = if wanted.is_some() { self.idle.pop_front() } else { self.idle.front().cloned() };
        let holds = wanted == got;
        let entry = |entry: &EntryId| format!("{:?} (priority {})", entry.keys, entry.priority);
        let describe = |id: &Option<EntryId>| id.as_ref().map_or("none".to_owned(), entry);
        let message = format!("an idle notification was expected for {}, got {}", describe(&wanted), describe(&got));
        self.check(holds, || message);
        Ok(())
    }

    fn check_digest(&mut self, name: &str, fields: Option<&[(Option<String>, super::value::Number)]>) -> Outcome {
        let pipeline = self.device.pipeline();
        let wanted = |kind: &ExternKind| matches!(kind, ExternKind::Digest { .. });
        let id = resolve::object(pipeline, "digest", name, wanted).map_err(text)?;
        let (names, types) = match &pipeline.externs[id].kind {
            ExternKind::Digest { data_type, fields } => (leaf_names(pipeline, data_type), fields.clone()),
            _ => return Ok(()),
        };
        let position = self.digests.iter().position(|(digest, _)| *digest == id);
        let message = position.and_then(|at| self.digests.remove(at)).map(|(_, leaves)| leaves);
        let (fields, leaves) = match (fields, message) {
            (None, None) => return Ok(self.check(true, String::new)),
            (None, Some(leaves)) => {
                self.check(false, || format!("digest {name}: no message was expected, but there is {leaves:?}"));
                return Ok(());
            }
            (Some(_), None) => {
                self.check(false, || format!("digest {name}: a message was expected, but there is none"));
                return Ok(());
            }
            (Some(fields), Some(leaves)) => (fields, leaves),
        };
        for (at, (field, value)) in fields.iter().enumerate() {
            let index = match field {
                Some(field) => names.iter().position(|n| n == field || n.ends_with(&format!(".{field}"))),
                None => Some(at),
            };
            let index = index.filter(|index| *index < leaves.len().min(types.len()));
            let shown = field.clone().unwrap_or_else(|| at.to_string());
            let index =
                index.ok_or_else(|| format!("digest {name} has no field {shown}; it has {}", names.join(", ")))?;
            let expected = resolve::scalar(&shown, types[index], value).map_err(text)?;
            let got = &leaves[index];
            self.check(*got == expected, || {
                format!("digest {name}: field {shown} is {got:#x}, expected {expected:#x}")
            });
        }
        Ok(())
    }

    /// Compares, port by port, what came with what was expected.
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

fn compare_port(port: u32, expected: &[(u32, Option<PacketPattern>)], got: &[Got]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (expect_line, pattern)) in expected.iter().enumerate() {
        let Some(packet) = got.get(index) else {
            let expected = pattern.as_ref().map(pattern_text);
            findings.push(Finding::Missing { port, index, expect_line: *expect_line, expected });
            continue;
        };
        if let Some(pattern) = pattern
            && let Some(difference) = compare::difference(pattern, &packet.bytes)
        {
            let (wanted, came) = ((*expect_line, pattern), (packet.line, packet.bytes.as_slice()));
            findings.push(Finding::differs(port, index, wanted, came, &difference));
        }
    }
    for (index, packet) in got.iter().enumerate().skip(expected.len()) {
        findings.push(Finding::Unexpected { port, index, packet_line: packet.line, got: hex(&packet.bytes) });
    }
    findings
}

/// An update that deletes the entry; of the entry only its identity is looked at.
fn deletion(id: EntryId) -> Update {
    let entry = TableEntry::new(id.table, id.keys, ActionSpec::Member(0)).with_priority(id.priority);
    Update::Entry(UpdateKind::Delete, entry)
}

/// bmv2 takes committed and peak rate, per microsecond.
fn meter_config(rates: &[MeterRate]) -> Outcome<MeterConfig> {
    let per_second = |rate: &MeterRate| (rate.per_microsecond * 1e6).round().to_u64();
    let [committed, peak] = rates else {
        return Err(format!(
            "a meter has two rates, committed and peak, but {} are given; write RATE:BURST RATE:BURST",
            rates.len()
        ));
    };
    let too_large = "a rate does not fit 64 bits; give a smaller one";
    Ok(MeterConfig {
        cir: per_second(committed).ok_or(too_large)?,
        cburst: committed.burst,
        pir: per_second(peak).ok_or(too_large)?,
        pburst: peak.burst,
    })
}

/// Dotted names of an aggregate's leaves, in order. Bounded by the type's own size, as named types cannot be recursive in P4.
pub(super) fn leaf_names(pipeline: &Pipeline, ty: &DataType) -> Vec<String> {
    fn walk(pipeline: &Pipeline, ty: &DataType, prefix: &str, depth: u32, out: &mut Vec<String>) {
        let below = |member: &str| if prefix.is_empty() { member.to_owned() } else { format!("{prefix}.{member}") };
        let named = |name: &String| pipeline.named_types.iter().find(|(n, _)| n == name).map(|(_, ty)| ty);
        match ty {
            _ if depth > 32 => {}
            DataType::Tuple(members) => {
                for (index, member) in members.iter().enumerate() {
                    walk(pipeline, member, &below(&index.to_string()), depth + 1, out);
                }
            }
            DataType::Named(name) => match named(name) {
                Some(NamedType::Struct(members) | NamedType::Header(members)) => {
                    for (member, ty) in members {
                        walk(pipeline, ty, &below(member), depth + 1, out);
                    }
                }
                _ => out.push(prefix.to_owned()),
            },
            _ => out.push(prefix.to_owned()),
        }
    }
    let mut names = Vec::new();
    walk(pipeline, ty, "", 0, &mut names);
    names
}
