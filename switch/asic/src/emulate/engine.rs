//! [`Switch`]: the emulated switch as its users see it.

use super::chip::Chip;
use super::counts::{Counts, Violation};
use super::placed::Placed;
use super::program::{Program, SwitchError};
use super::store::Store;
use entries::{Counter, Entry, EntryId, State, WriteBatch, WriteError};
use interp::{Config, DigestMessage, IdleEntry, Interp, OutPacket, Outputs};
use ir::{ActionId, Entity, ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Batch, Engine, Output, ReasonTable, Verdict};
use std::sync::Arc;

/// The emulated switch: a placed pipeline, run as the chip would.
pub struct Switch {
    program: Arc<Program>,
    /// Runs what the chip lets it run.
    pub(super) interp: Interp,
    store: Store,
    counts: Counts,
    out: Outputs,
}

impl Switch {
    /// Loads a pipeline that the verifier has accepted, with its tables where `placed` says.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn new(pipeline: Arc<Pipeline>, placed: Placed, config: Config) -> Result<Switch, SwitchError> {
        let interp = Interp::per_instruction(pipeline.clone(), config)?;
        let program = Program::new(pipeline.clone(), interp.program().clone(), placed)?;
        let store = Store::new(&pipeline, &program.placed, interp.state())?;
        let passes = program.placed.passes.len();
        let counts = Counts {
            passes: vec![Counter::default(); passes],
            crossings: vec![Default::default(); passes - 1],
            ..Counts::default()
        };
        Ok(Switch { program: Arc::new(program), interp, store, counts, out: Outputs::new() })
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

    /// What the bridge header behind a pass carries: names (a field's validity as `hdr.h.$valid`,
    /// what is no variable as `value` or `action`) with widths in bits. Headers that follow it as
    /// they are, are not in it.
    pub fn bridged(&self, pass: usize) -> Vec<(String, u32)> {
        let program = &self.program;
        program.bridges.get(pass).map(|bridge| bridge.names(&program.pipeline, &program.decoded)).unwrap_or_default()
    }

    /// What the placement asked for and no chip can do, with the number of packets that were
    /// dropped for it.
    pub fn violations(&self) -> impl Iterator<Item = (&Violation, u64)> {
        self.counts.violations.iter().map(|(violation, packets)| (violation, *packets))
    }

    /// Applies a batch as a whole: packets of the next batch see it.
    ///
    /// # Errors
    /// An update is not valid, or a table has no room for its entries on the chip; nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let store = &mut self.store;
        self.interp.write_checked(batch, |changes| {
            store.check(changes, batch)?;
            store.carry_out(changes);
            Ok(())
        })
    }

    /// What the control plane has written, and what packets have added.
    pub fn state(&self) -> &State {
        self.interp.state()
    }

    /// Entries in each part of a table, as [`super::PlacedTable::parts`] has them, and how many
    /// there is room for; over all parallel pipes.
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
    pub fn run(&mut self, bytes: &[u8], port: u32, now: u64) -> Vec<OutPacket> {
        self.run_packet(bytes, port, now);
        self.out.packets().to_vec()
    }

    fn run_packet(&mut self, bytes: &[u8], port: u32, now: u64) {
        self.counts.received.add(bytes.len().min(packet::MAX_LEN));
        let chip = Chip::new(&self.program, &mut self.store, &mut self.counts);
        self.interp.process_under(chip, bytes, port, now, &mut self.out);
        for packet in self.out.packets() {
            match packet.verdict {
                Verdict::Drop(_) => self.counts.dropped += 1,
                _ => self.counts.sent.add(packet.bytes.len()),
            }
        }
    }

    /// Time passes: the entries whose idle time is over.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let store = &mut self.store;
        self.interp.advance_time_noting(now, |table, entry| store.remove(table, entry))
    }

    /// Takes the idle entries that [`Engine::tick`] found.
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        self.interp.take_idle()
    }

    /// Takes the digest messages that wait.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.interp.take_digests()
    }

    /// How many digest messages and notifications were lost because nobody took them.
    pub fn lost_messages(&self) -> u64 {
        self.interp.lost_messages()
    }

    /// The value of an indexed counter. Packets and bytes are both counted, whatever its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.interp.counter(counter, index)
    }

    /// How many elements a counter, meter or register has.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.interp.array_len(object)
    }

    /// The leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.interp.register(register, index)
    }

    /// For each action of a table, in the order of its list: packets for which it was the default
    /// action of a miss, and those whose entry has it.
    pub fn applied(&self, table: TableId) -> Vec<(ActionId, [Counter; 2])> {
        self.interp.applied(table).collect()
    }

    /// The direct counter of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.interp.entry_counter(table, self.own(table, entry)?)
    }

    /// Nanoseconds since a packet hit an entry that is in the table, or since it was inserted.
    pub fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.interp.entry_idle_for(table, self.own(table, entry)?)
    }

    /// The entry here that has the key and the priority of one that may be another engine's.
    pub(super) fn own(&self, table: TableId, entry: &Entry) -> Option<&Entry> {
        self.state().find(table, entry.key(), entry.priority())
    }

    /// The direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        self.interp.direct_counter(id)
    }
}

impl Engine for Switch {
    fn name(&self) -> &str {
        "asic"
    }

    fn reasons(&self) -> &ReasonTable {
        self.interp.reasons()
    }

    /// One packet after the other. The first packet that leaves takes the place of the one that
    /// came.
    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            self.run_packet(packet.bytes(), packet.ingress_port.0, packet.received_at);
            interp::emit(&self.out, index as u16, packet, out);
        }
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        let idle = self.advance_time(now);
        self.interp.notify(idle);
    }
}
