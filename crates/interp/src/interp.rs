//! [`Interp`]: public interface of the engine.

use crate::bit_io::BitBuffer;
use crate::block_hook::BlockHook;
use crate::config::Config;
use crate::decode::{CodeGranularity, LoadError, decode};
use crate::exec_context::ExecContext;
use crate::frame::{Frame, FramePool};
use crate::lookup::{EntryRuntimeState, EntrySlot};
use crate::meter::MeterFill;
use crate::output::Outputs;
use crate::overseer::Overseer;
use crate::packet_run::{PacketRun, ResumePoint};
use crate::persistent_state::{DigestMessage, IdleEntry, MAX_WAITING, PersistentState};
use crate::pool_control::PoolControl;
use crate::port_pool::PortUsage;
use crate::program::{CallArg, DecodedProgram};
use crate::reasons;
use crate::trace::PacketTrace;
use entries::{ControlState, Counter, EntryId, StateChange, StoredEntry, WriteBatch, WriteError};
use ir::{ActionId, Arch, Entity, ExternFn, ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::ReasonTable;
use std::collections::VecDeque;
use std::sync::Arc;

/// Reference engine. It runs one packet at a time and defines the meaning of a program.
pub struct Interp {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) program: Arc<DecodedProgram>,
    pub(crate) memory: PersistentState,
    pub(crate) config: Config,
    pub(crate) pool: FramePool,
    pub(crate) queue: VecDeque<(ResumePoint, Box<Frame>)>,
    pub(crate) bits: BitBuffer,
    reasons: ReasonTable,
    pub(crate) scratch: Outputs,
    /// Length in bytes that the next packet is counted with; `None`: its own.
    pub(crate) counted_len_bytes: Option<u32>,
    /// [`packet::Offload::segment_excess`] of the next packet.
    pub(crate) segment_excess: u16,
    idle: Vec<IdleEntry>,
}

impl Interp {
    /// Loads a pipeline that the verifier has accepted.
    ///
    /// Errors: the pipeline is inconsistent, too large, or has invalid entries of its own.
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<Interp, LoadError> {
        Interp::with_granularity(pipeline, config, CodeGranularity::Short)
    }

    /// Loads a pipeline like [`Interp::new`], with code for an overseer of IR instructions: see
    /// [`CodeGranularity::PerInstruction`].
    pub fn per_instruction(pipeline: Arc<Pipeline>, config: Config) -> Result<Interp, LoadError> {
        Interp::with_granularity(pipeline, config, CodeGranularity::PerInstruction)
    }

    fn with_granularity(pipeline: Arc<Pipeline>, config: Config, form: CodeGranularity) -> Result<Interp, LoadError> {
        let program = decode(&pipeline, form)?;
        let state = ControlState::new(pipeline.clone())?;
        let mut memory = PersistentState::new(&pipeline, state, config.seed);
        restart_by_call(&program, &mut memory);
        if config.notes_port_blocks {
            memory.report_block_changes();
        }
        Ok(Interp::from_parts(pipeline, program, memory, config))
    }

