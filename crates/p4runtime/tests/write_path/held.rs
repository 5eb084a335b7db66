//! Invariants for any client input: nothing panics, a rejected batch changes nothing, accepted
//! writes can be read, and can be written again as they were read.
//! `fuzz/fuzz_targets/p4runtime_write.rs` uses this file, too.

use super::device::Tables;
use entries::ControlState;
use p4runtime::proto::v1::entity::Entity as E;
use p4runtime::proto::v1::write_request::Atomicity;
use p4runtime::proto::v1::{self, Entity, ReadRequest, TableEntry, Update, WriteRequest, action, table_action, update};
use p4runtime::server::direct::Direct;
use p4runtime::server::parts_of;
use p4runtime::{Device, PipelineConfig};
use prost::Message;
use std::sync::Arc;

/// Maximum number of requests per input.
const REQUESTS: usize = 8;

/// Type of a request, encoded in the first byte of its frame modulo the number of types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Write,
    Read,
    Pipeline,
    Stream,
}

const KINDS: [Kind; 4] = [Kind::Write, Kind::Read, Kind::Pipeline, Kind::Stream];

/// Encodes a request for an input: its type, two bytes of length (big-endian), the message.
pub fn frame(kind: Kind, message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut out = vec![KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u8];
    out.extend(u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(bytes);
    out
}

/// Outcomes of the requests of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that could not be decoded.
    pub unreadable: u64,
    pub refused: u64,
    pub accepted: u64,
    /// Updates in accepted writes.
    pub updates: u64,
}

impl Tally {
    fn count<T, X>(&mut self, outcome: &Result<T, X>) {
        match outcome {
            Ok(_) => self.accepted += 1,
            Err(_) => self.refused += 1,
        }
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: Tally) {
        self.unreadable += other.unreadable;
        self.refused += other.refused;
        self.accepted += other.accepted;
        self.updates += other.updates;
    }
}

/// Device with a program that has one of every feature, and its service.
pub struct Bench {
    device: Arc<Tables>,
    direct: Direct,
    forwarding: PipelineConfig,
    fresh: ControlState,
}

impl Bench {
    /// Creates a bench for a pipeline.
    pub fn new(forwarding: PipelineConfig) -> Bench {
        let device = Arc::new(Tables::new(forwarding.clone()));
        let fresh = device.state().expect("it runs");
        Bench { direct: Direct::new(device.clone()), device, forwarding, fresh }
    }

    /// Processes an input, always from the same initial state.
    ///
    /// # Panics
    /// If an invariant is violated.
    pub fn run(&mut self, mut input: &[u8]) -> Tally {
        self.device.back_to(self.forwarding.clone(), self.fresh.clone());
        self.direct = Direct::new(self.device.clone());
        let mut tally = Tally::default();
        for _ in 0..REQUESTS {
            let [kind, high, low, rest @ ..] = input else { break };
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
            let (message, after) = rest.split_at(length);
            self.one(KINDS[usize::from(*kind) % KINDS.len()], message, &mut tally);
            input = after;
        }
        tally
    }

    fn one(&self, kind: Kind, bytes: &[u8], tally: &mut Tally) {
        match kind {
            Kind::Write => match WriteRequest::decode(bytes) {
                Ok(request) => self.write(&request, tally),
                Err(_) => tally.unreadable += 1,
            },
            Kind::Read => match ReadRequest::decode(bytes) {
                Ok(request) => tally.count(&self.direct.read(&request)),
                Err(_) => tally.unreadable += 1,
            },
            Kind::Pipeline => match v1::SetForwardingPipelineConfigRequest::decode(bytes) {
                Ok(request) => tally.count(&self.direct.set_pipeline(request)),
                Err(_) => tally.unreadable += 1,
            },
            Kind::Stream => match v1::StreamMessageRequest::decode(bytes) {
                Ok(message) => tally.count(&self.direct.message(message)),
                Err(_) => tally.unreadable += 1,
            },
        }
    }

    fn write(&self, request: &WriteRequest, tally: &mut Tally) {
        let before = self.everything();
        let state = self.device.state().expect("it runs");
        let outcome = self.direct.write(request);
        tally.count(&outcome);
        let after = self.everything();
        let as_a_whole = request.atomicity != Atomicity::ContinueOnError as i32;
        let accepted: Vec<&Update> = match &outcome {
            Ok(()) => request.updates.iter().collect(),
            Err(_) if as_a_whole => Vec::new(),
            Err(status) => match parts_of(status) {
                Some(parts) => {
                    assert_eq!(parts.len(), request.updates.len(), "an error for each update");
                    let good = request.updates.iter().zip(parts).filter(|(_, part)| part.canonical_code == 0);
                    good.map(|(update, _)| update).collect()
                }
                None => Vec::new(),
            },
        };
        tally.updates += accepted.len() as u64;
        if accepted.is_empty() {
            assert!(before == after, "refused, and yet it has changed something: {outcome:?}");
            return;
        }
        self.can_be_found(&accepted, &after);
        self.can_be_written_again(&after);
        // Digests belong to the server, and are not restored with the tables.
        let digest = |update: &&Update| matches!(&update.entity, Some(Entity { entity: Some(E::DigestEntry(_)) }));
        if outcome.is_err() && self.device.saved().is_none() && !accepted.iter().any(digest) {
            // Repeats the request without the rejected updates.
            self.device.back_to(self.forwarding_now(), state);
            for update in accepted {
                self.again(vec![update.clone()], "an update that was accepted among others");
            }
            // One-shot selectors number their members separately.
            assert!(self.everything() == after, "what was refused has left something behind");
        }
    }

    fn forwarding_now(&self) -> PipelineConfig {
        self.device.running().expect("it runs")
    }

