//! Trait of the engines that are compared, with their control plane.

use super::case::PacketIn;
use entries::{ControlState, Counter, EntryId, WriteBatch};
use interp::{Interp, Outputs};
use io::guard_pages::{self, GuardSide};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Batch, BatchOutput, Engine, PacketOrigin, PacketRef, PortId, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A verdict with the bytes of the sent packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmittedPacket {
    /// Index of the input packet in the batch, if the engine reports it.
    pub input: Option<usize>,
    /// Origin of the packet.
    pub origin: PacketOrigin,
    /// Verdict of the packet.
    pub verdict: Verdict,
    /// Bytes of the packet; empty for a dropped packet.
    pub bytes: Vec<u8>,
}

/// Result of a batch.
#[derive(Clone, Debug, Default)]
pub struct BatchResult {
    /// Verdicts in order.
    pub emitted: Vec<EmittedPacket>,
    /// Errors of the result itself: packets without verdict, invalid references.
    pub faults: Vec<String>,
}

/// An entry that was reported idle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleReport {
    /// Identity of the entry.
    pub entry: EntryId,
    /// Whether the entry was deleted.
    pub deleted: bool,
}

/// An engine with its control plane, as tests see it.
pub trait EngineUnderTest {
    /// Returns the name of the engine.
    fn name(&self) -> String;
    /// Applies a write, all or none.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String>;
    /// Processes packets as one batch.
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult;
    /// Advances the clock. Returns the idle entries.
    fn tick(&mut self, now: u64) -> Vec<IdleReport>;
    /// Returns a snapshot of the control plane's state, with the entries that packets added.
    fn state(&self) -> ControlState;
    /// Returns the value of an indexed counter.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;
    /// Returns the leaves of a register's element.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;
    /// Returns how much of a pool of ports is in use; `None` for another object, and if the engine
    /// does not tell.
    fn port_usage(&self, pool: ExternId) -> Option<interp::PortUsage> {
        let _ = pool;
        None
    }
    /// Returns how many entries of an owner a quota counts; `None` for another object, and if the
    /// engine does not tell.
    fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        let _ = (quota, owner);
        None
    }
    /// Returns the direct counter of an entry.
    fn direct_counter(&self, entry: &EntryId) -> Option<Counter>;
    /// Returns packets and bytes for each action of a table, without and with a hit, summed over
    /// all applications of the table. `None` if the engine does not count them.
    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        let _ = table;
        None
    }
    /// Removes and returns the pending digest messages.
    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)>;
    /// Returns the number of packets that fell back to the interpreter, by reason; empty for
    /// engines other than compilers.
    fn handed(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
    /// Returns the number of packets that the vector path processed, counted once per stage, and
    /// the number of those that diverged to scalar code.
    fn vector_packet_counts(&self) -> [u64; 2] {
        [0; 2]
    }
}

/// Inputs of a factory.
pub struct EngineInputs<'a> {
    /// Text of the program, if available.
    pub text: Option<&'a str>,
    /// Compiled program.
    pub pipeline: &'a Arc<Pipeline>,
    /// Settings of the engine.
    pub setup: &'a interp::Config,
}

