//! Runs a case on the oracle and on a subject, and stops at the first difference.

use super::case::{Case, PacketIn, Source, Step};
use super::compare;
use super::print::print;
use super::subject::{Answer, Build, Factory, Oracle, Subject};
use super::tally::Tally;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Emissions of one batch beyond which it is cut: an engine's output has room for 4,096 copies.
const MAX_EMITTED: usize = 3000;
/// One of so many packets is looked at closely.
const CLOSELY: usize = 8;

/// Something that is not the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The step of the case.
    pub step: usize,
    /// What kind of thing.
    pub kind: Kind,
    /// What is expected and what was found.
    pub what: String,
}

/// What kind of thing is different.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Packets.
    Output,
    /// State, messages, idle entries.
    State,
    /// Whether a write is taken.
    Write,
    /// The subject panicked.
    Panic,
    /// The oracle panicked.
    OraclePanic,
    /// The subject refuses the program.
    Refused,
}

/// Runs a case.
///
/// # Errors
/// The first difference.
pub fn run(case: &Case, factory: Factory<'_>, tally: &mut Tally) -> Result<(), Difference> {
    let at = Cell::new((0, false));
    let _quiet = Quiet::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| run_inner(case, factory, tally, &at)));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        let (step, subject) = at.get();
        let kind = if subject { Kind::Panic } else { Kind::OraclePanic };
        Err(Difference { step, kind, what: format!("panic at {}: {text}", PLACE.take().unwrap_or_default()) })
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where the last quiet panic was.
    static PLACE: Cell<Option<String>> = const { Cell::new(None) };
}

/// While it lives, panics of this thread print nothing: they become differences.
struct Quiet;

impl Quiet {
    fn new() -> Quiet {
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
        Quiet
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(false);
    }
}

fn run_inner(case: &Case, factory: Factory<'_>, tally: &mut Tally, at: &Cell<(usize, bool)>) -> Result<(), Difference> {
    let text = match &case.source {
        Source::Made(program) => Some(print(program)),
        Source::File(_) => None,
    };
    let build = Build { text: text.as_deref(), pipeline: &case.pipeline, setup: &case.setup };
    let refused = |what: String| Difference { step: 0, kind: Kind::Refused, what };
    let oracle = Oracle::new(&build).map_err(|error| refused(format!("the oracle refuses the program: {error}")))?;
    at.set((0, true));
    let subject = match factory(&build) {
        Ok(subject) => subject,
        Err(error) => return Err(refused(error)),
    };
    tally.program(&case.pipeline);
    let mut pair = Pair { case, oracle, subject, tally, at, step: 0 };
    let outcome = pair.steps();
    for (sum, count) in pair.tally.in_eights.iter_mut().zip(pair.subject.in_eights()) {
        *sum += count;
    }
    for (reason, count) in pair.subject.handed() {
        *pair.tally.handed.entry(reason).or_default() += count;
    }
    outcome
}

/// Both engines.
struct Pair<'a> {
    case: &'a Case,
    oracle: Oracle,
    subject: Box<dyn Subject>,
    tally: &'a mut Tally,
    at: &'a Cell<(usize, bool)>,
    step: usize,
}

impl Pair<'_> {
    fn differ(&self, kind: Kind, what: Option<String>) -> Result<(), Difference> {
        what.map_or(Ok(()), |what| Err(Difference { step: self.step, kind, what }))
    }

    /// Runs something on the subject; a panic within is its own.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Subject) -> T) -> T {
        self.at.set((self.step, true));
        let answer = ask(&mut *self.subject);
        self.at.set((self.step, false));
        answer
    }

    fn steps(&mut self) -> Result<(), Difference> {
        for (number, step) in self.case.steps.iter().enumerate() {
            self.step = number;
            self.at.set((number, false));
            match step {
                Step::Packets(packets) => self.packets(packets)?,
                Step::Write(batch) => {
                    self.states()?;
                    let expected = self.oracle.write(batch);
                    let found = self.ask(|subject| subject.write(batch));
                    let taken = expected.is_ok();
                    self.differ(Kind::Write, compare::differs("a write", &expected, &found))?;
                    *if taken { &mut self.tally.writes } else { &mut self.tally.refused_writes } += 1;
                }
                Step::Tick(now) => {
                    let mut expected = self.oracle.tick(*now);
                    let mut found = self.ask(|subject| subject.tick(*now));
                    // The order within one moment is nobody's promise.
                    expected.sort_by_cached_key(|idle| format!("{idle:?}"));
                    found.sort_by_cached_key(|idle| format!("{idle:?}"));
                    self.tally.messages += expected.len() as u64;
                    self.differ(Kind::State, compare::differs("idle entries", &expected, &found))?;
                }
            }
        }
        self.states()
    }

    fn packets(&mut self, mut packets: &[PacketIn]) -> Result<(), Difference> {
        while !packets.is_empty() {
            let mut expected = Answer::default();
            let mut taken = 0;
            while taken < packets.len() && expected.emitted.len() < MAX_EMITTED {
                self.oracle_packet(taken, &packets[taken], &mut expected);
                taken += 1;
            }
            let (batch, rest) = packets.split_at(taken);
            let found = self.ask(|subject| subject.process(batch));
            self.tally.packets += batch.len() as u64;
            self.tally.batches += 1;
            self.tally.emitted(&expected.emitted);
            self.differ(Kind::Output, compare::answers(&expected, &found))?;
            packets = rest;
        }
        Ok(())
    }

    fn oracle_packet(&mut self, number: usize, packet: &PacketIn, expected: &mut Answer) {
        if !number.is_multiple_of(CLOSELY) {
            return self.oracle.one(number, packet, &mut expected.emitted);
        }
        let trace = self.oracle.traced(number, packet, &mut expected.emitted);
        for step in &trace.steps {
            if let interp::Event::Table { hit, .. } = &step.event {
                *if hit.is_some() { &mut self.tally.hits } else { &mut self.tally.misses } += 1;
            }
        }
    }

    fn states(&mut self) -> Result<(), Difference> {
        self.at.set((self.step, true));
        let difference = compare::states(&self.case.pipeline, &mut self.oracle, &mut *self.subject);
        self.at.set((self.step, false));
        self.tally.states += 1;
        self.differ(Kind::State, difference)
    }
}
