//! [`Tiers`]: two halves as one engine, for those who write tables and read counters.

use super::chooser::Chooser;
use super::halves::{Halves, Link};
use super::links::{LinkState, Links};
use super::moved::Moved;
use super::plan::{TiersPlan, with_port};
use super::reports::{Outbox, Reports};
use super::spread::{self, Spread};
use super::worker::{TiersWorker, Wiring};
use entries::{Change, Counter, Entry, State, WriteBatch, WriteError};
use interp::{Config, DigestMessage, EntryLevel, IdleEntry, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionTally, TableTally, Tallies};
use node::engine::{Controlled, Factory};
use node::explain::{Explained, Followed, Record};
use num_bigint::BigUint;
use offload::cut::Cut;
use offload::hot::{Id, id};
use offload::share::{Share, objects_above};
use p4runtime::{Code, Refusal};
use packet::{Engine, ReasonTable};
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Two halves of a program.
pub struct Tiers {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) above: Option<Box<dyn Controlled>>,
    pub(super) below: Option<Box<dyn Controlled>>,
    /// All tables, if the lower half is elsewhere.
    alone: Option<State>,
    /// Then, too: what entries have counted that were above and are not now, or were written as counted.
    pub(super) carried: HashMap<(TableId, Id), Counter>,
    pub(super) share: Share,
    pub(super) wiring: Arc<Wiring>,
    pub(super) chooser: Chooser,
    /// Objects whose state is above.
    kept_above: HashSet<ExternId>,
    cut: Cut,
    reasons: ReasonTable,
    /// Tables that were made hot because the chip has no room for them as a whole.
    made_hot: Vec<String>,
    /// Whether entries do not grow too old for now.
    held: AtomicBool,
    /// Idle entries that were found between two looks.
    pub(super) late: Vec<IdleEntry>,
}

impl Tiers {
    pub fn new(plan: &TiersPlan, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Tiers, Refusal> {
        let inside = with_port(settings, plan.down_port);
        let load = |factory: &Option<Factory>, half: &Pipeline, settings: &Config| match factory {
            Some(factory) => factory.load(&Arc::new(half.clone()), settings).map(Some),
            None => Ok(None),
        };
        let mut plan = plan.clone();
        let mut made_hot = Vec::new();
        let (cut, above) = loop {
            let cut = plan.cut(pipeline)?;
            match load(&plan.with_rooms(pipeline), &cut.upper, &inside) {
                Ok(above) => break (cut, above),
                Err(full) if full.code == Code::ResourceExhausted => match plan.smaller(pipeline, &cut) {
                    Some(note) => made_hot.push(note),
                    None => return Err(full),
                },
                Err(refused) => return Err(refused),
            }
        };
        let room = plan.rooms(pipeline);
        let spread = plan.spread.as_ref().filter(|_| plan.above.is_some());
        let spread = spread.map(|name| Spread::new(&cut, name)).transpose().map_err(Refusal::unimplemented)?;
        let below = load(&plan.below, &cut.lower, settings)?;
        let alone = match below {
            Some(_) => None,
            None => Some(State::new(pipeline.clone()).map_err(|error| Refusal::unimplemented(error.to_string()))?),
        };
        let wiring = Wiring {
            gate: RwLock::new(()),
            key: plan.key,
            down_port: plan.down_port,
            bridge: cut.bridge_bits() as usize / 8,
            links: Links::new(&plan.down, plan.silence, io::now(), spread.is_none()),
            spread,
            up: plan.up.clone(),
            moved: Moved::default(),
            followed: Followed::default(),
            reports: Reports::new(plan.key),
            outbox: Outbox::new(&plan.up),
            clock: AtomicU64::new(0),
        };
        let reasons = above.as_ref().or(below.as_ref()).map(|half| half.worker().reasons().clone()).unwrap_or_default();
        Ok(Tiers {
            share: Share::new(pipeline, &cut, |table| room.get(&table).copied().unwrap_or(0)),
            kept_above: objects_above(&cut),
            pipeline: pipeline.clone(),
            above,
            below,
            alone,
            carried: HashMap::new(),
            wiring: Arc::new(wiring),
            chooser: Chooser::new(plan.choose),
            cut,
            reasons,
            made_hot,
            held: AtomicBool::new(false),
            late: Vec::new(),
        })
    }

    /// What the whole program's tables have.
    pub(super) fn with_whole<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        match (&self.below, &self.alone) {
            // It has the whole's tables, which was looked at when the program was divided.
            (Some(below), _) => below.with_state(|half| f(&half.of(&self.pipeline))),
            (None, Some(state)) => f(state),
            // One of them is there.
            (None, None) => unreachable!("a process has the lower half, or its tables"),
        }
    }

