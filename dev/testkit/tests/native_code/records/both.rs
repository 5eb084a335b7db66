//! Runs the interpreter and recording native code side by side, and compares their records of each
//! packet.

use super::noter::{Noted, Noter};
use entries::{StateChange, WriteBatch};
use fastrand::Rng;
use interp::{DeferredCount, Outputs};
use ir::{ControlKind, Entity, ExternId, ExternKind, Inst, Pipeline, TableId};
use jit::PacketRecord;
use packet::{DropReason, EngineReason, PacketOrigin, Verdict};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use testkit::differ::case::{PacketIn, ProgramSource, TestCase, TestEvent};
use testkit::differ::compare;
use testkit::differ::native::Native;
use testkit::differ::print::print_program;
use testkit::differ::subject::{BatchResult, EngineInputs, EngineUnderTest, Oracle, collect_outputs};

/// Packets per batch. The capacity for outcomes limits it.
const BATCH: usize = 200;

/// Amounts compared.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub programs: u64,
    pub handed: u64,
    pub packets: u64,
    pub applications: u64,
    pub found: u64,
    pub keyless: u64,
    pub counts: u64,
    /// Number of different paths over all programs, and of packets that repeat a path.
    pub ways: u64,
    pub again: u64,
    pub incomplete: u64,
    /// Packets that look up tables that packets write, whose records are incomplete.
    pub readers: u64,
    /// Packets that recirculate, whose records are incomplete.
    pub recirculated: u64,
    pub credits: u64,
    pub gone: u64,
    pub writes: u64,
}

/// Native code's record of a packet.
struct Kept {
    decisions: Vec<u32>,
    applications: Vec<(TableId, Option<u32>, Vec<u64>)>,
    indices: Vec<u64>,
    complete: bool,
    reads_written_table: bool,
}

impl Kept {
    fn new(record: &PacketRecord<'_>) -> Kept {
        let applications = record.lookups.iter().map(|it| (it.table, it.entry_id, record.lookup_key(it).to_vec()));
        Kept {
            decisions: record.decisions.to_vec(),
            applications: applications.collect(),
            indices: record.indices.to_vec(),
            complete: record.is_complete,
            reads_written_table: record.reads_written_table,
        }
    }
}

/// Entry, as both engines identify it: number and generation.
#[derive(Clone, Copy)]
struct Handle {
    table: TableId,
    oracle: (u32, u32),
    native: (u32, u32),
}

/// Both engines.
pub struct Both {
    pipeline: Arc<Pipeline>,
    oracle: Oracle,
    native: Native,
    noter: Noter,
    /// Whether the deparser calls externs.
    deparser_calls: bool,
    outputs: Outputs,
    rng: Rng,
    /// Path of each engine's record, mapped to the other engine's.
    ways: [HashMap<Vec<u32>, Vec<u32>>; 2],
    handles: Vec<Handle>,
    /// Some deleted entries. Their numbers may have been reused.
    gone: Vec<Handle>,
    pub seen: Seen,
}

fn same<T: PartialEq + Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    compare::differs(what, expected, found).map_or(Ok(()), Err)
}

fn deparser_calls(pipeline: &Pipeline) -> bool {
    let deparsers = pipeline.controls.values().filter(|control| control.kind == ControlKind::MainDeparser);
    deparsers.flat_map(|control| control.body.insts()).any(|data| matches!(data.inst, Inst::Extern { .. }))
}

/// Runs a case on both. Returns an error that describes the first difference.
pub fn run(case: &TestCase) -> Result<Seen, String> {
    let text = match &case.source {
        ProgramSource::Made(program) => Some(print_program(program)),
        ProgramSource::File(_) => None,
    };
    let build = EngineInputs { text: text.as_deref(), pipeline: &case.pipeline, setup: &case.setup };
    let mut native = Native::recording(&build)?;
    if native.jit().fallback_reason().is_some() {
        return Ok(Seen { handed: 1, ..Seen::default() });
    }
    let mut both = Both {
        pipeline: case.pipeline.clone(),
        oracle: Oracle::new(&build)?,
        native,
        noter: Noter::new(&case.pipeline),
        deparser_calls: deparser_calls(&case.pipeline),
        outputs: Outputs::new(),
        rng: Rng::with_seed(case.seed),
        ways: Default::default(),
        handles: Vec::new(),
        gone: Vec::new(),
        seen: Seen { programs: 1, ..Seen::default() },
    };
    for (number, step) in case.steps.iter().enumerate() {
        let done = match step {
            TestEvent::Packets(packets) => packets.chunks(BATCH).try_for_each(|packets| both.packets(packets)),
            TestEvent::Write(batch) => both.write(batch),
            TestEvent::Tick(now) => {
                both.oracle.tick(*now);
                both.native.tick(*now);
                Ok(())
            }
        };
        done.map_err(|what| format!("step {number}: {what}"))?;
    }
    both.states()?;
    Ok(both.seen)
}

