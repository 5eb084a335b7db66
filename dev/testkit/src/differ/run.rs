//! Runs a case on the oracle and on the engine under test, up to the first mismatch.

use super::case::{PacketIn, ProgramSource, TestCase, TestEvent};
use super::compare;
use super::coverage::TestCoverage;
use super::print::print_program;
use super::subject::{BatchResult, EngineInputs, EngineUnderTest, Factory, Oracle};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Number of emissions after which a batch is split, because an engine's output holds at most 4,096
/// copies.
const MAX_EMITTED: usize = 3000;
/// Period of detailed comparison: one of this number of packets.
const CLOSELY: usize = 8;

/// A mismatch between the two engines.
#[derive(Clone, PartialEq, Debug)]
pub struct Mismatch {
    /// Index of the event in the case.
    pub step: usize,
    /// Kind of the mismatch.
    pub kind: MismatchKind,
    /// Expected and found values.
    pub what: String,
}

/// Kind of a mismatch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MismatchKind {
    /// Sent or dropped packets.
    Output,
    /// State, messages, or idle entries.
    State,
    /// Acceptance of a write.
    Write,
    /// The engine under test panicked.
    Panic,
    /// The oracle panicked.
    OraclePanic,
    /// The engine under test refuses the program.
    Refused,
}

/// Runs a case.
///
/// # Errors
/// The first mismatch.
pub fn run_case(case: &TestCase, factory: Factory<'_>, tally: &mut TestCoverage) -> Result<(), Mismatch> {
    let at = Cell::new((0, false));
    let _quiet = PanicSilencer::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| run_inner(case, factory, tally, &at)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let (step, subject) = at.get();
        let kind = if subject { MismatchKind::Panic } else { MismatchKind::OraclePanic };
        Err(Mismatch { step, kind, what: format!("panic at {}: {text}", PLACE.take().unwrap_or_default()) })
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Location of the last suppressed panic.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Suppresses the messages of this thread's panics while it exists, because they are reported as
/// mismatches.
struct PanicSilencer;

impl PanicSilencer {
    fn new() -> PanicSilencer {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if QUIET.get() {
                    PLACE.set(panic.location().map(ToString::to_string));
                } else {
                    usual(panic);
                }
            }));
        });
        QUIET.set(true);
        PanicSilencer
    }
}

impl Drop for PanicSilencer {
    fn drop(&mut self) {
        QUIET.set(false);
    }
}

/// Runs the case on a new oracle and a new engine. `at` is the current step, and whether the engine
/// under test is running, for the report of a panic. Statistics go to `tally`.
fn run_inner(
    case: &TestCase,
    factory: Factory<'_>,
    tally: &mut TestCoverage,
    at: &Cell<(usize, bool)>,
) -> Result<(), Mismatch> {
    let text = match &case.source {
        ProgramSource::Made(program) => Some(print_program(program)),
        ProgramSource::File(_) => None,
    };
    let inputs = EngineInputs { text: text.as_deref(), pipeline: &case.pipeline, setup: &case.setup };
    let refused = |what: String| Mismatch { step: 0, kind: MismatchKind::Refused, what };
    let oracle = Oracle::new(&inputs).map_err(|error| refused(format!("the oracle refuses the program: {error}")))?;
    at.set((0, true));
    let subject = match factory(&inputs) {
        Ok(subject) => subject,
        Err(error) => return Err(refused(error)),
    };
    tally.count_program(&case.pipeline);
    let mut pair = CaseRun { case, oracle, subject, tally, at, step: 0 };
    let outcome = pair.run_events();
    for (sum, count) in pair.tally.vector_packet_counts.iter_mut().zip(pair.subject.vector_packet_counts()) {
        *sum += count;
    }
    for (reason, count) in pair.subject.handed() {
        *pair.tally.handed.entry(reason).or_default() += count;
    }
    outcome
}

/// Both engines during a run.
struct CaseRun<'a> {
    case: &'a TestCase,
    oracle: Oracle,
    subject: Box<dyn EngineUnderTest>,
    tally: &'a mut TestCoverage,
    at: &'a Cell<(usize, bool)>,
    step: usize,
}

impl CaseRun<'_> {
    fn check_equal(&self, kind: MismatchKind, what: Option<String>) -> Result<(), Mismatch> {
        what.map_or(Ok(()), |what| Err(Mismatch { step: self.step, kind, what }))
    }

    /// Calls the engine under test. A panic within is attributed to it.
    fn call_subject<T>(&mut self, ask: impl FnOnce(&mut dyn EngineUnderTest) -> T) -> T {
        self.at.set((self.step, true));
        let answer = ask(&mut *self.subject);
        self.at.set((self.step, false));
        answer
    }

    /// Runs the steps of the case. States are compared before each write, and at the end.
    fn run_events(&mut self) -> Result<(), Mismatch> {
        for (number, step) in self.case.steps.iter().enumerate() {
            self.step = number;
            self.at.set((number, false));
            match step {
                TestEvent::Packets(packets) => self.run_packets(packets)?,
                TestEvent::Write(batch) => {
                    self.states()?;
                    let expected = self.oracle.write(batch);
                    let found = self.call_subject(|subject| subject.write(batch));
                    let is_accepted = expected.is_ok();
                    self.check_equal(MismatchKind::Write, compare::differs("a write", &expected, &found))?;
                    *if is_accepted { &mut self.tally.writes } else { &mut self.tally.refused_writes } += 1;
                }
                TestEvent::Tick(now) => {
                    let mut expected = self.oracle.tick(*now);
                    let mut found = self.call_subject(|subject| subject.tick(*now));
                    // The order of events at the same time is not specified.
                    expected.sort_by_cached_key(|idle| format!("{idle:?}"));
                    found.sort_by_cached_key(|idle| format!("{idle:?}"));
                    self.tally.messages += expected.len() as u64;
                    self.check_equal(MismatchKind::State, compare::differs("idle entries", &expected, &found))?;
                }
            }
        }
        self.states()
    }

    fn run_packets(&mut self, mut packets: &[PacketIn]) -> Result<(), Mismatch> {
        while !packets.is_empty() {
            let mut expected = BatchResult::default();
            let mut taken = 0;
            while taken < packets.len() && expected.emitted.len() < MAX_EMITTED {
                self.oracle_packet(taken, &packets[taken], &mut expected);
                taken += 1;
            }
            let (batch, rest) = packets.split_at(taken);
            let found = self.call_subject(|subject| subject.process(batch));
            self.tally.packets += batch.len() as u64;
            self.tally.batches += 1;
            self.tally.count_emitted(&expected.emitted);
            self.check_equal(MismatchKind::Output, compare::compare_results(&expected, &found))?;
            packets = rest;
        }
        Ok(())
    }

    fn oracle_packet(&mut self, number: usize, packet: &PacketIn, expected: &mut BatchResult) {
        if !number.is_multiple_of(CLOSELY) {
            return self.oracle.process_one(number, packet, &mut expected.emitted);
        }
        let trace = self.oracle.process_traced(number, packet, &mut expected.emitted);
        for step in &trace.steps {
            if let interp::TraceEvent::Table { hit, .. } = &step.event {
                *if hit.is_some() { &mut self.tally.hits } else { &mut self.tally.misses } += 1;
            }
        }
    }

    fn states(&mut self) -> Result<(), Mismatch> {
        self.at.set((self.step, true));
        let difference = compare::compare_states(&self.case.pipeline, &mut self.oracle, &mut *self.subject);
        self.at.set((self.step, false));
        self.tally.states += 1;
        self.check_equal(MismatchKind::State, difference)
    }
}
