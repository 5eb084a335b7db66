//! A number of the program, as it travels: its type, and how the control plane sees that.

use crate::{Refusal, values};
use bytes::Bytes;
use entries::{big_from_words, push_words, words_for};
use ir::{NamedType, Pipeline, Type};
use num_bigint::BigUint;
use num_traits::One;

/// How the control plane sees a type (`@p4runtime_translation`). Numbers are the same on both sides; strings are numbers here already
/// (`strings`).
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seen {
    /// As the program does.
    Same,
    /// In another width, in bits.
    Width(u32),
}

/// The type of a key, parameter or metadata field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Scalar {
    pub ty: Type,
    type_name: Option<Box<str>>,
    seen: Seen,
    /// How many values an enumeration or `error` has.
    count: Option<u64>,
}

/// All ones.
pub(super) fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// A number's words.
pub(super) fn words(value: &BigUint, width: u32) -> Vec<u64> {
    let mut out = Vec::new();
    push_words(value, words_for(width), &mut out);
    out
}

impl Scalar {
    pub fn new(pipeline: &Pipeline, ty: Type, name: Option<&str>) -> Scalar {
        let named = name.and_then(|name| pipeline.named_types.iter().find(|(n, _)| n == name)).map(|(_, ty)| ty);
        let seen = match named {
            Some(NamedType::NewType(_, Some((_, Some(width))))) if *width != ty.width() => Seen::Width(*width),
            _ => Seen::Same,
        };
        let count = match ty {
            Type::Error => Some(pipeline.errors.len() as u64),
            Type::Enum(id) => pipeline.enums.get(id).map(|e| e.members.len() as u64),
            _ => None,
        };
        Scalar { ty, type_name: name.map(Box::from), seen, count }
    }

    pub fn width(&self) -> u32 {
        self.ty.width()
    }

    /// The name that the type has in the program.
    pub fn type_name(&self) -> Option<&str> {
        self.type_name.as_deref()
    }

    /// Width in bits on the control plane's side.
    pub fn seen_width(&self) -> u32 {
        match self.seen {
            Seen::Width(width) => width,
            Seen::Same => self.width(),
        }
    }

    /// A number.
    pub fn decode(&self, bytes: &[u8], place: &dyn Fn() -> String) -> Result<BigUint, Refusal> {
        let words = match self.ty.is_signed() {
            true => values::decode_signed(bytes, self.width()),
            false => values::decode(bytes, self.width()),
        };
        let value = big_from_words(&words.map_err(|error| misfit(error, place))?);
        match self.count {
            Some(count) if value >= BigUint::from(count) => Err(Refusal::new(
                crate::Code::OutOfRange,
                format!("{}: there is no value number {value}; the last one is {}", place(), count.saturating_sub(1)),
            )),
            _ => Ok(value),
        }
    }

    /// A mask, or what it is applied to: bits without a sign.
    pub fn decode_bits(&self, bytes: &[u8], place: &dyn Fn() -> String) -> Result<BigUint, Refusal> {
        let words = values::decode(bytes, self.width()).map_err(|error| misfit(error, place))?;
        Ok(big_from_words(&words))
    }

    /// A mask. Of translated types only the one with all bits has a meaning.
    pub fn decode_mask(&self, bytes: &[u8], place: &dyn Fn() -> String) -> Result<BigUint, Refusal> {
        let Seen::Width(width) = self.seen else { return self.decode_bits(bytes, place) };
        let mask = big_from_words(&values::decode(bytes, width).map_err(|error| misfit(error, place))?);
        match mask == ones(width) {
            true => Ok(ones(self.width())),
            false => Err(Refusal::unimplemented(format!(
                "{}: its values are translated from {width} to {} bits, so the mask must have all {width}, or the match be left out",
                place(),
                self.width()
            ))),
        }
    }

    /// A prefix length, from the control plane's side.
    pub fn decode_prefix(&self, len: i32, place: &dyn Fn() -> String) -> Result<u32, Refusal> {
        let width = self.seen_width();
        let len = u32::try_from(len).ok().filter(|len| *len > 0 && *len <= width).ok_or_else(|| {
            let mend = if len == 0 { "; leave the match out to match everything" } else { "" };
            Refusal::invalid(format!("{}: prefix length {len} is not from 1 to {width}{mend}", place()))
        })?;
        match self.seen {
            Seen::Width(_) if len == width => Ok(self.width()),
            Seen::Width(_) => Err(Refusal::unimplemented(format!(
                "{}: its values are translated, so the prefix must have all {width} bits, or the match be left out",
                place()
            ))),
            _ => Ok(len),
        }
    }

    /// The shortest string for a number in words.
    pub fn encode(&self, words: &[u64]) -> Bytes {
        match self.ty.is_signed() {
            true => values::encode_signed(words, self.width()),
            false => values::encode(words),
        }
    }

    /// A mask in the control plane's width.
    pub fn encode_mask(&self, words: &[u64]) -> Bytes {
        match self.seen {
            Seen::Width(width) if big_from_words(words) == ones(self.width()) => {
                values::encode(&self::words(&ones(width), width))
            }
            _ => values::encode(words),
        }
    }

    /// A prefix length in the control plane's width.
    pub fn encode_prefix(&self, len: u32) -> i32 {
        let len = if len == self.width() { self.seen_width() } else { len };
        i32::try_from(len).unwrap_or(i32::MAX)
    }
}

fn misfit(error: values::ValueError, place: &dyn Fn() -> String) -> Refusal {
    Refusal::new(crate::Code::OutOfRange, format!("{}: {error}", place()))
}
