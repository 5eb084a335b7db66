//! The JIT as the engine under test.

use super::case::PacketIn;
use super::subject::{BatchResult, EngineInputs, EngineUnderTest, IdleReport, idle_entries, through_engine};
use entries::{Counter, WriteBatch};
use io::guard_pages::GuardSide;
use ir::{Pipeline, TableId};
use jit::{Jit, PacketRecord};
use packet::{Batch, BatchOutput, Engine, ReasonTable};
use std::sync::Arc;

/// Period of guarded batches: of this number of batches, two have their packets next to protected
/// pages.
const GUARDED: u64 = 16;

/// Period of scalar batches: of this number of batches, one is processed without the vector path.
const ONE_BY_ONE: u64 = 4;

/// State accessors of an engine under test that contains a [`Jit`].
#[macro_export]
macro_rules! jit_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn state(&self) -> entries::ControlState {
            self.$($look)*.with_state(entries::ControlState::clone)
        }
        $crate::engine_accessors!([$($look)*], [$($change)*]);
        fn applied(&self, table: ir::TableId) -> Option<Vec<[entries::Counter; 2]>> {
            Some($crate::differ::native::applied(&self.$($look)*, table))
        }
        fn vector_packet_counts(&self) -> [u64; 2] {
            self.$($look)*.vector_packet_counts()
        }
        fn handed(&self) -> std::collections::BTreeMap<String, u64> {
            self.$($look)*.fallback_counts().into_iter().map(|(reason, packets)| (reason.to_owned(), packets)).collect()
        }
    };
}

/// Returns the counts of each action of a table, summed over all its applications: misses and hits.
pub fn applied(jit: &Jit, table: TableId) -> Vec<[Counter; 2]> {
    let mut sums: Vec<[Counter; 2]> = Vec::new();
    for place in jit.stats().tables.iter().filter(|place| place.table == table) {
        sums.resize(place.actions.len(), Default::default());
        for (sum, action) in sums.iter_mut().zip(&place.actions) {
            for (sum, more) in sum.iter_mut().zip([action.misses, action.hits]) {
                *sum += more;
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
    out: BatchOutput,
    batches: u64,
}

impl Native {
    /// Compiles a program.
    ///
    /// # Errors
    /// If the JIT refuses it. That is a bug, because the JIT falls back to the interpreter instead.
    pub fn new(build: &EngineInputs<'_>) -> Result<Native, String> {
        Native::with(build, Jit::new(build.pipeline.clone(), build.setup.clone()))
    }

    /// Compiles a program to native code that records the execution of packets.
    ///
    /// # Errors
    /// As [`Native::new`].
    pub fn recording(build: &EngineInputs<'_>) -> Result<Native, String> {
        Native::with(build, Jit::new_recording(build.pipeline.clone(), build.setup.clone()))
    }

    fn with(build: &EngineInputs<'_>, jit: Result<Jit, jit::JitError>) -> Result<Native, String> {
        let jit = jit.map_err(|error| error.to_string())?;
        Ok(Native { jit, pipeline: build.pipeline.clone(), batch: Batch::new(), out: BatchOutput::new(), batches: 0 })
    }

    /// Returns the engine.
    pub fn jit(&mut self) -> &mut Jit {
        &mut self.jit
    }

    /// Processes packets like [`EngineUnderTest::process`], and calls `each` with the record of
    /// each packet.
    pub fn process_recorded(&mut self, packets: &[PacketIn], each: &mut Each<'_>) -> BatchResult {
        let mut recorded = RecordingEngine { jit: &mut self.jit, each };
        through_engine(&mut recorded, &mut self.batch, &mut self.out, packets, None)
    }
}

/// Callback for the record of each packet of a batch.
pub type Each<'e> = dyn FnMut(usize, &PacketRecord<'_>) + Send + 'e;

/// Engine that passes packet records to a callback.
struct RecordingEngine<'a, 'e> {
    jit: &'a mut Jit,
    each: &'a mut Each<'e>,
}

impl Engine for RecordingEngine<'_, '_> {
    fn name(&self) -> &str {
        self.jit.name()
    }

    fn reasons(&self) -> &ReasonTable {
        self.jit.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.jit.process_recorded(batch, out, &mut |packet, record| (self.each)(packet, record));
    }
}

impl EngineUnderTest for Native {
    fn name(&self) -> String {
        "jit".to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.jit.write(batch).map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        self.batches += 1;
        // The vector path is used for batches of any size, because most batches here are short, or
        // not at all.
        self.jit.set_min_vector_batch(if self.batches.is_multiple_of(ONE_BY_ONE) { usize::MAX } else { 1 });
        // Only some batches have protected pages, because mapping these takes longer than the rest
        // of the test.
        let edge = match self.batches % GUARDED {
            1 => Some(GuardSide::Back),
            2 => Some(GuardSide::Front),
            _ => None,
        };
        through_engine(&mut self.jit, &mut self.batch, &mut self.out, packets, edge)
    }

    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        let idle = self.jit.advance_time(now);
        idle_entries(&self.pipeline, &idle)
    }

    crate::jit_accessors!([jit], [jit]);
}
