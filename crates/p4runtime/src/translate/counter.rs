//! `CounterEntry` and `DirectCounterEntry`; indices of counters, meters and registers.

use super::oneshot::Oneshots;
use super::schema::{ObjectSchema, Schema, TableSchema, find};
use super::update::only_modify;
use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::{Code, Device, DeviceEntry, EntryValues, P4RuntimeError};
use entries::{ControlState, Counter, StateUpdate, UpdateKind};
use std::ops::ControlFlow;

/// Maximum number of elements of a write without an index.
const MAX_ALL: u64 = 1 << 20;

/// Decodes the value of a counter.
pub(super) fn decode_counter(given: &v1::CounterData, place: &dyn Fn() -> String) -> Result<Counter, P4RuntimeError> {
    let number = |value: i64, what: &str| {
        u64::try_from(value).map_err(|_| P4RuntimeError::invalid(format!("{}: {what} {value} is negative", place())))
    };
    Ok(Counter { packets: number(given.packet_count, "packet count")?, bytes: number(given.byte_count, "byte count")? })
}

/// Encodes the value of a counter. Counts that the message cannot hold become the largest possible
/// one.
pub(super) fn encode_counter(data: Counter) -> v1::CounterData {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    v1::CounterData { byte_count: number(data.bytes), packet_count: number(data.packets) }
}

/// Decodes an index; `None` means all elements.
pub(super) fn decode_index(object: &ObjectSchema, given: Option<&v1::Index>) -> Result<Option<u64>, P4RuntimeError> {
    let Some(v1::Index { index }) = given else { return Ok(None) };
    let (name, size) = (&object.name, object.size);
    match u64::try_from(*index) {
        Err(_) => Err(P4RuntimeError::invalid(format!("{name}: index {index} is negative; the first one is 0"))),
        Ok(index) if index >= size => Err(P4RuntimeError::new(
            Code::OutOfRange,
            format!("{name}: index {index} is out of range; the last one is {}", size.saturating_sub(1)),
        )),
        Ok(index) => Ok(Some(index)),
    }
}

/// Returns one update for the element, or for each element.
pub(super) fn for_each(
    object: &ObjectSchema,
    index: Option<u64>,
    update: impl Fn(u64) -> StateUpdate,
) -> Result<Vec<StateUpdate>, P4RuntimeError> {
    match index {
        Some(index) => Ok(vec![update(index)]),
        None if object.size > MAX_ALL => Err(P4RuntimeError::new(
            Code::ResourceExhausted,
            format!(
                "{}: its {} elements are too many to be written at once; write them one by one",
                object.name, object.size
            ),
        )),
        None => Ok((0..object.size).map(update).collect()),
    }
}

/// Returns the objects and the index that a read selects.
pub(super) fn selected_objects<'a>(
    objects: &'a std::collections::BTreeMap<u32, ObjectSchema>,
    number: u32,
    given: Option<&v1::Index>,
    what: &str,
) -> Result<Vec<(&'a ObjectSchema, Option<u64>)>, P4RuntimeError> {
    match number {
        0 if given.is_some() => Err(P4RuntimeError::invalid(format!(
            "an index of no {what} is requested; give its id too, or neither to read all"
        ))),
        0 => Ok(objects.values().map(|object| (object, None)).collect()),
        _ => {
            let object = find(objects, number, what)?;
            Ok(vec![(object, decode_index(object, given)?)])
        }
    }
}

/// Returns the range of elements that a read selects.
pub(super) fn selected_elements(object: &ObjectSchema, index: Option<u64>) -> std::ops::Range<u64> {
    index.map_or(0..object.size, |index| index..index + 1)
}

pub(super) fn index_message(index: u64) -> Option<v1::Index> {
    Some(v1::Index { index: i64::try_from(index).unwrap_or(i64::MAX) })
}

/// A resource that entries have.
pub(super) struct DirectResource<'a> {
    /// The values that packets change.
    pub values: EntryValues,
    /// Returns whether the entries of a table have it.
    pub is_in: &'a dyn Fn(&ir::Table) -> bool,
    /// Returns the error for a table without it.
    pub refuse: &'a dyn Fn(&TableSchema) -> P4RuntimeError,
}

impl Schema {
    pub(super) fn counter_write(
        &self,
        kind: UpdateKind,
        given: &v1::CounterEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        only_modify(kind, "a counter")?;
        let counter = find(&self.counters, given.counter_id, "counter")?;
        let index = decode_index(counter, given.index.as_ref())?;
        // Without data the write has no effect.
        let Some(given) = &given.data else { return Ok(Vec::new()) };
        let data = decode_counter(given, &|| counter.name.clone())?;
        for_each(counter, index, |index| StateUpdate::Counter(counter.id, index, data))
    }

