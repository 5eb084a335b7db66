//! Target machine of code generation.

use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use thiserror::Error;

/// Error of code generation.
#[derive(Debug, Error)]
#[error("no native code on this machine: {0}")]
pub struct CompileError(pub String);

impl From<cranelift_module::ModuleError> for CompileError {
    fn from(error: cranelift_module::ModuleError) -> CompileError {
        CompileError(error.to_string())
    }
}

/// Returns the target's instruction set. The optimisation level is "none" or "speed".
pub fn target_isa(level: &str) -> Result<cranelift_codegen::isa::OwnedTargetIsa, CompileError> {
    let mut flags = settings::builder();
    let set = [("opt_level", level), ("use_colocated_libcalls", "false"), ("is_pic", "false")];
    for (name, value) in
        set.into_iter().chain([("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })])
    {
        flags.set(name, value).map_err(|error| CompileError(error.to_string()))?;
    }
    let builder = cranelift_native::builder().map_err(|error| CompileError(error.to_owned()))?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| CompileError(error.to_string()))
}

/// Returns the calling convention of this machine.
pub fn call_conv() -> Result<CallConv, CompileError> {
    Ok(target_isa("speed")?.default_call_conv())
}