/// Creates an engine; `Err` if it refuses the program.
pub type Factory<'a> = &'a dyn Fn(&EngineInputs<'_>) -> Result<Box<dyn EngineUnderTest>, String>;

/// The oracle: the interpreter, one packet at a time.
pub struct Oracle {
    /// The interpreter.
    pub interp: Interp,
    outputs: Outputs,
}

impl Oracle {
    /// Creates the interpreter for a program.
    ///
    /// # Errors
    /// If it refuses the program.
    pub fn new(build: &EngineInputs<'_>) -> Result<Oracle, String> {
        let interp = Interp::new(build.pipeline.clone(), build.setup.clone()).map_err(|error| error.to_string())?;
        Ok(Oracle { interp, outputs: Outputs::new() })
    }

    /// Processes one packet. `input` is its index in the batch.
    pub fn process_one(&mut self, input: usize, packet: &PacketIn, out: &mut Vec<EmittedPacket>) {
        let mut outputs = std::mem::take(&mut self.outputs);
        self.interp.process_into(&packet.bytes, packet.port, packet.at, &mut outputs);
        collect_outputs(input, &outputs, out);
        self.outputs = outputs;
    }

    /// Processes one packet like [`Oracle::process_one`], and returns its trace.
    pub fn process_traced(
        &mut self,
        input: usize,
        packet: &PacketIn,
        out: &mut Vec<EmittedPacket>,
    ) -> interp::PacketTrace {
        let (outputs, trace) = self.interp.trace(&packet.bytes, packet.port, packet.at);
        collect_outputs(input, &outputs, out);
        trace
    }
}

/// Collects the outputs of one packet. `input` is its index in the batch.
pub fn collect_outputs(input: usize, outputs: &Outputs, out: &mut Vec<EmittedPacket>) {
    for packet in outputs.packets() {
        let bytes = if matches!(packet.verdict, Verdict::Drop(_)) { Vec::new() } else { packet.bytes.clone() };
        out.push(EmittedPacket { input: Some(input), origin: packet.origin, verdict: packet.verdict, bytes });
    }
}

/// Runs packets as one batch on an engine and decodes the result. With `edge`, packets are placed
/// next to protected pages, so that an access beyond a packet ends the process.
pub fn through_engine(
    engine: &mut dyn Engine,
    batch: &mut Batch,
    out: &mut BatchOutput,
    packets: &[PacketIn],
    edge: Option<GuardSide>,
) -> BatchResult {
    batch.clear();
    out.clear();
    let mut result = BatchResult::default();
    for packet in packets {
        if let Err(error) = batch.push_bytes(&packet.bytes, PortId(packet.port), packet.at) {
            result.faults.push(format!("the harness made a packet that no batch takes: {error}"));
        }
    }
    for (slot, packet) in batch.packets_mut().iter_mut().zip(packets).filter(|_| edge.is_some()) {
        if let Some(Err(error)) = edge.map(|edge| guard_pages::fill_guarded(slot, &packet.bytes, edge)) {
            result.faults.push(format!("no memory between forbidden pages: {error}"));
        }
    }
    engine.process(batch, out);
    for emission in out.verdicts() {
        let Some(packet) = out.packet(batch, emission.packet) else {
            result.faults.push(format!("{:?} is no packet of this batch", emission.packet));
            continue;
        };
        let input = match emission.packet {
            PacketRef::Input(index) => Some(usize::from(index)),
            PacketRef::Generated(_) => None,
        };
        let is_dropped = matches!(emission.verdict, Verdict::Drop(_));
        let bytes = if is_dropped { Vec::new() } else { packet.bytes().to_vec() };
        result.emitted.push(EmittedPacket { input, origin: emission.origin, verdict: emission.verdict, bytes });
    }
    result
        .faults
        .extend(out.inputs_without_verdict(batch).map(|index| format!("packet {index} of the batch got no verdict")));
    if batch.len() != packets.len() {
        result.faults.push(format!("{} packets of the batch are gone", packets.len() - batch.len()));
    }
    result
}

/// The interpreter with the batch interface of all engines. Tests the harness, and the
/// interpreter's batches.
pub struct InBatches {
    interp: Interp,
    batch: Batch,
    out: BatchOutput,
}

impl InBatches {
    /// Creates the interpreter for a program.
    ///
    /// # Errors
    /// If it refuses the program.
    pub fn new(build: &EngineInputs<'_>) -> Result<InBatches, String> {
        InBatches::with(build.pipeline.clone(), build.setup)
    }

    /// Creates the interpreter for the program before the IR's passes, to check that the passes
    /// have no visible effect.
    ///
    /// # Errors
    /// If there is no text, or it is refused.
    pub fn without_passes(build: &EngineInputs<'_>) -> Result<InBatches, String> {
        let text = build.text.ok_or("a program without text")?;
        InBatches::with(Arc::new(super::compile::compile(text, false)?), build.setup)
    }

    /// Creates the interpreter for any pipeline.
    ///
    /// # Errors
    /// If it refuses the pipeline.
    pub fn with(pipeline: Arc<Pipeline>, setup: &interp::Config) -> Result<InBatches, String> {
        let interp = Interp::new(pipeline, setup.clone()).map_err(|error| error.to_string())?;
        Ok(InBatches { interp, batch: Batch::new(), out: BatchOutput::new() })
    }
}

/// Returns the identities of the idle entries that the interpreter reports.
pub fn idle_entries(pipeline: &Pipeline, idle: &[interp::IdleEntry]) -> Vec<IdleReport> {
    let one = |idle: &interp::IdleEntry| {
        let entry = idle.entry.to_table_entry(pipeline, idle.table);
        let entry = EntryId { table: idle.table, keys: entry.keys, priority: entry.priority };
        IdleReport { entry, deleted: idle.deleted }
    };
    idle.iter().map(one).collect()
}

/// State accessors that are the same for all engines.
#[macro_export]
macro_rules! engine_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn counter(&self, counter: ir::ExternId, index: u64) -> Option<entries::Counter> {
            self.$($look)*.counter(counter, index)
        }
        fn register(&self, register: ir::ExternId, index: u64) -> Option<Vec<num_bigint::BigUint>> {
            self.$($look)*.register(register, index)
        }
        fn port_usage(&self, pool: ir::ExternId) -> Option<interp::PortUsage> {
            self.$($look)*.port_usage(pool)
        }
        fn quota_entries(&self, quota: ir::ExternId, owner: u32) -> Option<u32> {
            self.$($look)*.quota_entries(quota, owner)
        }
        fn direct_counter(&self, entry: &entries::EntryId) -> Option<entries::Counter> {
            self.$($look)*.direct_counter(entry)
        }
        fn take_digests(&mut self) -> Vec<(ir::ExternId, Vec<num_bigint::BigUint>)> {
            self.$($change)*.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
        }
    };
}

/// State accessors of a [`EngineUnderTest`] with the state of an interpreter. The arguments are the
/// paths from `self` to it, for reading and for writing.
#[macro_export]
macro_rules! interp_accessors {
    ([$($look:tt)*], [$($change:tt)*]) => {
        fn state(&self) -> entries::ControlState {
            self.$($look)*.state().clone()
        }
        $crate::engine_accessors!([$($look)*], [$($change)*]);
        fn applied(&self, table: ir::TableId) -> Option<Vec<[entries::Counter; 2]>> {
            Some(self.$($look)*.action_counters(table).map(|(_, counts)| counts).collect())
        }
    };
}

impl EngineUnderTest for Oracle {
    fn name(&self) -> String {
        "interp".to_owned()
    }
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        let mut answer = BatchResult::default();
        for (index, packet) in packets.iter().enumerate() {
            self.process_one(index, packet, &mut answer.emitted);
        }
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        let idle = self.interp.advance_time(now);
        idle_entries(self.interp.pipeline(), &idle)
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.interp.write(batch).map_err(|error| error.to_string())
    }
    interp_accessors!([interp], [interp]);
}

impl EngineUnderTest for InBatches {
    fn name(&self) -> String {
        "interp in batches".to_owned()
    }
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        through_engine(&mut self.interp, &mut self.batch, &mut self.out, packets, None)
    }
    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
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
