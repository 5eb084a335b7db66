//! [`Registers`]: where an explainer reads registers.

use ir::ExternId;
use num_bigint::BigUint;
use std::fmt;
use std::sync::Arc;

type Read = dyn Fn(ExternId, u64) -> Option<Vec<BigUint>> + Send + Sync;

/// Where an explainer reads registers: object and index give the leaves of the element, as
/// [`crate::Interp::register`] does; `None` is what the program has there at first.
#[derive(Clone)]
pub struct Registers(Arc<Read>);

impl Registers {
    /// Reads by that function. It is called while a packet is explained, once for each element that
    /// the program looks at.
    pub fn new(read: impl Fn(ExternId, u64) -> Option<Vec<BigUint>> + Send + Sync + 'static) -> Registers {
        Registers(Arc::new(read))
    }

    /// All registers are as the program has them at first.
    pub fn initial() -> Registers {
        Registers::new(|_, _| None)
    }

    /// The leaves of an element.
    pub fn get(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        (self.0)(register, index)
    }
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registers")
    }
}
