//! P4Info as a message, and back.
//!
//! What a message can say and [`ir::p4info`] cannot is refused when it changes the meaning (externs of other architectures,
//! other kinds of match, other meters), and left out when it does not (places in source files, annotations of types).

mod annotation;
mod decode;
mod encode;
mod types;

use crate::proto::config;
use ir::p4info::{Agreement, P4Info};
use prost::Message;

/// A client's P4Info has something in it that P4Info of a pipeline never has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// A field without which its message means nothing.
    #[error("{place}: `{field}` is missing")]
    Missing {
        /// The message, by the object's name.
        place: String,
        /// The field.
        field: &'static str,
    },
    /// A number that the field cannot have.
    #[error("{place}: `{field}` cannot be {value}")]
    Number {
        /// The message, by the object's name.
        place: String,
        /// The field.
        field: &'static str,
        /// What it is.
        value: i64,
    },
    /// A field that no pipeline of ours sets.
    #[error("{place}: `{field}` is not supported")]
    Unsupported {
        /// The message, by the object's name.
        place: String,
        /// The field.
        field: &'static str,
    },
}

/// The message for this P4Info: the same that [`ir::p4info::to_txtpb`] prints. Sizes larger than the message's field can
/// hold become the largest that it can.
pub fn to_message(info: &P4Info) -> config::P4Info {
    encode::p4info(info)
}

/// The message for this P4Info, encoded.
pub fn encode(info: &P4Info) -> Vec<u8> {
    to_message(info).encode_to_vec()
}

/// The P4Info that a message holds. A 1-bit field of a header that was `bool` comes back as `bit<1>`: the message says no more.
///
/// # Errors
/// If a pipeline of ours can't have such P4Info.
pub fn from_message(message: &config::P4Info) -> Result<P4Info, Unreadable> {
    decode::p4info(message)
}

/// How a client's P4Info and the pipeline's agree: the order of tables, actions and the like does not count.
///
/// # Errors
/// If a pipeline of ours can't have the client's P4Info at all.
pub fn agreement(ours: &P4Info, theirs: &config::P4Info) -> Result<Agreement, Unreadable> {
    Ok(ir::p4info::agreement(ours, &from_message(theirs)?))
}

/// A reference to a type, if there is one.
fn named(name: Option<&String>) -> Option<config::P4NamedType> {
    name.map(|name| config::P4NamedType { name: name.clone() })
}

/// The name in a reference to a type.
fn name_of(named: &Option<config::P4NamedType>) -> Option<String> {
    named.as_ref().map(|named| named.name.clone())
}

/// A width or size for a signed field.
fn number(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

/// A width or size of a signed field: not negative.
fn count(place: &str, field: &'static str, value: i32) -> Result<u32, Unreadable> {
    u32::try_from(value).map_err(|_| Unreadable::Number { place: place.to_owned(), field, value: value.into() })
}
