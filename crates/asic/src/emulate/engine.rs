//! [`Switch`]: the emulated switch as its users see it.

use super::arch::{Arch, Out};
use super::counts::{Counts, Violation};
use super::frame::Frame;
use super::machine::Machine;
use super::placed::Placed;
use super::program::{Program, SwitchError};
use super::store::Store;
use interp::host::ExternHost;
use interp::host::architecture::reason_table;
use interp::{Config, DigestMessage, IdleEntry};
use ir::{ActionId, Entity, ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Batch, Emission, Engine, EngineReason, Origin, Output, PacketRef, ReasonTable, Verdict};
use std::collections::VecDeque;
use std::sync::Arc;
use tables::{Counter, Entry, EntryId, KeyLayout, State, WriteBatch, WriteError};

/// Idle entries that wait for somebody to take them.
const MOST_IDLE: usize = 1 << 16;

/// The emulated switch: a placed pipeline, run as the chip would.
pub struct Switch {
    program: Arc<Program>,
    pub(super) host: ExternHost,
    pub(super) store: Store,
    counts: Counts,
    reasons: ReasonTable,
    idle: Vec<IdleEntry>,
    /// Idle entries that nobody took and that there was no room for.
    lost: u64,
}

impl Switch {
    /// Loads a pipeline that the verifier has accepted, with its tables where `placed` says.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn new(pipeline: Arc<Pipeline>, placed: Placed, config: Config) -> Result<Switch, SwitchError> {
        let mut host = ExternHost::new(pipeline.clone(), config.clone())?;
        let program = Program::new(pipeline.clone(), config, placed, &mut host)?;
        let state = State::new(pipeline.clone()).map_err(interp::LoadError::from)?;
        let store = Store::new(&pipeline, &program.placed, state, &mut host)?;
        let passes = program.placed.passes.len();
        let counts = Counts {
            passes: vec![Counter::default(); passes],
            crossings: vec![Default::default(); passes - 1],
            ..Counts::default()
        };
        let reasons = reason_table(&pipeline);
        Ok(Switch { program: Arc::new(program), host, store, counts, reasons, idle: Vec::new(), lost: 0 })
    }

    /// Makes bridges that forget what should be carried: for tests, which must see it.
    #[doc(hidden)]
    pub fn sabotage(&mut self) {
        if let Some(program) = Arc::get_mut(&mut self.program) {
            program.forget();
        }
    }

    /// The pipeline that runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.program.pipeline
    }

    /// Where its tables are.
    pub fn placed(&self) -> &Placed {
        &self.program.placed
    }

    /// What it has done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What the bridge header behind a pass carries: names (a field's validity as `hdr.h.$valid`, what is no variable as `value` or `action`) with widths in
    /// bits. Headers that follow it as they are, are not in it.
    pub fn bridged(&self, pass: usize) -> Vec<(String, u32)> {
        let program = &self.program;
        program.bridges.get(pass).map(|bridge| bridge.names(&program.pipeline, &program.layout)).unwrap_or_default()
    }

    /// What the placement asked for and no chip can do, with the number of packets that were dropped for it.
    pub fn violations(&self) -> impl Iterator<Item = (&Violation, u64)> {
        self.counts.violations.iter().map(|(violation, packets)| (violation, *packets))
    }

    /// Applies a batch as a whole: packets of the next batch see it.
    ///
    /// # Errors
    /// An update is not valid, or a table has no room for its entries on the chip; nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.store.write(&mut self.host, batch).map(drop)
    }

    /// What the control plane has written, and what packets have added.
    pub fn state(&self) -> &State {
        &self.store.state
    }

    /// Entries in each part of a table, as [`super::PlacedTable::parts`] has them, and how many there is room for; over all parallel pipes.
    pub fn fill(&self, table: TableId) -> Vec<(u64, u64)> {
        let Some(table) = self.store.tables.get(table.index()) else { return Vec::new() };
        let mut fill = vec![(0, 0u64); table.placed.parts.len()];
        for column in &table.columns {
            for (sum, part) in fill.iter_mut().zip(&column.parts) {
                *sum = (sum.0 + part.len(), sum.1.saturating_add(part.capacity));
            }
        }
        fill
    }

    /// How many entries were moved from part to part of a table, so that stronger ones come first.
    pub fn moves(&self, table: TableId) -> u64 {
        self.store.tables.get(table.index()).map_or(0, |table| table.columns.iter().map(|column| column.moves).sum())
    }

    /// What becomes of a packet that arrives on a port at `now` nanoseconds.
    pub fn run(&mut self, bytes: &[u8], port: u32, now: u64) -> Vec<Out> {
        self.host.advance(now);
        let program = self.program.clone();
        let bytes = &bytes[..bytes.len().min(packet::MAX_LEN)];
        self.counts.received.add(bytes.len());
        let mut frame = Box::new(Frame::new(&program.pipeline, &program.layout, program.apply_sites));
        frame.port = port;
        frame.ingress_length = bytes.len() as u32;
        let now = self.host.now();
        let machine = Machine {
            program: &program,
            host: &mut self.host,
            store: &mut self.store,
            counts: &mut self.counts,
            fuel: program.config.max_steps,
            parser_fuel: 0,
            now,
            args: Vec::new(),
            results: Vec::new(),
        };
        let mut arch = Arch { machine, out: Vec::new(), queue: VecDeque::new(), copies: program.config.max_copies };
        match program.pipeline.arch {
            ir::Arch::V1Model => arch.run_v1model(frame, bytes),
            ir::Arch::Pna => arch.run_pna(&mut frame, bytes),
        }
        if arch.out.is_empty() {
            arch.drop(EngineReason::NoDestination.into(), Origin::Received);
        }
        arch.out
    }

    /// Time passes: the entries whose idle time is over.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let expired = self.host.expire(now, &mut self.store.state);
        for (table, _, entry) in &expired.deleted {
            self.store.expired(&mut self.host, *table, entry);
        }
        expired.idle
    }

    /// Takes the idle entries that [`Engine::tick`] found.
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        std::mem::take(&mut self.idle)
    }

    /// Takes the digest messages that wait.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.host.take_digests()
    }

    /// How many digest messages and notifications were lost because nobody took them.
    pub fn lost_messages(&self) -> u64 {
        self.host.lost_messages() + self.lost
    }

    /// The value of an indexed counter. Packets and bytes are both counted, whatever its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.host.counter(counter, index)
    }

    /// How many elements a counter, meter or register has.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.host.array_len(object)
    }

    /// The leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.host.register(register, index)
    }

    /// For each action of a table, in the order of its list: packets for which it was the default action of a miss, and those whose entry has it.
    pub fn applied(&self, table: TableId) -> Vec<(ActionId, [Counter; 2])> {
        let listed = self.pipeline().tables.get(table).map(|table| table.actions.as_slice()).unwrap_or_default();
        let counted = self.store.tables.get(table.index()).map(|table| table.applied.as_slice()).unwrap_or_default();
        listed.iter().map(|listed| listed.action).zip(counted.iter().copied()).collect()
    }

    /// The direct counter of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.host.direct_counter(table, self.store.number(table, entry)?)
    }

    /// Nanoseconds since a packet hit an entry that is in the table, or since it was inserted.
    pub fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.host.idle_for(table, self.store.number(table, entry)?)
    }

    /// The direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        let declared = self.pipeline().tables.get(id.table)?;
        let layout = KeyLayout::new(&declared.keys);
        let mut entries = self.store.state.entries(id.table);
        let entry = entries.find(|e| e.priority() == id.priority && layout.unpack(e.key()) == id.keys)?;
        self.entry_counter(id.table, entry)
    }
}

