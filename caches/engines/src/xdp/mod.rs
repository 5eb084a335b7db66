//! The flow cache in the kernel: native code, or the reference engine, says what it did as rewrites, the kernel's program does it again.
//!
//! Packets that come here are those that the kernel does not know, or all, if there is no XDP. What becomes of one is that engine's word; the rewrite that was made of
//! it goes to the kernel, if the ports by which its flow comes and leaves are the kernel's. A write takes out of the kernel what it makes stale before it
//! is acknowledged. What the kernel counts is credited here before anybody reads it, before writes, and before entries are looked through for idle ones.

mod form;
mod kernel_counts;
mod plan;

pub use plan::XdpPlan;

use crate::rewrites::{self, Made};
use entries::{WriteBatch, WriteError};
use flowcache::rewrite::flows::{Flow, Placed};
use flowcache::rewrite::form::Fate;
use flowcache::rewrite::{RewriteCache, Runs};
use interp::{Config, IdleEntry};
use io::xdp::{Kernel, REST, Tally};
use ir::Pipeline;
use kernel_counts::KernelCounts;
use node::engine::{Controlled, Holds, Inside, in_turns};
use packet::{Batch, Engine, EngineCounters, Output, ReasonTable};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts are fetched from the kernel at most so often.
const FETCH: Duration = Duration::from_millis(1);

pub(crate) fn load(plan: &XdpPlan, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, String> {
    let room = plan.flows.max(1) as usize;
    Ok(match rewrites::make(&plan.cache, room, pipeline, settings)? {
        Made::Native(cache) => in_turns(pipeline, XdpEngine::new(plan, *cache), None),
        Made::Reference(cache, why) => in_turns(pipeline, XdpEngine::new(plan, *cache), Some(why)),
    })
}

/// Why a flow is not in the kernel though it could be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outside {
    /// It comes, or leaves, by a port that is not the kernel's.
    Port,
    /// It takes more of a packet's beginning than the kernel's program sees.
    Deep,
    /// A map of the kernel's is full, or refuses it.
    Map,
    /// The kernel's maps are still another program's.
    Busy,
}

impl Outside {
    fn why(self) -> &'static str {
        match self {
            Outside::Port => "a port of theirs has no XDP",
            Outside::Deep => "what decides, or changes, lies more than 128 bytes behind a packet's start",
            Outside::Map => "the kernel's maps are full",
            Outside::Busy => "the kernel still had those of the program before",
        }
    }
}

/// The kernel's side of a place.
#[derive(Clone, Copy, Default)]
struct Side {
    key: Option<io::xdp::form::Key>,
    credited: Tally,
}

/// See the module.
pub(crate) struct XdpEngine<R: Runs> {
    cache: RewriteCache<R>,
    kernel: Result<Kernel, String>,
    owner: u64,
    sides: Vec<Side>,
    /// Flows that were taken out, and when: packets may be under way that have found them.
    leaving: VecDeque<(Instant, u32, Flow)>,
    outside: BTreeMap<Outside, u64>,
    /// What became of packets that the kernel has done with, as far as they are credited.
    by_kernel: KernelCounts,
    fetched: Option<Instant>,
}

impl<R: Runs> XdpEngine<R> {
    fn new(plan: &XdpPlan, mut cache: RewriteCache<R>) -> XdpEngine<R> {
        static OWNERS: AtomicU64 = AtomicU64::new(1);
        cache.tells();
        XdpEngine {
            kernel: plan.kernel().cloned().map_err(str::to_owned),
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            sides: vec![Side::default(); cache.flows().room()],
            cache,
            leaving: VecDeque::new(),
            outside: BTreeMap::new(),
            by_kernel: KernelCounts::new(plan.kernel().ok()),
            fetched: None,
        }
    }

    /// A flow's way into the kernel.
    fn install(&mut self, placed: &Placed) -> Result<(), Outside> {
        let Ok(kernel) = &self.kernel else { return Ok(()) };
        if !kernel.claim(self.owner) {
            return Err(Outside::Busy);
        }
        let flows = self.cache.flows();
        let Some(flow) = flows.get(placed.place) else { return Ok(()) };
        let from = kernel.port(flow.rewrite.key.port).ok_or(Outside::Port)?;
        let leaves = match &flow.rewrite.fate {
            Fate::Forward { port, .. } => Some(kernel.port(*port).ok_or(Outside::Port)?),
            Fate::Drop(_) => None,
        };
        if !form::fits(&flow.rewrite) {
            return Err(Outside::Deep);
        }
        let used = &flows.shapes()[flow.shape as usize];
        // Also if it isn't new: when it was, the flow may have had no way into the kernel.
        let count = flows.shapes().len() as u32;
        kernel.set_shape(flow.shape, &form::shape(used), count).map_err(|_| Outside::Map)?;
        let key = form::key(flow.shape, &flow.rewrite.key, from);
        kernel.install(placed.place, &form::flow(&flow.rewrite, key, leaves)).map_err(|_| Outside::Map)?;
        self.sides[placed.place as usize] = Side { key: Some(key), credited: Tally::default() };
        Ok(())
    }

    /// A flow leaves the kernel.
    fn retire(&mut self, place: u32, flow: Flow) {
        if let (Ok(kernel), Some(key)) = (&self.kernel, self.sides[place as usize].key) {
            kernel.remove(&key, place);
        }
        self.leaving.push_back((Instant::now(), place, flow));
    }

