//! The engines that can be compared, by name.

use super::broken::{Broken, Fault};
use super::native::Native;
use super::subject::{Build, InBatches, Subject};

/// A factory that owns what it needs.
pub type OwnedFactory = Box<dyn Fn(&Build<'_>) -> Result<Box<dyn Subject>, String>>;

/// What is compared if nothing is said.
pub const DEFAULT: &str = "jit";

/// All names.
pub const NAMES: [&str; 4] = ["jit", "interp", "interp-without-passes", "broken:FAULT"];

/// The factory of an engine.
///
/// # Errors
/// If there is no engine of that name.
pub fn factory(name: &str) -> Result<OwnedFactory, String> {
    if let Some(fault) = name.strip_prefix("broken:") {
        let fault = Fault::ALL.into_iter().find(|known| format!("{known:?}") == fault);
        let fault = fault.ok_or_else(|| format!("no such fault; there are {:?}", Fault::ALL))?;
        return Ok(Box::new(move |build| Ok(Box::new(Broken::new(build, fault)?))));
    }
    match name {
        "jit" => Ok(Box::new(|build| Ok(Box::new(Native::new(build)?)))),
        "interp" => Ok(Box::new(|build| Ok(Box::new(InBatches::new(build)?)))),
        "interp-without-passes" => Ok(Box::new(|build| Ok(Box::new(InBatches::without_passes(build)?)))),
        _ => Err(format!("there is no engine {name}; there are {}", NAMES.join(", "))),
    }
}
