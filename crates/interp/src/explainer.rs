//! [`Explainer`]: explains packets on the tables of another engine.

use crate::block_hook::BlockHook;
use crate::config::Config;
use crate::decode::{CodeGranularity, LoadError, decode};
use crate::interp::{Interp, restart_by_call};
use crate::output::Outputs;
use crate::persistent_state::PersistentState;
use crate::registers::Registers;
use crate::trace::PacketTrace;
use entries::ControlState;
use ir::Pipeline;
use packet::ReasonTable;
use std::sync::Arc;

/// Explains packets on a snapshot of the control state.
///
/// The explainer holds no entries. It looks keys up in the snapshot, so that the cost does not
/// depend on the number of entries. Tables with ternary, range, optional or several lpm keys are
/// the exception, because they are scanned. An explained packet leaves no state behind and does not
/// affect the owner of the snapshot.
///
/// State outside the snapshot has initial values: meters are full, random numbers start at the
/// seed, flow ids at 1.
pub struct Explainer {
    interp: Interp,
    seed: u64,
}

impl Explainer {
    /// Creates an explainer for a pipeline that the verifier has accepted.
    ///
    /// # Errors
    /// Those of [`Interp::new`].
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<Explainer, LoadError> {
        let program = decode(&pipeline, CodeGranularity::Short)?;
        let seed = config.seed;
        let mut memory = PersistentState::over_snapshot(&pipeline, ControlState::new(pipeline.clone())?, seed);
        restart_by_call(&program, &mut memory);
        Ok(Explainer { interp: Interp::from_parts(pipeline, program, memory, config), seed })
    }

    /// Returns the pipeline.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        self.interp.pipeline()
    }

    /// Returns the names of the reasons that the program declares.
    pub fn reasons(&self) -> &ReasonTable {
        self.interp.reasons()
    }

    /// Returns verdicts and trace of a packet that arrives on a port at `now`, in nanoseconds.
    /// `None` if `state` belongs to another pipeline.
    pub fn explain(
        &mut self,
        state: &ControlState,
        registers: &Registers,
        bytes: &[u8],
        port: u32,
        now: u64,
    ) -> Option<(Outputs, PacketTrace)> {
        self.reset_to_snapshot(state, registers.clone(), now).then(|| self.interp.trace(bytes, port, now))
    }

    /// Sets the state for the next packet. Returns false if `state` belongs to another pipeline.
    fn reset_to_snapshot(&mut self, state: &ControlState, registers: Registers, now: u64) -> bool {
        let is_same_pipeline = Arc::ptr_eq(state.pipeline(), self.interp.pipeline());
        if is_same_pipeline {
            self.interp.memory.reset_to_snapshot(state, registers, self.seed, now);
        }
        is_same_pipeline
    }

    /// Processes a packet, which arrives on `port` at the time `now` in nanoseconds, on a snapshot
    /// under a hook, with initial values of registers. Returns false if `state` belongs to another
    /// pipeline.
    ///
    /// Slots of entries are not those of another engine.
    pub fn process_by(
        &mut self,
        state: &ControlState,
        hook: &mut (dyn BlockHook + 'static),
        (bytes, port, now): (&[u8], u32, u64),
        out: &mut Outputs,
    ) -> bool {
        let is_same_pipeline = self.reset_to_snapshot(state, Registers::initial(), now);
        if is_same_pipeline {
            self.interp.process_by(hook, bytes, port, now, out);
        }
        is_same_pipeline
    }
}
