//! [`Interp`]: the engine as its users see it.

use crate::config::Config;
use crate::decode::{Form, LoadError, decode};
use crate::frame::{Frame, FramePool};
use crate::lookup::{EntryLevel, EntrySlot};
use crate::machine::Machine;
use crate::memory::{DigestMessage, IdleEntry, MAX_WAITING, Memory};
use crate::meter::MeterLevel;
use crate::output::Outputs;
use crate::overseer::Overseer;
use crate::pass::{Pass, Stage};
use crate::program::{CallArg, Program};
use crate::reasons;
use crate::trace::Trace;
use crate::walk::Detour;
use crate::wire::BitBuffer;
use entries::{Change, Counter, Entry, EntryId, State, WriteBatch, WriteError};
use ir::{ActionId, Arch, Entity, ExternFn, ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::ReasonTable;
use std::collections::VecDeque;
use std::sync::Arc;

/// The reference engine. One packet at a time; the definition of what a program means.
pub struct Interp {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) program: Arc<Program>,
    pub(crate) memory: Memory,
    pub(crate) config: Config,
    pub(crate) pool: FramePool,
    pub(crate) queue: VecDeque<(Stage, Box<Frame>)>,
    pub(crate) bits: BitBuffer,
    reasons: ReasonTable,
    pub(crate) scratch: Outputs,
    /// By which the next packet is counted, if not by its own.
    pub(crate) counted_length: Option<u32>,
    idle: Vec<IdleEntry>,
}

impl Interp {
    /// Loads a pipeline that the verifier has accepted.
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<Interp, LoadError> {
        Interp::decoded(pipeline, config, Form::Short)
    }

    /// As [`Interp::new`], for an overseer that looks at the instructions of the IR: see [`Form::PerInstruction`].
    pub fn per_instruction(pipeline: Arc<Pipeline>, config: Config) -> Result<Interp, LoadError> {
        Interp::decoded(pipeline, config, Form::PerInstruction)
    }

    fn decoded(pipeline: Arc<Pipeline>, config: Config, form: Form) -> Result<Interp, LoadError> {
        let program = decode(&pipeline, form)?;
        let state = State::new(pipeline.clone())?;
        let mut memory = Memory::new(&pipeline, state, config.seed);
        restart_by_call(&program, &mut memory);
        Ok(Interp::with(pipeline, program, memory, config))
    }

    /// An engine of these parts, which belong together.
    pub(crate) fn with(pipeline: Arc<Pipeline>, program: Program, memory: Memory, config: Config) -> Interp {
        Interp {
            reasons: reasons::table(&pipeline),
            pipeline,
            program: Arc::new(program),
            memory,
            config,
            pool: FramePool::new(),
            queue: VecDeque::new(),
            bits: BitBuffer::default(),
            scratch: Outputs::new(),
            counted_length: None,
            idle: Vec::new(),
        }
    }

    /// The pipeline that runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The seed of random numbers: the same one gives the same run.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Names of the reasons that the program declares.
    pub fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    /// What the control plane has written, and what packets have added. Clone it for a snapshot.
    pub fn state(&self) -> &State {
        &self.memory.state
    }

