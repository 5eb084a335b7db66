//! Entities of P4Runtime against a device that keeps a state and nothing else.
//!
//! Sections are those of the P4Runtime specification, version 1.5.

// Controllers still send deprecated fields. What is expected reads best as a list, also of one.
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
