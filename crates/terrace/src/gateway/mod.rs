//! The gateway process: a program with the entries of a region file, on network interfaces.
//!
//! Two threads. The **packet thread** runs the engine between ports; between two batches it takes what waits for it ([`serve`]). The **control
//! thread** listens on a Unix socket ([`control`]); it reads and checks region files, which may take long, and hands the packet thread one
//! batch of writes, which is applied as a whole or not at all ([`keeper`]). So a wrong file leaves what runs untouched, and flows that a
//! change does not concern lose nothing.

pub mod control;
pub mod engine;
pub mod keeper;
pub mod serve;
pub mod stats;
pub mod uplinks;

use std::path::PathBuf;

/// The socket of a gateway that is not told another one.
pub fn default_socket() -> PathBuf {
    runtime_directory().join("gateway.sock")
}

/// The socket of the gateway of a lab.
pub fn lab_socket(lab: &str) -> PathBuf {
    runtime_directory().join(format!("lab-{lab}.sock"))
}

/// Where sockets are: for root, in /run; else in the directory for temporary files.
fn runtime_directory() -> PathBuf {
    let run = PathBuf::from("/run");
    let base = if rustix::process::geteuid().is_root() && run.is_dir() { run } else { std::env::temp_dir() };
    base.join("terrace")
}
