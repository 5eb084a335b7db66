//! Write batches as bytes, for the store and the take-over. The updates are kept as the controller
//! wrote them, so that replaying them gives the same tables.

use entries::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, CloneSession, Counter, DevicePort, EntryId, GroupMember,
    MeterConfig, MulticastGroup, PackedEntry, Replica, SdnStringUpdate, StateUpdate, StoredActionRef, TableEntry,
    UpdateKind, WriteBatch,
};
use num_bigint::BigUint;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Bytes that are not a write batch: damaged, or written by another version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no write batch: {0}")]
pub struct StoreFormatError(String);

impl StoreFormatError {
    pub(crate) fn new(message: impl Into<String>) -> StoreFormatError {
        StoreFormatError(message.into())
    }
}

/// Encodes a batch.
///
/// # Errors
/// None are known: the format can represent every batch.
pub fn encode_batch(batch: &WriteBatch) -> Result<Vec<u8>, StoreFormatError> {
    let records: Vec<StoredUpdate<'_>> = batch.updates.iter().map(StoredUpdate::of).collect();
    postcard::to_stdvec(&records).map_err(|error| StoreFormatError(error.to_string()))
}

/// Decodes a batch.
///
/// # Errors
/// The bytes are not an encoded batch.
pub fn decode_batch(bytes: &[u8]) -> Result<WriteBatch, StoreFormatError> {
    let records: Vec<StoredUpdate<'_>> =
        postcard::from_bytes(bytes).map_err(|error| StoreFormatError(error.to_string()))?;
    records.into_iter().map(StoredUpdate::update).collect()
}

type Id = u32;
type Words<'a> = Cow<'a, [u64]>;
/// A number as 64-bit words, the least significant word first.
pub(crate) type NumberWords = Vec<u64>;

#[derive(Serialize, Deserialize, Clone, Copy)]
enum StoredUpdateKind {
    Insert,
    Modify,
    Delete,
}

#[derive(Serialize, Deserialize)]
enum StoredPackedAction<'a> {
    Call(Id, #[serde(borrow)] Words<'a>),
    Member(u32),
    Group(u32),
}

#[derive(Serialize, Deserialize)]
enum StoredKey {
    Exact(NumberWords),
    Ternary(NumberWords, NumberWords),
    Lpm(NumberWords, u32),
    Range(NumberWords, NumberWords),
    Optional(Option<NumberWords>),
}

#[derive(Serialize, Deserialize)]
enum StoredActionSpec {
    Call(Id, Vec<NumberWords>),
    Member(u32),
    Group(u32),
}

/// Attributes that few entries have.
#[derive(Serialize, Deserialize)]
struct StoredRareFields<'a> {
    meter: Option<[u64; 4]>,
    provenance: Option<Cow<'a, str>>,
    metadata: Cow<'a, [u8]>,
}

#[derive(Serialize, Deserialize)]
struct StoredPackedEntry<'a> {
    kind: StoredUpdateKind,
    table: Id,
    #[serde(borrow)]
    key: Words<'a>,
    #[serde(borrow)]
    action: StoredPackedAction<'a>,
    priority: i32,
    idle_timeout_ns: u64,
    counter: Option<[u64; 2]>,
    #[serde(borrow)]
    rare: Option<StoredRareFields<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredTableEntry<'a> {
    kind: StoredUpdateKind,
    table: Id,
    keys: Vec<StoredKey>,
    action: StoredActionSpec,
    priority: i32,
    idle_timeout_ns: u64,
    counter: Option<[u64; 2]>,
    #[serde(borrow)]
    rare: Option<StoredRareFields<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntryId {
    table: Id,
    keys: Vec<StoredKey>,
    priority: i32,
}

#[derive(Serialize, Deserialize)]
struct StoredCloneSession {
    id: u32,
    replicas: Vec<(u32, u16)>,
    multicast_group: Option<u32>,
    packet_length: u32,
    class_of_service: u32,
}

