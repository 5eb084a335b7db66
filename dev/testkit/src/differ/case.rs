//! A test case: a program and a sequence of events.

use super::tree::Program;
use entries::*;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Pipeline, TableId, ValueSetId};
use std::sync::Arc;

/// A packet that arrives.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketIn {
    /// Ingress port.
    pub port: u32,
    /// Arrival time, in nanoseconds.
    pub at: u64,
    /// Bytes of the packet.
    pub bytes: Vec<u8>,
}

/// An event of a test case.
#[derive(Clone, PartialEq, Debug)]
pub enum TestEvent {
    /// A write of the control plane.
    Write(WriteBatch),
    /// Packets that arrive in one batch.
    Packets(Vec<PacketIn>),
    /// The clock advances to this time, in nanoseconds.
    Tick(u64),
}

/// Source of the program.
#[derive(Clone, Debug)]
pub enum ProgramSource {
    /// The generator.
    Made(Box<Program>),
    /// A file, which is not shrunk.
    File(String),
}

/// A program with engine settings and events.
#[derive(Clone, Debug)]
pub struct TestCase {
    /// Seed of the case.
    pub seed: u64,
    /// The program.
    pub source: ProgramSource,
    /// Pipeline that the ids in events refer to.
    pub pipeline: Arc<Pipeline>,
    /// Settings of the engines.
    pub setup: interp::Config,
    /// Events in order.
    pub steps: Vec<TestEvent>,
}

impl TestCase {
    /// Returns the number of packets that arrive.
    pub fn packets(&self) -> usize {
        let count = |step: &TestEvent| if let TestEvent::Packets(packets) = step { packets.len() } else { 0 };
        self.steps.iter().map(count).sum()
    }

    /// Returns the case for a reduced program. Ids are mapped by name, and updates of removed
    /// objects are left out.
    pub fn remapped(&self, source: ProgramSource, pipeline: Arc<Pipeline>) -> TestCase {
        let moving = IdRemapping { from: &self.pipeline, to: &pipeline };
        let steps = self.steps.iter().map(|step| match step {
            TestEvent::Write(batch) => {
                TestEvent::Write(batch.updates.iter().filter_map(|u| moving.map_update(u)).collect())
            }
            other => other.clone(),
        });
        TestCase {
            seed: self.seed,
            source,
            steps: steps.collect(),
            setup: self.setup.clone(),
            pipeline: pipeline.clone(),
        }
    }
}

/// Maps ids of one pipeline to those of another by name.
struct IdRemapping<'a> {
    from: &'a Pipeline,
    to: &'a Pipeline,
}

