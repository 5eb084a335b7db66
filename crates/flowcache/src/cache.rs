//! [`Caches`]: the packet's way through the cache, and down to the slow path and back.

use crate::adaptive::Adaptive;
use crate::admission::Admission;
use crate::config::{CacheConfig, Kind};
use crate::courses::Courses;
use crate::effects::Live;
use crate::fresh::{Fresh, Lists};
use crate::herd::Herded;
use crate::partition::{Fields, partition};
use crate::recipe::{Recipes, wholes};
use crate::record::{Known, Record};
use crate::segment::{Ground, Refused, Segment, Traversal, Uncacheable};
use crate::stats::Stats;
use crate::store::{Kept, Put, Store};
use crate::trail::Trail;
use crate::witness::Witness;
use interp::walk::{Code, Detour, Herd, Outcome, Pc, Program, Slot, Step, Walker};
use ir::{Entity, Pipeline, VarKind};
use packet::EngineReason;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Instant;

/// The caches of a program and what they are made with.
pub struct Caches {
    pub(crate) config: CacheConfig,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) known: Known,
    live: Live,
    local: Vec<bool>,
    /// By slot: number of the header field's variable.
    fields: Vec<Option<u32>>,
    add_on_miss: Vec<bool>,
    pub(crate) witnesses: Vec<Witness>,
    pub(crate) stores: Vec<Store>,
    pub(crate) fresh: Fresh,
    pub(crate) stats: Stats,
    adaptive: Adaptive,
    pub(crate) admission: Option<Admission>,
    /// Nanoseconds on the slow path since somebody set it to 0.
    pub(crate) slow_ns: u64,
    /// The slot that says whose packet it is.
    pub(crate) tenant: Option<Slot>,
    pub(crate) record: Record,
    pub(crate) recipes: Recipes,
    pub(crate) courses: Courses,
    pub(crate) trail: Trail,
    /// What tables found for a packet whose way is foreseen.
    pub(crate) found: Vec<Option<u32>>,
    /// By instruction: table applications at which segments of known ways begin.
    pub(crate) cuts: Vec<bool>,
    pub(crate) herded: Herded,
    /// Each packet on the slow path is analysed though its way is known, and what comes out is compared.
    pub(crate) compare: bool,
    lists: Lists,
    hasher: foldhash::fast::RandomState,
}

/// How a replay ended.
enum Replayed {
    /// The control has ended.
    End(Outcome),
    /// The segment did.
    At(Pc),
    /// A check failed: the packet is there now.
    Left(Pc),
    /// There is less fuel than the segment takes; nothing was done.
    NoFuel,
}

impl Caches {
    /// Empty caches for a program whose main control is `code`.
    pub fn new(pipeline: &Arc<Pipeline>, program: &Program, code: &Code, config: CacheConfig) -> Caches {
        let known = Known::new(pipeline, program, code);
        let slots = known.slots;
        let live = Live::new(&slots, program, code);
        let mut local = vec![false; slots.all()];
        let mut fields = vec![None; slots.all()];
        for (reg, (var, declared)) in program.var_regs.iter().zip(pipeline.vars.iter()) {
            for slot in reg.slot..reg.slot + reg.words {
                match declared.kind {
                    VarKind::Local => local[slot as usize] = true,
                    VarKind::Field(..) => fields[slot as usize] = Some(var.index() as u32),
                    _ => {}
                }
            }
        }
        let tables = config.kind.tables();
        let witnesses: Vec<Witness> = pipeline.tables.values().map(|table| Witness::new(&table.keys)).collect();
        Caches {
            add_on_miss: pipeline.tables.values().map(|table| table.add_on_miss).collect(),
            stores: (0..tables).map(|_| Store::new(config.entries, config.masks)).collect(),
            fresh: Fresh::new(pipeline, &witnesses),
            witnesses,
            stats: Stats::default(),
            adaptive: Adaptive::new(tables * config.entries),
            admission: config.slow_path.map(Admission::new),
            slow_ns: 0,
            tenant: None,
            record: Record::default(),
            recipes: Recipes::default(),
            courses: Courses::default(),
            found: Vec::new(),
            trail: Trail::default(),
            cuts: vec![false; code.ops.len()],
            herded: Herded::default(),
            compare: false,
            lists: Lists::default(),
            hasher: foldhash::fast::RandomState::default(),
            config,
            pipeline: pipeline.clone(),
            known,
            live,
            local,
            fields,
        }
    }

