//! Code that `build.rs` generates from `proto/`. Bytes are [`bytes::Bytes`], so that parts of a
//! message can be kept without a copy. Maps are ordered, so that equal messages have equal
//! encodings.

#![allow(missing_docs, deprecated, clippy::all)]

pub mod p4 {
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }
    pub mod config {
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
}

pub mod terrace {
    pub mod v1 {
        tonic::include_proto!("terrace.v1");
    }
}

pub mod google {
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

pub use p4::{config::v1 as config, v1};

/// Encoded `FileDescriptorSet` of all messages, for the reflection service.
///
/// ```
/// let reflection = tonic_reflection::server::Builder::configure()
///     .register_encoded_file_descriptor_set(p4runtime::proto::FILE_DESCRIPTOR_SET)
///     .build_v1();
/// assert!(reflection.is_ok());
/// ```
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("p4runtime");
