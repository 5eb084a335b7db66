//! Code that engines of the process have compiled and still use. An engine for the same pipeline, with
//! the same layouts and settings, takes it in place of compiling again: a node with several devices,
//! a controller that sends a program a second time, the versions of a cached engine.
//!
//! The cache keeps nothing alive: code is freed with the last engine that uses it.

use crate::fallback_reason::FallbackReason;
use crate::program_code::{CodeInputs, ProgramCode};
use parking_lot::Mutex;
use std::sync::{Arc, LazyLock, Weak};

/// Code in use, or being compiled.
struct CacheEntry {
    inputs: CodeInputs,
    /// Locked during the compilation: other engines for the same inputs wait for it.
    code: Mutex<Weak<ProgramCode>>,
}

static ENTRIES: LazyLock<Mutex<Vec<Arc<CacheEntry>>>> = LazyLock::new(Mutex::default);

/// Returns the code for the inputs, compiled if no engine uses it.
///
/// # Errors
/// The reason why native code does not support the pipeline. It is not remembered.
pub fn get_or_compile(inputs: CodeInputs) -> Result<Arc<ProgramCode>, FallbackReason> {
    let entry = entry_of(inputs);
    let mut code = entry.code.lock();
    if let Some(shared) = code.upgrade() {
        return Ok(shared);
    }
    let compiled = Arc::new(ProgramCode::compile(&entry.inputs)?);
    *code = Arc::downgrade(&compiled);
    Ok(compiled)
}

/// Finds or adds the entry for the inputs. Removes those that no engine uses and none compiles.
fn entry_of(inputs: CodeInputs) -> Arc<CacheEntry> {
    let mut entries = ENTRIES.lock();
    // An entry whose compilation goes on is held by the engine that compiles it.
    entries.retain(|entry| Arc::strong_count(entry) > 1 || entry.code.lock().strong_count() > 0);
    if let Some(entry) = entries.iter().find(|entry| entry.inputs == inputs) {
        return entry.clone();
    }
    let entry = Arc::new(CacheEntry { inputs, code: Mutex::default() });
    entries.push(entry.clone());
    entry
}
