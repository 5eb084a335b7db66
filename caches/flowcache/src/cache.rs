//! [`Caches`]: the packet's way through the cache, and down to the slow path and back.

use crate::adaptive::Adaptive;
use crate::admission::Admission;
use crate::config::{CacheConfig, Kind};
use crate::effects::Live;
use crate::fresh::{Fresh, Lists};
use crate::record::{Known, Record};
use crate::samples::Samples;
use crate::segment::{End, Ground, Play, Segment};
use crate::stats::Stats;
use crate::store::{Kept, Put, Store};
use crate::witness::Witness;
use interp::walk::{Code, Detour, Op, Outcome, Pc, Program, Slot, Step, Walker};
use ir::{Entity, Pipeline, VarKind};
use packet::EngineReason;
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
    pub(crate) fields: Vec<Option<u32>>,
    add_on_miss: Vec<bool>,
    pub(crate) witnesses: Vec<Witness>,
    pub(crate) stores: Vec<Store>,
    pub(crate) fresh: Fresh,
    pub(crate) stats: Stats,
    pub(crate) adaptive: Adaptive,
    /// What packets share, where the cut goes by that.
    pub(crate) samples: Option<Samples>,
    pub(crate) admission: Option<Admission>,
    /// Nanoseconds on the slow path since somebody set it to 0.
    pub(crate) slow_ns: u64,
    /// The slot that says whose packet it is.
    pub(crate) tenant: Option<Slot>,
    pub(crate) record: Record,
    lists: Lists,
    pub(crate) hasher: foldhash::fast::RandomState,
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
            samples: config.kind.measures().then(|| Samples::new(tables, config.kind.passes())),
            admission: config.slow_path.map(Admission::new),
            slow_ns: 0,
            tenant: None,
            record: Record::default(),
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

    pub(crate) fn is_chain(&self) -> bool {
        matches!(self.config.kind, Kind::SubTraversal { .. } | Kind::Adaptive { .. })
    }

    /// How many positions there are, counted through all passes.
    pub(crate) fn positions(&self) -> usize {
        self.stores.len() * self.config.kind.passes()
    }

    /// The first position from `from` on at which a table has a segment for the packet. Positions are counted through all passes ([`Kind::passes`]): the tables in order, and
    /// then from the first one on again.
    pub(crate) fn find(&mut self, walker: &Walker<'_>, tag: Pc, from: usize) -> Option<(usize, u32)> {
        self.stats.lookups += 1;
        let (slots, tables) = (&self.known.slots, self.stores.len());
        // No table has to be asked twice.
        let end = (from + tables).min(self.positions());
        (from..end).find_map(|at| Some((at, self.stores[at % tables].find(slots, walker.state(), tag)?)))
    }

    fn replay(&mut self, walker: &mut Walker<'_>, at: usize, place: u32) -> Replayed {
        let now = walker.now();
        self.stores[at].touch(place, now);
        let Some(Kept { segment, .. }) = self.stores[at].get(place) else { return Replayed::NoFuel };
        if walker.fuel() <= segment.fuel {
            return Replayed::NoFuel;
        }
        walker.take_fuel(segment.backs);
        for play in &segment.plays {
            let (step, expected) = match *play {
                Play::Step(pc) => (walker.step(pc), None),
                Play::Check { pc, to } => (walker.step(pc), Some(to)),
                Play::Apply { pc, asked, to } => {
                    let code = walker.code();
                    let Op::Apply { index } = code.ops[pc as usize] else { continue };
                    let found = segment.asked[asked as usize].found;
                    (walker.apply(&code.applies[index as usize], found, pc), Some(to))
                }
            };
            match step {
                Step::End(outcome) => return Replayed::End(outcome),
                Step::Next(pc) if expected.is_some_and(|to| to != pc) => return Replayed::Left(pc),
                Step::Next(_) => {}
            }
        }
        match segment.end {
            End::At(pc) => Replayed::At(pc),
            end => Replayed::End(end.outcome().unwrap_or(Outcome::Return)),
        }
    }

    /// The slow path, from `tag` on; what it did is kept at the positions from `from` on. `led`: how many segments the packet has had, and where the last one is.
    fn slow(&mut self, walker: &mut Walker<'_>, tag: Pc, from: usize, led: Option<(usize, usize, u32)>) -> Outcome {
        self.stats.misses += 1;
        let mut record = std::mem::take(&mut self.record);
        let outcome = record.run(&self.known, walker, tag);
        let start = Instant::now();
        let least = self.keep(walker, &record, outcome, from);
        if let (Some(least), Some((had, table, place))) = (least, led)
            && least <= self.positions().saturating_sub(had)
        {
            // Packets that come here would miss for ever, though there is room if the segments
            // before are put elsewhere: without this one the next packet misses earlier.
            self.evict(table, place);
        }
        self.stats.partition_ns += start.elapsed().as_nanos() as u64;
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

    /// Keeps a segment, and says where.
    pub(crate) fn put(&mut self, segment: Segment, at: usize, now: u64) -> Option<u32> {
        let Caches { stores, fresh, witnesses, stats, lists, .. } = self;
        let gone = |kept: &Kept| {
            stats.evicted += 1;
            fresh.lists_of_segment(witnesses, &kept.segment, lists);
            fresh.unlink(kept.nodes, lists);
        };
        match stores[at].put(segment, now, gone) {
            Put::New(place) => {
                stats.inserted += 1;
                if let Some(kept) = stores[at].get(place) {
                    fresh.lists_of_segment(witnesses, &kept.segment, lists);
                    stores[at].set_nodes(place, fresh.link((at as u32, place), lists));
                }
                Some(place)
            }
            Put::Shared(place) => {
                stats.shared += 1;
                Some(place)
            }
            Put::TooManyMasks => {
                stats.rejected += 1;
                None
            }
        }
    }

    /// Takes out what is stale.
    pub(crate) fn forget(&mut self, at: u32, place: u32) {
        self.stats.stale += u64::from(self.take_out(at as usize, place).is_some());
    }

    /// Takes out a segment that keeps better ones from being used.
    fn evict(&mut self, at: usize, place: u32) {
        self.stats.evicted += u64::from(self.take_out(at, place).is_some());
    }

    fn take_out(&mut self, at: usize, place: u32) -> Option<Kept> {
        let kept = self.stores[at].remove(place)?;
        self.fresh.lists_of_segment(&self.witnesses, &kept.segment, &mut self.lists);
        self.fresh.unlink(kept.nodes, &self.lists);
        Some(kept)
    }

    /// Everything goes.
    pub(crate) fn clear(&mut self) {
        self.stores.iter_mut().for_each(Store::clear);
        self.samples.iter_mut().for_each(Samples::clear);
        self.fresh.clear();
    }

    /// Takes out what was not hit for the configured time.
    pub(crate) fn expire(&mut self, now: u64) {
        let Some(before) = self.config.idle_ns.and_then(|idle| now.checked_sub(idle)) else { return };
        let Caches { stores, fresh, witnesses, stats, lists, .. } = self;
        for store in stores {
            let gone = |kept: &Kept| {
                fresh.lists_of_segment(witnesses, &kept.segment, lists);
                fresh.unlink(kept.nodes, lists);
            };
            stats.expired += store.expire(before, gone) as u64;
        }
    }
}

