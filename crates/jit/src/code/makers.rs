//! Functions become machine code by several threads: that takes longer than to make them.

use crate::code::{CompileError, Numbered};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::TargetIsa;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most threads that make code together.
pub const MAKERS: usize = 8;

/// What threads have made so far.
pub struct Makers<'a> {
    isa: &'a dyn TargetIsa,
    made: Mutex<Vec<Numbered>>,
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
    pub fn make(&self, waiting: &Mutex<Receiver<Numbered>>) -> Result<(), CompileError> {
        loop {
            let next = lock(waiting).recv();
            let Ok((index, mut context)) = next else { return Ok(()) };
            let compiled = context.compile(self.isa, &mut ControlPlane::default());
            compiled.map_err(|error| CompileError(error.inner.to_string()))?;
            lock(&self.made).push((index, context));
        }
    }

    /// The functions in their order.
    pub fn made(self) -> impl Iterator<Item = Context> {
        let mut made = self.made.into_inner().unwrap_or_else(PoisonError::into_inner);
        made.sort_by_key(|(index, _)| *index);
        made.into_iter().map(|(_, context)| context)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
