//! Native code as a subject.

use super::case::PacketIn;
use super::subject::{Answer, Build, Idle, Subject, idle_entries, through_engine};
use io::guarded::Edge;
use ir::{Pipeline, TableId};
use jit::Jit;
use packet::{Batch, Output};
use std::sync::Arc;
use tables::{CounterData, WriteBatch};

/// Of so many batches, two have their packets between forbidden pages.
const GUARDED: u64 = 16;

/// What a subject with a [`Jit`] inside says of its state.
#[macro_export]
macro_rules! jit_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn state(&self) -> tables::State {
            self.$($look)*.with_state(tables::State::clone)
        }
        fn counter(&self, counter: ir::ExternId, index: u64) -> Option<tables::CounterData> {
            self.$($look)*.counter(counter, index)
        }
        fn register(&self, register: ir::ExternId, index: u64) -> Option<Vec<num_bigint::BigUint>> {
            self.$($look)*.register(register, index)
        }
        fn direct_counter(&self, entry: &tables::EntryId) -> Option<tables::CounterData> {
            self.$($look)*.direct_counter(entry)
        }
        fn applied(&self, table: ir::TableId) -> Option<Vec<[tables::CounterData; 2]>> {
            Some($crate::differ::native::applied(&self.$($look)*, table))
        }
        fn take_digests(&mut self) -> Vec<(ir::ExternId, Vec<num_bigint::BigUint>)> {
            self.$($change)*.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
        }
        fn handed(&self) -> std::collections::BTreeMap<String, u64> {
            self.$($look)*.handed().into_iter().map(|(reason, packets)| (reason.to_owned(), packets)).collect()
        }
    };
}

/// What each action of a table did, over all places where it is applied: misses and hits.
pub fn applied(jit: &Jit, table: TableId) -> Vec<[CounterData; 2]> {
    let mut sums: Vec<[CounterData; 2]> = Vec::new();
    for place in jit.tallies().tables.iter().filter(|place| place.table == table) {
        sums.resize(place.actions.len(), Default::default());
        for (sum, action) in sums.iter_mut().zip(&place.actions) {
            for (sum, more) in sum.iter_mut().zip([action.misses, action.hits]) {
                *sum = *sum + more;
            }
        }
    }
    sums
}

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

    crate::jit_accessors!([jit], [jit]);
}
