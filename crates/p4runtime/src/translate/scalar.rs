//! Encoding of a number of the program: its type, and the control plane's view of the type.

use crate::{P4RuntimeError, values};
use bytes::Bytes;
use entries::{big_from_words, push_words, words_for};
use ir::{NamedType, Pipeline, Type};
use num_bigint::BigUint;
use num_traits::One;

/// The control plane's view of a type (`@p4runtime_translation`). Numbers are equal on both sides;
/// strings have been converted to numbers before (`strings`).
#[derive(Clone, PartialEq, Eq, Debug)]
enum SdnType {
    /// The type of the program.
    Same,
    /// Another width, in bits.
    Width(u32),
}

/// Type of a key, parameter or metadata field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scalar {
    pub ty: Type,
    type_name: Option<Box<str>>,
    sdn_type: SdnType,
    /// Number of values of an enumeration or `error`.
    count: Option<u64>,
}

/// Returns `width` ones.
pub(super) fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Returns the words of a number.
pub(super) fn words(value: &BigUint, width: u32) -> Vec<u64> {
    let mut out = Vec::new();
    push_words(value, words_for(width), &mut out);
    out
}

impl Scalar {
    pub fn new(pipeline: &Pipeline, ty: Type, name: Option<&str>) -> Scalar {
        let named = name.and_then(|name| pipeline.named_types.iter().find(|(n, _)| n == name)).map(|(_, ty)| ty);
        let sdn_type = match named {
            Some(NamedType::NewType(_, Some((_, Some(width))))) if *width != ty.width() => SdnType::Width(*width),
            _ => SdnType::Same,
        };
        let count = match ty {
            Type::Error => Some(pipeline.errors.len() as u64),
            Type::Enum(id) => pipeline.enums.get(id).map(|e| e.members.len() as u64),
            _ => None,
        };
        Scalar { ty, type_name: name.map(Box::from), sdn_type, count }
    }

    pub fn width(&self) -> u32 {
        self.ty.width()
    }

    /// Returns the name of the type in the program.
    pub fn type_name(&self) -> Option<&str> {
        self.type_name.as_deref()
    }

    /// Returns the width in bits on the control plane's side.
    pub fn sdn_width(&self) -> u32 {
        match self.sdn_type {
            SdnType::Width(width) => width,
            SdnType::Same => self.width(),
        }
    }

    /// Decodes a number.
    pub fn decode(&self, bytes: &[u8], place: &dyn Fn() -> String) -> Result<BigUint, P4RuntimeError> {
        let words = match self.ty.is_signed() {
            true => values::decode_signed(bytes, self.width()),
            false => values::decode(bytes, self.width()),
        };
        let value = big_from_words(&words.map_err(|error| range_error(error, place))?);
        match self.count {
            Some(count) if value >= BigUint::from(count) => Err(P4RuntimeError::new(
                crate::Code::OutOfRange,
                format!("{}: there is no value number {value}; the last one is {}", place(), count.saturating_sub(1)),
            )),
            _ => Ok(value),
        }
    }

    /// Decodes a mask, or the value of a masked match: bits without a sign.
    pub fn decode_bits(&self, bytes: &[u8], place: &dyn Fn() -> String) -> Result<BigUint, P4RuntimeError> {
        let words = values::decode(bytes, self.width()).map_err(|error| range_error(error, place))?;
        Ok(big_from_words(&words))
    }

    /// Decodes a mask. For translated types, only a mask of all bits has a meaning.
    pub fn decode_mask(&self, bytes: &[u8], place: &dyn Fn() -> String) -> Result<BigUint, P4RuntimeError> {
        let SdnType::Width(width) = self.sdn_type else { return self.decode_bits(bytes, place) };
        let mask = big_from_words(&values::decode(bytes, width).map_err(|error| range_error(error, place))?);
        match mask == ones(width) {
            true => Ok(ones(self.width())),
            false => Err(P4RuntimeError::unimplemented(format!(
                "{}: its values are translated from {width} to {} bits, so the mask must have all {width}, or the match be left out",
                place(),
                self.width()
            ))),
        }
    }

    /// Decodes a prefix length of the control plane's type.
    pub fn decode_prefix(&self, len: i32, place: &dyn Fn() -> String) -> Result<u32, P4RuntimeError> {
        let width = self.sdn_width();
        let len = u32::try_from(len).ok().filter(|len| *len > 0 && *len <= width).ok_or_else(|| {
            let help = if len == 0 { "; leave the match out to match everything" } else { "" };
            P4RuntimeError::invalid(format!("{}: prefix length {len} is not from 1 to {width}{help}", place()))
        })?;
        match self.sdn_type {
            SdnType::Width(_) if len == width => Ok(self.width()),
            SdnType::Width(_) => Err(P4RuntimeError::unimplemented(format!(
                "{}: its values are translated, so the prefix must have all {width} bits, or the match be left out",
                place()
            ))),
            _ => Ok(len),
        }
    }

    /// Encodes a number as the shortest string.
    pub fn encode(&self, words: &[u64]) -> Bytes {
        match self.ty.is_signed() {
            true => values::encode_signed(words, self.width()),
            false => values::encode(words),
        }
    }

    /// Encodes a mask in the control plane's width.
    pub fn encode_mask(&self, words: &[u64]) -> Bytes {
        match self.sdn_type {
            SdnType::Width(width) if big_from_words(words) == ones(self.width()) => {
                values::encode(&self::words(&ones(width), width))
            }
            _ => values::encode(words),
        }
    }

    /// Encodes a prefix length in the control plane's width.
    pub fn encode_prefix(&self, len: u32) -> i32 {
        let len = if len == self.width() { self.sdn_width() } else { len };
        i32::try_from(len).unwrap_or(i32::MAX)
    }
}

fn range_error(error: values::ValueError, place: &dyn Fn() -> String) -> P4RuntimeError {
    P4RuntimeError::new(crate::Code::OutOfRange, format!("{}: {error}", place()))
}
