//! Controller header of a packet: its fields as bytes and as metadata.

use super::scalar::{Scalar, words};
use crate::P4RuntimeError;
use crate::proto::v1;
use entries::big_from_words;
use ir::Pipeline;
use ir::p4info::P4Info;
use num_bigint::BigUint;

/// Field of a controller header.
struct PacketField {
    /// Metadata id; `None` if the field is hidden from the controller and 0.
    id: Option<u32>,
    name: String,
    scalar: Scalar,
}

/// Header with `@controller_header`. Its fields are consecutive bits, most significant bit first;
/// the last byte is padded with zeros.
pub(super) struct PacketHeader {
    name: &'static str,
    fields: Vec<PacketField>,
    /// Length in bytes.
    pub len: usize,
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

    /// Returns name and type of a field that the controller sees.
    pub fn field(&self, id: u32) -> Option<(&str, &Scalar)> {
        self.fields.iter().find(|field| field.id == Some(id)).map(|field| (&*field.name, &field.scalar))
    }

    /// Encodes the metadata of a packet as the bytes of its controller header. Each field must be
    /// given once.
    pub fn encode(&self, metadata_list: &[v1::PacketMetadata]) -> Result<Vec<u8>, P4RuntimeError> {
        let mut values: Vec<Option<BigUint>> = vec![None; self.fields.len()];
        for metadata in metadata_list {
            let has_id = |field: &PacketField| field.id == Some(metadata.metadata_id);
            let Some(index) = self.fields.iter().position(has_id) else {
                let known = self.fields.iter().filter_map(|field| Some(format!("{} {}", field.id?, field.name)));
                return Err(P4RuntimeError::invalid(format!(
                    "{}: it has no metadata with id {}; it has {}",
                    self.name,
                    metadata.metadata_id,
                    known.collect::<Vec<_>>().join(", ")
                )));
            };
            let field = &self.fields[index];
            let error_place = || format!("{}, metadata {}", self.name, field.name);
            if values[index].replace(field.scalar.decode(&metadata.value, &error_place)?).is_some() {
                return Err(P4RuntimeError::invalid(format!("{}: it is given twice; give it once", error_place())));
            }
        }
        let mut bits = BitWriter { bytes: vec![0; self.len], at: 0 };
        for (field, value) in self.fields.iter().zip(values) {
            if let (None, Some(id)) = (&value, field.id) {
                return Err(P4RuntimeError::invalid(format!(
                    "{}, metadata {}: it is missing; give metadata_id {id}",
                    self.name, field.name
                )));
            }
            bits.push(&value.unwrap_or_default(), field.scalar.width());
        }
        Ok(bits.bytes)
    }

    pub fn decode(&self, bytes: &[u8]) -> Vec<v1::PacketMetadata> {
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
    /// Position in bits.
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
