//! [`EmulatedSwitch`]: public interface of the emulated switch.

use super::chip::ChipOverseer;
use super::placed::PlacementMap;
use super::program::{SwitchError, SwitchProgram};
use super::stats::{SwitchStats, SwitchViolation};
use super::store::SwitchTables;
use entries::{ControlState, Counter, EntryId, StoredEntry, WriteBatch, WriteError};
use interp::{Config, DigestMessage, IdleEntry, Interp, OutPacket, Outputs};
use ir::{ActionId, Entity, ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Batch, BatchOutput, Engine, ReasonTable, Verdict};
use std::sync::Arc;

/// Emulated switch: runs a placed pipeline like the chip.
pub struct EmulatedSwitch {
    program: Arc<SwitchProgram>,
    /// Executes the instructions that the chip allows.
    pub(super) interp: Interp,
    store: SwitchTables,
    counts: SwitchStats,
    out: Outputs,
}

impl EmulatedSwitch {
    /// Loads a verified pipeline with its tables placed as in `placed`.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn new(pipeline: Arc<Pipeline>, placed: PlacementMap, config: Config) -> Result<EmulatedSwitch, SwitchError> {
        let interp = Interp::per_instruction(pipeline.clone(), config)?;
        let program = SwitchProgram::new(pipeline.clone(), interp.program().clone(), placed)?;
        let store = SwitchTables::new(&pipeline, &program.placed, interp.state())?;
        let passes = program.placed.passes.len();
        let counts = SwitchStats {
            passes: vec![Counter::default(); passes],
            crossings: vec![Default::default(); passes - 1],
            ..SwitchStats::default()
        };
        Ok(EmulatedSwitch { program: Arc::new(program), interp, store, counts, out: Outputs::new() })
    }

    /// Removes state from bridges, for tests that must detect it.
    #[doc(hidden)]
    pub fn sabotage(&mut self) {
        if let Some(program) = Arc::get_mut(&mut self.program) {
            program.drop_bridge_fields();
        }
    }

    /// Returns the running pipeline.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.program.pipeline
    }

    /// Returns the placement of its tables.
    pub fn placed(&self) -> &PlacementMap {
        &self.program.placed
    }

    /// Returns the statistics.
    pub fn stats(&self) -> &SwitchStats {
        &self.counts
    }

    /// Returns the fields of the bridge header after a pass: names (a validity bit as
    /// `hdr.h.$valid`, a value or chosen action as `value` or `action`) with widths in bits.
    /// Headers that follow unchanged are excluded.
    pub fn bridge_fields(&self, pass: usize) -> Vec<(String, u32)> {
        let program = &self.program;
        program
            .bridges
            .get(pass)
            .map(|bridge| bridge.field_names(&program.pipeline, &program.decoded))
            .unwrap_or_default()
    }

    /// Returns the violations of the placement, with the number of packets dropped for each.
    pub fn violations(&self) -> impl Iterator<Item = (&SwitchViolation, u64)> {
        self.counts.violations.iter().map(|(violation, packets)| (violation, *packets))
    }

    /// Applies a batch atomically. The next batch of packets sees it.
    ///
    /// # Errors
    /// [`WriteError`]: an update is invalid, or a table lacks capacity on the chip. The state is
    /// unchanged.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let store = &mut self.store;
        self.interp.write_checked(batch, |changes| {
            store.check_capacity(changes, batch)?;
            store.apply_changes(changes);
            Ok(())
        })
    }

    /// Returns the state written by the control plane, with entries added by packets.
    pub fn state(&self) -> &ControlState {
        self.interp.state()
    }

    /// Returns entries and capacity of each part of a table, in the order of
    /// [`super::PlacedTable::parts`], summed over parallel pipes.
    pub fn part_fill(&self, table: TableId) -> Vec<(u64, u64)> {
        let Some(table) = self.store.tables.get(table.index()) else { return Vec::new() };
        let mut fill = vec![(0, 0u64); table.placed.parts.len()];
        for column in &table.columns {
            for (sum, part) in fill.iter_mut().zip(&column.parts) {
                *sum = (sum.0 + part.len(), sum.1.saturating_add(part.capacity));
            }
        }
        fill
    }

    /// Returns the number of entries that moved between parts of a table to keep the match
    /// precedence.
    pub fn moved_entries(&self, table: TableId) -> u64 {
        self.store.tables.get(table.index()).map_or(0, |table| table.columns.iter().map(|column| column.moves).sum())
    }

    /// Processes a packet that arrives on a port at `now` (ns). Returns the output packets.
    pub fn process_one(&mut self, bytes: &[u8], port: u32, now: u64) -> Vec<OutPacket> {
        self.run_packet(bytes, port, now);
        self.out.packets().to_vec()
    }

    fn run_packet(&mut self, bytes: &[u8], port: u32, now: u64) {
        self.counts.received.count_packet(bytes.len().min(packet::MAX_WIRE_LEN));
        let chip = ChipOverseer::new(&self.program, &mut self.store, &mut self.counts);
        self.interp.process_with_overseer(chip, bytes, port, now, &mut self.out);
        for packet in self.out.packets() {
            match packet.verdict {
                Verdict::Drop(_) => self.counts.dropped += 1,
                _ => self.counts.sent.count_packet(packet.bytes.len()),
            }
        }
    }

    /// Advances time to `now` (ns). Returns the entries with an expired idle time.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        let store = &mut self.store;
        self.interp.advance_time_observed(now, |table, entry| store.remove(table, entry))
    }

    /// Takes the idle entries found by [`Engine::tick`].
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        self.interp.take_idle()
    }

    /// Takes the pending digest messages.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.interp.take_digests()
    }

    /// Returns the number of digest messages and notifications lost because they were not taken in
    /// time.
    pub fn lost_messages(&self) -> u64 {
        self.interp.lost_messages()
    }

    /// Returns the value of an indexed counter. Packets and bytes are both counted, regardless of
    /// its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.interp.counter(counter, index)
    }

    /// Returns the number of elements of a counter, meter or register.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.interp.array_len(object)
    }

    /// Returns the leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.interp.register(register, index)
    }

    /// Returns for each action of a table, in list order: packets for which it was the default
    /// action of a miss, and packets that hit an entry with it.
    pub fn action_counters(&self, table: TableId) -> Vec<(ActionId, [Counter; 2])> {
        self.interp.action_counters(table).collect()
    }

    /// Returns the direct counter of an entry of the table.
    pub fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.interp.entry_counter(table, self.own_entry(table, entry)?)
    }

    /// Returns the nanoseconds since the last hit of an entry of the table, or since its insertion.
    pub fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        self.interp.entry_idle_for(table, self.own_entry(table, entry)?)
    }

    /// Returns the entry here with the key and priority of one that may belong to another engine.
    pub(super) fn own_entry(&self, table: TableId, entry: &StoredEntry) -> Option<&StoredEntry> {
        self.state().get_entry(table, entry.key(), entry.priority())
    }

    /// Returns the direct counter of an entry.
    pub fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        self.interp.direct_counter(id)
    }
}

impl Engine for EmulatedSwitch {
    fn name(&self) -> &str {
        "asic"
    }

    fn reasons(&self) -> &ReasonTable {
        self.interp.reasons()
    }

    /// Processes packets one by one. The first output packet replaces the input packet.
    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            self.run_packet(packet.bytes(), packet.ingress_port.0, packet.rx_time_ns);
            interp::emit(&self.out, index as u16, packet, out);
        }
    }

    fn tick(&mut self, now: u64, _out: &mut BatchOutput) {
        let idle = self.advance_time(now);
        self.interp.notify(idle);
    }
}
