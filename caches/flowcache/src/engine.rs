//! [`FlowCache`]: an engine that decides once, and replays.

use crate::admission::Admission;
use crate::cache::Caches;
use crate::config::{CacheConfig, Kind};
use crate::explain::{Explanation, Teller};
use crate::fresh::{Place, may_match};
use crate::pace::Spare;
use crate::samples::Samples;
use crate::segment::Asked;
use crate::space;
use crate::stats::Stats;
use entries::{Change, Entry, WriteBatch, WriteError};
use interp::walk::{Code, Program};
use interp::{Config, Interp, LoadError, Outputs};
use ir::{ControlKind, Entity, Pipeline, TableId};
use packet::{Batch, Engine, Output, ReasonTable};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// A pipeline whose main control is cached. See the crate.
pub struct FlowCache {
    interp: Interp,
    caches: Caches,
    /// What became of packets with a mark, of the last batch.
    told: Vec<(u16, String)>,
}

/// What a table of a cache holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableUse {
    /// Segments.
    pub entries: usize,
    /// Different masks.
    pub masks: usize,
    /// Bytes, about.
    pub memory: usize,
}

impl FlowCache {
    /// Loads a pipeline that the verifier has accepted.
    ///
    /// # Errors
    /// Those of [`Interp::new`]; and a program without a main control.
    pub fn new(pipeline: Arc<Pipeline>, config: Config, cache: CacheConfig) -> Result<FlowCache, LoadError> {
        let interp = Interp::new(pipeline.clone(), config)?;
        let program = interp.program().clone();
        let empty = Code::empty();
        let mut caches = Caches::new(&pipeline, &program, main_code(&program).unwrap_or(&empty), cache);
        for table in pipeline.tables.keys() {
            interp.state().entries(table).for_each(|entry| caches.witnesses[table.index()].insert(entry));
        }
        Ok(FlowCache { interp, caches, told: Vec::new() })
    }

    /// The engine that the slow path is, with all state.
    pub fn interp(&self) -> &Interp {
        &self.interp
    }

    /// The same, to set counters and the like. Tables are changed by [`FlowCache::write`] only.
    pub fn interp_mut(&mut self) -> &mut Interp {
        &mut self.interp
    }

    /// How it was made.
    pub fn config(&self) -> &CacheConfig {
        &self.caches.config
    }

    /// What was counted.
    pub fn stats(&self) -> &Stats {
        &self.caches.stats
    }

    /// Whose packet it is says that variable (`hdr.vxlan.vni`), as the main control finds it: tenants share the slow path. Without one, all packets are one
    /// tenant's. False if the program does not have it, or it is wider than 64 bits.
    pub fn tell_tenants_by(&mut self, variable: &str) -> bool {
        let program = self.interp.program();
        let found = program.var_names.iter().position(|name| name == variable);
        let reg = found.map(|at| program.var_regs[at]).filter(|reg| reg.words == 1 && !reg.varbit);
        self.caches.tenant = reg.map(|reg| reg.slot);
        reg.is_some()
    }

    /// Who was refused the slow path, and how often.
    pub fn admission(&self) -> Option<&Admission> {
        self.caches.admission.as_ref()
    }

    /// From now on the slow path takes no more than other packets leave it time for ([`crate::pace`]), and no more than its budget. False if it has none
    /// ([`CacheConfig::slow_path`]). Where flows are not given in batches ([`Engine::process`]), nothing is measured.
    pub fn keep_pace(&mut self, spare: Spare) -> bool {
        self.caches.admission.as_mut().map(|admission| admission.keep_pace(spare)).is_some()
    }

