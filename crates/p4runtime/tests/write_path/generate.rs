//! Generator of requests for a program, mostly valid, and of errors in them.

use bytes::Bytes;
use fastrand::Rng;
use p4runtime::proto::config::{MatchField, P4Info, Preamble, Table, match_field};
use p4runtime::proto::v1::entity::Entity as E;
use p4runtime::proto::v1::field_match::{self, FieldMatchType};
use p4runtime::proto::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime::proto::v1::{self, Entity, ReadRequest, TableEntry, Update, WriteRequest, table_action};
use prost::Message;

/// Generator of requests for a program.
pub struct Generator {
    info: P4Info,
    pub rng: Rng,
}

fn id(preamble: &Option<Preamble>) -> u32 {
    preamble.as_ref().map_or(0, |preamble| preamble.id)
}

/// Removes leading zeros.
fn shortest(bytes: &[u8]) -> Bytes {
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len().saturating_sub(1));
    Bytes::copy_from_slice(&bytes[first..])
}

impl Generator {
    /// Creates a generator from a seed.
    pub fn new(info: P4Info, seed: u64) -> Generator {
        Generator { info, rng: Rng::with_seed(seed) }
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { Some(&all[self.rng.usize(..all.len())]) }
    }

    /// Returns one of few values, so that entries collide; a name if there is no width.
    fn number(&mut self, bits: i32) -> Vec<u8> {
        if bits <= 0 {
            return format!("name{}", self.rng.u8(..4)).into_bytes();
        }
        let mut bytes = vec![0; (bits as usize).div_ceil(8)];
        match self.rng.u8(..4) {
            0 => self.rng.fill(&mut bytes),
            _ => bytes.last_mut().into_iter().for_each(|last| *last = self.rng.u8(..6)),
        }
        let spare = bytes.len() * 8 - bits as usize;
        bytes[0] &= 0xff >> spare;
        bytes
    }

    fn value(&mut self, bits: i32) -> Bytes {
        shortest(&self.number(bits))
    }

