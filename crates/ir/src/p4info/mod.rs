//! P4Info: what a pipeline shows to its control plane, as the P4Runtime specification defines it (`p4info.proto`,
//! `p4types.proto`), and as p4c numbers it, so that a control plane written for one works with the other.
//!
//! [`generate`] makes it from a pipeline; [`to_txtpb`] prints it as text protobuf in p4c's layout, and [`to_fields`] gives
//! the same as a tree; [`compare`] tells how it differs in meaning from such a text, and [`weigh`] which differences a
//! controller and a device would notice.

mod annotation;
mod compare;
mod generate;
mod ids;
mod model;
mod objects;
mod tree;
mod tree_types;
mod txtpb;
mod types;
mod weigh;

pub use compare::{Difference, compare, compare_fields, differences};
pub use generate::generate;
pub use ids::{Prefix, name_hash};
pub use model::*;
pub use txtpb::{Message, Value};
pub use weigh::{Agreement, weigh};

/// Text protobuf, in the layout of p4c's `.p4info.txtpb` files.
pub fn to_txtpb(info: &P4Info) -> String {
    txtpb::print(&to_fields(info))
}

/// The fields of the message `P4Info`, without the defaults that protobuf takes for absent.
pub fn to_fields(info: &P4Info) -> Message {
    tree::Fields::fields(info)
}