impl Engine for Switch {
    fn name(&self) -> &str {
        "asic"
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    /// One packet after the other. The first packet that leaves takes the place of the one that came.
    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            let input = PacketRef::Input(index as u16);
            let results = self.run(packet.bytes(), packet.ingress_port.0, packet.received_at);
            let mut replaced = false;
            for Out { bytes, verdict, origin } in results {
                if matches!(verdict, Verdict::Drop(_)) {
                    out.emit(Emission { packet: input, origin, verdict });
                    continue;
                }
                let place = if !std::mem::replace(&mut replaced, true) {
                    packet.set_bytes(&bytes).map(|()| input)
                } else if let Some((reference, slot)) = out.add() {
                    slot.ingress_port = packet.ingress_port;
                    slot.received_at = packet.received_at;
                    slot.set_bytes(&bytes).map(|()| reference)
                } else {
                    let verdict = Verdict::Drop(EngineReason::ReplicationLimit.into());
                    out.emit(Emission { packet: input, origin, verdict });
                    continue;
                };
                let verdict = if place.is_ok() { verdict } else { Verdict::Drop(EngineReason::PacketTooLong.into()) };
                out.emit(Emission { packet: place.unwrap_or(input), origin, verdict });
            }
        }
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        let mut idle = self.advance_time(now);
        let room = MOST_IDLE.saturating_sub(self.idle.len());
        self.lost += idle.len().saturating_sub(room) as u64;
        idle.truncate(room);
        self.idle.extend(idle);
    }
}