impl Both {
    fn states(&mut self) -> Result<(), String> {
        compare::compare_states(&self.pipeline, &mut self.oracle, &mut self.native).map_or(Ok(()), Err)
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.states()?;
        let (mut expected, mut found): (Vec<StateChange>, Vec<StateChange>) = Default::default();
        let mut unnumbered = None;
        let written = ir::packet_written_tables(&self.pipeline);
        let taken = self.oracle.interp.write_observed(batch, |change, _| expected.push(change.clone()));
        let also = self.native.jit().write_noting(batch, |change, number| {
            let entry =
                matches!(change, StateChange::Inserted(..) | StateChange::Modified(..) | StateChange::Deleted(..));
            let is_written = change.entry().is_some_and(|(table, _)| written[table.index()]);
            if entry && number.is_none() && !is_written {
                unnumbered = Some(format!("{change:?} has no number"));
            }
            found.push(change.clone());
        });
        self.seen.writes += 1;
        same("a write", &taken.map_err(|error| error.to_string()), &also.map_err(|error| error.to_string()))?;
        same("changes", &format!("{expected:?}"), &format!("{found:?}"))?;
        unnumbered.map_or(Ok(()), Err)?;
        for handle in std::mem::take(&mut self.handles) {
            let (interp, jit) = (&self.oracle.interp, self.native.jit());
            let Handle { table, oracle, native } = handle;
            let there = interp.generation(table, oracle.0) == oracle.1;
            let also = jit.generation(table, native.0) == native.1;
            same("whether an entry is the same as before", &there, &also)?;
            match there {
                true => {
                    same(
                        "an entry",
                        &interp.entry_in_slot(table, oracle.0).cloned(),
                        &jit.entry_by_id(table, native.0),
                    )?;
                    self.handles.push(handle);
                }
                false => {
                    self.seen.gone += 1;
                    self.gone.insert(0, handle);
                    self.gone.truncate(16);
                }
            }
        }
        self.states()
    }

    fn packets(&mut self, packets: &[PacketIn]) -> Result<(), String> {
        let (mut expected, mut notes) = (BatchResult::default(), Vec::new());
        for (number, packet) in packets.iter().enumerate() {
            self.noter.noted = Noted::default();
            let interp = &mut self.oracle.interp;
            interp.process_by(&mut self.noter, &packet.bytes, packet.port, packet.at, &mut self.outputs);
            collect_outputs(number, &self.outputs, &mut expected.emitted);
            let mut noted = std::mem::take(&mut self.noter.noted);
            noted.recirculates |= self.outputs.packets().iter().any(|packet| packet.origin != PacketOrigin::Received);
            if let (Some(front), true) = (noted.deparser.filter(|_| !self.deparser_calls), self.dropped()) {
                // Native code does not deparse packets that the program drops, which has no visible
                // effect.
                noted.decisions.truncate(front);
            }
            notes.push(noted);
        }
        let mut kept = Vec::new();
        let found = self.native.process_recorded(packets, &mut |packet, record| {
            assert_eq!(packet, kept.len(), "records come in order");
            kept.push(Kept::new(record));
        });
        compare::compare_results(&expected, &found).map_or(Ok(()), Err)?;
        same("records", &packets.len(), &kept.len())?;
        for (number, (noted, kept)) in notes.iter().zip(&kept).enumerate() {
            self.packet(noted, kept).map_err(|what| {
                let bytes = compare::hex(&packets[number].bytes);
                format!("packet {number} {bytes}: {what}\n{:?}\n{:?}", noted.decisions, kept.decisions)
            })?;
        }
        self.credits(packets.last().map_or(0, |packet| packet.at))
    }

    /// Returns whether the program dropped the last packet.
    fn dropped(&self) -> bool {
        let program = DropReason::Engine(EngineReason::ProgramDrop);
        let drops =
            |verdict| matches!(verdict, Verdict::Drop(why) if why == program || matches!(why, DropReason::Program(_)));
        self.outputs.packets().iter().any(|packet| drops(packet.verdict))
    }

    fn packet(&mut self, noted: &Noted, kept: &Kept) -> Result<(), String> {
        self.seen.packets += 1;
        if noted.recirculates {
            // The record ends with the first pass, and says that it is not all.
            self.seen.recirculated += 1;
            self.seen.incomplete += 1;
            same("whether the record of a recirculated packet is complete", &false, &kept.complete)?;
            let first_pass = noted.applications.iter().zip(&kept.applications);
            same(
                "that the record has no more than the packet",
                &true,
                &(kept.applications.len() <= noted.applications.len()),
            )?;
            return first_pass.into_iter().try_for_each(|(one, other)| self.application(one, other));
        }
        if kept.reads_written_table {
            // Such lookups are not recorded, and the record says so.
            self.seen.readers += 1;
            return same("whether the record of a packet with flow state is complete", &false, &kept.complete);
        }
        same("applications", &noted.applications.len(), &kept.applications.len())?;
        for (one, other) in noted.applications.iter().zip(&kept.applications) {
            self.application(one, other)?;
        }
        same("indices of counters", &noted.indices, &kept.indices)?;
        self.seen.counts += kept.indices.len() as u64;
        if !kept.complete {
            self.seen.incomplete += 1;
            return Ok(());
        }
        let [by_oracle, by_native] = &mut self.ways;
        let before = by_oracle.insert(noted.decisions.clone(), kept.decisions.clone());
        let also = by_native.insert(kept.decisions.clone(), noted.decisions.clone());
        *if before.is_some() { &mut self.seen.again } else { &mut self.seen.ways } += 1;
        same("the way of packets with one way", &before, &before.as_ref().map(|_| kept.decisions.clone()))?;
        same("the way of packets with one native way", &also, &also.as_ref().map(|_| noted.decisions.clone()))
    }

