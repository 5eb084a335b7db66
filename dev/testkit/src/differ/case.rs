//! A case: a program, and what happens to it.

use super::tree::Program;
use entries::*;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Pipeline, TableId, ValueSetId};
use std::sync::Arc;

/// A packet that arrives.
#[derive(Clone, PartialEq, Debug)]
pub struct PacketIn {
    /// Where.
    pub port: u32,
    /// When, in nanoseconds.
    pub at: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Something that happens.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// The control plane writes.
    Write(WriteBatch),
    /// Packets arrive, in one batch.
    Packets(Vec<PacketIn>),
    /// Time passes, until then.
    Tick(u64),
}

/// Where the program comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The generator.
    Made(Box<Program>),
    /// A file; it is not cut.
    File(String),
}

/// A program, its settings and what happens.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it was made from.
    pub seed: u64,
    /// The program.
    pub source: Source,
    /// The pipeline that numbers in the steps refer to.
    pub pipeline: Arc<Pipeline>,
    /// Settings of the engines.
    pub setup: interp::Config,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// How many packets arrive.
    pub fn packets(&self) -> usize {
        let count = |step: &Step| if let Step::Packets(packets) = step { packets.len() } else { 0 };
        self.steps.iter().map(count).sum()
    }

    /// The same steps for a program that has lost some of its things: numbers are found again by name, and writes to what is no more
    /// there go.
    pub fn moved(&self, source: Source, pipeline: Arc<Pipeline>) -> Case {
        let moving = Moving { from: &self.pipeline, to: &pipeline };
        let steps = self.steps.iter().map(|step| match step {
            Step::Write(batch) => Step::Write(batch.updates.iter().filter_map(|u| moving.update(u)).collect()),
            other => other.clone(),
        });
        Case { seed: self.seed, source, steps: steps.collect(), setup: self.setup.clone(), pipeline: pipeline.clone() }
    }
}

/// From the numbers of one pipeline to those of another one.
struct Moving<'a> {
    from: &'a Pipeline,
    to: &'a Pipeline,
}

impl Moving<'_> {
    fn table(&self, id: TableId) -> Option<TableId> {
        let name = &self.from.tables.get(id)?.preamble.name;
        self.to.tables.iter().find(|(_, table)| table.preamble.name == *name).map(|(id, _)| id)
    }

    fn object(&self, id: ExternId) -> Option<ExternId> {
        let name = &self.from.externs.get(id)?.preamble.name;
        self.to.externs.iter().find(|(_, object)| object.preamble.name == *name).map(|(id, _)| id)
    }

    fn action(&self, id: ActionId) -> Option<ActionId> {
        let name = &self.from.actions.get(id)?.preamble.name;
        self.to.actions.iter().find(|(_, action)| action.preamble.name == *name).map(|(id, _)| id)
    }

    fn set(&self, id: ValueSetId) -> Option<ValueSetId> {
        let name = &self.from.value_sets.get(id)?.preamble.name;
        self.to.value_sets.iter().find(|(_, set)| set.preamble.name == *name).map(|(id, _)| id)
    }

    fn call(&self, call: &ActionCall) -> Option<ActionCall> {
        let action = self.action(call.action)?;
        let old = &self.from.actions.get(call.action)?.params;
        let arg = |param: &ir::Param| {
            let at = old.iter().position(|p| p.name == param.name)?;
            call.args.get(at).cloned()
        };
        let args: Option<Vec<_>> = self.to.actions.get(action)?.params.iter().map(arg).collect();
        Some(ActionCall { action, args: args? })
    }

    fn spec(&self, spec: &ActionSpec) -> Option<ActionSpec> {
        Some(match spec {
            ActionSpec::Call(call) => ActionSpec::Call(self.call(call)?),
            other => other.clone(),
        })
    }

    fn keys(&self, from: TableId, to: TableId, keys: &[KeyMatch]) -> Option<Vec<KeyMatch>> {
        let old: Vec<&str> = self.from.tables[from].match_keys().map(|(_, key)| key.name.as_str()).collect();
        let new = self.to.tables[to].match_keys();
        new.map(|(_, key)| keys.get(old.iter().position(|name| *name == key.name)?).cloned()).collect()
    }

    fn id(&self, id: &EntryId) -> Option<EntryId> {
        let table = self.table(id.table)?;
        let keys = self.keys(id.table, table, &id.keys)?;
        let priority = if self.to.tables[table].has_priority() { id.priority.max(1) } else { 0 };
        Some(EntryId { table, keys, priority })
    }

    fn entry(&self, entry: &TableEntry) -> Option<TableEntry> {
        let id = EntryId { table: entry.table, keys: entry.keys.clone(), priority: entry.priority };
        let EntryId { table, keys, priority } = self.id(&id)?;
        let declared = &self.to.tables[table];
        Some(TableEntry {
            table,
            keys,
            priority,
            action: self.spec(&entry.action)?,
            counter: entry.counter.filter(|_| declared.direct_counter.is_some()),
            meter: entry.meter.filter(|_| declared.direct_meter.is_some()),
            idle_timeout_ns: if declared.idle_timeout { entry.idle_timeout_ns } else { 0 },
            ..entry.clone()
        })
    }

    fn update(&self, update: &Update) -> Option<Update> {
        Some(match update {
            Update::Entry(kind, entry) => Update::Entry(*kind, self.entry(entry)?),
            Update::Packed(kind, entry) => Update::Entry(*kind, self.entry(&entry.to_table_entry(self.from)?)?),
            Update::DefaultAction(table, spec) => {
                let spec = match spec {
                    Some(spec) => Some(self.spec(spec)?),
                    None => None,
                };
                Update::DefaultAction(self.table(*table)?, spec)
            }
            Update::Member(kind, member) => {
                let (profile, action) = (self.object(member.profile)?, self.call(&member.action)?);
                Update::Member(*kind, ActionProfileMember { profile, id: member.id, action })
            }
            Update::Group(kind, group) => {
                let profile = self.object(group.profile)?;
                Update::Group(*kind, ActionProfileGroup { profile, ..group.clone() })
            }
            Update::ValueSet(set, members) => Update::ValueSet(self.set(*set)?, members.clone()),
            Update::Meter(id, index, config) => Update::Meter(self.object(*id)?, *index, *config),
            Update::DirectMeter(id, config) => Update::DirectMeter(self.id(id)?, *config),
            Update::Counter(id, index, data) => Update::Counter(self.object(*id)?, *index, *data),
            Update::DirectCounter(id, data) => Update::DirectCounter(self.id(id)?, *data),
            Update::Register(id, index, values) => Update::Register(self.object(*id)?, *index, values.clone()),
            other @ (Update::Multicast(..)
            | Update::Clone(..)
            | Update::ExpireTime(..)
            | Update::Ports(..)
            | Update::Name(..)) => other.clone(),
        })
    }
}
