//! A node: workers that forward packets with a program, and the control plane's way to them.
//!
//! This crate answers one question: *how does a program run for months on a machine while others change its tables, and the program
//! itself?* It wires the parts; each of them has its own crate.
//!
//! | what | where |
//! |---|---|
//! | all of it as one device that P4Runtime controls | `device.rs`, `reconcile.rs` |
//! | the workers, and how they go over to another program | `plane.rs`, `running.rs` |
//! | the port between them and the controller | `cpu_port.rs` |
//! | the process, and its configuration file | `daemon.rs`, `config/` |
//! | what they did, by name | `counts.rs` |
//! | what outlives a restart | `store.rs`, `record.rs`, `contents.rs` |

pub mod config;
pub mod contents;
mod counts;
mod cpu_port;
pub mod daemon;
mod device;
mod plane;
mod reconcile;
pub mod record;
mod running;
mod store;

pub use counts::{Counts, PortCounts};
pub use cpu_port::{PuntSink, Punted};
pub use device::{Node, Parts, StartError};
pub use plane::{Plane, PlaneError, Seat};
pub use running::Running;
pub use store::{KeptConfig, Store, StoreError};