#[derive(Serialize, Deserialize)]
enum StoredUpdate<'a> {
    #[serde(borrow)]
    Packed(StoredPackedEntry<'a>),
    #[serde(borrow)]
    Entry(StoredTableEntry<'a>),
    DefaultAction(Id, Option<StoredActionSpec>),
    Member(StoredUpdateKind, Id, u32, (Id, Vec<NumberWords>)),
    Group(StoredUpdateKind, Id, u32, Vec<(u32, u32)>),
    ValueSet(Id, Vec<Vec<StoredKey>>),
    Meter(Id, u64, Option<[u64; 4]>),
    DirectMeter(StoredEntryId, Option<[u64; 4]>),
    Counter(Id, u64, [u64; 2]),
    DirectCounter(StoredEntryId, [u64; 2]),
    Register(Id, Option<u64>, Vec<NumberWords>),
    Multicast(StoredUpdateKind, u32, Vec<(u32, u16)>),
    Clone(StoredUpdateKind, StoredCloneSession),
    ExpireTime(u8, u64),
    /// A group with members that watch ports. New variants are appended, because the encoding
    /// stores the variant's index.
    WatchingGroup(StoredUpdateKind, Id, u32, Vec<(u32, u32, Option<u32>)>),
    Ports(Option<BTreeMap<u32, (String, bool)>>),
    Name(String, String, Option<NumberWords>),
}

impl From<UpdateKind> for StoredUpdateKind {
    fn from(kind: UpdateKind) -> StoredUpdateKind {
        match kind {
            UpdateKind::Insert => StoredUpdateKind::Insert,
            UpdateKind::Modify => StoredUpdateKind::Modify,
            UpdateKind::Delete => StoredUpdateKind::Delete,
        }
    }
}

impl From<StoredUpdateKind> for UpdateKind {
    fn from(kind: StoredUpdateKind) -> UpdateKind {
        match kind {
            StoredUpdateKind::Insert => UpdateKind::Insert,
            StoredUpdateKind::Modify => UpdateKind::Modify,
            StoredUpdateKind::Delete => UpdateKind::Delete,
        }
    }
}

pub(crate) fn number_to_words(value: &BigUint) -> NumberWords {
    value.to_u64_digits()
}

pub(crate) fn words_to_number(number: NumberWords) -> BigUint {
    BigUint::new(number.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect())
}

fn meter_words(config: &MeterConfig) -> [u64; 4] {
    [config.cir, config.cburst, config.pir, config.pburst]
}

fn meter_config([cir, cburst, pir, pburst]: [u64; 4]) -> MeterConfig {
    MeterConfig { cir, cburst, pir, pburst }
}

fn counter_data([packets, bytes]: [u64; 2]) -> Counter {
    Counter { packets, bytes }
}

impl StoredKey {
    fn of(key: &ir::KeyMatch) -> StoredKey {
        match key {
            ir::KeyMatch::Exact(value) => StoredKey::Exact(number_to_words(value)),
            ir::KeyMatch::Ternary { value, mask } => StoredKey::Ternary(number_to_words(value), number_to_words(mask)),
            ir::KeyMatch::Lpm { value, prefix_len } => StoredKey::Lpm(number_to_words(value), *prefix_len),
            ir::KeyMatch::Range { lo, hi } => StoredKey::Range(number_to_words(lo), number_to_words(hi)),
            ir::KeyMatch::Optional(value) => StoredKey::Optional(value.as_ref().map(number_to_words)),
        }
    }

    fn into_key_match(self) -> ir::KeyMatch {
        match self {
            StoredKey::Exact(value) => ir::KeyMatch::Exact(words_to_number(value)),
            StoredKey::Ternary(value, mask) => {
                ir::KeyMatch::Ternary { value: words_to_number(value), mask: words_to_number(mask) }
            }
            StoredKey::Lpm(value, prefix_len) => ir::KeyMatch::Lpm { value: words_to_number(value), prefix_len },
            StoredKey::Range(lo, hi) => ir::KeyMatch::Range { lo: words_to_number(lo), hi: words_to_number(hi) },
            StoredKey::Optional(value) => ir::KeyMatch::Optional(value.map(words_to_number)),
        }
    }

    fn of_all(keys: &[ir::KeyMatch]) -> Vec<StoredKey> {
        keys.iter().map(StoredKey::of).collect()
    }

    fn to_all(keys: Vec<StoredKey>) -> Vec<ir::KeyMatch> {
        keys.into_iter().map(StoredKey::into_key_match).collect()
    }
}

fn stored_call(call: &ir::ActionCall) -> (Id, Vec<NumberWords>) {
    (call.action.0, call.args.iter().map(number_to_words).collect())
}

fn to_action_call((action, args): (Id, Vec<NumberWords>)) -> ir::ActionCall {
    ir::ActionCall { action: ir::ActionId(action), args: args.into_iter().map(words_to_number).collect() }
}

impl StoredActionSpec {
    fn of(spec: &ActionSpec) -> StoredActionSpec {
        match spec {
            ActionSpec::Call(call) => {
                let (action, args) = stored_call(call);
                StoredActionSpec::Call(action, args)
            }
            ActionSpec::Member(id) => StoredActionSpec::Member(*id),
            ActionSpec::Group(id) => StoredActionSpec::Group(*id),
        }
    }

    fn into_action_spec(self) -> ActionSpec {
        match self {
            StoredActionSpec::Call(action, args) => ActionSpec::Call(to_action_call((action, args))),
            StoredActionSpec::Member(id) => ActionSpec::Member(id),
            StoredActionSpec::Group(id) => ActionSpec::Group(id),
        }
    }
}

impl<'a> StoredRareFields<'a> {
    fn of(
        meter_of: Option<&MeterConfig>,
        provenance: Option<&'a Arc<str>>,
        metadata: &'a [u8],
    ) -> Option<StoredRareFields<'a>> {
        let any = meter_of.is_some() || provenance.is_some() || !metadata.is_empty();
        let provenance = provenance.map(|text| Cow::Borrowed(&**text));
        any.then(|| StoredRareFields {
            meter: meter_of.map(meter_words),
            provenance,
            metadata: Cow::Borrowed(metadata),
        })
    }

    fn into_parts(rare: Option<StoredRareFields<'_>>) -> (Option<MeterConfig>, Option<Arc<str>>, Vec<u8>) {
        match rare {
            None => (None, None, Vec::new()),
            Some(rare) => (
                rare.meter.map(meter_config),
                rare.provenance.map(|text| Arc::from(&*text)),
                rare.metadata.into_owned(),
            ),
        }
    }
}

