//! [`Wrapped`]: a cache of the crate `flowcache`, as a node's engine.

use packet::{Batch, Engine, Output, ReasonTable};

/// The cache. A node's traits are implemented for it here, where both crates are known.
#[derive(Clone)]
pub(crate) struct Wrapped<E>(pub E);

impl<E: Engine> Engine for Wrapped<E> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn reasons(&self) -> &ReasonTable {
        self.0.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.0.process(batch, out);
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        self.0.tick(now, out);
    }

    fn rest(&mut self) {
        self.0.rest();
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        self.0.told()
    }
}
