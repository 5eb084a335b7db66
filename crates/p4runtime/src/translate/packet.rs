//! `PacketIn` and `PacketOut`: the controller's header in front of a packet, to metadata and back (section "Packet I/O").

use super::scalar::{Scalar, words};
use super::schema::Schema;
use crate::proto::v1;
use crate::{Code, Refusal};
use bytes::{Bytes, BytesMut};
use ir::Pipeline;
use ir::p4info::P4Info;
use num_bigint::BigUint;
use tables::big_from_words;

/// A field of the header.
struct PacketField {
    /// `None`: the controller does not see it, it is 0.
    id: Option<u32>,
    name: String,
    scalar: Scalar,
}

/// A header with `@controller_header`: its fields follow each other bit by bit, the most significant bit first; zeros fill up the last byte.
pub(super) struct PacketHeader {
    name: &'static str,
    fields: Vec<PacketField>,
    /// Whole bytes.
    len: usize,
}

impl PacketHeader {
    pub fn find(pipeline: &Pipeline, info: &P4Info, name: &'static str) -> Option<PacketHeader> {
        let header = pipeline.controller_headers.iter().find(|h| h.preamble.name == name && !h.preamble.hidden)?;
        let shown = info.controller_packet_metadata.iter().find(|h| h.preamble.alias == name)?;
        let mut shown = shown.metadata.iter().peekable();
        let field = |field: &ir::Param| PacketField {
            id: shown.next_if(|shown| shown.name == field.name).map(|shown| shown.id),
            name: field.name.clone(),
            scalar: Scalar::new(pipeline, field.ty, field.type_name.as_deref()),
        };
        let fields: Vec<PacketField> = header.fields.iter().map(field).collect();
        let bits: usize = fields.iter().map(|field| field.scalar.width() as usize).sum();
        Some(PacketHeader { name, fields, len: bits.div_ceil(8) })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Name and type of a field that the controller sees.
    pub fn field(&self, id: u32) -> Option<(&str, &Scalar)> {
        self.fields.iter().find(|field| field.id == Some(id)).map(|field| (&*field.name, &field.scalar))
    }

    fn encode(&self, given: &[v1::PacketMetadata]) -> Result<Vec<u8>, Refusal> {
        let mut values: Vec<Option<BigUint>> = vec![None; self.fields.len()];
        for one in given {
            let is_it = |field: &PacketField| field.id == Some(one.metadata_id);
            let Some(at) = self.fields.iter().position(is_it) else {
                let known = self.fields.iter().filter_map(|field| Some(format!("{} {}", field.id?, field.name)));
                return Err(Refusal::invalid(format!(
                    "{}: it has no metadata with id {}; it has {}",
                    self.name,
                    one.metadata_id,
                    known.collect::<Vec<_>>().join(", ")
                )));
            };
            let field = &self.fields[at];
            let place = || format!("{}, metadata {}", self.name, field.name);
            if values[at].replace(field.scalar.decode(&one.value, &place)?).is_some() {
                return Err(Refusal::invalid(format!("{}: it is given twice; give it once", place())));
            }
        }
        let mut bits = BitWriter { bytes: vec![0; self.len], at: 0 };
        for (field, value) in self.fields.iter().zip(values) {
            if let (None, Some(id)) = (&value, field.id) {
                return Err(Refusal::invalid(format!(
                    "{}, metadata {}: it is missing; give metadata_id {id}",
                    self.name, field.name
                )));
            }
            bits.push(&value.unwrap_or_default(), field.scalar.width());
        }
        Ok(bits.bytes)
    }

    fn decode(&self, bytes: &[u8]) -> Vec<v1::PacketMetadata> {
        let mut at = 0;
        let mut metadata = Vec::new();
        for field in &self.fields {
            let width = field.scalar.width() as usize;
            if let Some(metadata_id) = field.id {
                let value = words(&bits_at(bytes, at, width), field.scalar.width());
                metadata.push(v1::PacketMetadata { metadata_id, value: field.scalar.encode(&value) });
            }
            at += width;
        }
        metadata
    }
}

struct BitWriter {
    bytes: Vec<u8>,
    /// In bits.
    at: usize,
}

impl BitWriter {
    fn push(&mut self, value: &BigUint, width: u32) {
        for bit in (0..u64::from(width)).rev() {
            if let Some(byte) = self.bytes.get_mut(self.at / 8) {
                *byte |= u8::from(value.bit(bit)) << (7 - self.at % 8);
            }
            self.at += 1;
        }
    }
}

fn bits_at(bytes: &[u8], from: usize, width: usize) -> BigUint {
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let mut words = vec![0u64; width.div_ceil(64).max(1)];
    for place in (0..width).filter(|place| bit(from + width - 1 - place)) {
        words[place / 64] |= 1 << (place % 64);
    }
    big_from_words(&words)
}

impl Schema {
    /// A packet for the controller: its header becomes metadata. Without a `packet_in` header in the program all of it is payload.
    ///
    /// # Errors
    /// `INTERNAL` if the packet is shorter than the header.
    pub fn packet_in(&self, packet: &Bytes) -> Result<v1::PacketIn, Refusal> {
        let Some(header) = &self.packet_in else {
            return Ok(v1::PacketIn { payload: packet.clone(), metadata: Vec::new() });
        };
        if packet.len() < header.len {
            return Err(Refusal::new(
                Code::Internal,
                format!("packet_in: a packet of {} bytes is shorter than the header's {}", packet.len(), header.len),
            ));
        }
        Ok(v1::PacketIn { payload: packet.slice(header.len..), metadata: header.decode(&packet[..header.len]) })
    }

    /// A packet from the controller, with the header that its metadata are in front.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if metadata are missing, unknown or there twice; `OUT_OF_RANGE` if a value is too wide.
    pub fn packet_out(&self, packet: &v1::PacketOut) -> Result<Bytes, Refusal> {
        let Some(header) = &self.packet_out else {
            return match packet.metadata.is_empty() {
                true => Ok(packet.payload.clone()),
                false => Err(Refusal::invalid("packet_out: the program has no such header; leave the metadata out")),
            };
        };
        let front = header.encode(&packet.metadata)?;
        let mut out = BytesMut::with_capacity(front.len() + packet.payload.len());
        out.extend_from_slice(&front);
        out.extend_from_slice(&packet.payload);
        Ok(out.freeze())
    }
}
