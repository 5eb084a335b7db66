//! A node: workers that forward packets with a program, and the control plane's way to them.
//!
//! This crate answers one question: *how does a program run for months on a machine while others change its tables, and the program
//! itself?* It wires the parts; each of them has its own crate.
//!
//! | what | where |
//! |---|---|
//! | all of it as one device that P4Runtime controls | `device/`, `reconcile.rs` |
//! | the engines that can run programs, behind one trait | `engine/` |
//! | the emulated switch, tiers and flow caches, which a binary brings along | `wings.rs` |
//! | the workers, and how they go over to another program | `plane.rs`, `running.rs` |
//! | the port between them and the controller | `cpu_port.rs` |
//! | the process, and its configuration file | `daemon/`, `config/` |
//! | how a new process takes over, while packets flow | `takeover/` |
//! | what they did, by name | `counts.rs`, `observe/`; as it is shown: `status.rs` |
//! | who may ask, and how | `admin/`: the control socket; `metrics/`: Prometheus |
//! | why a packet went where it did | `explain/` |
//! | what outlives a restart | `store.rs`, `record.rs` |
//! | tables as a region file says | `region/` |
//! | a state as writes, for the same pipeline or another | `reconcile.rs`; what nobody writes: `levels.rs` |

pub mod admin;
pub mod config;
mod counts;
mod cpu_port;
pub mod daemon;
mod device;
pub mod engine;
pub mod explain;
mod levels;
pub mod log;
pub mod metrics;
pub mod observe;
mod plane;
mod reconcile;
pub mod record;
pub mod region;
mod running;
pub mod status;
mod store;
pub mod takeover;
pub mod wings;

pub use counts::{Counts, PortCounts};
pub use cpu_port::{PuntSink, Punted};
pub use device::{Node, Parts, StartError};
pub use plane::{LinkNews, Parked, Plane, PlaneError, Seat};
pub use reconcile::writes;
pub use running::Running;
pub use store::{KeptConfig, KeptDigest, Store, StoreError};
