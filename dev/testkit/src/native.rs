//! Engines with native code that stays compiled until the process ends. Tests make many engines of one
//! program, and would compile it for each.

use interp::Config;
use ir::Pipeline;
use jit::{Jit, JitError};
use std::sync::{Arc, Mutex, PoisonError};

/// One engine for each program, which keeps its code in use.
static KEPT: Mutex<Vec<Jit>> = Mutex::new(Vec::new());

/// Creates an engine with native code, and keeps the code.
///
/// # Errors
/// As [`Jit::new`].
pub fn engine(pipeline: &Arc<Pipeline>) -> Result<Jit, JitError> {
    let new = || Jit::new(pipeline.clone(), Config::default());
    let engine = new()?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.iter().any(|other| other.shares_code_with(&engine)) {
        kept.push(new()?);
    }
    Ok(engine)
}
