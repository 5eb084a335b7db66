//! [`Registers`]: source of register values for an explainer.

use ir::ExternId;
use num_bigint::BigUint;
use std::fmt;
use std::sync::Arc;

type Read = dyn Fn(ExternId, u64) -> Option<Vec<BigUint>> + Send + Sync;

/// Source of register values for an explainer: maps object and index to the leaves of the element,
/// as [`crate::Interp::register`] does. `None` means the initial value of the program.
#[derive(Clone)]
pub struct Registers(Arc<Read>);

impl Registers {
    /// Creates a source that calls `read` once for each element that an explained packet reads.
    pub fn new(read: impl Fn(ExternId, u64) -> Option<Vec<BigUint>> + Send + Sync + 'static) -> Registers {
        Registers(Arc::new(read))
    }

    /// Creates a source in which all registers have their initial values.
    pub fn initial() -> Registers {
        Registers::new(|_, _| None)
    }

    /// Returns the leaves of an element.
    pub fn get(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        (self.0)(register, index)
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registers")
    }
}
