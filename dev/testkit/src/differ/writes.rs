//! Generates random writes that are valid for a pipeline and likely to affect its packets.
//!
//! Each update is first tried on a model of the control plane's state. A few of the refused ones
//! are kept, because engines must refuse them too.

use entries::*;
use fastrand::Rng;
use ir::{ActionCall, ActionId, ExternId, ExternKind, KeyMatch, MatchKey, MatchKind, Pipeline, TableId, Type};
use num_bigint::BigUint;
use std::sync::Arc;

/// Maximum number of replicas of a group or session.
const MAX_REPLICAS: usize = 4;

/// Generator of writes for one pipeline.
pub struct WriteGenerator<'a> {
    rng: &'a mut Rng,
    pool: &'a [u128],
    pipeline: Arc<Pipeline>,
    model: ControlState,
    /// Factor of idle times.
    time_scale: u64,
}

impl<'a> WriteGenerator<'a> {
    /// Creates a generator for an empty state. `pool` has values that packets use as well, and must
    /// not be empty.
    ///
    /// # Errors
    /// If the pipeline is inconsistent.
    pub fn new(rng: &'a mut Rng, pool: &'a [u128], pipeline: Arc<Pipeline>) -> Result<WriteGenerator<'a>, StateError> {
        Ok(WriteGenerator { rng, pool, model: ControlState::new(pipeline.clone())?, pipeline, time_scale: 1 })
    }

    /// Makes idle times longer by a factor.
    pub fn set_time_scale(&mut self, time_scale: u64) {
        self.time_scale = time_scale;
    }

    fn add(&mut self, batch: &mut WriteBatch, update: StateUpdate) {
        let single = WriteBatch { updates: vec![update] };
        if self.model.apply(&single).is_ok() {
            batch.updates.extend(single.updates);
        }
    }

    /// Generates the writes before the first packet, with a number of entries per table in the
    /// range `entries`.
    pub fn initial_writes(&mut self, entries: std::ops::Range<usize>) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for id in 1..4 {
            let group = MulticastGroup { id, replicas: self.replicas() };
            self.add(&mut batch, StateUpdate::Multicast(UpdateKind::Insert, group));
            let session = self.clone_session(id);
            self.add(&mut batch, StateUpdate::Clone(UpdateKind::Insert, session));
        }
        for profile in 0..2 {
            let time = self.idle_time();
            self.add(&mut batch, StateUpdate::ExpireTime(profile, time));
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
                let entry = self.random_entry(table);
                self.add(&mut batch, StateUpdate::Entry(UpdateKind::Insert, entry));
            }
        }
        batch
    }

    /// Adds the first writes of an extern object: meters with rates, members and groups.
    fn first_of_object(&mut self, id: ExternId, batch: &mut WriteBatch) {
        match self.pipeline.externs[id].kind {
            ExternKind::Meter { size, .. } => {
                for index in 0..size.min(16) {
                    if self.rng.u8(..4) > 0 {
                        let config = self.random_meter();
                        self.add(batch, StateUpdate::Meter(id, index, Some(config)));
                    }
                }
            }
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
                for member in 1..self.rng.u32(2..7) {
                    if let Some(member) = self.random_member(id, member) {
                        self.add(batch, StateUpdate::Member(UpdateKind::Insert, member));
                    }
                }
                for group in 1..self.rng.u32(2..4) {
                    let group = self.random_group(id, group);
                    self.add(batch, StateUpdate::Group(UpdateKind::Insert, group));
                }
            }
            _ => {}
        }
    }

    /// Generates the writes between packets.
    pub fn next_writes(&mut self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for _ in 0..self.rng.usize(1..12) {
            if let Some(update) = self.random_update() {
                self.add(&mut batch, update);
            }
        }
        // Sometimes includes an invalid update, so that the whole batch is refused.
        if self.rng.u8(..40) == 0
            && let Some(table) = self.random_table()
        {
            let mut entry = self.random_entry(table);
            entry.priority = -1;
            batch.push(StateUpdate::Entry(UpdateKind::Insert, entry));
        }
        batch
    }

    fn random_table(&mut self) -> Option<TableId> {
        let count = self.pipeline.tables.len();
        (count > 0).then(|| TableId(self.rng.usize(..count) as u32))
    }

    /// Generates a write, mostly to a table. `None`: the choice is not possible for this pipeline.
    fn random_update(&mut self) -> Option<StateUpdate> {
        if self.rng.u8(..10) < 7 {
            let table = self.random_table()?;
            return self.table_update(table);
        }
        if self.rng.u8(..6) == 0 {
            return Some(self.port_update());
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

    fn replication(&mut self) -> StateUpdate {
        let kind = [UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Delete][self.rng.usize(..3)];
        let id = self.rng.u32(1..6);
        match self.rng.u8(..5) {
            0 | 1 => StateUpdate::Multicast(kind, MulticastGroup { id, replicas: self.replicas() }),
            2 | 3 => StateUpdate::Clone(kind, self.clone_session(id)),
            _ => StateUpdate::ExpireTime(self.rng.u8(..3), self.idle_time()),
        }
    }

    /// Generates the set of ports that are up. Members that watch other ports are disabled.
    fn port_update(&mut self) -> StateUpdate {
        let known = self.rng.u8(..5) > 0;
        StateUpdate::Ports(known.then(|| {
            (0..5).map(|port| (port, DevicePort { name: String::new(), is_up: self.rng.u8(..3) > 0 })).collect()
        }))
    }

    /// Generates a write to a table: an entry, its modification or deletion, a default action, or
    /// its direct resources. `None`: the choice needs an entry, and there is none.
    fn table_update(&mut self, table: TableId) -> Option<StateUpdate> {
        let count = self.model.entry_count(table);
        let random_existing = |writer: &mut Self| {
            // Sorted, so that the order does not depend on the internal storage.
            let mut entries: Vec<StoredEntry> = writer.model.entries(table).cloned().collect();
            entries.sort_by_key(|entry| entry.sequence());
            let entry = entries.get(writer.rng.usize(..entries.len().max(1)))?;
            Some(entry.to_table_entry(&writer.pipeline, table))
        };
        match self.rng.u8(..20) {
            0..8 => Some(StateUpdate::Entry(UpdateKind::Insert, self.random_entry(table))),
            8..12 if count > 0 => {
                let mut entry = random_existing(self)?;
                let new = self.random_entry(table);
                (entry.action, entry.counter, entry.meter) = (new.action, new.counter, new.meter);
                (entry.idle_timeout_ns, entry.is_const) = (new.idle_timeout_ns, false);
                Some(StateUpdate::Entry(UpdateKind::Modify, entry))
            }
            12..16 if count > 0 => Some(StateUpdate::Entry(UpdateKind::Delete, random_existing(self)?)),
            16 | 17 => {
                let spec = if self.rng.bool() { self.default_action(table) } else { None };
                Some(StateUpdate::DefaultAction(table, spec))
            }
            18 if count > 0 => {
                let entry = random_existing(self)?;
                let id = EntryId { table, keys: entry.keys, priority: entry.priority };
                Some(StateUpdate::DirectMeter(id, self.rng.bool().then(|| self.random_meter())))
            }
            19 if count > 0 => {
                let entry = random_existing(self)?;
                let id = EntryId { table, keys: entry.keys, priority: entry.priority };
                Some(StateUpdate::DirectCounter(id, self.random_counter()))
            }
            _ => None,
        }
    }

    /// Generates a write to an extern object. `None`: the object has no state that a controller
    /// writes.
    fn object_update(&mut self, id: ExternId) -> Option<StateUpdate> {
        let pipeline = self.pipeline.clone();
        Some(match &pipeline.externs[id].kind {
            ExternKind::Counter { size, .. } => {
                let index = self.rng.u64(..(*size).max(1));
                StateUpdate::Counter(id, index, self.random_counter())
            }
            ExternKind::Meter { size, .. } => {
                let index = self.rng.u64(..(*size).max(1));
                StateUpdate::Meter(id, index, (self.rng.u8(..4) > 0).then(|| self.random_meter()))
            }
            ExternKind::Register { size, elem, .. } => {
                let index = (self.rng.u8(..5) > 0).then(|| self.rng.u64(..(*size).max(1)));
                let row = self.random_row();
                StateUpdate::Register(id, index, elem.iter().map(|ty| self.random_value(*ty, row)).collect())
            }
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
                let kind = [UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Modify, UpdateKind::Delete];
                let kind = kind[self.rng.usize(..4)];
                let id_in_profile = self.rng.u32(1..8);
                match self.rng.bool() {
                    true => StateUpdate::Member(kind, self.random_member(id, id_in_profile)?),
                    false => StateUpdate::Group(kind, self.random_group(id, id_in_profile)),
                }
            }
            _ => return None,
        })
    }

    fn replicas(&mut self) -> Vec<Replica> {
        let count = self.rng.usize(..MAX_REPLICAS);
        (0..count).map(|_| Replica { port: self.rng.u32(..8), instance: self.rng.u16(..4) }).collect()
    }

    fn clone_session(&mut self, id: u32) -> CloneSession {
        CloneSession {
            id,
            replicas: self.replicas(),
            multicast_group: (self.rng.u8(..6) == 0).then(|| self.rng.u32(1..4)),
            packet_length: if self.rng.u8(..3) == 0 { self.rng.u32(1..64) } else { 0 },
            class_of_service: 0,
        }
    }

    fn idle_time(&mut self) -> u64 {
        [0, 1_000, 50_000, 1_000_000, 20_000_000][self.rng.usize(..5)] * self.time_scale
    }

    fn random_counter(&mut self) -> Counter {
        let near_the_end = if self.rng.u8(..4) == 0 { u64::MAX - 3 } else { 0 };
        Counter { packets: near_the_end.wrapping_add(self.rng.u64(..100)), bytes: self.rng.u64(..10_000) }
    }

    fn random_meter(&mut self) -> MeterConfig {
        let cir = [0, 10, 1_000, 1_000_000][self.rng.usize(..4)];
        let pir = cir + [0, 10, 100_000][self.rng.usize(..3)];
        MeterConfig { cir, pir, cburst: self.rng.u64(..200), pburst: self.rng.u64(1..400) }
    }

    fn random_row(&mut self) -> usize {
        // Prefers the first rows.
        self.rng.usize(..self.pool.len()).min(self.rng.usize(..self.pool.len()))
    }

    /// Returns a value of a type, mostly from this row of the pool.
    fn random_value(&mut self, ty: Type, row: usize) -> BigUint {
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

    /// Generates an entry with keys that prefer the values of one row of the pool, which packets have
    /// too.
    fn random_entry(&mut self, table: TableId) -> TableEntry {
        let pipeline = self.pipeline.clone();
        let declared = &pipeline.tables[table];
        let row = self.random_row();
        let keys = declared.match_keys().map(|(_, key)| self.random_key_match(key, row)).collect();
        let action = match declared.implementation {
            Some(_) if self.rng.bool() => ActionSpec::Group(self.rng.u32(1..5)),
            Some(_) => ActionSpec::Member(self.rng.u32(1..8)),
            None => ActionSpec::Call(self.random_call(table, false)),
        };
        let mut entry = TableEntry::new(table, keys, action);
        if declared.has_priority() {
            // Equal priorities are likely. The first entry then wins.
            entry.priority = self.rng.i32(1..6);
        }
        if declared.idle_timeout && self.rng.u8(..3) > 0 {
            entry.idle_timeout_ns = self.idle_time();
        }
        if declared.direct_counter.is_some() && self.rng.u8(..4) == 0 {
            entry.counter = Some(self.random_counter());
        }
        if declared.direct_meter.is_some() && self.rng.u8(..4) > 0 {
            entry.meter = Some(self.random_meter());
        }
        entry
    }

    fn default_action(&mut self, table: TableId) -> Option<ActionSpec> {
        Some(ActionSpec::Call(self.random_call(table, true)))
    }

    fn random_call(&mut self, table: TableId, default: bool) -> ActionCall {
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
        let row = self.random_row();
        let params = pipeline.actions.get(action).map_or(&[][..], |action| &action.params);
        ActionCall { action, args: params.iter().map(|param| self.random_value(param.ty, row)).collect() }
    }

    /// Generates the match of a key around the value of a row: any mask, prefix length or range.
    fn random_key_match(&mut self, key: &MatchKey, row: usize) -> KeyMatch {
        let value = self.random_value(key.ty, row);
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
                let host_bits = width - prefix_len;
                KeyMatch::Lpm { value: (value >> host_bits) << host_bits, prefix_len }
            }
            MatchKind::Range => {
                let other = self.rng.usize(..self.pool.len());
                let other = if self.rng.u8(..3) == 0 { value.clone() } else { self.random_value(key.ty, other) };
                // Flipping the sign bit maps the signed order to the unsigned order.
                let sign = BigUint::from(u8::from(key.ty.is_signed())) << width.saturating_sub(1);
                let (a, b) = (&value ^ &sign, &other ^ &sign);
                if a <= b { KeyMatch::Range { lo: value, hi: other } } else { KeyMatch::Range { lo: other, hi: value } }
            }
            MatchKind::Optional => KeyMatch::Optional((self.rng.u8(..3) > 0).then_some(value)),
        }
    }

    fn random_member(&mut self, profile: ExternId, id: u32) -> Option<ActionProfileMember> {
        let table = self.pipeline.tables.iter().find(|(_, table)| table.implementation == Some(profile))?.0;
        Some(ActionProfileMember { profile, id, action: self.random_call(table, false) })
    }

    fn random_group(&mut self, profile: ExternId, id: u32) -> ActionProfileGroup {
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

    fn value_set(&mut self, set: ir::ValueSetId) -> StateUpdate {
        let pipeline = self.pipeline.clone();
        let declared = &pipeline.value_sets[set];
        let mut members = Vec::new();
        for _ in 0..self.rng.u64(..=declared.size.min(4)) {
            let row = self.random_row();
            members.push(declared.keys.iter().map(|key| self.random_key_match(key, row)).collect());
        }
        StateUpdate::ValueSet(set, members)
    }
}

fn ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - BigUint::from(1u8)
}
