//! Native code as a subject.

use super::case::PacketIn;
use super::subject::{Answer, Build, Idle, Subject, idle_entries, through_engine};
use entries::{Counter, WriteBatch};
use io::guarded::Edge;
use ir::{Pipeline, TableId};
use jit::{Jit, Record};
use packet::{Batch, Engine, Output, ReasonTable};
use std::sync::Arc;

/// Of so many batches, two have their packets between forbidden pages.
const GUARDED: u64 = 16;

/// Of so many batches, one has its packets taken one by one.
const ONE_BY_ONE: u64 = 4;

/// What a subject with a [`Jit`] inside says of its state.
#[macro_export]
macro_rules! jit_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn state(&self) -> entries::State {
            self.$($look)*.with_state(entries::State::clone)
        }
        $crate::engine_accessors!([$($look)*], [$($change)*]);
        fn applied(&self, table: ir::TableId) -> Option<Vec<[entries::Counter; 2]>> {
            Some($crate::differ::native::applied(&self.$($look)*, table))
        }
        fn in_eights(&self) -> [u64; 2] {
            self.$($look)*.in_eights()
        }
        fn handed(&self) -> std::collections::BTreeMap<String, u64> {
            self.$($look)*.handed().into_iter().map(|(reason, packets)| (reason.to_owned(), packets)).collect()
        }
    };
}

/// What each action of a table did, over all places where it is applied: misses and hits.
pub fn applied(jit: &Jit, table: TableId) -> Vec<[Counter; 2]> {
    let mut sums: Vec<[Counter; 2]> = Vec::new();
    for place in jit.tallies().tables.iter().filter(|place| place.table == table) {
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
    out: Output,
    batches: u64,
}

impl Native {
    /// Native code for a program.
    ///
    /// # Errors
    /// If it is refused: native code is never refused, but handed to the interpreter, so this is a bug.
    pub fn new(build: &Build<'_>) -> Result<Native, String> {
        Native::with(build, Jit::new(build.pipeline.clone(), build.setup.clone()))
    }

    /// Native code that records what packets do.
    ///
    /// # Errors
    /// As [`Native::new`].
    pub fn recording(build: &Build<'_>) -> Result<Native, String> {
        Native::with(build, Jit::recording(build.pipeline.clone(), build.setup.clone()))
    }

    fn with(build: &Build<'_>, jit: Result<Jit, jit::JitError>) -> Result<Native, String> {
        let jit = jit.map_err(|error| error.to_string())?;
        Ok(Native { jit, pipeline: build.pipeline.clone(), batch: Batch::new(), out: Output::new(), batches: 0 })
    }

    /// The engine itself.
    pub fn jit(&mut self) -> &mut Jit {
        &mut self.jit
    }

    /// As [`Subject::process`], and shows what was noted of each packet.
    pub fn process_recorded(&mut self, packets: &[PacketIn], each: &mut Each<'_>) -> Answer {
        let mut recorded = Recorded { jit: &mut self.jit, each };
        through_engine(&mut recorded, &mut self.batch, &mut self.out, packets, None)
    }
}

/// Who is shown what was noted of each packet of a batch.
pub type Each<'e> = dyn FnMut(usize, &Record<'_>) + Send + 'e;

/// Native code that shows what it noted.
struct Recorded<'a, 'e> {
    jit: &'a mut Jit,
    each: &'a mut Each<'e>,
}

impl Engine for Recorded<'_, '_> {
    fn name(&self) -> &str {
        self.jit.name()
    }

    fn reasons(&self) -> &ReasonTable {
        self.jit.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.jit.process_recorded(batch, out, &mut |packet, record| (self.each)(packet, record));
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
        // However few they are, as most batches here are short; or one by one.
        self.jit.eights_from(if self.batches.is_multiple_of(ONE_BY_ONE) { usize::MAX } else { 1 });
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