impl IdRemapping<'_> {
    fn map_table(&self, id: TableId) -> Option<TableId> {
        let name = &self.from.tables.get(id)?.preamble.name;
        self.to.tables.iter().find(|(_, table)| table.preamble.name == *name).map(|(id, _)| id)
    }

    fn map_object(&self, id: ExternId) -> Option<ExternId> {
        let name = &self.from.externs.get(id)?.preamble.name;
        self.to.externs.iter().find(|(_, object)| object.preamble.name == *name).map(|(id, _)| id)
    }

    fn map_action(&self, id: ActionId) -> Option<ActionId> {
        let name = &self.from.actions.get(id)?.preamble.name;
        self.to.actions.iter().find(|(_, action)| action.preamble.name == *name).map(|(id, _)| id)
    }

    fn map_value_set(&self, id: ValueSetId) -> Option<ValueSetId> {
        let name = &self.from.value_sets.get(id)?.preamble.name;
        self.to.value_sets.iter().find(|(_, set)| set.preamble.name == *name).map(|(id, _)| id)
    }

    fn map_call(&self, call: &ActionCall) -> Option<ActionCall> {
        let action = self.map_action(call.action)?;
        let old = &self.from.actions.get(call.action)?.params;
        let arg = |param: &ir::Param| {
            let at = old.iter().position(|p| p.name == param.name)?;
            call.args.get(at).cloned()
        };
        let args: Option<Vec<_>> = self.to.actions.get(action)?.params.iter().map(arg).collect();
        Some(ActionCall { action, args: args? })
    }

    fn map_action_spec(&self, spec: &ActionSpec) -> Option<ActionSpec> {
        Some(match spec {
            ActionSpec::Call(call) => ActionSpec::Call(self.map_call(call)?),
            other => other.clone(),
        })
    }

    fn keys(&self, from: TableId, to: TableId, keys: &[KeyMatch]) -> Option<Vec<KeyMatch>> {
        let old: Vec<&str> = self.from.tables[from].match_keys().map(|(_, key)| key.name.as_str()).collect();
        let new = self.to.tables[to].match_keys();
        new.map(|(_, key)| keys.get(old.iter().position(|name| *name == key.name)?).cloned()).collect()
    }

    fn map_entry_id(&self, id: &EntryId) -> Option<EntryId> {
        let table = self.map_table(id.table)?;
        let keys = self.keys(id.table, table, &id.keys)?;
        let priority = if self.to.tables[table].has_priority() { id.priority.max(1) } else { 0 };
        Some(EntryId { table, keys, priority })
    }

    fn entry(&self, entry: &TableEntry) -> Option<TableEntry> {
        let id = EntryId { table: entry.table, keys: entry.keys.clone(), priority: entry.priority };
        let EntryId { table, keys, priority } = self.map_entry_id(&id)?;
        let declared = &self.to.tables[table];
        Some(TableEntry {
            table,
            keys,
            priority,
            action: self.map_action_spec(&entry.action)?,
            counter: entry.counter.filter(|_| declared.direct_counter.is_some()),
            meter: entry.meter.filter(|_| declared.direct_meter.is_some()),
            idle_timeout_ns: if declared.idle_timeout { entry.idle_timeout_ns } else { 0 },
            ..entry.clone()
        })
    }

    /// Maps an update to the ids of the other pipeline, by the names of objects. `None`: an object
    /// that the other pipeline lacks.
    fn map_update(&self, update: &StateUpdate) -> Option<StateUpdate> {
        Some(match update {
            StateUpdate::Entry(kind, entry) => StateUpdate::Entry(*kind, self.entry(entry)?),
            StateUpdate::Packed(kind, entry) => {
                StateUpdate::Entry(*kind, self.entry(&entry.to_table_entry(self.from)?)?)
            }
            StateUpdate::DefaultAction(table, spec) => {
                let spec = match spec {
                    Some(spec) => Some(self.map_action_spec(spec)?),
                    None => None,
                };
                StateUpdate::DefaultAction(self.map_table(*table)?, spec)
            }
            StateUpdate::Member(kind, member) => {
                let (profile, action) = (self.map_object(member.profile)?, self.map_call(&member.action)?);
                StateUpdate::Member(*kind, ActionProfileMember { profile, id: member.id, action })
            }
            StateUpdate::Group(kind, group) => {
                let profile = self.map_object(group.profile)?;
                StateUpdate::Group(*kind, ActionProfileGroup { profile, ..group.clone() })
            }
            StateUpdate::ValueSet(set, members) => StateUpdate::ValueSet(self.map_value_set(*set)?, members.clone()),
            StateUpdate::Meter(id, index, config) => StateUpdate::Meter(self.map_object(*id)?, *index, *config),
            StateUpdate::DirectMeter(id, config) => StateUpdate::DirectMeter(self.map_entry_id(id)?, *config),
            StateUpdate::Counter(id, index, data) => StateUpdate::Counter(self.map_object(*id)?, *index, *data),
            StateUpdate::DirectCounter(id, data) => StateUpdate::DirectCounter(self.map_entry_id(id)?, *data),
            StateUpdate::Register(id, index, values) => {
                StateUpdate::Register(self.map_object(*id)?, *index, values.clone())
            }
            other @ (StateUpdate::Multicast(..)
            | StateUpdate::Clone(..)
            | StateUpdate::ExpireTime(..)
            | StateUpdate::Ports(..)
            | StateUpdate::SdnString(..)) => other.clone(),
        })
    }
}
