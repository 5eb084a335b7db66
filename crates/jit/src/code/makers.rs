//! Functions become machine code by several threads: that takes longer than to make them.

use crate::code::machine::CompileError;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{FuncId, ModuleReloc};
use parking_lot::Mutex;
use std::sync::mpsc::Receiver;

/// The most threads that make code together.
pub const MAKERS: usize = 8;

/// A function that waits to be compiled.
pub struct Waiting {
    /// Its name in the module.
    pub id: FuncId,
    /// It.
    pub func: Function,
    /// Whether its machine code is to be shown.
    pub shown: bool,
}

/// A function's machine code.
pub struct Made {
    /// Its name in the module.
    pub id: FuncId,
    /// The code.
    pub code: Vec<u8>,
    /// On which multiple of bytes it begins.
    pub alignment: u64,
    /// What is put into it when it is known where things lie.
    pub relocs: Vec<ModuleReloc>,
    /// What is shown of it.
    pub text: Option<String>,
}

/// What threads have made so far.
pub struct Makers<'a> {
    isa: &'a dyn TargetIsa,
    made: Mutex<Vec<Made>>,
}

impl<'a> Makers<'a> {
    /// For this machine.
    pub fn new(isa: &'a dyn TargetIsa) -> Makers<'a> {
        Makers { isa, made: Mutex::default() }
    }

    /// Compiles what waits, until nothing more comes.
    ///
    /// # Errors
    /// Cranelift cannot compile a function.
    pub fn make(&self, waiting: &Mutex<Receiver<Waiting>>) -> Result<(), CompileError> {
        let mut context = Context::new();
        loop {
            let next = waiting.lock().recv();
            let Ok(Waiting { id, func, shown }) = next else { return Ok(()) };
            context.clear();
            context.func = func;
            context.set_disasm(shown);
            let compiled = context.compile(self.isa, &mut ControlPlane::default());
            let compiled = compiled.map_err(|error| CompileError(error.inner.to_string()))?;
            let (code, alignment) = (compiled.code_buffer().to_vec(), u64::from(compiled.buffer.alignment));
            let text = compiled.vcode.clone();
            let relocs = context.compiled_code().map(|code| code.buffer.relocs()).unwrap_or_default();
            let relocs = relocs.iter().map(|reloc| ModuleReloc::from_mach_reloc(reloc, &context.func, id)).collect();
            self.made.lock().push(Made { id, code, alignment, relocs, text });
        }
    }

    /// The functions in their order.
    pub fn made(self) -> Vec<Made> {
        let mut made = self.made.into_inner();
        made.sort_by_key(|made| made.id);
        made
    }
}