    /// What each table holds.
    pub fn tables(&self) -> impl Iterator<Item = TableUse> + '_ {
        self.caches.stores.iter().map(|store| TableUse {
            entries: store.len(),
            masks: store.masks(),
            memory: store.memory(),
        })
    }

    /// Bytes that all segments take, about, and what finds those that a change makes stale.
    pub fn memory(&self) -> usize {
        let samples = self.caches.samples.as_ref().map_or(0, Samples::memory);
        self.tables().map(|table| table.memory).sum::<usize>() + self.caches.fresh.memory() + samples
    }

    /// Whether what finds the segments that a change makes stale is in order: for tests.
    ///
    /// # Errors
    /// What is wrong: a bug.
    pub fn check(&self) -> Result<(), String> {
        let caches = &self.caches;
        let segments = caches.stores.iter().enumerate().flat_map(|(at, store)| {
            store.iter().map(move |(place, kept)| (&kept.segment, kept.nodes, (at as u32, place)))
        });
        caches.fresh.check(&caches.witnesses, segments)
    }

    /// From now on the adaptive cache decides by few samples, of which each packet is one: for tests.
    pub fn measure_eagerly(&mut self) {
        self.caches.samples.iter_mut().for_each(Samples::be_eager);
    }

    /// How many different whole traversals the segments make, if each may follow each that begins where it ends: an upper bound.
    pub fn chains(&self) -> f64 {
        space::chains(&self.caches.stores)
    }

    /// The published estimate of the rule space that is covered. See [`crate::space`].
    pub fn rule_space(&self) -> f64 {
        space::published(&self.caches.stores)
    }

    /// What becomes of a packet that arrives on a port at `now` nanoseconds.
    pub fn process(&mut self, bytes: &[u8], port: u32, now: u64) -> Outputs {
        let mut out = Outputs::new();
        self.process_into(bytes, port, now, &mut out);
        out
    }

    /// As [`FlowCache::process`], into `out`, whose earlier contents are lost and whose buffers are reused.
    pub fn process_into(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.interp.process_by(&mut self.caches, bytes, port, now, out);
    }

    /// Applies a batch as a whole. If one update is refused, nothing has changed. Segments that contradict the tables are gone before the next packet.
    ///
    /// # Errors
    /// Those of [`Interp::write`].
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let mut noted = Vec::new();
        self.interp.write_noting(batch, |change, number| noted.push((change.clone(), number)))?;
        let mut stale = BTreeSet::new();
        for (change, number) in &noted {
            self.note(change, *number, &mut stale);
        }
        for (at, place) in stale {
            self.caches.forget(at, place);
        }
        Ok(())
    }

    fn note(&mut self, change: &Change, number: Option<u32>, stale: &mut BTreeSet<Place>) {
        match change {
            Change::Inserted(table, entry, _) => {
                self.inserted(*table, entry, stale);
                self.caches.witnesses[table.index()].insert(entry);
            }
            Change::Modified(table, entry, ..) => self.gone(*table, entry, number, stale),
            Change::Deleted(table, entry) => {
                self.gone(*table, entry, number, stale);
                self.caches.witnesses[table.index()].remove(entry);
            }
            Change::DefaultAction(table) => stale.extend(self.caches.fresh.missed(table.0)),
            // Groups and meters are asked by each packet, also one that hits.
            _ => {}
        }
    }

    /// Who found the entry of that number, or if it isn't known, any entry by a key that this one has.
    fn gone(&self, table: TableId, entry: &Entry, number: Option<u32>, stale: &mut BTreeSet<Place>) {
        let witness = &self.caches.witnesses[table.index()];
        self.who_asked((table, entry, number), stale, |asked| match number {
            Some(number) => asked.found == Some(number),
            None => asked.found.is_some() && may_match(witness, asked, entry),
        });
    }

    /// Who would find the new entry.
    fn inserted(&self, table: TableId, entry: &Entry, stale: &mut BTreeSet<Place>) {
        let witness = &self.caches.witnesses[table.index()];
        self.who_asked((table, entry, None), stale, |asked| {
            let found = asked.found.and_then(|number| self.interp.entry_of(table, number));
            found.is_none_or(|found| witness.is_stronger(entry, found)) && may_match(witness, asked, entry)
        });
    }

    /// Segments that asked the table under the exact keys of an entry, or found the one of that number, if it concerns what they asked.
    fn who_asked(
        &self,
        (table, entry, number): (TableId, &Entry, Option<u32>),
        stale: &mut BTreeSet<Place>,
        concerns: impl Fn(&Asked) -> bool,
    ) {
        let caches = &self.caches;
        let places = caches.fresh.under(&caches.witnesses[table.index()], table.0, entry, number);
        stale.extend(places.filter(|(at, place)| {
            let Some(kept) = caches.stores[*at as usize].get(*place) else { return false };
            kept.segment.asked.iter().any(|asked| asked.table == table.0 && concerns(asked))
        }));
    }

    /// Time passes: entries of tables, and segments, that were idle for too long are gone.
    pub fn advance_time(&mut self, now: u64) -> Vec<interp::IdleEntry> {
        let idle = self.interp.advance_time(now);
        let mut stale = BTreeSet::new();
        for gone in idle.iter().filter(|gone| gone.deleted) {
            self.gone(gone.table, &gone.entry, None, &mut stale);
            self.caches.witnesses[gone.table.index()].remove(&gone.entry);
        }
        for (at, place) in stale {
            self.caches.forget(at, place);
        }
        self.caches.expire(now);
        idle
    }

    /// What becomes of a packet, and what of its way can be kept. It does happen: counters count.
    pub fn explain(&mut self, bytes: &[u8], port: u32, now: u64) -> (Outputs, Explanation) {
        // Bits that decided are told of an exact cache, too.
        let kind = if self.caches.is_chain() { self.caches.config.kind } else { Kind::Megaflow };
        let config = CacheConfig { kind, ..self.caches.config };
        let empty = Code::empty();
        let program = self.interp.program().clone();
        let pipeline = self.interp.pipeline().clone();
        let mut caches = Caches::new(&pipeline, &program, main_code(&program).unwrap_or(&empty), config);
        let swap = |one: &mut Caches, other: &mut Caches| {
            std::mem::swap(&mut one.witnesses, &mut other.witnesses);
            std::mem::swap(&mut one.samples, &mut other.samples);
        };
        swap(&mut caches, &mut self.caches);
        // What was measured is known by this cache's hashes.
        caches.hasher = self.caches.hasher.clone();
        let mut teller = Teller { caches, told: Explanation::default() };
        let mut out = Outputs::new();
        self.interp.process_by(&mut teller, bytes, port, now, &mut out);
        swap(&mut teller.caches, &mut self.caches);
        (out, teller.told)
    }

    /// A batch in which packets have marks: those are had by themselves, so that it is seen what was done for them.
    #[cold]
    fn process_marked(&mut self, batch: &mut Batch, out: &mut Output) {
        let marks: Vec<u16> = batch.packets().iter().map(|packet| packet.mark).collect();
        let mut first = 0;
        while first < marks.len() {
            let plain = marks[first..].iter().take_while(|mark| **mark == 0).count();
            if plain > 0 {
                self.interp.process_range(Some(&mut self.caches), batch, first..first + plain, out);
                first += plain;
                continue;
            }
            let before = self.caches.stats.clone();
            self.interp.process_range(Some(&mut self.caches), batch, first..first + 1, out);
            self.told.push((marks[first], self.caches.stats.since_of_one(&before)));
            first += 1;
        }
    }

    /// Forgets all segments.
    pub fn clear(&mut self) {
        self.caches.clear();
    }
}

