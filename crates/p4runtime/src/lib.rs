//! P4Runtime, version 1.5: the messages and the service, P4Info as a message, values as they travel.
//!
//! The interface is in `proto/`: names, numbers and types are those of the P4Runtime specification, which a test compares
//! with the descriptors of the `p4runtime` package of PyPI.

pub mod client;
pub mod codec;
mod device;
pub mod p4info;
pub mod proto;
mod refusal;
pub mod server;
mod translate;
mod unpacked;
pub mod values;

pub use device::{Device, Event, EventSink, Forwarding, Keep};
pub use refusal::{Code, Refusal};
pub use translate::{
    DigestConfig, DigestWrite, FIRST_HIDDEN, Oneshots, Schema, ShownStrings, Sink, StringsOf, Translation,
    Translations, string_width,
};