    fn application(
        &mut self,
        (index, oracle, key): &(usize, Option<u32>, Vec<u64>),
        (table, native, words): &(TableId, Option<u32>, Vec<u64>),
    ) -> Result<(), String> {
        let (interp, jit) = (&self.oracle.interp, self.native.jit());
        same("a table", index, &table.index())?;
        same("a key", key, words)?;
        let expected = oracle.and_then(|number| interp.entry_in_slot(*table, number));
        let found = native.and_then(|number| jit.entry_by_id(*table, number));
        same("an entry", &expected, &found.as_ref())?;
        let mut args = Vec::new();
        let there = jit.copy_action_data(*table, *native, &mut args);
        same("arguments", &interp.args(*table, *oracle).map(<[u64]>::to_vec), &there.then_some(args))?;
        self.seen.applications += 1;
        self.seen.keyless += u64::from(key.is_empty());
        let (Some(oracle), Some(native)) = (*oracle, *native) else {
            return same("whether an entry was found", &oracle.is_some(), &native.is_some());
        };
        self.seen.found += 1;
        let (oracle, native) = ((oracle, interp.generation(*table, oracle)), (native, jit.generation(*table, native)));
        if self.handles.len() < 64 {
            self.handles.push(Handle { table: *table, oracle, native });
        }
        Ok(())
    }

    /// Gives both the same random deferred counts: of current and deleted entries, counters, and
    /// table actions.
    fn credits(&mut self, last: u64) -> Result<(), String> {
        if self.rng.u8(..3) > 0 {
            return Ok(());
        }
        if self.rng.bool() {
            let now = last + self.rng.u64(..1000);
            same("the time", &self.oracle.interp.advance_clock(now), &self.native.jit().observe_time(now))?;
        }
        // Deferred counts of deleted entries must not appear in other entries' counters.
        for handle in [&self.handles[..], &self.gone].concat() {
            if self.rng.u8(..4) == 0 {
                self.credit_entry(handle, last)?;
            }
        }
        let pipeline = self.pipeline.clone();
        for (id, object) in pipeline.externs.iter() {
            if let ExternKind::Counter { size, .. } = object.kind {
                let index = if self.rng.u8(..8) == 0 { self.rng.u64(..) } else { self.rng.u64(..size.max(1)) };
                let credit = DeferredCount::Counter { counter: ExternId::from_index(id.index()), index };
                self.credit([credit.clone(), credit], last);
            }
        }
        for table in pipeline.tables.keys() {
            let tallied = |counts: Vec<[entries::Counter; 2]>| counts.iter().flatten().any(|c| c.packets > 0);
            // Native code has no counter for a table that is applied nowhere. Tables that only the second
            // pass applies are in no record, so that no count of them is deferred.
            let is_in_records = !pipeline.tables[table].preamble.name.contains(".icmp_");
            if is_in_records && self.oracle.applied(table).is_some_and(tallied) {
                let arm = self.rng.u32(..=pipeline.tables[table].actions.len() as u32);
                let credit = DeferredCount::Applied { table, arm, hit: self.rng.bool() };
                self.credit([credit.clone(), credit], last);
            }
        }
        self.states()
    }

    /// Counts a hit of an entry, or counts with its direct counter.
    fn credit_entry(&mut self, handle: Handle, last: u64) -> Result<(), String> {
        let Handle { table, oracle, native } = handle;
        let hit = self.rng.bool();
        let counts = self.pipeline.tables[table].direct_counter.is_some();
        let credit = |(number, generation): (u32, u32)| match hit {
            true => DeferredCount::Hit { table, number, generation },
            false => DeferredCount::Direct { table, number, generation },
        };
        if hit || counts {
            self.credit([credit(oracle), credit(native)], last);
        }
        Ok(())
    }

    fn credit(&mut self, [oracle, native]: [DeferredCount; 2], last: u64) {
        let (packets, bytes) = (self.rng.u64(..1000), self.rng.u64(..100_000));
        self.oracle.interp.add_deferred_count(&oracle, packets, bytes, last);
        self.native.jit().credit(&native, packets, bytes, last);
        self.seen.credits += 1;
    }
}