    fn is_chain(&self) -> bool {
        matches!(self.config.kind, Kind::SubTraversal { .. } | Kind::Adaptive { .. })
    }

    /// The first table from `table` on that has a segment for the packet.
    pub(crate) fn find(&mut self, walker: &Walker<'_>, tag: Pc, table: usize) -> Option<(usize, u32)> {
        self.stats.lookups += 1;
        let slots = &self.known.slots;
        let stores = self.stores.iter_mut().enumerate().skip(table);
        stores
            .map(|(at, store)| (at, store.find(slots, walker.state(), tag)))
            .find_map(|(at, place)| Some((at, place?)))
    }

    fn replay(&mut self, walker: &mut Walker<'_>, at: usize, place: u32) -> Replayed {
        let now = walker.now();
        self.stores[at].touch(place, now);
        let Some(Kept { segment, .. }) = self.stores[at].get(place) else { return Replayed::NoFuel };
        let way = &*segment.way;
        if walker.fuel() <= way.fuel {
            return Replayed::NoFuel;
        }
        walker.take_fuel(way.backs);
        match walker.replay(way.script(walker.code()), |asked| segment.found(asked as usize)) {
            interp::walk::Replayed::Done => {}
            interp::walk::Replayed::End(outcome) => return Replayed::End(outcome),
            interp::walk::Replayed::Left(pc) => return Replayed::Left(pc),
        }
        match way.end {
            crate::segment::End::At(pc) => Replayed::At(pc),
            end => Replayed::End(end.outcome().unwrap_or(Outcome::Return)),
        }
    }

    /// The slow path, from `tag` on; what it did is kept in the tables from `table` on.
    fn slow(&mut self, walker: &mut Walker<'_>, tag: Pc, table: usize) -> Outcome {
        self.stats.misses += 1;
        if self.config.kind == Kind::Exact {
            return self.slow_by_recipe(walker, tag);
        }
        let mut record = std::mem::take(&mut self.record);
        let outcome = record.run(&self.known, walker, tag);
        if table < self.stores.len() {
            let start = Instant::now();
            self.keep(walker, &record, outcome, table);
            self.stats.partition_ns += start.elapsed().as_nanos() as u64;
        } else {
            self.stats.rejected += 1;
        }
        self.record = record;
        outcome
    }