    /// Creates an engine from a program and its memory.
    pub(crate) fn from_parts(
        pipeline: Arc<Pipeline>,
        program: DecodedProgram,
        memory: PersistentState,
        config: Config,
    ) -> Interp {
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
            counted_len_bytes: None,
            segment_excess: 0,
            idle: Vec::new(),
        }
    }

    /// Returns the pipeline that runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Returns the seed of the random numbers. Equal seeds give equal runs.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Returns the names of the reasons that the program declares.
    pub fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    /// Returns the state written by the control plane and by packets. Clone it for a snapshot.
    pub fn state(&self) -> &ControlState {
        &self.memory.state
    }

    /// Applies a batch atomically. If one update is rejected, the state is unchanged.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write_observed(batch, |_, _| {})
    }

    /// Applies a batch like [`Interp::write`] and calls `observe` for each change before it is
    /// carried out, if all are accepted. The second argument is the slot of the modified or deleted
    /// entry.
    pub fn write_observed(
        &mut self,
        batch: &WriteBatch,
        mut observe: impl FnMut(&StateChange, Option<u32>),
    ) -> Result<(), WriteError> {
        let changes = self.memory.state.apply(batch)?;
        for change in &changes {
            let slot = match change {
                StateChange::Modified(table, entry, ..) | StateChange::Deleted(table, entry) => {
                    self.memory.tables[table.index()].find(entry)
                }
                _ => None,
            };
            observe(change, slot);
        }
        self.memory.apply_changes(changes);
        Ok(())
    }

    /// Applies a batch like [`Interp::write`]. `check` receives the changes first and can reject
    /// them all.
    pub fn write_checked(
        &mut self,
        batch: &WriteBatch,
        check: impl FnOnce(&[StateChange]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut new_state = self.memory.state.clone();
        let changes = new_state.apply(batch)?;
        check(&changes)?;
        self.memory.state = new_state;
        self.memory.apply_changes(changes);
        Ok(())
    }

    /// Processes a packet that arrives on a port at `now`, in nanoseconds, and returns the
    /// verdicts.
    pub fn process(&mut self, bytes: &[u8], port: u32, now: u64) -> Outputs {
        let mut out = Outputs::new();
        self.process_into(bytes, port, now, &mut out);
        out
    }

    /// Processes a packet like [`Interp::process`]. The verdicts replace the contents of `out`; its
    /// buffers are reused.
    pub fn process_into(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.run_packet((), bytes, port, now, out, None);
    }

    /// Sets the length in bytes that meters and counters use for subsequent packets
    /// ([`packet::Packet::metered_len_bytes`]); `None`: their own.
    pub fn set_metered_length(&mut self, length: Option<u32>) {
        self.counted_len_bytes = length;
    }

    /// Sets [`packet::Offload::segment_excess`] of subsequent packets; 0: they are no super-frames.
    pub fn set_segment_excess(&mut self, excess: u16) {
        self.segment_excess = excess;
    }

    /// Processes a packet like [`Interp::process_into`], but `hook` runs the main control
    /// (v1model: ingress) step by step.
    pub fn process_by(
        &mut self,
        hook: &mut (dyn BlockHook + 'static),
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
    ) {
        self.run_packet((), bytes, port, now, out, Some(hook));
    }

    /// Processes a packet like [`Interp::process_into`], under an overseer.
    pub fn process_with_overseer(
        &mut self,
        overseer: impl Overseer,
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
    ) {
        self.run_packet(overseer, bytes, port, now, out, None);
    }

    /// Returns the decoded program, which a [`BlockHook`] steps through.
    pub fn program(&self) -> &Arc<DecodedProgram> {
        &self.program
    }

    /// Processes a packet like [`Interp::process`] and returns its trace. All effects happen:
    /// counters count, registers are written.
    pub fn trace(&mut self, bytes: &[u8], port: u32, now: u64) -> (Outputs, PacketTrace) {
        let (mut out, mut trace) = (Outputs::new(), PacketTrace::default());
        self.run_packet(&mut trace, bytes, port, now, &mut out, None);
        (out, trace)
    }

    /// Processes one packet to its verdicts in `out`. `port` is the ingress port, `now` the time of
    /// arrival in nanoseconds; the engine's clock never runs backwards. `hook` runs blocks in place
    /// of the interpreter. A packet without a verdict is dropped.
    fn run_packet<O: Overseer>(
        &mut self,
        overseer: O,
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
        hook: Option<&mut (dyn BlockHook + 'static)>,
    ) {
        out.clear();
        self.memory.now = self.memory.now.max(now);
        let program = self.program.clone();
        let mut frame = self.pool.pop().unwrap_or_else(|| Box::new(Frame::new(&program)));
        let bytes = &bytes[..bytes.len().min(packet::MAX_LEN)];
        frame.fill_from_received(bytes, port, self.counted_len_bytes, self.segment_excess);
        let context = ExecContext {
            program: &program,
            pipeline: &self.pipeline,
            config: &self.config,
            memory: &mut self.memory,
            overseer,
            fuel: self.config.max_steps,
            parser_fuel: 0,
            bits: &mut self.bits,
        };
        let mut run = PacketRun {
            machine: context,
            config: &self.config,
            out,
            queue: &mut self.queue,
            pool: &mut self.pool,
            copies: self.config.max_copies,
            hook,
        };
        match self.pipeline.arch {
            Arch::V1Model => run.run_v1model(frame),
            Arch::Pna => run.run_pna(frame),
        }
        if run.out.packets().is_empty() {
            run.drop_packet(packet::EngineReason::NoDestination.into(), packet::PacketOrigin::Received);
        }
        self.memory.release_unused();
    }

    /// Advances the time and returns the entries with an expired idle timeout. Tables with
    /// automatic deletion have removed them.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        self.advance_time_observed(now, |_, _| {})
    }

    /// Advances the time like [`Interp::advance_time`] and calls `note` for each removed entry.
    pub fn advance_time_observed(&mut self, now: u64, note: impl FnMut(TableId, &StoredEntry)) -> Vec<IdleEntry> {
        self.memory.now = self.memory.now.max(now);
        self.memory.expire_entries(now, note)
    }

    /// Keeps notifications for [`Interp::take_idle`].
    pub fn notify(&mut self, idle: Vec<IdleEntry>) {
        for entry in idle {
            if self.idle.len() < MAX_WAITING {
                self.idle.push(entry);
            } else {
                self.memory.lost_messages += 1;
            }
        }
    }

    /// Returns the entry in this slot ([`crate::block_hook::BlockStepper::lookup`]).
    pub fn entry_in_slot(&self, table: TableId, number: u32) -> Option<&StoredEntry> {
        self.memory.entry(table.index(), number)
    }

    /// Returns the generation of a slot, which distinguishes its entry from earlier ones.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        let slots = self.memory.tables.get(table.index()).map(|table| &table.slots);
        slots.and_then(|slots| slots.get(number as usize)).map_or(0, |slot| slot.generation)
    }

    /// Returns the words of the action data of the entry in this slot; without a slot, of the
    /// default action.
    pub fn args(&self, table: TableId, number: Option<u32>) -> Option<&[u64]> {
        let table = self.memory.tables.get(table.index())?;
        match number {
            Some(number) => table.slots.get(number as usize).map(|_| table.args(number)),
            None => Some(&table.default_args),
        }
    }

    /// Removes and returns the idle entries that `tick` of the [`packet::Engine`] found.
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        std::mem::take(&mut self.idle)
    }

    /// Removes and returns the pending digest messages.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.memory.digests.drain(..).collect()
    }

    /// Returns the number of digest messages and notifications lost because their queue was full.
    pub fn lost_messages(&self) -> u64 {
        self.memory.lost_messages
    }

    /// Returns the value of an indexed counter. Packets and bytes are both counted, whatever its
    /// unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.memory.counter(counter, index)
    }

    /// Returns the number of elements of a counter, meter or register.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.memory.array_len(object)
    }

    /// Returns how much of a pool of ports is in use; `None` for another object.
    pub fn port_usage(&self, pool: ExternId) -> Option<PortUsage> {
        self.memory.port_usage(pool)
    }

    /// Returns how many entries of an owner a quota counts; `None` for another object.
    pub fn quota_entries(&self, quota: ExternId, owner: u32) -> Option<u32> {
        self.memory.taken_shares(quota, owner)
    }

    /// Returns a pool of ports for the control plane; `None` for another object.
    pub fn port_pool_mut(&mut self, pool: ExternId) -> Option<&mut dyn PoolControl> {
        self.memory.port_pool_mut(pool)
    }

    /// Returns the leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.memory.register(register, index)
    }

    /// Returns the direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        self.entry_slot(id).map(|slot| slot.counter)
    }

    /// Returns the time in nanoseconds since the idle timer of an entry was started, as of the last
    /// packet or [`Interp::advance_time`].
    pub fn idle_for(&self, id: &EntryId) -> Option<u64> {
        self.entry_slot(id).map(|slot| self.memory.now.saturating_sub(slot.idle_since_ns))
    }

    /// Returns for each action of a table, in the order of its list, the packets that ran it as
    /// default action on a miss, and those that ran it on a hit.
    pub fn action_counters(&self, table: TableId) -> impl Iterator<Item = (ActionId, [Counter; 2])> + '_ {
        let listed = self.pipeline.tables.get(table).map(|table| table.actions.as_slice()).unwrap_or_default();
        let counted =
            self.memory.tables.get(table.index()).map(|table| table.action_counters.as_slice()).unwrap_or_default();
        listed.iter().map(|listed| listed.action).zip(counted.iter().copied())
    }

    /// Returns the direct counter of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.slot_of(table, entry).map(|slot| slot.counter)
    }

    /// Returns the idle time in nanoseconds of an entry that is in the table.
    pub fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        self.slot_of(table, entry).map(|slot| self.memory.now.saturating_sub(slot.idle_since_ns))
    }

    /// Returns the elements of an indexed meter that are not as full as initially.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        self.memory.meter_levels(meter)
    }

    /// Sets the fill of an element of an indexed meter. Has no effect on an element that is not
    /// configured.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill) {
        self.memory.set_meter_level(meter, index, level);
    }

    /// Returns the dynamic state of an entry that is in the table.
    pub fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        self.slot_of(table, entry).map(|slot| slot.runtime_state())
    }

    /// Sets the dynamic state of an entry. Has no effect if the entry is not in the table.
    pub fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        if let Some(slot) = self.memory.tables.get(table.index()).and_then(|table| table.find(entry)) {
            self.memory.set_entry_level(table, slot, level);
        }
    }

    /// Returns the last allocated flow id.
    pub fn flow_id(&self) -> u32 {
        self.memory.flow_id
    }

    /// Sets the last allocated flow id.
    pub fn set_flow_id(&mut self, id: u32) {
        self.memory.flow_id = id;
    }

    /// Suspends (`true`) or resumes the expiry of entries.
    pub fn hold_idle(&mut self, hold: bool) {
        self.memory.is_expiry_suspended = hold;
    }

    fn slot_of(&self, table: TableId, entry: &StoredEntry) -> Option<&EntrySlot> {
        let table = self.memory.tables.get(table.index())?;
        table.slots.get(table.find(entry)? as usize)
    }

    /// Returns the slot of the entry with this table, key and priority.
    fn entry_slot(&self, id: &EntryId) -> Option<&EntrySlot> {
        let declared = self.pipeline.tables.get(id.table)?;
        let mut entries = self.memory.state.entries(id.table);
        let entry = entries.find(|e| {
            e.priority() == id.priority && entries::KeyLayout::new(&declared.keys).unpack(e.key()) == id.keys
        })?;
        self.slot_of(id.table, entry)
    }

    /// Returns the table with this name, either full or the part after a dot, if it is unique.
    pub fn table(&self, name: &str) -> Option<TableId> {
        entries::find_table(&self.pipeline, name).ok()
    }
}

/// Disables the restart of the idle timer on a hit in tables with actions that restart it
/// explicitly.
pub(crate) fn restart_by_call(program: &DecodedProgram, memory: &mut PersistentState) {
    for call in program.codes.iter().flat_map(|code| &code.calls) {
        if let (ExternFn::SetEntryExpireTime | ExternFn::RestartExpireTimer, Some(CallArg::Table(table))) =
            (call.func, call.args.first())
        {
            memory.tables[*table].restart_on_hit = false;
        }
    }
}