    fn again(&self, updates: Vec<Update>, what: &str) {
        let request = WriteRequest { device_id: 1, updates, ..WriteRequest::default() };
        if let Err(status) = self.direct.write(&request) {
            panic!("{what} is refused: {status:?}\n{:?}", request.updates);
        }
    }

    /// Reads all state in a canonical order.
    fn everything(&self) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = self.entities().iter().map(Message::encode_to_vec).collect();
        all.sort_unstable();
        all
    }

    fn entities(&self) -> Vec<Entity> {
        let replication =
            |entry| E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(entry) });
        use v1::packet_replication_engine_entry::Type::{CloneSessionEntry, MulticastGroupEntry};
        let wanted = [
            E::TableEntry(TableEntry { meter_config: Some(Default::default()), ..TableEntry::default() }),
            E::ActionProfileMember(Default::default()),
            E::ActionProfileGroup(Default::default()),
            E::MeterEntry(Default::default()),
            replication(MulticastGroupEntry(Default::default())),
            replication(CloneSessionEntry(Default::default())),
            E::ValueSetEntry(Default::default()),
            E::DigestEntry(Default::default()),
        ];
        // Default entries must be read table by table.
        let default = |table_id| TableEntry { table_id, is_default_action: true, ..TableEntry::default() };
        let info = ir::p4info::generate(&self.forwarding_now().pipeline);
        let defaults = info.tables.iter().map(|table| E::TableEntry(default(table.preamble.id)));
        let entities = wanted.into_iter().chain(defaults).map(|entity| Entity { entity: Some(entity) }).collect();
        let request = ReadRequest { device_id: 1, entities, ..ReadRequest::default() };
        self.direct.read(&request).unwrap_or_else(|status| panic!("not everything can be read: {status:?}"))
    }

    /// Checks that an entry that was written last exists with its action.
    fn can_be_found(&self, accepted: &[&Update], after: &[Vec<u8>]) {
        let there = || after.iter().filter_map(|bytes| Entity::decode(bytes.as_slice()).ok()).filter_map(entry_of);
        for (at, update) in accepted.iter().enumerate() {
            let Some(entry) = update.entity.clone().and_then(entry_of).filter(|entry| !entry.is_default_action) else {
                continue;
            };
            let Some(call) = call_of(&entry).filter(|_| update.r#type != update::Type::Delete as i32) else { continue };
            let name = identity(&entry);
            let later = accepted[at + 1..].iter().filter_map(|later| later.entity.clone().and_then(entry_of));
            if later.into_iter().any(|later| identity(&later) == name) {
                continue;
            }
            let found = there().find(|there| identity(there) == name && call_of(there).as_ref() == Some(&call));
            assert!(found.is_some(), "accepted, and cannot be read: {entry:?}");
        }
    }

    /// Checks that all read entities can be written again, and that this changes nothing.
    fn can_be_written_again(&self, after: &[Vec<u8>]) {
        let fixed = |entity: &Entity| matches!(&entity.entity, Some(E::TableEntry(entry)) if self.is_fixed(entry));
        let entities: Vec<Entity> = self.entities().into_iter().filter(|entity| !fixed(entity)).collect();
        let modify = |entity| Update { r#type: update::Type::Modify as i32, entity: Some(entity) };
        self.again(entities.into_iter().map(modify).collect(), "what was read");
        assert!(self.everything() == after, "what was read and written again is not the same");
    }

    /// Returns whether the entry belongs to the program.
    fn is_fixed(&self, entry: &TableEntry) -> bool {
        let info = ir::p4info::generate(&self.forwarding_now().pipeline);
        let table = info.tables.iter().find(|table| table.preamble.id == entry.table_id);
        table.is_some_and(|table| ["fixed", "partly"].iter().any(|name| table.preamble.name.ends_with(name)))
    }
}

fn entry_of(entity: Entity) -> Option<TableEntry> {
    match entity.entity {
        Some(E::TableEntry(entry)) => Some(entry),
        _ => None,
    }
}

fn canonical(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// Returns table, key and priority.
fn identity(entry: &TableEntry) -> (u32, Vec<Vec<u8>>, i32) {
    use v1::field_match::FieldMatchType::*;
    let field = |field: &v1::FieldMatch| {
        let (kind, one, other) = match field.field_match_type.clone() {
            Some(Exact(exact)) => (1, canonical(&exact.value), Vec::new()),
            Some(Ternary(ternary)) => (2, canonical(&ternary.value), canonical(&ternary.mask)),
            Some(Lpm(lpm)) => (3, canonical(&lpm.value), lpm.prefix_len.to_be_bytes().to_vec()),
            Some(Range(range)) => (4, canonical(&range.low), canonical(&range.high)),
            Some(Optional(optional)) => (5, canonical(&optional.value), Vec::new()),
            Some(Other(_)) | None => (6, Vec::new(), Vec::new()),
        };
        [&field.field_id.to_be_bytes()[..], &[kind], &(one.len() as u32).to_be_bytes(), &one, &other].concat()
    };
    let mut fields: Vec<Vec<u8>> = entry.r#match.iter().map(field).collect();
    fields.sort_unstable();
    (entry.table_id, fields, entry.priority)
}

/// Action id, and parameters by id.
type Call = (u32, Vec<(u32, Vec<u8>)>);

/// Returns the action, if the entry names one.
fn call_of(entry: &TableEntry) -> Option<Call> {
    let table_action::Type::Action(call) = entry.action.clone()?.r#type? else { return None };
    let mut params: Vec<_> =
        call.params.iter().map(|param: &action::Param| (param.param_id, canonical(&param.value))).collect();
    params.sort_unstable();
    Some((call.action_id, params))
}
