//! P4Info: the description of a pipeline for its control plane, as the P4Runtime specification
//! defines it (`p4info.proto`, `p4types.proto`). Objects are numbered as p4c does, so that a
//! control plane written for one compiler works with the other.
//!
//! [`generate`] creates it from a pipeline. [`to_txtpb`] prints it as text protobuf in p4c's
//! layout, and [`to_fields`] returns it as a tree. [`compare`] reports its semantic differences to
//! such a text, and [`weigh_differences`] selects the differences that affect a controller and a
//! device.

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

pub use compare::{P4InfoDifference, compare, compare_fields, differences};
pub use generate::generate;
pub use ids::{IdPrefix, name_hash};
pub use model::*;
pub use txtpb::{MessageTree, MessageValue};
pub use weigh::{P4InfoAgreement, weigh_differences};

/// Prints text protobuf, in the layout of p4c's `.p4info.txtpb` files.
pub fn to_txtpb(info: &P4Info) -> String {
    txtpb::print(&to_fields(info))
}

/// Returns the fields of the message `P4Info`, without the defaults that protobuf treats as absent.
pub fn to_fields(info: &P4Info) -> MessageTree {
    tree::ToMessage::to_message(info)
}
