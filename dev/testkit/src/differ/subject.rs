//! What is compared: an engine with its control plane, behind one trait.

use super::case::PacketIn;
use entries::{Counter, EntryId, State, WriteBatch};
use interp::{Interp, Outputs};
use io::guarded::{self, Edge};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Batch, Engine, Origin, Output, PacketRef, PortId, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A verdict with the bytes that leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// The packet of the batch that it is about, if the engine says so.
    pub input: Option<usize>,
    /// How it came to be.
    pub origin: Origin,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Its bytes; of a dropped packet none.
    pub bytes: Vec<u8>,
}

/// What an engine says about a batch.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The verdicts in order.
    pub emitted: Vec<Emitted>,
    /// What is wrong with the answer itself: packets without verdict, references to nothing.
    pub faults: Vec<String>,
}

/// An entry that was found idle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idle {
    /// Which.
    pub entry: EntryId,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// An engine with its control plane.
pub trait Subject {
    /// Its name.
    fn name(&self) -> String;
    /// Carries out a write, all or none.
    ///
    /// # Errors
    /// Why it is refused.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String>;
    /// Processes packets as one batch.
    fn process(&mut self, packets: &[PacketIn]) -> Answer;
    /// Time passes; the entries that are found idle.
    fn tick(&mut self, now: u64) -> Vec<Idle>;
    /// A snapshot of the control plane's state, with the entries that packets added.
    fn state(&self) -> State;
    /// An indexed counter.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;
    /// The leaves of a register's element.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;
    /// The counter of an entry.
    fn direct_counter(&self, entry: &EntryId) -> Option<Counter>;
    /// For each action of a table: packets and bytes without a hit, and with one; over all places where the table is applied. `None` if it does not
    /// count that.
    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        let _ = table;
        None
    }
    /// Takes the digest messages that wait.
    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)>;
    /// How many packets it gave to the interpreter, by reason; empty for one that is no compiler.
    fn handed(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    /// How many packets native code took through stages eight at a time, a packet as often as stages did, and how many of those it left to code for one.
    fn in_eights(&self) -> [u64; 2] {
        [0; 2]
    }
}

/// What a subject is made for.
pub struct Build<'a> {
    /// The program's text, if there is one.
    pub text: Option<&'a str>,
    /// The compiled program.
    pub pipeline: &'a Arc<Pipeline>,
    /// Settings.
    pub setup: &'a interp::Config,
}

/// Makes a subject; `Err` if it refuses the program.
pub type Factory<'a> = &'a dyn Fn(&Build<'_>) -> Result<Box<dyn Subject>, String>;

/// The oracle: the interpreter, one packet at a time.
pub struct Oracle {
    /// The interpreter.
    pub interp: Interp,
    outputs: Outputs,
}

impl Oracle {
    /// The interpreter for a program.
    ///
    /// # Errors
    /// If it refuses the program.
    pub fn new(build: &Build<'_>) -> Result<Oracle, String> {
        let interp = Interp::new(build.pipeline.clone(), build.setup.clone()).map_err(|error| error.to_string())?;
        Ok(Oracle { interp, outputs: Outputs::new() })
    }

    /// What becomes of one packet, the one of that number in its batch.
    pub fn one(&mut self, input: usize, packet: &PacketIn, out: &mut Vec<Emitted>) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.interp.process_into(&packet.bytes, packet.port, packet.at, &mut outputs);
        collect(input, &outputs, out);
        self.outputs = outputs;
    }

    /// The same, and what happened.
    pub fn traced(&mut self, input: usize, packet: &PacketIn, out: &mut Vec<Emitted>) -> interp::Trace {
        let (outputs, trace) = self.interp.trace(&packet.bytes, packet.port, packet.at);
        collect(input, &outputs, out);
        trace
    }
}

/// What became of one packet, the one of that number in its batch.
pub fn collect(input: usize, outputs: &Outputs, out: &mut Vec<Emitted>) {
    for packet in outputs.packets() {
        let bytes = if matches!(packet.verdict, Verdict::Drop(_)) { Vec::new() } else { packet.bytes.clone() };
        out.push(Emitted { input: Some(input), origin: packet.origin, verdict: packet.verdict, bytes });
    }
}

