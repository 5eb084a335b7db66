//! P4Info as a message, and its comparison with a client's message.
//!
//! Contents that [`ir::p4info`] cannot express are rejected if they change the meaning (externs of
//! other architectures, other match kinds, other meters), and ignored if they do not (source
//! locations, annotations of types).

mod fields;

use crate::proto::config;
use ir::p4info::{P4Info, P4InfoAgreement, compare_fields, weigh_differences};
use prost::Message;
use prost_reflect::DynamicMessage;

/// Reason why a client's P4Info cannot be that of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// A mandatory field is missing.
    #[error("{place}: `{field}` is missing")]
    Missing {
        /// Name of the object.
        place: String,
        /// The field.
        field: String,
    },
    /// A number is invalid for its field.
    #[error("{place}: `{field}` cannot be {value}")]
    Number {
        /// Name of the object.
        place: String,
        /// The field.
        field: String,
        /// The number.
        value: i64,
    },
    /// A field that no pipeline sets is present.
    #[error("{place}: `{field}` is not supported")]
    Unsupported {
        /// Name of the object.
        place: String,
        /// The field.
        field: String,
    },
    /// The message cannot be decoded.
    #[error("P4Info: {0}")]
    Undecodable(String),
}

/// Converts P4Info to a message, equal to the output of [`ir::p4info::to_txtpb`]. Sizes larger than
/// the message's field can hold become the largest possible one.
pub fn to_message(info: &P4Info) -> config::P4Info {
    let message = fields::to_message(&fields::P4INFO, &ir::p4info::to_fields(info));
    message.transcode_to().expect("the message was made by its own descriptor")
}

/// Encodes the message of this P4Info.
pub fn encode(info: &P4Info) -> Vec<u8> {
    to_message(info).encode_to_vec()
}

/// Compares a client's P4Info with that of the pipeline. The order of tables, actions and other
/// objects is ignored.
///
/// # Errors
/// The client's P4Info cannot be that of any pipeline.
pub fn agreement(ours: &P4Info, theirs: &config::P4Info) -> Result<P4InfoAgreement, Unreadable> {
    let mut message = DynamicMessage::new(fields::P4INFO.clone());
    message.transcode_from(theirs).map_err(|error| Unreadable::Undecodable(error.to_string()))?;
    let theirs = fields::to_fields("P4Info", &message)?;
    Ok(weigh_differences(ours, compare_fields(ours, &theirs)))
}
