//! The node's control socket, for tools on the same machine.
//!
//! This module answers one question: *which requests does a node answer, for which clients, and in
//! which form?* The Unix socket is only accessible to the node's own user. A request is one line
//! with a JSON document; the response is one or more such lines. [`crate::status`] defines most of
//! their contents.
//!
//! | concern | location |
//! |---|---|
//! | requests and responses | [`protocol`] |
//! | the socket, its connections and limits | [`server`] |
//! | the client | [`client`] |
//! | one packet across several processes | [`cross_node`] |
//! | the node's responses | `responder.rs` |
//! | sessions | `sessions.rs` |
//! | entries as text | `present.rs` |

pub mod client;
pub mod cross_node;
pub mod present;
pub mod protocol;
pub mod responder;
pub mod server;
mod sessions;

pub use client::{ResponseStream, ask};
pub use protocol::{ControlRequest, ControlResponse};
pub use server::{ControlSocket, ResponseWriter};