/// Gives packets as one batch to an engine, and takes apart what it says. With `edge`, packets lie between forbidden pages: an engine that reads or writes
/// beyond one ends the process.
pub fn through_engine(
    engine: &mut dyn Engine,
    batch: &mut Batch,
    out: &mut Output,
    packets: &[PacketIn],
    edge: Option<Edge>,
) -> Answer {
    batch.clear();
    out.clear();
    let mut answer = Answer::default();
    for packet in packets {
        if let Err(error) = batch.push_bytes(&packet.bytes, PortId(packet.port), packet.at) {
            answer.faults.push(format!("the harness made a packet that no batch takes: {error}"));
        }
    }
    for (slot, packet) in batch.packets_mut().iter_mut().zip(packets).filter(|_| edge.is_some()) {
        if let Some(Err(error)) = edge.map(|edge| guarded::fill(slot, &packet.bytes, edge)) {
            answer.faults.push(format!("no memory between forbidden pages: {error}"));
        }
    }
    engine.process(batch, out);
    for emission in out.emissions() {
        let Some(packet) = out.packet(batch, emission.packet) else {
            answer.faults.push(format!("{:?} is no packet of this batch", emission.packet));
            continue;
        };
        let input = match emission.packet {
            PacketRef::Input(index) => Some(usize::from(index)),
            PacketRef::Extra(_) => None,
        };
        let dropped = matches!(emission.verdict, Verdict::Drop(_));
        let bytes = if dropped { Vec::new() } else { packet.bytes().to_vec() };
        answer.emitted.push(Emitted { input, origin: emission.origin, verdict: emission.verdict, bytes });
    }
    answer.faults.extend(out.unanswered(batch).map(|index| format!("packet {index} of the batch got no verdict")));
    if batch.len() != packets.len() {
        answer.faults.push(format!("{} packets of the batch are gone", packets.len() - batch.len()));
    }
    answer
}

/// The interpreter through the trait that all engines share: checks the harness, and the interpreter's own batches.
pub struct InBatches {
    interp: Interp,
    batch: Batch,
    out: Output,
}

impl InBatches {
    /// The interpreter for a program.
    ///
    /// # Errors
    /// If it refuses the program.
    pub fn new(build: &Build<'_>) -> Result<InBatches, String> {
        InBatches::with(build.pipeline.clone(), build.setup)
    }

    /// The interpreter for the program as lowering left it: what the IR's passes did must not show.
    ///
    /// # Errors
    /// If there is no text, or it is refused.
    pub fn without_passes(build: &Build<'_>) -> Result<InBatches, String> {
        let text = build.text.ok_or("a program without text")?;
        InBatches::with(Arc::new(super::compile::compile(text, false)?), build.setup)
    }

    /// The interpreter for any pipeline.
    ///
    /// # Errors
    /// If it refuses it.
    pub fn with(pipeline: Arc<Pipeline>, setup: &interp::Config) -> Result<InBatches, String> {
        let interp = Interp::new(pipeline, setup.clone()).map_err(|error| error.to_string())?;
        Ok(InBatches { interp, batch: Batch::new(), out: Output::new() })
    }
}

/// Idle entries as the interpreter reports them, by identity.
pub fn idle_entries(pipeline: &Pipeline, idle: &[interp::IdleEntry]) -> Vec<Idle> {
    let one = |idle: &interp::IdleEntry| {
        let entry = idle.entry.to_table_entry(pipeline, idle.table);
        let entry = EntryId { table: idle.table, keys: entry.keys, priority: entry.priority };
        Idle { entry, deleted: idle.deleted }
    };
    idle.iter().map(one).collect()
}

/// What all engines say of their state in the same words.
#[macro_export]
macro_rules! engine_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn counter(&self, counter: ir::ExternId, index: u64) -> Option<entries::Counter> {
            self.$($look)*.counter(counter, index)
        }
        fn register(&self, register: ir::ExternId, index: u64) -> Option<Vec<num_bigint::BigUint>> {
            self.$($look)*.register(register, index)
        }
        fn direct_counter(&self, entry: &entries::EntryId) -> Option<entries::Counter> {
            self.$($look)*.direct_counter(entry)
        }
        fn take_digests(&mut self) -> Vec<(ir::ExternId, Vec<num_bigint::BigUint>)> {
            self.$($change)*.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
        }
    };
}

/// What a [`Subject`] whose state is an interpreter's says of it. How it gets to that from `self`: to look, and to change.
#[macro_export]
macro_rules! interp_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn state(&self) -> entries::State {
            self.$($look)*.state().clone()
        }
        $crate::engine_accessors!([$($look)*], [$($change)*]);
        fn applied(&self, table: ir::TableId) -> Option<Vec<[entries::Counter; 2]>> {
            Some(self.$($look)*.applied(table).map(|(_, counts)| counts).collect())
        }
    };
}

impl Subject for Oracle {
    fn name(&self) -> String {
        "interp".to_owned()
    }
    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        let mut answer = Answer::default();
        for (index, packet) in packets.iter().enumerate() {
            self.one(index, packet, &mut answer.emitted);
        }
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<Idle> {
        let idle = self.interp.advance_time(now);
        idle_entries(self.interp.pipeline(), &idle)
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.interp.write(batch).map_err(|error| error.to_string())
    }
    interp_accessors!([interp], [interp]);
}

impl Subject for InBatches {
    fn name(&self) -> String {
        "interp in batches".to_owned()
    }
    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        through_engine(&mut self.interp, &mut self.batch, &mut self.out, packets, None)
    }
    fn tick(&mut self, now: u64) -> Vec<Idle> {
        self.out.clear();
        Engine::tick(&mut self.interp, now, &mut self.out);
        let idle = self.interp.take_idle();
        idle_entries(self.interp.pipeline(), &idle)
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.interp.write(batch).map_err(|error| error.to_string())
    }
    interp_accessors!([interp], [interp]);
}