/// The control that is cached.
fn main_code(program: &Program) -> Option<&Code> {
    let main = [ControlKind::Ingress, ControlKind::MainControl].into_iter().find_map(|kind| program.code(kind))?;
    program.codes.get(main)
}

impl Engine for FlowCache {
    fn name(&self) -> &str {
        "flowcache"
    }

    fn reasons(&self) -> &ReasonTable {
        self.interp.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.told.clear();
        if batch.packets().iter().any(|packet| packet.mark != 0) {
            return self.process_marked(batch, out);
        }
        let paced = self.caches.admission.as_mut().is_some_and(|admission| admission.pace().is_some());
        if !paced {
            return self.interp.process_batch(Some(&mut self.caches), batch, out);
        }
        let start = Instant::now();
        let (packets, misses) = (batch.len() as u64, self.caches.stats.misses);
        self.caches.slow_ns = 0;
        self.interp.process_batch(Some(&mut self.caches), batch, out);
        let busy = start.elapsed().as_nanos() as u64;
        let slow = self.caches.stats.misses - misses;
        // A packet on the slow path also has its part of what is done for all: parser, deparser, and the rest.
        let shared = busy.saturating_sub(self.caches.slow_ns) * slow / packets.max(1);
        if let Some(pace) = self.caches.admission.as_mut().and_then(Admission::pace) {
            pace.note(busy, self.caches.slow_ns + shared, slow);
        }
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.told)
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        let idle = self.advance_time(now);
        self.interp.notify(idle);
    }
}
