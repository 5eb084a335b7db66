//! A flow cache as what the differential harness compares, with a fault on purpose if wanted.

use entries::WriteBatch;
use flowcache::{CacheConfig, FlowCache, Kind, Stats};
use packet::{Batch, Output};
use std::sync::Mutex;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{Answer, Idle, Subject, idle_entries, through_engine};
use testkit::differ::subjects::OwnedFactory;

/// What is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Nothing.
    None,
    /// Writes do not reach the cache: the tables change behind its back.
    Stale,
}

/// What all caches of a run have counted.
pub static TOTALS: Mutex<Option<Stats>> = Mutex::new(None);

/// The cache of a seed: each kind in turn, small enough that segments go.
pub fn config(seed: u64) -> CacheConfig {
    let mut rng = fastrand::Rng::with_seed(seed);
    let tables = rng.usize(1..6);
    let kind = match seed % 4 {
        0 => Kind::Exact,
        1 => Kind::Megaflow,
        2 => Kind::SubTraversal { tables },
        _ => Kind::Adaptive { tables },
    };
    let entries = [2, 8, 64, 4_096][rng.usize(0..4)];
    let masks = [1, 4, 1_024][rng.usize(0..3)];
    CacheConfig { kind, entries, masks, idle_ns: rng.bool().then_some(1_000_000), slow_path: None }
}

struct Cached {
    cache: FlowCache,
    batch: Batch,
    out: Output,
    sabotage: Sabotage,
}

/// Makes the cache of a seed.
pub fn factory(seed: u64, sabotage: Sabotage) -> OwnedFactory {
    Box::new(move |build| {
        let cache = FlowCache::new(build.pipeline.clone(), build.setup.clone(), config(seed));
        let mut cache = cache.map_err(|error| error.to_string())?;
        // Most programs have few packets to measure by.
        if !seed.is_multiple_of(5) {
            cache.measure_eagerly();
        }
        Ok(Box::new(Cached { cache, batch: Batch::new(), out: Output::new(), sabotage }))
    })
}

impl Drop for Cached {
    fn drop(&mut self) {
        let mut totals = TOTALS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        add(totals.get_or_insert_default(), self.cache.stats());
    }
}

fn add(totals: &mut Stats, more: &Stats) {
    totals.packets += more.packets;
    totals.hits += more.hits;
    totals.misses += more.misses;
    totals.partial += more.partial;
    totals.left += more.left;
    totals.inserted += more.inserted;
    totals.shared += more.shared;
    totals.evicted += more.evicted;
    totals.expired += more.expired;
    totals.stale += more.stale;
    totals.rejected += more.rejected;
    totals.cut += more.cut;
    totals.whole += more.whole;
    totals.measured += more.measured;
    totals.passed_again += more.passed_again;
    for (reason, count) in &more.uncacheable {
        *totals.uncacheable.entry(*reason).or_default() += count;
    }
}

impl Subject for Cached {
    fn name(&self) -> String {
        "flowcache".to_owned()
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        match self.sabotage {
            Sabotage::None => self.cache.write(batch),
            Sabotage::Stale => self.cache.interp_mut().write(batch),
        }
        .map_err(|error| error.to_string())
    }
    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        through_engine(&mut self.cache, &mut self.batch, &mut self.out, packets, None)
    }
    fn tick(&mut self, now: u64) -> Vec<Idle> {
        let idle = self.cache.advance_time(now);
        assert_eq!(self.cache.check(), Ok(()), "what finds stale segments");
        idle_entries(self.cache.interp().pipeline(), &idle)
    }
    testkit::interp_accessors!([cache.interp()], [cache.interp_mut()]);
}
