//! Native code as a subject.

use super::case::PacketIn;
use super::subject::{Answer, Build, Idle, Subject, idle_entries, through_engine};
use io::guarded::Edge;
use ir::{ExternId, Pipeline, TableId};
use jit::Jit;
use num_bigint::BigUint;
use packet::{Batch, Output};
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::{CounterData, EntryId, State, WriteBatch};

/// Of so many batches, two have their packets between forbidden pages.
const GUARDED: u64 = 16;

/// The engine of the cpu tier.
pub struct Native {
    jit: Jit,
    pipeline: Arc<Pipeline>,
    batch: Batch,
    out: Output,
    batches: u64,
}

impl Native {
    /// Native code for a program.
    ///
    /// # Errors
    /// If it is refused: native code is never refused, but handed to the interpreter, so this is a bug.
    pub fn new(build: &Build<'_>) -> Result<Native, String> {
        let jit = Jit::new(build.pipeline.clone(), build.setup.clone()).map_err(|error| error.to_string())?;
        Ok(Native { jit, pipeline: build.pipeline.clone(), batch: Batch::new(), out: Output::new(), batches: 0 })
    }
}

impl Subject for Native {
    fn name(&self) -> String {
        "jit".to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.jit.write(batch).map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        self.batches += 1;
        // Memory of their own for some only, as making it takes longer than anything else.
        let edge = match self.batches % GUARDED {
            1 => Some(Edge::Back),
            2 => Some(Edge::Front),
            _ => None,
        };
        through_engine(&mut self.jit, &mut self.batch, &mut self.out, packets, edge)
    }

    fn tick(&mut self, now: u64) -> Vec<Idle> {
        let idle = self.jit.advance_time(now);
        idle_entries(&self.pipeline, &idle)
    }

    fn state(&self) -> State {
        self.jit.with_state(State::clone)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<CounterData> {
        self.jit.counter(counter, index)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.jit.register(register, index)
    }

    fn direct_counter(&self, entry: &EntryId) -> Option<CounterData> {
        self.jit.direct_counter(entry)
    }

    fn applied(&self, table: TableId) -> Option<Vec<[CounterData; 2]>> {
        let places = self.jit.tallies().tables;
        let mut sums: Vec<[CounterData; 2]> = Vec::new();
        for place in places.iter().filter(|place| place.table == table) {
            sums.resize(place.actions.len(), Default::default());
            for (sum, action) in sums.iter_mut().zip(&place.actions) {
                for (sum, more) in sum.iter_mut().zip([action.misses, action.hits]) {
                    *sum = *sum + more;
                }
            }
        }
        Some(sums)
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        self.jit.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
    }

    fn handed(&self) -> BTreeMap<String, u64> {
        self.jit.handed().into_iter().map(|(reason, packets)| (reason.to_owned(), packets)).collect()
    }
}
