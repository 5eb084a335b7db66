//! Parallel compilation: several threads compile functions to machine code, because that takes
//! longer than building them.

use crate::code::machine::CompileError;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{FuncId, ModuleReloc};
use parking_lot::Mutex;
use std::sync::mpsc::Receiver;

/// Maximum number of compile threads.
pub const MAX_COMPILE_THREADS: usize = 8;

/// A function to be compiled.
pub struct CompileJob {
    /// Its id in the module.
    pub id: FuncId,
    /// The function.
    pub func: Function,
    /// Whether its machine code is to be printed.
    pub shown: bool,
}

/// A compiled function.
pub struct CompiledFunction {
    /// Its id in the module.
    pub id: FuncId,
    /// The machine code.
    pub code: Vec<u8>,
    /// Alignment in bytes.
    pub alignment: u64,
    /// Relocations.
    pub relocs: Vec<ModuleReloc>,
    /// Disassembly to be printed.
    pub text: Option<String>,
}

/// Compiled functions of all threads.
pub struct CompilePool<'a> {
    isa: &'a dyn TargetIsa,
    made: Mutex<Vec<CompiledFunction>>,
}

impl<'a> CompilePool<'a> {
    /// Makes a pool for this instruction set.
    pub fn new(isa: &'a dyn TargetIsa) -> CompilePool<'a> {
        CompilePool { isa, made: Mutex::default() }
    }

    /// Compiles queued functions until the sender is dropped.
    ///
    /// # Errors
    /// Cranelift cannot compile a function.
    pub fn compile_queued(&self, waiting: &Mutex<Receiver<CompileJob>>) -> Result<(), CompileError> {
        let mut context = Context::new();
        loop {
            let next = waiting.lock().recv();
            let Ok(CompileJob { id, func, shown }) = next else { return Ok(()) };
            context.clear();
            context.func = func;
            context.set_disasm(shown);
            let compiled = context.compile(self.isa, &mut ControlPlane::default());
            let compiled = compiled.map_err(|error| CompileError(error.inner.to_string()))?;
            let (code, alignment) = (compiled.code_buffer().to_vec(), u64::from(compiled.buffer.alignment));
            let text = compiled.vcode.clone();
            let relocs = context.compiled_code().map(|code| code.buffer.relocs()).unwrap_or_default();
            let relocs = relocs.iter().map(|reloc| ModuleReloc::from_mach_reloc(reloc, &context.func, id)).collect();
            self.made.lock().push(CompiledFunction { id, code, alignment, relocs, text });
        }
    }

    /// Returns the functions in the order of their ids.
    pub fn into_functions(self) -> Vec<CompiledFunction> {
        let mut made = self.made.into_inner();
        made.sort_by_key(|made| made.id);
        made
    }
}