    /// The half that has an object's state.
    fn half_of(&self, object: ExternId) -> Option<&dyn Controlled> {
        let halves = match self.kept_above.contains(&object) {
            true => [&self.above, &self.below],
            false => [&self.below, &self.above],
        };
        halves.into_iter().flatten().next().map(|half| &**half)
    }

    /// An entry as the upper half has it: entries are found by when they were written, and that is another time there.
    pub(super) fn above_of(&self, table: TableId, entry: &Entry) -> Option<(&dyn Controlled, Entry)> {
        let above = self.above.as_ref().filter(|_| self.share.applies(table))?;
        let entry = above.with_state(|state| state.find(table, entry.key(), entry.priority()).cloned())?;
        Some((&**above, entry))
    }

    /// The half that has what an entry has besides what was written, and the entry as it is there.
    fn half_of_entry(&self, table: TableId, entry: &Entry) -> Option<(&dyn Controlled, Entry)> {
        let is_above = self.share.applies(table) && !self.cut.hot.contains(&table);
        match &self.below {
            Some(below) if !is_above || self.above.is_none() => Some((&**below, entry.clone())),
            _ => self.above_of(table, entry),
        }
    }

    /// A half that had no packet for a while does not know the time, by which what is written is new. Nothing is found idle by it.
    fn tell_time(&mut self) {
        let (now, held) = (self.wiring.clock.load(Relaxed), self.held.load(Relaxed));
        for half in [&mut self.above, &mut self.below].into_iter().flatten() {
            half.hold_idle(true);
            self.late.extend(half.advance_time(now));
            half.hold_idle(held);
        }
    }

    /// What the upper half was written, or would have been, the lower one is.
    fn write_below(&mut self, batch: &WriteBatch, whole: State, changes: &[Change]) -> Result<(), WriteError> {
        match &mut self.below {
            Some(below) => below.write(batch),
            None => {
                for change in changes {
                    let gone = match change {
                        Change::Deleted(table, entry) => Some((*table, entry, Counter::default())),
                        _ => None,
                    };
                    let Some((table, entry, counted)) = gone.or_else(|| set_anew(change)) else { continue };
                    let of = (table, id(entry));
                    match counted == Counter::default() {
                        true => self.carried.remove(&of),
                        false => self.carried.insert(of, counted),
                    };
                }
                self.alone = Some(whole);
                Ok(())
            }
        }
    }

    /// Over which link a packet would go now.
    fn link(&self) -> Link {
        let wiring = self.wiring.clone();
        Box::new(move |packet, frame| {
            let flow = wiring.by_value(frame).unwrap_or_else(|| wiring.flow(packet));
            wiring.links.would(flow, io::now())
        })
    }

    fn halves(&self) -> impl Iterator<Item = &dyn Controlled> {
        [&self.above, &self.below].into_iter().flatten().map(|half| &**half)
    }
}

/// An entry that a change makes, or whose counter it sets, and what it has counted then.
fn set_anew(change: &Change) -> Option<(TableId, &Entry, Counter)> {
    match change {
        Change::Inserted(table, entry, counted)
        | Change::Modified(table, _, entry, Some(counted))
        | Change::DirectCounter(table, entry, counted) => Some((*table, entry, *counted)),
        _ => None,
    }
}

impl Controlled for Tiers {
    fn name(&self) -> &'static str {
        "tiers"
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn worker(&self) -> Box<dyn Engine> {
        let worker = |half: &Option<Box<dyn Controlled>>| half.as_ref().map(|half| half.worker());
        let (above, below) = (worker(&self.above), worker(&self.below));
        Box::new(TiersWorker::new(self.wiring.clone(), above, below, self.reasons.clone()))
    }

