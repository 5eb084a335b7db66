//! Engines that can be compared, by name.

use super::injected_faults::{FaultyEngine, InjectedFault};
use super::native::Native;
use super::subject::{EngineInputs, EngineUnderTest, InBatches};

/// A factory that owns its data.
pub type OwnedFactory = Box<dyn Fn(&EngineInputs<'_>) -> Result<Box<dyn EngineUnderTest>, String>>;

/// Default engine.
pub const DEFAULT: &str = "jit";

/// Names of all engines.
pub const NAMES: [&str; 4] = ["jit", "interp", "interp-without-passes", "broken:FAULT"];

/// Returns the factory of an engine.
///
/// # Errors
/// If there is no engine of that name.
pub fn factory(name: &str) -> Result<OwnedFactory, String> {
    if let Some(fault) = name.strip_prefix("broken:") {
        let fault = InjectedFault::ALL.into_iter().find(|known| format!("{known:?}") == fault);
        let fault = fault.ok_or_else(|| format!("no such fault; there are {:?}", InjectedFault::ALL))?;
        return Ok(Box::new(move |build| Ok(Box::new(FaultyEngine::new(build, fault)?))));
    }
    match name {
        "jit" => Ok(Box::new(|build| Ok(Box::new(Native::new(build)?)))),
        "interp" => Ok(Box::new(|build| Ok(Box::new(InBatches::new(build)?)))),
        "interp-without-passes" => Ok(Box::new(|build| Ok(Box::new(InBatches::without_passes(build)?)))),
        _ => Err(format!("there is no engine {name}; there are {}", NAMES.join(", "))),
    }
}
