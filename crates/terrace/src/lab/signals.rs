//! Ending in order when the user presses Ctrl-C.

use super::error::LabError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that becomes true at Ctrl-C, at a request to terminate, and when the terminal goes away. From then on, these no longer end
/// the process: who asked for the flag has to look at it. Namespaces are then removed as in any other end.
///
/// # Errors
/// If the system refuses.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, LabError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|source| LabError::Start { command: format!("handle signal {signal}"), source })?;
    }
    Ok(stop)
}
