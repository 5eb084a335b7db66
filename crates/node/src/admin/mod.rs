//! The node's control socket: how an operator's tools on the same machine ask it about itself.
//!
//! This module answers one question: *what does a node tell whom, and in which form?* A Unix socket that only the node's own user may use; a JSON
//! document a line, one or more lines as the answer. What is behind the answers is in [`crate::status`].
//!
//! | what | where |
//! |---|---|
//! | requests and answers | [`protocol`] |
//! | the socket, connections and their bounds | [`server`] |
//! | the other end | [`client`] |
//! | one packet through several processes | [`elsewhere`] |
//! | what a node answers | `answer.rs` |
//! | entries as a person reads them | `present.rs` |

pub mod answer;
pub mod client;
pub mod elsewhere;
pub mod present;
pub mod protocol;
pub mod server;

pub use client::{Asking, ask};
pub use protocol::{Answer, Request};
pub use server::{Answers, ControlSocket};
