//! Write batches as bytes, for the store. What a controller wrote is kept as it wrote it: to apply it again gives the same tables.

use entries::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, CloneSession, Counter, EntryId, GroupMember, MeterConfig,
    MulticastGroup, Naming, PackedAction, PackedEntry, Port, Replica, TableEntry, Update, UpdateKind, WriteBatch,
};
use num_bigint::BigUint;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Bytes that are no batch: another version wrote them, or they are damaged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no write batch: {0}")]
pub struct RecordError(String);

impl RecordError {
    pub(crate) fn new(message: impl Into<String>) -> RecordError {
        RecordError(message.into())
    }
}

/// The bytes of a batch.
///
/// # Errors
/// Never, as far as is known; the format has room for all there is.
pub fn encode(batch: &WriteBatch) -> Result<Vec<u8>, RecordError> {
    let records: Vec<Record<'_>> = batch.updates.iter().map(Record::of).collect();
    postcard::to_stdvec(&records).map_err(|error| RecordError(error.to_string()))
}

/// The batch of these bytes.
///
/// # Errors
/// If they are none.
pub fn decode(bytes: &[u8]) -> Result<WriteBatch, RecordError> {
    let records: Vec<Record<'_>> = postcard::from_bytes(bytes).map_err(|error| RecordError(error.to_string()))?;
    records.into_iter().map(Record::update).collect()
}

type Id = u32;
type Words<'a> = Cow<'a, [u64]>;
/// A number, the least significant word first.
pub(crate) type Number = Vec<u64>;

#[derive(Serialize, Deserialize, Clone, Copy)]
enum Kind {
    Insert,
    Modify,
    Delete,
}

#[derive(Serialize, Deserialize)]
enum Act<'a> {
    Call(Id, #[serde(borrow)] Words<'a>),
    Member(u32),
    Group(u32),
}

#[derive(Serialize, Deserialize)]
enum Key {
    Exact(Number),
    Ternary(Number, Number),
    Lpm(Number, u32),
    Range(Number, Number),
    Optional(Option<Number>),
}

#[derive(Serialize, Deserialize)]
enum Spec {
    Call(Id, Vec<Number>),
    Member(u32),
    Group(u32),
}

/// What few entries have.
#[derive(Serialize, Deserialize)]
struct Rare<'a> {
    meter: Option<[u64; 4]>,
    provenance: Option<Cow<'a, str>>,
    metadata: Cow<'a, [u8]>,
}

#[derive(Serialize, Deserialize)]
struct Packed<'a> {
    kind: Kind,
    table: Id,
    #[serde(borrow)]
    key: Words<'a>,
    #[serde(borrow)]
    action: Act<'a>,
    priority: i32,
    idle_timeout_ns: u64,
    counter: Option<[u64; 2]>,
    #[serde(borrow)]
    rare: Option<Rare<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    kind: Kind,
    table: Id,
    keys: Vec<Key>,
    action: Spec,
    priority: i32,
    idle_timeout_ns: u64,
    counter: Option<[u64; 2]>,
    #[serde(borrow)]
    rare: Option<Rare<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    table: Id,
    keys: Vec<Key>,
    priority: i32,
}

#[derive(Serialize, Deserialize)]
struct Session {
    id: u32,
    replicas: Vec<(u32, u16)>,
    multicast_group: Option<u32>,
    packet_length: u32,
    class_of_service: u32,
}