    pub(super) fn direct_counter_write(
        &self,
        oneshots: &Oneshots,
        kind: UpdateKind,
        given: &v1::DirectCounterEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        only_modify(kind, "a direct counter")?;
        let (table, declared, id) = self.entry_id(table_entry(given.table_entry.as_ref())?)?;
        if declared.direct_counter.is_none() {
            return Err(no_counter(table));
        }
        let place = || format!("table {}", table.name);
        match &given.data {
            Some(given) => Ok(vec![StateUpdate::DirectCounter(id, decode_counter(given, &place)?)]),
            // The write has no effect, but the entry must exist.
            None if oneshots.entry(table, &id.keys, id.priority).is_some() => Ok(Vec::new()),
            None => Err(self.no_entry(table, &id.keys, id.priority)),
        }
    }

    /// Reads the counts of one indexed counter or of all, at one index or at all.
    pub(super) fn read_counters(
        &self,
        device: &dyn Device,
        pattern: &v1::CounterEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        for (counter, index) in
            self::selected_objects(&self.counters, pattern.counter_id, pattern.index.as_ref(), "counter")?
        {
            for index in selected_elements(counter, index) {
                let Some(data) = device.counter(counter.id, index) else { break };
                let message = v1::CounterEntry {
                    counter_id: counter.number,
                    index: index_message(index),
                    data: Some(encode_counter(data)),
                };
                if sink(entity(v1::entity::Entity::CounterEntry(message))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn read_direct_counters(
        &self,
        device: &dyn Device,
        state: &ControlState,
        wanted: &v1::DirectCounterEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let has = |table: &ir::Table| table.direct_counter.is_some();
        let show = |entry: &DeviceEntry, key: v1::TableEntry| {
            let data = entry.counter.map(encode_counter);
            v1::entity::Entity::DirectCounterEntry(v1::DirectCounterEntry { table_entry: Some(key), data })
        };
        let values = EntryValues { counter: true, idle: false };
        let resource = DirectResource { values, is_in: &has, refuse: &no_counter };
        self.read_direct((device, state), wanted.table_entry.as_ref(), &resource, &show, sink)
    }

    /// Reads a direct resource: of all tables that have it, of all entries of a table, or of one
    /// entry, which must exist. `encode` encodes the resource of an entry.
    pub(super) fn read_direct(
        &self,
        source: (&dyn Device, &ControlState),
        pattern: Option<&v1::TableEntry>,
        resource: &DirectResource<'_>,
        encode: &dyn Fn(&DeviceEntry, v1::TableEntry) -> v1::entity::Entity,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let mut send_entries = |table: &TableSchema| {
            let mut send = |it: DeviceEntry| sink(entity(encode(&it, self.entry_key(table, &it.entry))));
            self.visit_entries(source, table.id, resource.values, &|_| true, &mut send)
        };
        let Some(pattern) = pattern.filter(|pattern| pattern.table_id != 0) else {
            for table in self.tables.values().filter(|table| (resource.is_in)(&self.pipeline.tables[table.id])) {
                if send_entries(table)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        };
        let (table, declared) = self.table(pattern.table_id)?;
        if !(resource.is_in)(declared) {
            return Err((resource.refuse)(table));
        }
        if pattern.r#match.is_empty() && pattern.priority == 0 && !pattern.is_default_action {
            return send_entries(table);
        }
        let (table, _, id) = self.entry_id(pattern)?;
        let key = super::keys::pack_key(&table.layout, &id.keys);
        let Some(found) = self.find_entry(source, table.id, (&key, id.priority), resource.values)? else {
            return Err(self.no_entry(table, &id.keys, id.priority));
        };
        Ok(sink(entity(encode(&found, self.entry_key(table, &found.entry)))))
    }
}

/// Returns the entry of a direct counter or meter.
pub(super) fn table_entry(given: Option<&v1::TableEntry>) -> Result<&v1::TableEntry, P4RuntimeError> {
    given.ok_or_else(|| P4RuntimeError::invalid("table_entry is missing; give the table's id and the entry's keys"))
}

pub(super) fn no_counter(table: &TableSchema) -> P4RuntimeError {
    P4RuntimeError::invalid(format!("table {}: it has no direct counter", table.name))
}
