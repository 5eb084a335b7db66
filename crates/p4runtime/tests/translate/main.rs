//! Tests the translation of P4Runtime entities against a device that only stores state.
//!
//! Sections are those of the P4Runtime specification, version 1.5.

// Controllers still send deprecated fields. A list is the clearest form of an expected result, also
// with one element.
#![allow(deprecated, clippy::cloned_ref_to_slice_refs)]

mod bench;
mod device;
mod direct;
mod entries;
mod objects;
mod packets;
mod profiles;
mod sets;
mod strings;
