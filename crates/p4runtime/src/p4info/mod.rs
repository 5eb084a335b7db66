//! P4Info as a message, and how a client's message agrees with it.
//!
//! What a message can say and [`ir::p4info`] cannot is refused when it changes the meaning (externs of other architectures,
//! other kinds of match, other meters), and left out when it does not (places in source files, annotations of types).

mod fields;

use crate::proto::config;
use ir::p4info::{Agreement, P4Info, compare_fields, weigh};
use prost::Message;
use prost_reflect::DynamicMessage;

/// A client's P4Info has something in it that P4Info of a pipeline never has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// A field without which its message means nothing.
    #[error("{place}: `{field}` is missing")]
    Missing {
        /// The message, by the object's name.
        place: String,
        /// The field.
        field: String,
    },
    /// A number that the field cannot have.
    #[error("{place}: `{field}` cannot be {value}")]
    Number {
        /// The message, by the object's name.
        place: String,
        /// The field.
        field: String,
        /// What it is.
        value: i64,
    },
    /// A field that no pipeline of ours sets.
    #[error("{place}: `{field}` is not supported")]
    Unsupported {
        /// The message, by the object's name.
        place: String,
        /// The field.
        field: String,
    },
    /// A message that cannot be decoded.
    #[error("P4Info: {0}")]
    Undecodable(String),
}

/// The message for this P4Info: the same that [`ir::p4info::to_txtpb`] prints. Sizes larger than the message's field can
/// hold become the largest that it can.
pub fn to_message(info: &P4Info) -> config::P4Info {
    let message = fields::to_message(&fields::P4INFO, &ir::p4info::to_fields(info));
    message.transcode_to().expect("the message was made by its own descriptor")
}

/// The message for this P4Info, encoded.
pub fn encode(info: &P4Info) -> Vec<u8> {
    to_message(info).encode_to_vec()
}

/// How a client's P4Info and the pipeline's agree: the order of tables, actions and the like does not count.
///
/// # Errors
/// If a pipeline of ours can't have the client's P4Info at all.
pub fn agreement(ours: &P4Info, theirs: &config::P4Info) -> Result<Agreement, Unreadable> {
    let mut message = DynamicMessage::new(fields::P4INFO.clone());
    message.transcode_from(theirs).map_err(|error| Unreadable::Undecodable(error.to_string()))?;
    let theirs = fields::to_fields("P4Info", &message)?;
    Ok(weigh(ours, compare_fields(ours, &theirs)))
}