    /// What traversals are made with.
    pub(crate) fn ground<'c>(&'c self, walker: &Walker<'c>) -> Ground<'c> {
        Ground {
            known: &self.known,
            code: walker.code(),
            witnesses: &self.witnesses,
            add_on_miss: &self.add_on_miss,
            local: &self.local,
            live: &self.live,
            whole_fields: self.config.kind == Kind::Exact,
        }
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// The pieces that a chain of so many tables has room for.
    pub(crate) fn pieces(&self, traversal: &Traversal<'_>, walker: &Walker<'_>, room: usize) -> Vec<Segment> {
        pieces(traversal, walker, room, &self.fields, &mut Vec::new()).unwrap_or_default()
    }

    /// Makes segments of a record and keeps them.
    fn keep(&mut self, walker: &Walker<'_>, record: &Record, outcome: Outcome, table: usize) {
        let made = self.make(walker, record, outcome, table);
        for reason in made.refused {
            *self.stats.uncacheable.entry(reason).or_default() += 1;
        }
        self.stats.rejected += u64::from(made.no_room);
        // The adaptive cache keeps a traversal whole where cutting it gains nothing.
        let segments = match made.whole {
            None => made.segments,
            Some(whole) => {
                let id = |segment: &Segment| {
                    self.hasher.hash_one((segment.way.tag, segment.way.asks.bits(), segment.values()))
                };
                let (id_of_whole, pieces) = (id(&whole), made.segments.iter().map(id));
                match self.adaptive.choose(made.way, id_of_whole, pieces) {
                    true => {
                        self.stats.cut += 1;
                        made.segments
                    }
                    false => {
                        self.stats.whole += 1;
                        vec![whole]
                    }
                }
            }
        };
        self.put_all(segments, (walker.now(), table));
    }

    fn make(&self, walker: &Walker<'_>, record: &Record, outcome: Outcome, table: usize) -> Made {
        let traversal = Traversal::new(self.ground(walker), record, outcome);
        let mut made = Made { way: traversal.way(), ..Made::default() };
        let room = self.stores.len() - table;
        match self.config.kind {
            Kind::Exact | Kind::Megaflow => {
                let wholes = wholes(&traversal, |first, last| traversal.segment(Some(walker), first, last));
                made.segments = wholes.segments.into_iter().map(|(_, segment)| segment).collect();
                made.refused = wholes.refused;
            }
            Kind::SubTraversal { .. } | Kind::Adaptive { .. } => {
                let pieces = pieces(&traversal, walker, room, &self.fields, &mut made.refused);
                made.no_room = pieces.is_none();
                made.segments = pieces.unwrap_or_default();
            }
        }
        let ends = made.segments.last().is_some_and(|last| last.way.end.outcome().is_some());
        if matches!(self.config.kind, Kind::Adaptive { .. }) && made.segments.len() > 1 && ends {
            made.whole = traversal.segment(Some(walker), 0, traversal.units() - 1).ok();
        }
        made
    }

    fn put_all(&mut self, segments: Vec<Segment>, (now, table): (u64, usize)) {
        let (count, chain) = (segments.len(), self.is_chain());
        let mut first = table;
        for (number, segment) in segments.into_iter().enumerate() {
            let at = if chain { self.table_for(&segment, first, self.stores.len() - (count - number)) } else { 0 };
            self.put(segment, at, now, None);
            first = at + 1;
        }
    }

    /// The table that a segment goes to: one that has it; else the last in which those behind it still have room, or of a whole traversal the emptiest.
    fn table_for(&self, segment: &Segment, first: usize, last: usize) -> usize {
        let range = first..=last;
        if let Some(at) = range.clone().find(|at| self.stores[*at].place_of(segment).is_some()) {
            return at;
        }
        let ends = segment.way.end.outcome().is_some();
        if ends && segment.way.tag == 0 {
            return range.min_by_key(|at| self.stores[*at].len()).unwrap_or(last);
        }
        last
    }

    /// Keeps a segment. `known` are the lists that it will stand in, if somebody has found them out.
    pub(crate) fn put(&mut self, segment: Segment, at: usize, now: u64, known: Option<&Lists>) {
        let Caches { stores, fresh, witnesses, stats, lists, .. } = self;
        let gone = |kept: &Kept| {
            stats.evicted += 1;
            fresh.remove(witnesses, &kept.segment, kept.nodes, lists);
        };
        match stores[at].put(segment, now, gone) {
            Put::New(place) => {
                stats.inserted += 1;
                if let Some(kept) = stores[at].get(place) {
                    let here = (at as u32, place);
                    let nodes = match known {
                        Some(known) => fresh.link(here, known),
                        None => fresh.insert(witnesses, &kept.segment, here, lists),
                    };
                    stores[at].set_nodes(place, nodes);
                }
            }
            Put::Shared(_) => stats.shared += 1,
            Put::TooManyMasks => stats.rejected += 1,
        }
    }

    /// Takes out what is stale.
    pub(crate) fn forget(&mut self, at: u32, place: u32) {
        if let Some(kept) = self.stores[at as usize].remove(place) {
            self.fresh.remove(&self.witnesses, &kept.segment, kept.nodes, &mut self.lists);
            self.stats.stale += 1;
        }
    }

    /// Everything goes.
    pub(crate) fn clear(&mut self) {
        self.stores.iter_mut().for_each(Store::clear);
        self.fresh.clear();
    }

    /// Takes out what was not hit for the configured time.
    pub(crate) fn expire(&mut self, now: u64) {
        let Some(before) = self.config.idle_ns.and_then(|idle| now.checked_sub(idle)) else { return };
        let Caches { stores, fresh, witnesses, stats, lists, .. } = self;
        for store in stores {
            let gone = |kept: &Kept| fresh.remove(witnesses, &kept.segment, kept.nodes, lists);
            stats.expired += store.expire(before, gone) as u64;
        }
    }
}

/// What a record gives to be kept.
#[derive(Default)]
struct Made {
    segments: Vec<Segment>,
    /// The whole traversal as one segment, if there is a choice.
    whole: Option<Segment>,
    way: u64,
    refused: Vec<Uncacheable>,
    /// There are fewer tables than segments.
    no_room: bool,
}

/// A traversal cut by what its tables look at, into as many segments as there is room for. `None`: it can't be.
fn pieces(
    traversal: &Traversal<'_>,
    walker: &Walker<'_>,
    room: usize,
    fields: &[Option<u32>],
    refused: &mut Vec<Uncacheable>,
) -> Option<Vec<Segment>> {
    let mut units = Vec::new();
    for unit in 0..traversal.units() {
        match traversal.segment(Some(walker), unit, unit) {
            Ok(segment) => units.push(segment),
            Err(Refused::No(reason)) => {
                refused.push(reason);
                break;
            }
            Err(Refused::CutAt(_)) => break,
        }
    }
    if units.is_empty() {
        return Some(Vec::new());
    }
    let looked_at =
        |segment: &Segment| -> Fields { segment.asks().filter_map(|(slot, ..)| fields[slot as usize]).collect() };
    let sets: Vec<Fields> = units.iter().map(looked_at).collect();
    let mut must: Vec<bool> = vec![false; units.len()];
    // A table whose key differs from packet to packet begins a segment; that is found as segments are made.
    'again: for _ in 0..=units.len() {
        let parts = partition(&sets, room, &|unit| must[unit])?;
        let mut segments = Vec::with_capacity(parts.len());
        for (first, last) in parts {
            let segment = match first == last {
                true => Ok(units[first].clone()),
                false => traversal.segment(Some(walker), first, last),
            };
            match segment {
                Ok(segment) => segments.push(segment),
                Err(Refused::CutAt(unit)) if unit > first && !must[unit] => {
                    must[unit] = true;
                    continue 'again;
                }
                Err(_) => return None,
            }
        }
        return Some(segments);
    }
    None
}

