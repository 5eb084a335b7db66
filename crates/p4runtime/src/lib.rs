//! P4Runtime, version 1.5: the messages and the service, P4Info as a message, the encoding of
//! values.
//!
//! The interface is in `proto/`. Names, numbers and types are those of the P4Runtime specification;
//! a test compares them with the descriptors of the `p4runtime` package of PyPI.

pub mod client;
pub mod codec;
mod decoded_size;
mod device;
pub mod p4info;
pub mod proto;
mod request_error;
pub mod server;
mod translate;
pub mod values;

pub use device::{Device, DeviceEntry, DeviceEvent, EntryPages, EntryValues, EventSink, PipelineConfig, ReconcileMode};
pub use request_error::{Code, P4RuntimeError};
pub use translate::{
    DigestConfig, DigestWrite, EntitySink, FIRST_HIDDEN, Oneshots, Schema, ShownStrings, StringsOf, Translation,
    Translations, string_width,
};