#[derive(Serialize, Deserialize)]
enum Record<'a> {
    #[serde(borrow)]
    Packed(Packed<'a>),
    #[serde(borrow)]
    Entry(Entry<'a>),
    DefaultAction(Id, Option<Spec>),
    Member(Kind, Id, u32, (Id, Vec<Number>)),
    Group(Kind, Id, u32, Vec<(u32, u32)>),
    ValueSet(Id, Vec<Vec<Key>>),
    Meter(Id, u64, Option<[u64; 4]>),
    DirectMeter(Identity, Option<[u64; 4]>),
    Counter(Id, u64, [u64; 2]),
    DirectCounter(Identity, [u64; 2]),
    Register(Id, Option<u64>, Vec<Number>),
    Multicast(Kind, u32, Vec<(u32, u16)>),
    Clone(Kind, Session),
    ExpireTime(u8, u64),
    /// A group some of whose members watch ports. (New forms come last: those before keep their numbers.)
    WatchingGroup(Kind, Id, u32, Vec<(u32, u32, Option<u32>)>),
    Ports(Option<BTreeMap<u32, (String, bool)>>),
    Name(String, String, Option<Number>),
}

impl From<UpdateKind> for Kind {
    fn from(kind: UpdateKind) -> Kind {
        match kind {
            UpdateKind::Insert => Kind::Insert,
            UpdateKind::Modify => Kind::Modify,
            UpdateKind::Delete => Kind::Delete,
        }
    }
}

impl From<Kind> for UpdateKind {
    fn from(kind: Kind) -> UpdateKind {
        match kind {
            Kind::Insert => UpdateKind::Insert,
            Kind::Modify => UpdateKind::Modify,
            Kind::Delete => UpdateKind::Delete,
        }
    }
}

pub(crate) fn number(value: &BigUint) -> Number {
    value.to_u64_digits()
}

pub(crate) fn big(number: Number) -> BigUint {
    BigUint::new(number.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect())
}

fn meter(config: &MeterConfig) -> [u64; 4] {
    [config.cir, config.cburst, config.pir, config.pburst]
}

fn meter_config([cir, cburst, pir, pburst]: [u64; 4]) -> MeterConfig {
    MeterConfig { cir, cburst, pir, pburst }
}

fn counter_data([packets, bytes]: [u64; 2]) -> Counter {
    Counter { packets, bytes }
}

impl Key {
    fn of(key: &ir::KeyMatch) -> Key {
        match key {
            ir::KeyMatch::Exact(value) => Key::Exact(number(value)),
            ir::KeyMatch::Ternary { value, mask } => Key::Ternary(number(value), number(mask)),
            ir::KeyMatch::Lpm { value, prefix_len } => Key::Lpm(number(value), *prefix_len),
            ir::KeyMatch::Range { lo, hi } => Key::Range(number(lo), number(hi)),
            ir::KeyMatch::Optional(value) => Key::Optional(value.as_ref().map(number)),
        }
    }

    fn key(self) -> ir::KeyMatch {
        match self {
            Key::Exact(value) => ir::KeyMatch::Exact(big(value)),
            Key::Ternary(value, mask) => ir::KeyMatch::Ternary { value: big(value), mask: big(mask) },
            Key::Lpm(value, prefix_len) => ir::KeyMatch::Lpm { value: big(value), prefix_len },
            Key::Range(lo, hi) => ir::KeyMatch::Range { lo: big(lo), hi: big(hi) },
            Key::Optional(value) => ir::KeyMatch::Optional(value.map(big)),
        }
    }

    fn all(keys: &[ir::KeyMatch]) -> Vec<Key> {
        keys.iter().map(Key::of).collect()
    }

    fn keys(keys: Vec<Key>) -> Vec<ir::KeyMatch> {
        keys.into_iter().map(Key::key).collect()
    }
}

fn call_of(call: &ir::ActionCall) -> (Id, Vec<Number>) {
    (call.action.0, call.args.iter().map(number).collect())
}

fn call((action, args): (Id, Vec<Number>)) -> ir::ActionCall {
    ir::ActionCall { action: ir::ActionId(action), args: args.into_iter().map(big).collect() }
}

impl Spec {
    fn of(spec: &ActionSpec) -> Spec {
        match spec {
            ActionSpec::Call(call) => {
                let (action, args) = call_of(call);
                Spec::Call(action, args)
            }
            ActionSpec::Member(id) => Spec::Member(*id),
            ActionSpec::Group(id) => Spec::Group(*id),
        }
    }

    fn spec(self) -> ActionSpec {
        match self {
            Spec::Call(action, args) => ActionSpec::Call(call((action, args))),
            Spec::Member(id) => ActionSpec::Member(id),
            Spec::Group(id) => ActionSpec::Group(id),
        }
    }
}

impl<'a> Rare<'a> {
    fn of(meter_of: Option<&MeterConfig>, provenance: Option<&'a Arc<str>>, metadata: &'a [u8]) -> Option<Rare<'a>> {
        let any = meter_of.is_some() || provenance.is_some() || !metadata.is_empty();
        let provenance = provenance.map(|text| Cow::Borrowed(&**text));
        any.then(|| Rare { meter: meter_of.map(meter), provenance, metadata: Cow::Borrowed(metadata) })
    }

    fn parts(rare: Option<Rare<'_>>) -> (Option<MeterConfig>, Option<Arc<str>>, Vec<u8>) {
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

impl Identity {
    fn of(id: &EntryId) -> Identity {
        Identity { table: id.table.0, keys: Key::all(&id.keys), priority: id.priority }
    }

    fn id(self) -> EntryId {
        EntryId { table: ir::TableId(self.table), keys: Key::keys(self.keys), priority: self.priority }
    }
}

impl<'a> Packed<'a> {
    fn of(kind: UpdateKind, entry: &'a PackedEntry) -> Packed<'a> {
        let action = match entry.action() {
            PackedAction::Call(action, args) => Act::Call(action.0, Cow::Borrowed(args)),
            PackedAction::Member(id) => Act::Member(id),
            PackedAction::Group(id) => Act::Group(id),
        };
        Packed {
            kind: kind.into(),
            table: entry.table.0,
            key: Cow::Borrowed(entry.key()),
            action,
            priority: entry.priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            counter: entry.counter.map(|counter| [counter.packets, counter.bytes]),
            rare: Rare::of(entry.meter(), entry.provenance(), entry.metadata()),
        }
    }

    fn update(self) -> Update {
        let action = match &self.action {
            Act::Call(action, args) => PackedAction::Call(ir::ActionId(*action), args),
            Act::Member(id) => PackedAction::Member(*id),
            Act::Group(id) => PackedAction::Group(*id),
        };
        let mut entry = PackedEntry::new(ir::TableId(self.table), &self.key, action).with_priority(self.priority);
        entry.idle_timeout_ns = self.idle_timeout_ns;
        entry.counter = self.counter.map(counter_data);
        if self.rare.is_some() {
            let (meter, provenance, metadata) = Rare::parts(self.rare);
            entry = entry.with_rare(meter, provenance.as_ref(), &metadata);
        }
        Update::Packed(self.kind.into(), entry)
    }
}

impl<'a> Entry<'a> {
    fn of(kind: UpdateKind, entry: &'a TableEntry) -> Entry<'a> {
        Entry {
            kind: kind.into(),
            table: entry.table.0,
            keys: Key::all(&entry.keys),
            action: Spec::of(&entry.action),
            priority: entry.priority,
            idle_timeout_ns: entry.idle_timeout_ns,
            counter: entry.counter.map(|counter| [counter.packets, counter.bytes]),
            rare: Rare::of(entry.meter.as_ref(), entry.provenance.as_ref(), &entry.metadata),
        }
    }

    fn update(self) -> Update {
        let (meter, provenance, metadata) = Rare::parts(self.rare);
        let entry = TableEntry {
            table: ir::TableId(self.table),
            keys: Key::keys(self.keys),
            priority: self.priority,
            action: self.action.spec(),
            counter: self.counter.map(counter_data),
            meter,
            idle_timeout_ns: self.idle_timeout_ns,
            provenance,
            metadata,
            is_const: false,
        };
        Update::Entry(self.kind.into(), entry)
    }
}

fn copies(replicas: &[Replica]) -> Vec<(u32, u16)> {
    replicas.iter().map(|replica| (replica.port, replica.instance)).collect()
}

fn replicas(copies: Vec<(u32, u16)>) -> Vec<Replica> {
    copies.into_iter().map(|(port, instance)| Replica { port, instance }).collect()
}

impl<'a> Record<'a> {
    fn of(update: &'a Update) -> Record<'a> {
        match update {
            Update::Packed(kind, entry) => Record::Packed(Packed::of(*kind, entry)),
            Update::Entry(kind, entry) => Record::Entry(Entry::of(*kind, entry)),
            Update::DefaultAction(table, spec) => Record::DefaultAction(table.0, spec.as_ref().map(Spec::of)),
            Update::Member(kind, member) => {
                Record::Member((*kind).into(), member.profile.0, member.id, call_of(&member.action))
            }
            Update::Group(kind, group) if group.members.iter().any(|member| member.watch.is_some()) => {
                let members = group.members.iter().map(|member| (member.member, member.weight, member.watch)).collect();
                Record::WatchingGroup((*kind).into(), group.profile.0, group.id, members)
            }
            Update::Group(kind, group) => {
                let members = group.members.iter().map(|member| (member.member, member.weight)).collect();
                Record::Group((*kind).into(), group.profile.0, group.id, members)
            }
            Update::ValueSet(set, members) => {
                Record::ValueSet(set.0, members.iter().map(|keys| Key::all(keys)).collect())
            }
            Update::Meter(object, index, config) => Record::Meter(object.0, *index, config.as_ref().map(meter)),
            Update::DirectMeter(id, config) => Record::DirectMeter(Identity::of(id), config.as_ref().map(meter)),
            Update::Counter(object, index, data) => Record::Counter(object.0, *index, [data.packets, data.bytes]),
            Update::DirectCounter(id, data) => Record::DirectCounter(Identity::of(id), [data.packets, data.bytes]),
            Update::Register(object, index, values) => {
                Record::Register(object.0, *index, values.iter().map(number).collect())
            }
            Update::Multicast(kind, group) => Record::Multicast((*kind).into(), group.id, copies(&group.replicas)),
            Update::Clone(kind, session) => {
                let CloneSession { id, replicas, multicast_group, packet_length, class_of_service } = session;
                let (id, multicast_group) = (*id, *multicast_group);
                let (packet_length, class_of_service) = (*packet_length, *class_of_service);
                let replicas = copies(replicas);
                Record::Clone(
                    (*kind).into(),
                    Session { id, replicas, multicast_group, packet_length, class_of_service },
                )
            }
            Update::ExpireTime(profile, time) => Record::ExpireTime(*profile, *time),
            Update::Ports(ports) => {
                let one = |(number, port): (&u32, &Port)| (*number, (port.name.clone(), port.is_up));
                Record::Ports(ports.as_ref().map(|ports| ports.iter().map(one).collect()))
            }
            Update::Name(Naming { space, string, value }) => {
                Record::Name(space.to_string(), string.to_string(), value.as_ref().map(number))
            }
        }
    }

    fn update(self) -> Result<Update, RecordError> {
        Ok(match self {
            Record::Packed(entry) => entry.update(),
            Record::Entry(entry) => entry.update(),
            Record::DefaultAction(table, spec) => Update::DefaultAction(ir::TableId(table), spec.map(Spec::spec)),
            Record::Member(kind, profile, id, action) => {
                let action = call(action);
                Update::Member(kind.into(), ActionProfileMember { profile: ir::ExternId(profile), id, action })
            }
            Record::Group(kind, profile, id, members) => {
                let members = members.into_iter().map(|(member, weight)| GroupMember::new(member, weight)).collect();
                Update::Group(kind.into(), ActionProfileGroup { profile: ir::ExternId(profile), id, members })
            }
            Record::ValueSet(set, members) => {
                Update::ValueSet(ir::ValueSetId(set), members.into_iter().map(Key::keys).collect())
            }
            Record::Meter(object, index, config) => {
                Update::Meter(ir::ExternId(object), index, config.map(meter_config))
            }
            Record::DirectMeter(id, config) => Update::DirectMeter(id.id(), config.map(meter_config)),
            Record::Counter(object, index, data) => Update::Counter(ir::ExternId(object), index, counter_data(data)),
            Record::DirectCounter(id, data) => Update::DirectCounter(id.id(), counter_data(data)),
            Record::Register(object, index, values) => {
                Update::Register(ir::ExternId(object), index, values.into_iter().map(big).collect())
            }
            Record::Multicast(kind, id, copies) => {
                Update::Multicast(kind.into(), MulticastGroup { id, replicas: replicas(copies) })
            }
            Record::Clone(kind, session) => {
                let Session { id, replicas: copies, multicast_group, packet_length, class_of_service } = session;
                let replicas = replicas(copies);
                Update::Clone(
                    kind.into(),
                    CloneSession { id, replicas, multicast_group, packet_length, class_of_service },
                )
            }
            Record::ExpireTime(profile, time) => Update::ExpireTime(profile, time),
            Record::WatchingGroup(kind, profile, id, members) => {
                let member = |(member, weight, watch)| GroupMember { member, weight, watch };
                let members = members.into_iter().map(member).collect();
                Update::Group(kind.into(), ActionProfileGroup { profile: ir::ExternId(profile), id, members })
            }
            Record::Ports(ports) => {
                let one = |(number, (name, is_up))| (number, Port { name, is_up });
                Update::Ports(ports.map(|ports| ports.into_iter().map(one).collect()))
            }
            Record::Name(space, string, value) => {
                Update::Name(Naming { space: space.into(), string: string.into(), value: value.map(big) })
            }
        })
    }
}