    fn look(&self, at: &mut dyn FnMut(&State)) {
        self.with_whole(|state| at(state));
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let wiring = self.wiring.clone();
        let _gate = wiring.gate.write();
        self.tell_time();
        let mut whole = self.with_whole(State::clone);
        let changes = whole.apply(batch)?;
        if self.above.is_some() {
            let to_above = self.share.above(batch, &changes);
            // What the batch sets anew, or makes again, does not take along what was counted before.
            let away = self.share.sent_away();
            let set: HashSet<(TableId, Id)> = match away {
                [] => HashSet::new(),
                _ => changes.iter().filter_map(set_anew).map(|(table, entry, _)| (table, id(entry))).collect(),
            };
            let taken_along = away.iter().filter(|(table, entry)| !set.contains(&(*table, id(entry))));
            let counted = taken_along.map(|(table, entry)| (*table, entry.clone(), self.counted_above(*table, entry)));
            let counted: Vec<_> = counted.collect();
            if let Some(Err(refused)) = self.above.as_mut().map(|above| above.write(&to_above)) {
                self.share.take_back();
                // The half's batch has other numbers than the one that was given.
                let index = batch.updates.len().saturating_sub(1).min(refused.index);
                return Err(WriteError { index, ..refused });
            }
            self.write_below(batch, whole, &changes)?;
            counted.into_iter().for_each(|(table, entry, counted)| self.carry_down(table, &entry, counted));
            return Ok(());
        }
        self.write_below(batch, whole, &changes)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.halves().filter_map(|half| half.counter(counter, index)).reduce(Counter::plus)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let mut all: BTreeMap<u64, Counter> = BTreeMap::new();
        for (index, more) in self.halves().flat_map(|half| half.counted(counter, end)) {
            let so_far = all.entry(index).or_default();
            *so_far += more;
        }
        all.into_iter().collect()
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.half_of(object)?.array_len(object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.half_of(register)?.register(register, index)
    }

    fn registers(&self) -> Registers {
        let all = |half: &Option<Box<dyn Controlled>>| half.as_ref().map(|half| half.registers());
        let (above, below) = (all(&self.above), all(&self.below));
        let kept_above = self.kept_above.clone();
        Registers::new(move |register, index| {
            let halves = if kept_above.contains(&register) { [&above, &below] } else { [&below, &above] };
            halves.into_iter().flatten().next()?.get(register, index)
        })
    }

    fn explained(&self) -> Box<dyn Explained> {
        let part = |half: &Option<Box<dyn Controlled>>| half.as_ref().map(|half| half.part());
        Box::new(Halves {
            above: part(&self.above),
            below: part(&self.below),
            key: self.wiring.key,
            down_port: self.wiring.down_port,
            bridge: self.wiring.bridge,
            down: self.wiring.links.ports().collect(),
            up: self.wiring.up.clone(),
            link: self.link(),
            stops: self.cut.points.iter().map(|point| point.why.clone()).collect(),
        })
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.pipeline.tables[table].direct_counter?;
        let below = self.below.as_ref().and_then(|half| half.entry_counter(table, entry));
        let above = self.above_of(table, entry).and_then(|(half, entry)| half.entry_counter(table, &entry));
        let carried = self.carried.get(&(table, id(entry))).copied();
        below.into_iter().chain(above).chain(carried).reduce(Counter::plus)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        let (half, entry) = self.half_of_entry(table, entry)?;
        half.entry_idle_for(table, &entry)
    }

    fn followed(&self, mark: u16) -> Vec<Arc<Record>> {
        self.wiring.followed.of(mark, io::now())
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        [&mut self.above, &mut self.below].into_iter().flatten().flat_map(|half| half.take_digests()).collect()
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        self.choose_if_due(now);
        self.idle(now)
    }

    fn hold_idle(&self, hold: bool) {
        self.held.store(hold, Relaxed);
        self.halves().for_each(|half| half.hold_idle(hold));
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.half_of(meter).map(|half| half.meter_levels(meter)).unwrap_or_default()
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        if let Some(half) = self.half_of(meter) {
            half.set_meter_level(meter, index, level);
        }
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        let (half, entry) = self.half_of_entry(table, entry)?;
        half.entry_level(table, &entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        if let Some((half, entry)) = self.half_of_entry(table, entry) {
            half.set_entry_level(table, &entry, level);
        }
    }

    fn flow_id(&self) -> u32 {
        self.halves().map(|half| half.flow_id()).max().unwrap_or(0)
    }

    fn set_flow_id(&self, id: u32) {
        self.halves().for_each(|half| half.set_flow_id(id));
    }

    fn tallies(&self) -> Tallies {
        let mut tables: BTreeMap<TableId, Vec<ActionTally>> = BTreeMap::new();
        let mut add = |half: &dyn Controlled, is_above: bool| {
            for tally in half.tallies().tables {
                // Who finds no hot entry has not missed: the lower half looks.
                let misses_count = !(is_above && self.cut.hot.contains(&tally.table));
                let all = tables.entry(tally.table).or_default();
                for mut action in tally.actions {
                    if !misses_count {
                        action.misses = Counter::default();
                    }
                    match all.iter_mut().find(|so_far| so_far.action == action.action) {
                        Some(so_far) => {
                            so_far.hits += action.hits;
                            so_far.misses += action.misses;
                        }
                        None => all.push(action),
                    }
                }
            }
        };
        if let Some(above) = &self.above {
            add(&**above, true);
        }
        if let Some(below) = &self.below {
            add(&**below, false);
        }
        let tables = tables.into_iter().map(|(table, actions)| TableTally { table, actions });
        Tallies { stages: Vec::new(), tables: tables.collect() }
    }

    fn without_code(&self) -> Option<String> {
        Some("the program is divided among tiers".to_owned())
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        let Moved { above, below, .. } = &self.wiring.moved;
        let switch = self.above.iter().map(|_| ("switch", above.load(Relaxed)));
        let below = self.below.iter().flat_map(|half| match half.served() {
            one if one.is_empty() => vec![("cpu", below.load(Relaxed))],
            several => several,
        });
        switch.chain(below).collect()
    }

    fn notes(&self) -> Vec<String> {
        let load = |count: &AtomicU64| count.load(Relaxed);
        let Moved { above, down, back, .. } = &self.wiring.moved;
        let (above, down, back) = (load(above), load(down), load(back));
        let share = 100.0 * above as f64 / (above + down).max(1) as f64;
        let mut notes = vec![format!(
            "tiers: {share:.2} % of packets served by the switch, {above}; {down} went down in a bridge header of {} bytes, {back} came back",
            self.wiring.bridge
        )];
        notes.extend(self.made_hot.iter().cloned());
        for point in &self.cut.points {
            let kind = if point.hot { "hot" } else { "stop" };
            notes.push(format!("tiers: {kind}: {} ({} bits carried)", point.why, point.carried_bits));
        }
        for (table, hot) in self.share.hot() {
            let name = &self.pipeline.tables[table].preamble.name;
            let Chooser { came, went, refused, .. } = &self.chooser;
            notes.push(format!(
                "tiers: {name}: {} of {} hot entries; {came} came, {went} went so far, {refused} choices found no room",
                hot.len(),
                hot.room()
            ));
        }
        for LinkState { port, alive, packets, losses } in self.wiring.links.states(io::now()) {
            let is = if alive { "answers" } else { "does not answer" };
            notes.push(format!(
                "tiers: the tier behind port {port} {is}; {packets} packets sent there, fell silent {losses} times"
            ));
        }
        let (remembered, lost) = self.wiring.followed.count();
        if lost > 0 {
            notes.push(format!(
                "tiers: {remembered} packets with marks are remembered; {lost} were not, as somebody was reading"
            ));
        }
        if self.above.is_some() && self.wiring.links.ports().count() > 1 {
            notes.extend(spread::notes(&self.cut, self.wiring.spread.as_ref()));
        }
        for (name, half) in [("above", &self.above), ("below", &self.below)] {
            let Some(half) = half else { continue };
            notes.extend(half.notes().into_iter().map(|note| format!("{name}, {}: {note}", half.name())));
        }
        notes
    }
}
