//! [`NodeCacheEngine`]: a cache of the crate `flowcache`, as a node's engine.

use packet::{Batch, BatchOutput, Engine, ReasonTable};

/// Newtype for a cache, because a node's traits can be implemented for it only in this crate.
#[derive(Clone)]
pub(crate) struct NodeCacheEngine<E>(pub E);

impl<E: Engine> Engine for NodeCacheEngine<E> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn reasons(&self) -> &ReasonTable {
        self.0.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.0.process(batch, out);
    }

    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        self.0.tick(now, out);
    }

    fn on_idle(&mut self) {
        self.0.on_idle();
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        self.0.take_trace_notes()
    }
}