impl Caches {
    /// Whose packet it is, as it says when it comes: what is replayed may change it.
    pub(crate) fn tenant_of(&self, slots: &[u64]) -> u64 {
        self.tenant.map_or(0, |slot| slots[slot as usize])
    }

    /// Whether a tenant's packet may take the slow path; else it is dropped.
    pub(crate) fn admit(&mut self, tenant: u64, now: u64) -> Result<(), Outcome> {
        if self.admission.as_mut().is_some_and(|admission| !admission.admit(tenant, now)) {
            self.stats.shed += 1;
            return Err(Outcome::Abort(EngineReason::SlowPathShare));
        }
        Ok(())
    }

    /// Runs the control of a packet for whose start that was found in the cache: table, and place.
    pub(crate) fn onward(&mut self, walker: &mut Walker<'_>, mut found: Option<(usize, u32)>) -> Outcome {
        let tenant = self.tenant_of(walker.slots());
        let (mut tag, mut table, mut began) = (0, 0, false);
        loop {
            let Some((at, place)) = found else {
                if let Err(refused) = self.admit(tenant, walker.now()) {
                    return refused;
                }
                self.stats.partial += u64::from(began);
                let start = Instant::now();
                let outcome = self.slow(walker, tag, table);
                self.slow_ns += start.elapsed().as_nanos() as u64;
                return outcome;
            };
            began = true;
            match self.replay(walker, at, place) {
                Replayed::End(outcome) => {
                    self.stats.hits += 1;
                    return outcome;
                }
                Replayed::At(next) => tag = next,
                Replayed::Left(next) => {
                    self.stats.left += 1;
                    tag = next;
                }
                Replayed::NoFuel => {
                    self.stats.misses += 1;
                    return plain(walker, tag);
                }
            }
            if self.is_chain() {
                table = at + 1;
            }
            found = self.find(walker, tag, table);
        }
    }
}

impl Detour for Caches {
    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        self.stats.packets += 1;
        let found = self.find(walker, 0, 0);
        self.onward(walker, found)
    }

    fn run_many(&mut self, herd: &mut Herd<'_, '_>) {
        self.together(herd);
    }
}

/// Runs the control from there without the cache.
pub(crate) fn plain(walker: &mut Walker<'_>, mut pc: Pc) -> Outcome {
    loop {
        match walker.step(pc) {
            Step::Next(next) => pc = next,
            Step::End(outcome) => return outcome,
        }
    }
}