impl StoredEntryId {
    fn of(id: &EntryId) -> StoredEntryId {
        StoredEntryId { table: id.table.0, keys: StoredKey::of_all(&id.keys), priority: id.priority }
    }

    fn into_entry_id(self) -> EntryId {
        EntryId { table: ir::TableId(self.table), keys: StoredKey::to_all(self.keys), priority: self.priority }
    }
}

impl<'a> StoredPackedEntry<'a> {
    fn of(kind: UpdateKind, entry: &'a PackedEntry) -> StoredPackedEntry<'a> {
        let action = match entry.action() {
            StoredActionRef::Call(action, args) => StoredPackedAction::Call(action.0, Cow::Borrowed(args)),
            StoredActionRef::Member(id) => StoredPackedAction::Member(id),
            StoredActionRef::Group(id) => StoredPackedAction::Group(id),
        };
        StoredPackedEntry {
            kind: kind.into(),
            table: entry.table.0,
            key: Cow::Borrowed(entry.key()),
            action,
            priority: entry.priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            counter: entry.counter.map(|counter| [counter.packets, counter.bytes]),
            rare: StoredRareFields::of(entry.meter(), entry.provenance(), entry.metadata()),
        }
    }

    fn update(self) -> StateUpdate {
        let action = match &self.action {
            StoredPackedAction::Call(action, args) => StoredActionRef::Call(ir::ActionId(*action), args),
            StoredPackedAction::Member(id) => StoredActionRef::Member(*id),
            StoredPackedAction::Group(id) => StoredActionRef::Group(*id),
        };
        let mut entry = PackedEntry::new(ir::TableId(self.table), &self.key, action).with_priority(self.priority);
        entry.idle_timeout_ns = self.idle_timeout_ns;
        entry.counter = self.counter.map(counter_data);
        if self.rare.is_some() {
            let (meter, provenance, metadata) = StoredRareFields::into_parts(self.rare);
            entry = entry.with_extras(meter, provenance.as_ref(), &metadata);
        }
        StateUpdate::Packed(self.kind.into(), entry)
    }
}

impl<'a> StoredTableEntry<'a> {
    fn of(kind: UpdateKind, entry: &'a TableEntry) -> StoredTableEntry<'a> {
        StoredTableEntry {
            kind: kind.into(),
            table: entry.table.0,
            keys: StoredKey::of_all(&entry.keys),
            action: StoredActionSpec::of(&entry.action),
            priority: entry.priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            counter: entry.counter.map(|counter| [counter.packets, counter.bytes]),
            rare: StoredRareFields::of(entry.meter.as_ref(), entry.provenance.as_ref(), &entry.metadata),
        }
    }

    fn update(self) -> StateUpdate {
        let (meter, provenance, metadata) = StoredRareFields::into_parts(self.rare);
        let entry = TableEntry {
            table: ir::TableId(self.table),
            keys: StoredKey::to_all(self.keys),
            priority: self.priority,
            action: self.action.into_action_spec(),
            counter: self.counter.map(counter_data),
            meter,
            idle_timeout_ns: self.idle_timeout_ns,
            provenance,
            metadata,
            is_const: false,
        };
        StateUpdate::Entry(self.kind.into(), entry)
    }
}

fn replica_pairs(replicas: &[Replica]) -> Vec<(u32, u16)> {
    replicas.iter().map(|replica| (replica.port, replica.instance)).collect()
}

fn replicas_of_pairs(copies: Vec<(u32, u16)>) -> Vec<Replica> {
    copies.into_iter().map(|(port, instance)| Replica { port, instance }).collect()
}

impl<'a> StoredUpdate<'a> {
    fn of(update: &'a StateUpdate) -> StoredUpdate<'a> {
        match update {
            StateUpdate::Packed(kind, entry) => StoredUpdate::Packed(StoredPackedEntry::of(*kind, entry)),
            StateUpdate::Entry(kind, entry) => StoredUpdate::Entry(StoredTableEntry::of(*kind, entry)),
            StateUpdate::DefaultAction(table, spec) => {
                StoredUpdate::DefaultAction(table.0, spec.as_ref().map(StoredActionSpec::of))
            }
            StateUpdate::Member(kind, member) => {
                StoredUpdate::Member((*kind).into(), member.profile.0, member.id, stored_call(&member.action))
            }
            StateUpdate::Group(kind, group) if group.members.iter().any(|member| member.watch.is_some()) => {
                let members = group.members.iter().map(|member| (member.member, member.weight, member.watch)).collect();
                StoredUpdate::WatchingGroup((*kind).into(), group.profile.0, group.id, members)
            }
            StateUpdate::Group(kind, group) => {
                let members = group.members.iter().map(|member| (member.member, member.weight)).collect();
                StoredUpdate::Group((*kind).into(), group.profile.0, group.id, members)
            }
            StateUpdate::ValueSet(set, members) => {
                StoredUpdate::ValueSet(set.0, members.iter().map(|keys| StoredKey::of_all(keys)).collect())
            }
            StateUpdate::Meter(object, index, config) => {
                StoredUpdate::Meter(object.0, *index, config.as_ref().map(meter_words))
            }
            StateUpdate::DirectMeter(id, config) => {
                StoredUpdate::DirectMeter(StoredEntryId::of(id), config.as_ref().map(meter_words))
            }
            StateUpdate::Counter(object, index, data) => {
                StoredUpdate::Counter(object.0, *index, [data.packets, data.bytes])
            }
            StateUpdate::DirectCounter(id, data) => {
                StoredUpdate::DirectCounter(StoredEntryId::of(id), [data.packets, data.bytes])
            }
            StateUpdate::Register(object, index, values) => {
                StoredUpdate::Register(object.0, *index, values.iter().map(number_to_words).collect())
            }
            StateUpdate::Multicast(kind, group) => {
                StoredUpdate::Multicast((*kind).into(), group.id, replica_pairs(&group.replicas))
            }
            StateUpdate::Clone(kind, session) => {
                let CloneSession { id, replicas, multicast_group, packet_length, class_of_service } = session;
                let (id, multicast_group) = (*id, *multicast_group);
                let (packet_length, class_of_service) = (*packet_length, *class_of_service);
                let replicas = replica_pairs(replicas);
                StoredUpdate::Clone(
                    (*kind).into(),
                    StoredCloneSession { id, replicas, multicast_group, packet_length, class_of_service },
                )
            }
            StateUpdate::ExpireTime(profile, time) => StoredUpdate::ExpireTime(*profile, *time),
            StateUpdate::Ports(ports) => {
                let one = |(number, port): (&u32, &DevicePort)| (*number, (port.name.clone(), port.is_up));
                StoredUpdate::Ports(ports.as_ref().map(|ports| ports.iter().map(one).collect()))
            }
            StateUpdate::SdnString(SdnStringUpdate { space, string, value }) => {
                StoredUpdate::Name(space.to_string(), string.to_string(), value.as_ref().map(number_to_words))
            }
        }
    }

    fn update(self) -> Result<StateUpdate, StoreFormatError> {
        Ok(match self {
            StoredUpdate::Packed(entry) => entry.update(),
            StoredUpdate::Entry(entry) => entry.update(),
            StoredUpdate::DefaultAction(table, spec) => {
                StateUpdate::DefaultAction(ir::TableId(table), spec.map(StoredActionSpec::into_action_spec))
            }
            StoredUpdate::Member(kind, profile, id, action) => {
                let action = to_action_call(action);
                StateUpdate::Member(kind.into(), ActionProfileMember { profile: ir::ExternId(profile), id, action })
            }
            StoredUpdate::Group(kind, profile, id, members) => {
                let members = members.into_iter().map(|(member, weight)| GroupMember::new(member, weight)).collect();
                StateUpdate::Group(kind.into(), ActionProfileGroup { profile: ir::ExternId(profile), id, members })
            }
            StoredUpdate::ValueSet(set, members) => {
                StateUpdate::ValueSet(ir::ValueSetId(set), members.into_iter().map(StoredKey::to_all).collect())
            }
            StoredUpdate::Meter(object, index, config) => {
                StateUpdate::Meter(ir::ExternId(object), index, config.map(meter_config))
            }
            StoredUpdate::DirectMeter(id, config) => {
                StateUpdate::DirectMeter(id.into_entry_id(), config.map(meter_config))
            }
            StoredUpdate::Counter(object, index, data) => {
                StateUpdate::Counter(ir::ExternId(object), index, counter_data(data))
            }
            StoredUpdate::DirectCounter(id, data) => StateUpdate::DirectCounter(id.into_entry_id(), counter_data(data)),
            StoredUpdate::Register(object, index, values) => {
                StateUpdate::Register(ir::ExternId(object), index, values.into_iter().map(words_to_number).collect())
            }
            StoredUpdate::Multicast(kind, id, copies) => {
                StateUpdate::Multicast(kind.into(), MulticastGroup { id, replicas: replicas_of_pairs(copies) })
            }
            StoredUpdate::Clone(kind, session) => {
                let StoredCloneSession { id, replicas: copies, multicast_group, packet_length, class_of_service } =
                    session;
                let replicas = replicas_of_pairs(copies);
                StateUpdate::Clone(
                    kind.into(),
                    CloneSession { id, replicas, multicast_group, packet_length, class_of_service },
                )
            }
            StoredUpdate::ExpireTime(profile, time) => StateUpdate::ExpireTime(profile, time),
            StoredUpdate::WatchingGroup(kind, profile, id, members) => {
                let member = |(member, weight, watch)| GroupMember { member, weight, watch };
                let members = members.into_iter().map(member).collect();
                StateUpdate::Group(kind.into(), ActionProfileGroup { profile: ir::ExternId(profile), id, members })
            }
            StoredUpdate::Ports(ports) => {
                let one = |(number, (name, is_up))| (number, DevicePort { name, is_up });
                StateUpdate::Ports(ports.map(|ports| ports.into_iter().map(one).collect()))
            }
            StoredUpdate::Name(space, string, value) => StateUpdate::SdnString(SdnStringUpdate {
                space: space.into(),
                string: string.into(),
                value: value.map(words_to_number),
            }),
        })
    }
}