impl Caches {
    /// Whose packet it is, as it says when it comes: what is replayed may change it.
    fn tenant_of(&self, slots: &[u64]) -> u64 {
        self.tenant.map_or(0, |slot| slots[slot as usize])
    }

    /// Whether a tenant's packet may take the slow path; else it is dropped.
    fn admit(&mut self, tenant: u64, now: u64) -> Result<(), Outcome> {
        if self.admission.as_mut().is_some_and(|admission| !admission.admit(tenant, now)) {
            self.stats.shed += 1;
            return Err(Outcome::Abort(EngineReason::SlowPathShare));
        }
        Ok(())
    }
}

impl Detour for Caches {
    /// Runs the control of a packet: segments as long as there are some that match, then the slow
    /// path.
    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        self.stats.packets += 1;
        let tenant = self.tenant_of(walker.slots());
        let (mut tag, mut from, mut had, mut led) = (0, 0, 0, None);
        self.samples.iter_mut().for_each(|samples| samples.begin());
        loop {
            let Some((at, place)) = self.find(walker, tag, from) else {
                if let Err(refused) = self.admit(tenant, walker.now()) {
                    return refused;
                }
                self.stats.partial += u64::from(had > 0);
                let start = Instant::now();
                let outcome = self.slow(walker, tag, from, led);
                self.slow_ns += start.elapsed().as_nanos() as u64;
                return outcome;
            };
            let table = at % self.stores.len();
            had += 1;
            led = Some((had, table, place));
            self.stats.passed_again += u64::from(at >= self.stores.len() && from <= self.stores.len());
            self.samples.iter_mut().for_each(|samples| samples.had(table, place));
            match self.replay(walker, table, place) {
                Replayed::End(outcome) => {
                    self.stats.hits += 1;
                    self.samples.iter_mut().for_each(Samples::hit);
                    return outcome;
                }
                Replayed::At(next) => tag = next,
                Replayed::Left(next) => {
                    self.stats.left += 1;
                    self.samples.iter_mut().for_each(Samples::left);
                    // The segment is right for others.
                    led = None;
                    tag = next;
                }
                Replayed::NoFuel => {
                    self.stats.misses += 1;
                    return plain(walker, tag);
                }
            }
            if self.is_chain() {
                from = at + 1;
            }
        }
    }
}

/// Runs the control from there without the cache.
fn plain(walker: &mut Walker<'_>, mut pc: Pc) -> Outcome {
    loop {
        match walker.step(pc) {
            Step::Next(next) => pc = next,
            Step::End(outcome) => return outcome,
        }
    }
}