    /// What the kernel has counted since it was asked last.
    fn counted(&mut self, place: u32) -> Option<(u64, u64, u64)> {
        let Ok(kernel) = &self.kernel else { return None };
        let side = &mut self.sides[place as usize];
        side.key?;
        let now = kernel.tally(place);
        let before = std::mem::replace(&mut side.credited, now);
        let counter = now.counter.since(before.counter);
        (!counter.is_zero()).then_some((counter.packets, counter.bytes, now.last))
    }

    /// Fetches all counts.
    fn fetch(&mut self) {
        self.fetched = Some(Instant::now());
        let outcomes = self.kernel.as_ref().ok().map(Kernel::outcomes);
        let places: Vec<u32> = self.cache.flows().places().collect();
        for place in places {
            if let Some((packets, bytes, last)) = self.counted(place) {
                if let Some(flow) = self.cache.flows().get(place) {
                    self.by_kernel.add(&flow.rewrite, packets, bytes);
                }
                self.cache.credit(place, packets, bytes, last);
            }
        }
        self.cache.settle();
        if let Some(outcomes) = outcomes {
            self.by_kernel.see(&outcomes);
        }
        for _ in 0..self.leaving.len() {
            let Some((since, place, flow)) = self.leaving.pop_front() else { break };
            let over = since.elapsed() >= REST;
            if let Some((packets, bytes, last)) = self.counted(place) {
                self.by_kernel.add(&flow.rewrite, packets, bytes);
                self.cache.credit_gone(&flow, packets, bytes, last);
            }
            if over {
                self.sides[place as usize] = Side::default();
                self.cache.release(place);
            } else {
                self.leaving.push_back((since, place, flow));
            }
        }
    }

    /// What a batch brought goes to the kernel, and what it took the place of leaves it.
    fn install_all(&mut self) {
        let told = self.cache.take_told();
        for placed in told.placed {
            if let Err(why) = self.install(&placed) {
                *self.outside.entry(why).or_default() += 1;
            }
            if let Some((place, flow)) = placed.replaced {
                self.retire(place, *flow);
            }
        }
        if told.full {
            self.make_room();
        }
    }

    /// Some of the flows that had no packets for the longest time go.
    fn make_room(&mut self) {
        if !self.leaving.is_empty() {
            // There will be room as soon as they have left.
            return self.fetch();
        }
        self.fetch();
        let flows = self.cache.flows();
        let count = if flows.are_scattered() { flows.len() } else { flows.room() / 64 + 1 };
        for (place, flow) in self.cache.evict(count) {
            self.retire(place, flow);
        }
    }
}

impl<R: Runs> Drop for XdpEngine<R> {
    fn drop(&mut self) {
        if let Ok(kernel) = &self.kernel {
            kernel.release(self.owner);
        }
    }
}

impl<R: Runs + Holds + 'static> Engine for XdpEngine<R>
where
    RewriteCache<R>: Engine,
{
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(&self.cache)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        // A packet may have been on its way while its flow went into the kernel; or the flow has no way there.
        self.cache.process(batch, out);
        self.install_all();
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        self.cache.told()
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        let idle = self.pass(now);
        self.cache.engine_mut().notify(idle);
    }

    fn rest(&mut self) {
        self.cache.rest();
    }
}

impl<R: Runs + Holds + 'static> Inside for XdpEngine<R>
where
    RewriteCache<R>: Engine,
{
    type Of = R;

    const NAME: &'static str = "xdp";

    fn inside(&mut self) -> &mut R {
        self.cache.engine_mut()
    }

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        // Counts of flows that go belong to entries as they are now.
        if !self.cache.flows().is_empty() {
            self.fetch();
        }
        for (place, flow) in self.cache.write(batch)? {
            self.retire(place, flow);
        }
        Ok(())
    }

    fn pass(&mut self, now: u64) -> Vec<IdleEntry> {
        self.merge();
        let (idle, gone) = self.cache.advance_time(now);
        gone.into_iter().for_each(|(place, flow)| self.retire(place, flow));
        idle
    }

    fn merge(&mut self) {
        match self.fetched {
            Some(fetched) if fetched.elapsed() < FETCH => self.cache.settle(),
            _ => self.fetch(),
        }
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        let beside = rewrites::served(self.cache.stats());
        [("kernel", self.by_kernel.counters().received.packets)].into_iter().chain(beside).collect()
    }

    fn retire(&mut self) {
        let Ok(kernel) = &self.kernel else { return };
        kernel.release(self.owner);
        // Packets that have found a flow are done with then.
        std::thread::sleep(REST);
        self.fetch();
    }

    fn beside_workers(&self) -> EngineCounters {
        self.by_kernel.counters().clone()
    }

    fn notes(&self) -> Vec<String> {
        let flows = self.cache.flows();
        let stats = self.cache.stats();
        let mut notes = vec![format!(
            "xdp: {} flows of {}, under {} shapes; {} packets took the slow path, {} were rewritten beside it",
            flows.len(),
            flows.room(),
            flows.shapes().len(),
            stats.ran,
            stats.rewritten
        )];
        match &self.kernel {
            Err(why) => notes.push(format!("xdp: not in the kernel: {why}")),
            Ok(kernel) => notes.extend(kernel_counts::notes(kernel)),
        }
        notes.extend(
            self.outside.iter().map(|(why, count)| format!("xdp: {count} flows not in the kernel: {}", why.why())),
        );
        notes.extend(rewrites::notes(self.cache.ways(), stats, "xdp"));
        notes
    }
}