    fn field(&mut self, field: &MatchField) -> Option<v1::FieldMatch> {
        use match_field::{Match, MatchType};
        let bits = field.bitwidth;
        let kind = match &field.r#match {
            Some(Match::MatchType(kind)) => MatchType::try_from(*kind).ok()?,
            _ => MatchType::Exact,
        };
        let left_out = kind != MatchType::Exact && self.rng.bool();
        let field_match_type = match kind {
            MatchType::Exact => FieldMatchType::Exact(field_match::Exact { value: self.value(bits) }),
            _ if left_out => return None,
            MatchType::Optional => FieldMatchType::Optional(field_match::Optional { value: self.value(bits) }),
            MatchType::Lpm => {
                let prefix_len = self.rng.i32(1..=bits.max(1));
                let mask = mask(bits, prefix_len);
                let value: Vec<u8> = self.number(bits).iter().zip(&mask).map(|(value, mask)| value & mask).collect();
                FieldMatchType::Lpm(field_match::Lpm { value: shortest(&value), prefix_len })
            }
            MatchType::Ternary => {
                let mut mask = self.number(bits);
                mask.last_mut().into_iter().for_each(|last| *last |= 1);
                let value: Vec<u8> = self.number(bits).iter().zip(&mask).map(|(value, mask)| value & mask).collect();
                FieldMatchType::Ternary(field_match::Ternary { value: shortest(&value), mask: shortest(&mask) })
            }
            MatchType::Range => {
                let (mut low, mut high) = (self.number(bits), self.number(bits));
                if low > high {
                    std::mem::swap(&mut low, &mut high);
                }
                FieldMatchType::Range(field_match::Range { low: shortest(&low), high: shortest(&high) })
            }
            MatchType::Unspecified => return None,
        };
        Some(v1::FieldMatch { field_id: field.id, field_match_type: Some(field_match_type) })
    }

    fn call(&mut self, table: &Table) -> Option<v1::Action> {
        let wanted = self.pick(&table.action_refs)?.id;
        let action = self.info.actions.iter().find(|action| id(&action.preamble) == wanted)?.clone();
        let param = |param: &p4runtime::proto::config::action::Param| v1::action::Param {
            param_id: param.id,
            value: self.value(param.bitwidth),
        };
        Some(v1::Action { action_id: wanted, params: action.params.iter().map(param).collect() })
    }

    fn table_action(&mut self, table: &Table) -> Option<v1::TableAction> {
        use table_action::Type;
        let one = match (table.implementation_id, self.rng.u8(..4)) {
            (0, _) => Type::Action(self.call(table)?),
            (_, 0) => Type::ActionProfileMemberId(self.rng.u32(1..5)),
            (_, 1) => Type::ActionProfileGroupId(self.rng.u32(1..4)),
            _ => {
                let actions = (0..self.rng.usize(1..4)).filter_map(|_| {
                    let action = self.call(table);
                    let weight = self.rng.i32(1..3);
                    Some(v1::ActionProfileAction { action: Some(action?), weight, ..Default::default() })
                });
                let action_profile_actions = actions.collect();
                Type::ActionProfileActionSet(v1::ActionProfileActionSet {
                    action_profile_actions,
                    ..Default::default()
                })
            }
        };
        Some(v1::TableAction { r#type: Some(one) })
    }

    fn entry(&mut self) -> Option<TableEntry> {
        let tables = self.info.tables.clone();
        let table = self.pick(&tables)?;
        let is_default_action = self.rng.u8(..12) == 0;
        let fields: Vec<_> = table.match_fields.iter().filter_map(|field| self.field(field)).collect();
        let ranked = table.match_fields.iter().any(|field| {
            use match_field::{Match, MatchType};
            let ranked = [MatchType::Ternary as i32, MatchType::Range as i32, MatchType::Optional as i32];
            matches!(field.r#match, Some(Match::MatchType(kind)) if ranked.contains(&kind))
        });
        Some(TableEntry {
            table_id: id(&table.preamble),
            r#match: if is_default_action { Vec::new() } else { fields },
            action: self.table_action(table),
            priority: if ranked && !is_default_action { self.rng.i32(1..4) } else { 0 },
            is_default_action,
            idle_timeout_ns: if self.rng.u8(..6) == 0 { 1_000_000_000 } else { 0 },
            metadata: if self.rng.u8(..6) == 0 { Bytes::from_static(b"m") } else { Bytes::new() },
            ..TableEntry::default()
        })
    }

    fn meter_config(&mut self) -> v1::MeterConfig {
        let mut rate = || self.rng.i64(1..1_000);
        v1::MeterConfig { cir: rate(), cburst: rate(), pir: 1_000 + rate(), pburst: rate(), ..Default::default() }
    }

    fn profile(&mut self) -> Option<E> {
        let profiles = self.info.action_profiles.clone();
        let profile = self.pick(&profiles)?;
        let action_profile_id = id(&profile.preamble);
        if profile.with_selector && self.rng.bool() {
            let member = |member_id| v1::action_profile_group::Member { member_id, weight: 1, ..Default::default() };
            let members = (1..self.rng.u32(1..4)).map(member).collect();
            let group_id = self.rng.u32(1..4);
            let group = v1::ActionProfileGroup { action_profile_id, group_id, members, ..Default::default() };
            return Some(E::ActionProfileGroup(group));
        }
        let tables = self.info.tables.clone();
        let table = tables.iter().find(|table| table.implementation_id == action_profile_id)?;
        let (member_id, action) = (self.rng.u32(1..5), self.call(table));
        Some(E::ActionProfileMember(v1::ActionProfileMember { action_profile_id, member_id, action }))
    }

    fn replication(&mut self) -> E {
        let replica = |rng: &mut Rng| {
            let port_kind = Some(v1::replica::PortKind::Port(shortest(&[0, rng.u8(1..9)])));
            v1::Replica { instance: rng.u32(..3), port_kind, ..Default::default() }
        };
        let replicas: Vec<_> = (0..self.rng.usize(..4)).map(|_| replica(&mut self.rng)).collect();
        let number = self.rng.u32(1..4);
        let entry = match self.rng.bool() {
            true => Replication::MulticastGroupEntry(v1::MulticastGroupEntry {
                multicast_group_id: number,
                replicas,
                ..Default::default()
            }),
            false => Replication::CloneSessionEntry(v1::CloneSessionEntry {
                session_id: number,
                replicas,
                class_of_service: self.rng.u32(..2),
                packet_length_bytes: self.rng.i32(0..100),
            }),
        };
        E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(entry) })
    }

    fn array(&mut self) -> Option<E> {
        let index = Some(v1::Index { index: self.rng.i64(0..4) });
        Some(match self.rng.u8(..3) {
            0 => {
                let meters = self.info.meters.clone();
                let meter_id = id(&self.pick(&meters)?.preamble);
                let config = Some(self.meter_config());
                E::MeterEntry(v1::MeterEntry { meter_id, index, config, ..Default::default() })
            }
            1 => {
                let counters = self.info.counters.clone();
                let counter_id = id(&self.pick(&counters)?.preamble);
                let data = Some(v1::CounterData { packet_count: 7, byte_count: 0 });
                E::CounterEntry(v1::CounterEntry { counter_id, index, data })
            }
            _ => {
                let sets = self.info.value_sets.clone();
                let set = self.pick(&sets)?;
                let member = |field: &MatchField| {
                    let value = self.value(field.bitwidth);
                    let exact = FieldMatchType::Exact(field_match::Exact { value });
                    v1::FieldMatch { field_id: field.id, field_match_type: Some(exact) }
                };
                let members = vec![v1::ValueSetMember { r#match: set.r#match.iter().map(member).collect() }];
                E::ValueSetEntry(v1::ValueSetEntry { value_set_id: id(&set.preamble), members })
            }
        })
    }

    fn digest(&mut self) -> Option<E> {
        let digests = self.info.digests.clone();
        let digest_id = id(&self.pick(&digests)?.preamble);
        let config = v1::digest_entry::Config { max_timeout_ns: 1_000, max_list_size: 3, ack_timeout_ns: 5_000 };
        Some(E::DigestEntry(v1::DigestEntry { digest_id, config: Some(config) }))
    }

    fn entity(&mut self) -> Entity {
        let entity = match self.rng.u8(..16) {
            0..8 => self.entry().map(E::TableEntry),
            8..11 => self.profile(),
            11..13 => Some(self.replication()),
            13..15 => self.array(),
            _ => self.digest(),
        };
        Entity { entity }
    }

    fn update(&mut self) -> Update {
        let entity = self.entity();
        let modify = matches!(entity.entity, Some(E::MeterEntry(_) | E::CounterEntry(_) | E::ValueSetEntry(_)))
            || matches!(&entity.entity, Some(E::TableEntry(entry)) if entry.is_default_action);
        let kind = if modify { 2 } else { [1, 1, 1, 2, 3][self.rng.usize(..5)] };
        Update { r#type: kind, entity: Some(entity) }
    }

    /// Returns a write, most likely accepted in part.
    pub fn write(&mut self) -> WriteRequest {
        let updates = (0..self.rng.usize(1..12)).map(|_| self.update()).collect();
        WriteRequest { device_id: 1, updates, atomicity: self.rng.i32(0..3), ..WriteRequest::default() }
    }

    /// Returns a read.
    pub fn read(&mut self) -> ReadRequest {
        let entities = (0..self.rng.usize(1..4)).map(|_| self.entity()).collect();
        ReadRequest { device_id: 1, entities, ..ReadRequest::default() }
    }

    /// Returns a message for a stream.
    pub fn message(&mut self) -> v1::StreamMessageRequest {
        use v1::stream_message_request::Update as Out;
        let metadata = |rng: &mut Rng| {
            (1..3).map(|id| v1::PacketMetadata { metadata_id: id, value: shortest(&[0, rng.u8(..)]) }).collect()
        };
        let update = match self.rng.u8(..3) {
            0 => Out::Packet(v1::PacketOut { payload: vec![0; 60].into(), metadata: metadata(&mut self.rng) }),
            1 => Out::DigestAck(v1::DigestListAck { digest_id: self.rng.u32(..), list_id: self.rng.u64(..3) }),
            _ => Out::Arbitration(v1::MasterArbitrationUpdate {
                device_id: 1,
                election_id: Some(v1::Uint128 { high: 0, low: self.rng.u64(..4) }),
                ..Default::default()
            }),
        };
        v1::StreamMessageRequest { update: Some(update) }
    }

    /// Makes a field of the request invalid. The request can still be decoded.
    pub fn spoil(&mut self, request: &mut WriteRequest) {
        let at = self.rng.usize(..request.updates.len().max(1));
        let Some(update) = request.updates.get_mut(at) else { return };
        match self.rng.u8(..8) {
            0 => update.r#type = self.rng.i32(-1..6),
            1 => update.entity = None,
            2 => {
                let again = update.clone();
                request.updates.push(again);
            }
            3 => request.atomicity = self.rng.i32(-1..5),
            _ => {
                let mut bytes = update.encode_to_vec();
                for _ in 0..self.rng.usize(1..4) {
                    let place = self.rng.usize(..bytes.len());
                    match self.rng.u8(..3) {
                        0 => bytes[place] ^= 1 << self.rng.u8(..8),
                        1 => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][self.rng.usize(..5)],
                        _ => bytes[place] = bytes[place].wrapping_add(1),
                    }
                }
                if let Ok(spoiled) = Update::decode(bytes.as_slice()) {
                    *update = spoiled;
                }
            }
        }
    }
}

/// Returns a mask of `prefix` bits, from the highest of `bits` on.
fn mask(bits: i32, prefix: i32) -> Vec<u8> {
    let bytes = (bits as usize).div_ceil(8);
    let spare = bytes * 8 - bits as usize;
    let set = |bit: usize| bit >= spare && bit < spare + prefix as usize;
    (0..bytes).map(|byte| (0..8).fold(0, |mask, bit| mask << 1 | u8::from(set(byte * 8 + bit)))).collect()
}
