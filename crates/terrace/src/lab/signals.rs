//! Orderly exit on Ctrl-C.

use super::error::LabError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns a flag that becomes true on SIGINT, SIGTERM and SIGHUP. From then on these signals no
/// longer end the process, so the caller must check the flag. Namespaces are then removed as on any
/// other exit.
///
/// # Errors
/// If the system refuses to install the handlers.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, LabError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|source| LabError::Start { command: format!("handle signal {signal}"), source })?;
    }
    Ok(stop)
}
