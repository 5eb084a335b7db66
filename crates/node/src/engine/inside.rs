//! Engines whose workers take turns: one packet or one batch at a time, and all state in one engine inside, which is the reference engine or native code.

use super::Controlled;
use super::holds::Holds;
use super::team::{Team, Workers};
use super::turns::Turns;
use entries::{WriteBatch, WriteError};
use interp::IdleEntry;
use ir::Pipeline;
use packet::{Engine, EngineCounters};
use std::sync::Arc;

/// An engine with another one inside, which has all state.
pub trait Inside: Engine + Send + 'static {
    /// What is inside.
    type Of: Holds;

    /// As in configurations.
    const NAME: &'static str;

    /// It.
    fn inside(&mut self) -> &mut Self::Of;

    /// See [`Controlled::write`].
    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Time passes; the entries that are found idle.
    fn pass(&mut self, now: u64) -> Vec<IdleEntry>;

    /// How many packets each tier has done with, if it is several in one.
    fn served(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What is done for it elsewhere ends.
    fn retire(&mut self) {}

    /// What was done with packets that no worker was given.
    fn beside_workers(&self) -> EngineCounters {
        EngineCounters::default()
    }

    /// See [`Controlled::notes`].
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What somebody else has counted for it is counted here before it is read.
    fn merge(&mut self) {}
}

/// What workers that take turns are to the control plane. `without_code`: why the engine inside is no native code, if it is none.
pub fn in_turns<E: Inside>(pipeline: &Arc<Pipeline>, engine: E, without_code: Option<String>) -> Box<dyn Controlled> {
    Team::lead(pipeline, Turns::new(engine), without_code)
}

impl<E: Inside> Workers for Turns<E> {
    type Of = E::Of;

    const NAME: &'static str = E::NAME;

    fn worker(&self) -> Box<dyn Engine> {
        Turns::worker(self)
    }

    fn with<T>(&self, at: impl FnOnce(&mut E::Of) -> T) -> T {
        at(self.turn().inside())
    }

    fn merge(&self) {
        self.turn().merge();
    }

    fn change(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.turn().change(batch)
    }

    fn pass(&self, now: u64) -> Vec<IdleEntry> {
        self.turn().pass(now)
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        self.turn().served()
    }

    fn retire(&self) {
        self.turn().retire();
    }

    fn beside_workers(&self) -> EngineCounters {
        self.turn().beside_workers()
    }

    fn notes(&self) -> Vec<String> {
        self.turn().notes()
    }
}
