//! Random writes: valid for a pipeline, and likely to concern what packets carry.
//!
//! All are tried on a model of the control plane's state first. A few of those that it refuses are kept: engines must refuse them alike.

use entries::*;
use fastrand::Rng;
use ir::{ActionCall, ActionId, ExternId, ExternKind, Key, KeyMatch, MatchKind, Pipeline, TableId, Type};
use num_bigint::BigUint;
use std::sync::Arc;

/// The most replicas of a group or session.
const MAX_REPLICAS: usize = 4;

/// Makes writes for one pipeline.
pub struct Writer<'a> {
    rng: &'a mut Rng,
    pool: &'a [u128],
    pipeline: Arc<Pipeline>,
    model: State,
}

impl<'a> Writer<'a> {
    /// A writer to whom nothing is written yet. `pool`: values that packets have as well; not empty.
    ///
    /// # Errors
    /// A pipeline that contradicts itself.
    pub fn new(rng: &'a mut Rng, pool: &'a [u128], pipeline: Arc<Pipeline>) -> Result<Writer<'a>, StateError> {
        Ok(Writer { rng, pool, model: State::new(pipeline.clone())?, pipeline })
    }

    fn add(&mut self, batch: &mut WriteBatch, update: Update) {
        let single = WriteBatch { updates: vec![update] };
        if self.model.apply(&single).is_ok() {
            batch.updates.extend(single.updates);
        }
    }

    /// What is written before the first packet; up to `entries` entries a table.
    pub fn first(&mut self, entries: std::ops::Range<usize>) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for id in 1..4 {
            let group = MulticastGroup { id, replicas: self.replicas() };
            self.add(&mut batch, Update::Multicast(UpdateKind::Insert, group));
            let session = self.session(id);
            self.add(&mut batch, Update::Clone(UpdateKind::Insert, session));
        }
        for profile in 0..2 {
            let time = self.idle_time();
            self.add(&mut batch, Update::ExpireTime(profile, time));
        }
        for id in self.pipeline.externs.keys().collect::<Vec<_>>() {
            self.first_of_object(id, &mut batch);
        }
        for set in self.pipeline.value_sets.keys().collect::<Vec<_>>() {
            let update = self.value_set(set);
            self.add(&mut batch, update);
        }
        for table in self.pipeline.tables.keys().collect::<Vec<_>>() {
            for _ in 0..self.rng.usize(entries.clone()) {
                let entry = self.entry(table);
                self.add(&mut batch, Update::Entry(UpdateKind::Insert, entry));
            }
        }
        batch
    }

    fn first_of_object(&mut self, id: ExternId, batch: &mut WriteBatch) {
        match self.pipeline.externs[id].kind {
            ExternKind::Meter { size, .. } => {
                for index in 0..size.min(16) {
                    if self.rng.u8(..4) > 0 {
                        let config = self.meter();
                        self.add(batch, Update::Meter(id, index, Some(config)));
                    }
                }
            }
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
                for member in 1..self.rng.u32(2..7) {
                    if let Some(member) = self.member(id, member) {
                        self.add(batch, Update::Member(UpdateKind::Insert, member));
                    }
                }
                for group in 1..self.rng.u32(2..4) {
                    let group = self.group(id, group);
                    self.add(batch, Update::Group(UpdateKind::Insert, group));
                }
            }
            _ => {}
        }
    }

    /// What is written between packets.
    pub fn more(&mut self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.usize(1..12) {
            if let Some(update) = self.any() {
                self.add(&mut batch, update);
            }
        }
        // Now and then one that is refused, and everything with it.
        if self.rng.u8(..40) == 0
            && let Some(table) = self.a_table()
        {
            let mut entry = self.entry(table);
            entry.priority = -1;
            batch.push(Update::Entry(UpdateKind::Insert, entry));
        }
        batch
    }

    fn a_table(&mut self) -> Option<TableId> {
        let count = self.pipeline.tables.len();
        (count > 0).then(|| TableId(self.rng.usize(..count) as u32))
    }

    fn any(&mut self) -> Option<Update> {
        if self.rng.u8(..10) < 7 {
            let table = self.a_table()?;
            return self.table_update(table);
        }
        if self.rng.u8(..6) == 0 {
            return Some(self.ports());
        }
        if self.rng.u8(..4) == 0 {
            return Some(self.replication());
        }
        let sets = self.pipeline.value_sets.len();
        if sets > 0 && self.rng.u8(..4) == 0 {
            let set = ir::ValueSetId(self.rng.usize(..sets) as u32);
            return Some(self.value_set(set));
        }
        let count = self.pipeline.externs.len();
        if count == 0 {
            return None;
        }
        let id = ExternId(self.rng.usize(..count) as u32);
        self.object_update(id)
    }

    fn replication(&mut self) -> Update {
        let kind = [UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Delete][self.rng.usize(..3)];
        let id = self.rng.u32(1..6);
        match self.rng.u8(..5) {
            0 | 1 => Update::Multicast(kind, MulticastGroup { id, replicas: self.replicas() }),
            2 | 3 => Update::Clone(kind, self.session(id)),
            _ => Update::ExpireTime(self.rng.u8(..3), self.idle_time()),
        }
    }

    /// Which ports are up: members that watch others are left out.
    fn ports(&mut self) -> Update {
        let known = self.rng.u8(..5) > 0;
        Update::Ports(
            known.then(|| {
                (0..5).map(|port| (port, Port { name: String::new(), is_up: self.rng.u8(..3) > 0 })).collect()
            }),
        )
    }

    fn table_update(&mut self, table: TableId) -> Option<Update> {
        let count = self.model.entry_count(table);
        let existing = |writer: &mut Self| {
            // In an order that does not depend on how the state is kept.
            let mut all: Vec<Entry> = writer.model.entries(table).cloned().collect();
            all.sort_by_key(|entry| entry.sequence());
            let entry = all.get(writer.rng.usize(..all.len().max(1)))?;
            Some(entry.to_table_entry(&writer.pipeline, table))
        };
        match self.rng.u8(..20) {
            0..8 => Some(Update::Entry(UpdateKind::Insert, self.entry(table))),
            8..12 if count > 0 => {
                let mut entry = existing(self)?;
                let new = self.entry(table);
                (entry.action, entry.counter, entry.meter) = (new.action, new.counter, new.meter);
                (entry.idle_timeout_ns, entry.is_const) = (new.idle_timeout_ns, false);
                Some(Update::Entry(UpdateKind::Modify, entry))
            }
            12..16 if count > 0 => Some(Update::Entry(UpdateKind::Delete, existing(self)?)),
            16 | 17 => {
                let spec = if self.rng.bool() { self.default_action(table) } else { None };
                Some(Update::DefaultAction(table, spec))
            }
            18 if count > 0 => {
                let entry = existing(self)?;
                let id = EntryId { table, keys: entry.keys, priority: entry.priority };
                Some(Update::DirectMeter(id, self.rng.bool().then(|| self.meter())))
            }
            19 if count > 0 => {
                let entry = existing(self)?;
                let id = EntryId { table, keys: entry.keys, priority: entry.priority };
                Some(Update::DirectCounter(id, self.count()))
            }
            _ => None,
        }
    }

    fn object_update(&mut self, id: ExternId) -> Option<Update> {
        let pipeline = self.pipeline.clone();
        Some(match &pipeline.externs[id].kind {
            ExternKind::Counter { size, .. } => {
                let index = self.rng.u64(..(*size).max(1));
                Update::Counter(id, index, self.count())
            }
            ExternKind::Meter { size, .. } => {
                let index = self.rng.u64(..(*size).max(1));
                Update::Meter(id, index, (self.rng.u8(..4) > 0).then(|| self.meter()))
            }
            ExternKind::Register { size, elem, .. } => {
                let index = (self.rng.u8(..5) > 0).then(|| self.rng.u64(..(*size).max(1)));
                let row = self.row();
                Update::Register(id, index, elem.iter().map(|ty| self.value(*ty, row)).collect())
            }
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
                let kind = [UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Modify, UpdateKind::Delete];
                let kind = kind[self.rng.usize(..4)];
                let number = self.rng.u32(1..8);
                match self.rng.bool() {
                    true => Update::Member(kind, self.member(id, number)?),
                    false => Update::Group(kind, self.group(id, number)),
                }
            }
            _ => return None,
        })
    }

    fn replicas(&mut self) -> Vec<Replica> {
        let count = self.rng.usize(..MAX_REPLICAS);
        (0..count).map(|_| Replica { port: self.rng.u32(..8), instance: self.rng.u16(..4) }).collect()
    }

    fn session(&mut self, id: u32) -> CloneSession {
        CloneSession {
            id,
            replicas: self.replicas(),
            multicast_group: (self.rng.u8(..6) == 0).then(|| self.rng.u32(1..4)),
            packet_length: if self.rng.u8(..3) == 0 { self.rng.u32(1..64) } else { 0 },
            class_of_service: 0,
        }
    }

    fn idle_time(&mut self) -> u64 {
        [0, 1_000, 50_000, 1_000_000, 20_000_000][self.rng.usize(..5)]
    }

    fn count(&mut self) -> Counter {
        let near_the_end = if self.rng.u8(..4) == 0 { u64::MAX - 3 } else { 0 };
        Counter { packets: near_the_end.wrapping_add(self.rng.u64(..100)), bytes: self.rng.u64(..10_000) }
    }

    fn meter(&mut self) -> MeterConfig {
        let cir = [0, 10, 1_000, 1_000_000][self.rng.usize(..4)];
        let pir = cir + [0, 10, 100_000][self.rng.usize(..3)];
        MeterConfig { cir, pir, cburst: self.rng.u64(..200), pburst: self.rng.u64(1..400) }
    }

    fn row(&mut self) -> usize {
        // The first rows more often.
        self.rng.usize(..self.pool.len()).min(self.rng.usize(..self.pool.len()))
    }

    /// A value of a type: mostly of that row of the pool.
    fn value(&mut self, ty: Type, row: usize) -> BigUint {
        let bits = match self.rng.u8(..10) {
            0..7 => self.pool[row],
            7 => self.pool[self.rng.usize(..self.pool.len())],
            8 => self.rng.u128(..3),
            _ => self.rng.u128(..),
        };
        match ty {
            Type::Error => BigUint::from(self.rng.u8(..5)),
            Type::Enum(id) => {
                let members = self.pipeline.enums.get(id).map_or(1, |e| e.members.len().max(1));
                BigUint::from(bits % members as u128)
            }
            _ => BigUint::from(bits) & ones(ty.width()),
        }
    }

    fn entry(&mut self, table: TableId) -> TableEntry {
        let pipeline = self.pipeline.clone();
        let declared = &pipeline.tables[table];
        let row = self.row();
        let keys = declared.match_keys().map(|(_, key)| self.key(key, row)).collect();
        let action = match declared.implementation {
            Some(_) if self.rng.bool() => ActionSpec::Group(self.rng.u32(1..5)),
            Some(_) => ActionSpec::Member(self.rng.u32(1..8)),
            None => ActionSpec::Call(self.call(table, false)),
        };
        let mut entry = TableEntry::new(table, keys, action);
        if declared.has_priority() {
            // Equal ones are likely: the first entry wins then.
            entry.priority = self.rng.i32(1..6);
        }
        if declared.idle_timeout && self.rng.u8(..3) > 0 {
            entry.idle_timeout_ns = self.idle_time();
        }
        if declared.direct_counter.is_some() && self.rng.u8(..4) == 0 {
            entry.counter = Some(self.count());
        }
        if declared.direct_meter.is_some() && self.rng.u8(..4) > 0 {
            entry.meter = Some(self.meter());
        }
        entry
    }

    fn default_action(&mut self, table: TableId) -> Option<ActionSpec> {
        Some(ActionSpec::Call(self.call(table, true)))
    }

    fn call(&mut self, table: TableId, default: bool) -> ActionCall {
        let pipeline = self.pipeline.clone();
        let fits = |listed: &&ir::ActionRef| if default { !listed.table_only } else { !listed.default_only };
        let listed: Vec<ActionId> = pipeline.tables[table].actions.iter().filter(fits).map(|l| l.action).collect();
        let action = match listed.is_empty() {
            true => ActionId(0),
            false => listed[self.rng.usize(..listed.len())],
        };
        self.arguments(action)
    }

    fn arguments(&mut self, action: ActionId) -> ActionCall {
        let pipeline = self.pipeline.clone();
        let row = self.row();
        let params = pipeline.actions.get(action).map_or(&[][..], |action| &action.params);
        ActionCall { action, args: params.iter().map(|param| self.value(param.ty, row)).collect() }
    }

    fn key(&mut self, key: &Key, row: usize) -> KeyMatch {
        let value = self.value(key.ty, row);
        let width = key.ty.width();
        match key.kind {
            MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(value),
            MatchKind::Ternary => {
                let mask = match self.rng.u8(..6) {
                    0 => BigUint::ZERO,
                    1 | 2 => ones(width),
                    3 => BigUint::from(0xffu8) & ones(width),
                    _ => (BigUint::from(self.rng.u128(..)) << self.rng.u32(..8)) & ones(width),
                };
                KeyMatch::Ternary { value: value & &mask, mask }
            }
            MatchKind::Lpm => {
                let prefix_len = [width, 0, self.rng.u32(..=width), width / 2, width.min(8)][self.rng.usize(..5)];
                let host = width - prefix_len;
                KeyMatch::Lpm { value: (value >> host) << host, prefix_len }
            }
            MatchKind::Range => {
                let other = self.rng.usize(..self.pool.len());
                let other = if self.rng.u8(..3) == 0 { value.clone() } else { self.value(key.ty, other) };
                // Flipping the sign bit makes the order that of unsigned numbers.
                let sign = BigUint::from(u8::from(key.ty.is_signed())) << width.saturating_sub(1);
                let (a, b) = (&value ^ &sign, &other ^ &sign);
                if a <= b { KeyMatch::Range { lo: value, hi: other } } else { KeyMatch::Range { lo: other, hi: value } }
            }
            MatchKind::Optional => KeyMatch::Optional((self.rng.u8(..3) > 0).then_some(value)),
        }
    }

    fn member(&mut self, profile: ExternId, id: u32) -> Option<ActionProfileMember> {
        let table = self.pipeline.tables.iter().find(|(_, table)| table.implementation == Some(profile))?.0;
        Some(ActionProfileMember { profile, id, action: self.call(table, false) })
    }

    fn group(&mut self, profile: ExternId, id: u32) -> ActionProfileGroup {
        let known: Vec<u32> = self.model.profile(profile).map_or(Vec::new(), |p| p.members.keys().copied().collect());
        let mut members: Vec<GroupMember> = Vec::new();
        for member in known {
            if self.rng.u8(..3) > 0 {
                let watch = (self.rng.u8(..3) == 0).then(|| self.rng.u32(..6));
                members.push(GroupMember { member, weight: self.rng.u32(1..4), watch });
            }
        }
        ActionProfileGroup { profile, id, members }
    }

    fn value_set(&mut self, set: ir::ValueSetId) -> Update {
        let pipeline = self.pipeline.clone();
        let declared = &pipeline.value_sets[set];
        let mut members = Vec::new();
        for _ in 0..self.rng.u64(..=declared.size.min(4)) {
            let row = self.row();
            members.push(declared.keys.iter().map(|key| self.key(key, row)).collect());
        }
        Update::ValueSet(set, members)
    }
}

fn ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - BigUint::from(1u8)
}