    /// Applies a batch as a whole. If one update is refused, nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write_noting(batch, |_, _| {})
    }

    /// As [`Interp::write`], and shows each change before it is carried out, if all are accepted; with it the number of the entry that is changed
    /// or deleted, by which packets find it.
    pub fn write_noting(
        &mut self,
        batch: &WriteBatch,
        mut note: impl FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError> {
        let changes = self.memory.state.apply(batch)?;
        for change in &changes {
            let number = match change {
                Change::Modified(table, entry, ..) | Change::Deleted(table, entry) => {
                    self.memory.tables[table.index()].find(entry)
                }
                _ => None,
            };
            note(change, number);
        }
        self.memory.carry_out(changes);
        Ok(())
    }

    /// As [`Interp::write`]; `check` sees the changes before, and can refuse them all.
    pub fn write_checked(
        &mut self,
        batch: &WriteBatch,
        check: impl FnOnce(&[Change]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut next = self.memory.state.clone();
        let changes = next.apply(batch)?;
        check(&changes)?;
        self.memory.state = next;
        self.memory.carry_out(changes);
        Ok(())
    }

    /// What becomes of a packet that arrives on a port at `now` nanoseconds.
    pub fn process(&mut self, bytes: &[u8], port: u32, now: u64) -> Outputs {
        let mut out = Outputs::new();
        self.process_into(bytes, port, now, &mut out);
        out
    }

    /// As [`Interp::process`], into `out`, whose earlier contents are lost and whose buffers are reused.
    pub fn process_into(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.run((), bytes, port, now, out, None);
    }

    /// The length in bytes by which meters and counters go for the packets that follow, whatever length they have
    /// ([`packet::Packet::came_with`]); `None`: their own.
    pub fn count_as(&mut self, length: Option<u32>) {
        self.counted_length = length;
    }

    /// As [`Interp::process_into`], but the main control (v1model: ingress) is run by `detour`, step by step.
    pub fn process_by(
        &mut self,
        detour: &mut (dyn Detour + 'static),
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
    ) {
        self.run((), bytes, port, now, out, Some(detour));
    }

    /// As [`Interp::process_into`], under an overseer.
    pub fn process_under(&mut self, overseer: impl Overseer, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.run(overseer, bytes, port, now, out, None);
    }

    /// The decoded program: what a [`Detour`] walks through.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// As [`Interp::process`], and says what happened. It does happen: counters count, registers are written.
    pub fn trace(&mut self, bytes: &[u8], port: u32, now: u64) -> (Outputs, Trace) {
        let (mut out, mut trace) = (Outputs::new(), Trace::default());
        self.run(&mut trace, bytes, port, now, &mut out, None);
        (out, trace)
    }

    fn run<O: Overseer>(
        &mut self,
        overseer: O,
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
        detour: Option<&mut (dyn Detour + 'static)>,
    ) {
        out.clear();
        self.memory.now = self.memory.now.max(now);
        let program = self.program.clone();
        let mut frame = self.pool.pop().unwrap_or_else(|| Box::new(Frame::new(&program)));
        frame.arrive(&bytes[..bytes.len().min(packet::MAX_LEN)], port, self.counted_length);
        let machine = Machine {
            program: &program,
            pipeline: &self.pipeline,
            config: &self.config,
            memory: &mut self.memory,
            overseer,
            fuel: self.config.max_steps,
            parser_fuel: 0,
            bits: &mut self.bits,
        };
        let mut pass = Pass {
            machine,
            config: &self.config,
            out,
            queue: &mut self.queue,
            pool: &mut self.pool,
            copies: self.config.max_copies,
            detour,
        };
        match self.pipeline.arch {
            Arch::V1Model => pass.run_v1model(frame),
            Arch::Pna => pass.run_pna(frame),
        }
        if pass.out.packets().is_empty() {
            pass.drop(packet::EngineReason::NoDestination.into(), packet::Origin::Received);
        }
    }

    /// Time passes: the entries whose idle time is over. In tables with auto delete they are gone.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        self.advance_time_noting(now, |_, _| {})
    }

    /// As [`Interp::advance_time`], and shows each entry that is gone.
    pub fn advance_time_noting(&mut self, now: u64, note: impl FnMut(TableId, &Entry)) -> Vec<IdleEntry> {
        self.memory.now = self.memory.now.max(now);
        self.memory.expire(now, note)
    }

    /// Keeps notifications for [`Interp::take_idle`].
    pub fn notify(&mut self, idle: Vec<IdleEntry>) {
        for entry in idle {
            if self.idle.len() < MAX_WAITING {
                self.idle.push(entry);
            } else {
                self.memory.lost += 1;
            }
        }
    }

    /// The entry that packets find by that number ([`crate::walk::Walker::lookup`]).
    pub fn entry_of(&self, table: TableId, number: u32) -> Option<&Entry> {
        self.memory.entry(table.index(), number)
    }

    /// Tells the entry of that number from those that had the number before.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        let slots = self.memory.tables.get(table.index()).map(|table| &table.slots);
        slots.and_then(|slots| slots.get(number as usize)).map_or(0, |slot| slot.generation)
    }

    /// The words of the parameters that the entry of that number gives its action; without a number, those of the default action.
    pub fn args(&self, table: TableId, number: Option<u32>) -> Option<&[u64]> {
        let table = self.memory.tables.get(table.index())?;
        match number {
            Some(number) => table.slots.get(number as usize).map(|_| table.args(number)),
            None => Some(&table.default_args),
        }
    }

    /// Takes the idle entries that `tick` of the [`packet::Engine`] found.
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        std::mem::take(&mut self.idle)
    }

    /// Takes the digest messages that wait.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.memory.digests.drain(..).collect()
    }

    /// How many digest messages and notifications were lost because nobody took them.
    pub fn lost_messages(&self) -> u64 {
        self.memory.lost
    }

    /// The value of an indexed counter. Packets and bytes are both counted, whatever its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.memory.counter(counter, index)
    }

    /// How many elements a counter, meter or register has.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.memory.array_len(object)
    }

    /// The leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.memory.register(register, index)
    }

    /// The direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        self.entry_slot(id).map(|slot| slot.counter)
    }

    /// The time in nanoseconds since the idle time of an entry began, as of the last packet or [`Interp::advance_time`].
    pub fn idle_for(&self, id: &EntryId) -> Option<u64> {
        self.entry_slot(id).map(|slot| self.memory.now.saturating_sub(slot.active))
    }

    /// For each action of a table, in the order of its list: packets for which it was the default action of a miss, and those whose entry has it.
    pub fn applied(&self, table: TableId) -> impl Iterator<Item = (ActionId, [Counter; 2])> + '_ {
        let listed = self.pipeline.tables.get(table).map(|table| table.actions.as_slice()).unwrap_or_default();
        let counted = self.memory.tables.get(table.index()).map(|table| table.applied.as_slice()).unwrap_or_default();
        listed.iter().map(|listed| listed.action).zip(counted.iter().copied())
    }

    /// As [`Interp::direct_counter`], of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.slot_of(table, entry).map(|slot| slot.counter)
    }

    /// As [`Interp::idle_for`], of an entry that is in the table.
    pub fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.slot_of(table, entry).map(|slot| self.memory.now.saturating_sub(slot.active))
    }

    /// The elements of an indexed meter that are not as full as at first.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.memory.meter_levels(meter)
    }

    /// Sets how full an element of an indexed meter is; one that is not configured stays so.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel) {
        self.memory.set_meter_level(meter, index, level);
    }

    /// What an entry that is in the table has besides what was written to it.
    pub fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.slot_of(table, entry).map(|slot| slot.level())
    }

    /// Sets that. An entry that is not in the table stays away.
    pub fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel) {
        if let Some(slot) = self.memory.tables.get(table.index()).and_then(|table| table.find(entry)) {
            self.memory.set_entry_level(table, slot, level);
        }
    }

    /// The flow id that was given last.
    pub fn flow_id(&self) -> u32 {
        self.memory.flow_id
    }

    /// The next flow id follows on this one.
    pub fn set_flow_id(&mut self, id: u32) {
        self.memory.flow_id = id;
    }

    /// Whether entries do not grow too old for now, whatever the time is.
    pub fn hold_idle(&mut self, hold: bool) {
        self.memory.hold_idle = hold;
    }

    fn slot_of(&self, table: TableId, entry: &Entry) -> Option<&EntrySlot> {
        let table = self.memory.tables.get(table.index())?;
        table.slots.get(table.find(entry)? as usize)
    }

    fn entry_slot(&self, id: &EntryId) -> Option<&EntrySlot> {
        let declared = self.pipeline.tables.get(id.table)?;
        let mut entries = self.memory.state.entries(id.table);
        let entry = entries.find(|e| {
            e.priority() == id.priority && entries::KeyLayout::new(&declared.keys).unpack(e.key()) == id.keys
        })?;
        self.slot_of(id.table, entry)
    }

    /// The table of that name, full or the end of it after a dot, if only one has it.
    pub fn table(&self, name: &str) -> Option<TableId> {
        entries::find_table(&self.pipeline, name).ok()
    }
}

/// In a table whose actions say when the idle time restarts, a mere hit does not restart it.
pub(crate) fn restart_by_call(program: &Program, memory: &mut Memory) {
    for call in program.codes.iter().flat_map(|code| &code.calls) {
        if let (ExternFn::SetEntryExpireTime | ExternFn::RestartExpireTimer, Some(CallArg::Table(table))) =
            (call.func, call.args.first())
        {
            memory.tables[*table].restart_on_hit = false;
        }
    }
}
