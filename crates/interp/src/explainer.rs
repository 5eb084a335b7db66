//! [`Explainer`]: what becomes of a packet, and why, on tables that another engine runs on.

use crate::config::Config;
use crate::decode::{Form, LoadError, decode};
use crate::interp::{Interp, restart_by_call};
use crate::memory::Memory;
use crate::output::Outputs;
use crate::registers::Registers;
use crate::trace::Trace;
use crate::walk::Detour;
use entries::State;
use ir::Pipeline;
use packet::ReasonTable;
use std::sync::Arc;

/// Explains packets on a snapshot of what the control plane has written.
///
/// It holds no entries: a packet's lookups ask the snapshot, so a question costs the same on ten entries as on a million. (Not so in tables with
/// ternary, range, optional or several lpm keys: there each entry is looked at.) Nothing that an explained packet does outlives it, and
/// nothing of it reaches those whose state it is.
///
/// What is not in the snapshot is as at first: meters are full, random numbers begin at the seed, flow ids at 1.
pub struct Explainer {
    interp: Interp,
    seed: u64,
}

impl Explainer {
    /// For a pipeline that the verifier has accepted.
    ///
    /// # Errors
    /// Those of [`Interp::new`].
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<Explainer, LoadError> {
        let program = decode(&pipeline, Form::Short)?;
        let seed = config.seed;
        let mut memory = Memory::over(&pipeline, State::new(pipeline.clone())?, seed);
        restart_by_call(&program, &mut memory);
        Ok(Explainer { interp: Interp::with(pipeline, program, memory, config), seed })
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        self.interp.pipeline()
    }

    /// Names of the reasons that the program declares.
    pub fn reasons(&self) -> &ReasonTable {
        self.interp.reasons()
    }

    /// What becomes of a packet that arrives on a port at `now` nanoseconds, and why. `None` if `state` is not one of this very pipeline.
    pub fn explain(
        &mut self,
        state: &State,
        registers: &Registers,
        bytes: &[u8],
        port: u32,
        now: u64,
    ) -> Option<(Outputs, Trace)> {
        self.look_at(state, registers.clone(), now).then(|| self.interp.trace(bytes, port, now))
    }

    /// The next packet finds this. False if `state` is not one of this very pipeline.
    fn look_at(&mut self, state: &State, registers: Registers, now: u64) -> bool {
        let own = Arc::ptr_eq(state.pipeline(), self.interp.pipeline());
        if own {
            self.interp.memory.look_at(state, registers, self.seed, now);
        }
        own
    }

    /// As [`Explainer::explain`], with registers as at first, by somebody who goes along. Numbers of entries are none of those of another engine. False if `state` is not one
    /// of this very pipeline.
    pub fn process_by(
        &mut self,
        state: &State,
        detour: &mut (dyn Detour + 'static),
        (bytes, port, now): (&[u8], u32, u64),
        out: &mut Outputs,
    ) -> bool {
        let own = self.look_at(state, Registers::initial(), now);
        if own {
            self.interp.process_by(detour, bytes, port, now, out);
        }
        own
    }
}
