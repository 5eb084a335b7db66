//! Flow cache in the kernel. Native code or the reference engine builds rewrites, and the kernel's
//! program executes them.
//!
//! This engine receives the packets that miss in the kernel, or all packets without XDP. The
//! backing engine decides their verdicts. A built rewrite is installed in the kernel if both ports
//! of its flow are attached to it. A write removes stale flows from the kernel before it is
//! acknowledged. Counts of the kernel are applied before reads, writes and searches for idle
//! entries.

mod form;
mod kernel_counts;
mod plan;

pub use plan::{HookChoice, XdpPlan};

use crate::rewrites::{self, LoadedCache};
use entries::{WriteBatch, WriteError};
use flowcache::rewrite::flows::{CachedFlow, FlowInsertion};
use flowcache::rewrite::form::FlowAction;
use flowcache::rewrite::{BackingEngine, RewriteCache};
use interp::{Config, IdleEntry};
use io::xdp::{FlowCounters, REUSE_DELAY, XdpProgram};
use ir::Pipeline;
use kernel_counts::KernelCounts;
use node::engine::{EngineControl, EngineState, WrappingEngine, shared_control};
use packet::{Batch, BatchOutput, Engine, EngineCounters, ReasonTable};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Minimum interval between two fetches of the kernel's counts.
const FETCH_INTERVAL: Duration = Duration::from_millis(1);

/// Creates the engine of a node with a flow cache in the kernel. The reason of the reference
/// engine, if native code does not support the program, is reported.
pub(crate) fn load(
    plan: &XdpPlan,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<Box<dyn EngineControl>, String> {
    let capacity = plan.flows.max(1) as usize;
    Ok(match rewrites::load_cache(&plan.cache, capacity, pipeline, settings)? {
        LoadedCache::Native(cache) => shared_control(pipeline, XdpEngine::new(plan, *cache), None),
        LoadedCache::Reference(cache, reason) => shared_control(pipeline, XdpEngine::new(plan, *cache), Some(reason)),
    })
}

/// Reason why a flow is not installed in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum NotInstalled {
    /// Its ingress or egress port is not attached to the kernel's program.
    Port,
    /// It reads or writes bytes beyond the kernel program's window.
    Deep,
    /// A map of the kernel is full or refuses it.
    Map,
    /// Another program still owns the kernel's maps.
    Busy,
    /// At the tc hook: its ports are in two network namespaces.
    Namespace,
}

impl NotInstalled {
    fn description(self) -> &'static str {
        match self {
            NotInstalled::Port => "one of their ports has no XDP",
            NotInstalled::Deep => "a deciding or changed byte lies more than 128 bytes after a packet's start",
            NotInstalled::Map => "the kernel's maps are full",
            NotInstalled::Busy => "the kernel's maps still belonged to the previous program",
            NotInstalled::Namespace => "the tc hook reaches no interface of another network namespace",
        }
    }
}

/// State of a place in the kernel: key of its flow, and the counts already applied.
#[derive(Clone, Copy, Default)]
struct KernelPlace {
    key: Option<io::xdp::maps::XdpKey>,
    credited: FlowCounters,
}

/// Engine with a rewrite cache and its copy in the kernel.
pub(crate) struct XdpEngine<R: BackingEngine> {
    cache: RewriteCache<R>,
    kernel: Result<XdpProgram, String>,
    owner: u64,
    kernel_places: Vec<KernelPlace>,
    /// Removed flows with the time of removal. Packets in flight can still use them.
    removed_flows: VecDeque<(Instant, u32, CachedFlow)>,
    not_installed: BTreeMap<NotInstalled, u64>,
    /// Results of the packets that the kernel handled, as of the last fetch.
    by_kernel: KernelCounts,
    fetched: Option<Instant>,
}

impl<R: BackingEngine> XdpEngine<R> {
    /// Creates the engine before the kernel program of the plan. Without one, all flows stay in
    /// user space.
    fn new(plan: &XdpPlan, mut cache: RewriteCache<R>) -> XdpEngine<R> {
        static OWNERS: AtomicU64 = AtomicU64::new(1);
        cache.enable_flow_events();
        XdpEngine {
            kernel: plan.kernel().cloned().map_err(str::to_owned),
            owner: OWNERS.fetch_add(1, Ordering::Relaxed),
            kernel_places: vec![KernelPlace::default(); cache.flows().capacity()],
            cache,
            removed_flows: VecDeque::new(),
            not_installed: BTreeMap::new(),
            by_kernel: KernelCounts::new(plan.kernel().ok()),
            fetched: None,
        }
    }

    /// Installs a flow in the kernel. Does nothing without a kernel program, or if the flow was
    /// removed in the meantime.
    ///
    /// # Errors
    /// The reason why the flow cannot be installed; its packets stay in user space.
    fn install(&mut self, placed: &FlowInsertion) -> Result<(), NotInstalled> {
        let Ok(kernel) = &self.kernel else { return Ok(()) };
        // The maps belong to one engine at a time.
        if !kernel.claim_flows(self.owner) {
            return Err(NotInstalled::Busy);
        }
        let flows = self.cache.flows();
        let Some(flow) = flows.get(placed.place) else { return Ok(()) };
        let ingress = kernel.slot_of_port(flow.rewrite.key.port).ok_or(NotInstalled::Port)?;
        let egress = match &flow.rewrite.action {
            FlowAction::Forward { port, .. } => Some(kernel.slot_of_port(*port).ok_or(NotInstalled::Port)?),
            FlowAction::Drop(_) => None,
        };
        if egress.is_some_and(|egress| !kernel.can_forward(ingress, egress)) {
            return Err(NotInstalled::Namespace);
        }
        if !form::fits_kernel_window(&flow.rewrite) {
            return Err(NotInstalled::Deep);
        }
        let active_mask = &flows.key_masks()[flow.key_mask as usize];
        // Repeated for known key masks, because earlier installations can have failed.
        let count = flows.key_masks().len() as u32;
        kernel.set_shape(flow.key_mask, &form::to_kernel_mask(active_mask), count).map_err(|_| NotInstalled::Map)?;
        let key = form::to_kernel_key(flow.key_mask, &flow.rewrite.key, ingress);
        kernel
            .install(placed.place, &form::to_kernel_flow(&flow.rewrite, key, egress))
            .map_err(|_| NotInstalled::Map)?;
        self.kernel_places[placed.place as usize] = KernelPlace { key: Some(key), credited: FlowCounters::default() };
        Ok(())
    }

    /// Removes a flow from the kernel. Its place stays reserved until its last packets are counted.
    fn retire(&mut self, place: u32, flow: CachedFlow) {
        if let (Ok(kernel), Some(key)) = (&self.kernel, self.kernel_places[place as usize].key) {
            kernel.remove(&key, place);
        }
        self.removed_flows.push_back((Instant::now(), place, flow));
    }

    /// Returns the kernel's counts of a place since the last call: packets, bytes, and time of the
    /// last (ns).
    fn take_new_counts(&mut self, place: u32) -> Option<(u64, u64, u64)> {
        let Ok(kernel) = &self.kernel else { return None };
        let kernel_place = &mut self.kernel_places[place as usize];
        kernel_place.key?;
        let counters = kernel.flow_counters(place);
        let credited = std::mem::replace(&mut kernel_place.credited, counters);
        let counter = counters.counter.since(credited.counter);
        (!counter.is_zero()).then_some((counter.packets, counter.bytes, counters.last))
    }

    /// Fetches and applies all counts. Releases places of removed flows after [`REUSE_DELAY`].
    fn fetch_counts(&mut self) {
        self.fetched = Some(Instant::now());
        // Read before the counts of the flows, so that these include each packet that is corrected.
        let outcomes = self.kernel.as_ref().ok().map(XdpProgram::outcomes);
        let places: Vec<u32> = self.cache.flows().used_places().collect();
        for place in places {
            if let Some((packets, bytes, last)) = self.take_new_counts(place) {
                if let Some(flow) = self.cache.flows().get(place) {
                    self.by_kernel.add_flow_counts(&flow.rewrite, packets, bytes);
                }
                self.cache.add_kernel_counts(place, packets, bytes, last);
            }
        }
        self.cache.flush_counters();
        if let Some(outcomes) = outcomes {
            self.by_kernel.apply_outcomes(&outcomes);
        }
        // Packets in flight can have used a removed flow.
        for _ in 0..self.removed_flows.len() {
            let Some((removed_at, place, flow)) = self.removed_flows.pop_front() else { break };
            let can_reuse = removed_at.elapsed() >= REUSE_DELAY;
            if let Some((packets, bytes, last)) = self.take_new_counts(place) {
                self.by_kernel.add_flow_counts(&flow.rewrite, packets, bytes);
                self.cache.add_removed_counts(&flow, packets, bytes, last);
            }
            if can_reuse {
                self.kernel_places[place as usize] = KernelPlace::default();
                self.cache.release(place);
            } else {
                self.removed_flows.push_back((removed_at, place, flow));
            }
        }
    }

    /// Installs the flows that a batch inserted, and removes those that they replaced.
    fn install_new_flows(&mut self) {
        let events = self.cache.take_flow_events();
        for placed in events.placed {
            if let Err(why) = self.install(&placed) {
                *self.not_installed.entry(why).or_default() += 1;
            }
            if let Some((place, flow)) = placed.replaced {
                self.retire(place, *flow);
            }
        }
        if events.full {
            self.evict_oldest();
        }
    }

    /// Evicts flows without recent packets.
    fn evict_oldest(&mut self) {
        if !self.removed_flows.is_empty() {
            // Places become free once the removed flows are released.
            return self.fetch_counts();
        }
        self.fetch_counts();
        let flows = self.cache.flows();
        let count = if flows.is_fragmented() { flows.len() } else { flows.capacity() / 64 + 1 };
        for (place, flow) in self.cache.evict_flows(count) {
            self.retire(place, flow);
        }
    }
}

impl<R: BackingEngine> Drop for XdpEngine<R> {
    fn drop(&mut self) {
        if let Ok(kernel) = &self.kernel {
            kernel.release_flows(self.owner);
        }
    }
}

impl<R: BackingEngine + EngineState + 'static> Engine for XdpEngine<R>
where
    RewriteCache<R>: Engine,
{
    fn name(&self) -> &str {
        Self::NAME
    }

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(&self.cache)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        // These packets were received before their flow was installed, or their flow cannot be
        // installed.
        self.cache.process(batch, out);
        self.install_new_flows();
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        self.cache.take_trace_notes()
    }

    fn tick(&mut self, now: u64, _out: &mut BatchOutput) {
        let idle = self.expire_entries(now);
        self.cache.engine_mut().notify(idle);
    }

    fn on_idle(&mut self) {
        self.cache.on_idle();
    }
}

impl<R: BackingEngine + EngineState + 'static> WrappingEngine for XdpEngine<R>
where
    RewriteCache<R>: Engine,
{
    type Inner = R;

    const NAME: &'static str = "xdp";

    fn inner_mut(&mut self) -> &mut R {
        self.cache.engine_mut()
    }

    fn write_batch(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        // Counts of removed flows must be applied to the entries before they change.
        if !self.cache.flows().is_empty() {
            self.fetch_counts();
        }
        for (place, flow) in self.cache.write(batch)? {
            self.retire(place, flow);
        }
        Ok(())
    }

    fn expire_entries(&mut self, now: u64) -> Vec<IdleEntry> {
        self.merge_counts();
        let (idle, removed) = self.cache.advance_time(now);
        removed.into_iter().for_each(|(place, flow)| self.retire(place, flow));
        idle
    }

    fn merge_counts(&mut self) {
        match self.fetched {
            Some(fetched) if fetched.elapsed() < FETCH_INTERVAL => self.cache.flush_counters(),
            _ => self.fetch_counts(),
        }
    }

    fn packets_by_tier(&self) -> Vec<(&'static str, u64)> {
        let beside = rewrites::served_packets(self.cache.stats());
        [("kernel", self.by_kernel.counters().received.packets)].into_iter().chain(beside).collect()
    }

    fn retire(&mut self) {
        let Ok(kernel) = &self.kernel else { return };
        kernel.release_flows(self.owner);
        // Waits until no packet uses a flow any more.
        std::thread::sleep(REUSE_DELAY);
        self.fetch_counts();
    }

    fn bypass_counters(&self) -> EngineCounters {
        self.by_kernel.counters().clone()
    }

    /// Returns notes for operators about flows and packets, in user space and in the kernel.
    fn status_notes(&self) -> Vec<String> {
        let flows = self.cache.flows();
        let stats = self.cache.stats();
        let mut notes = vec![format!(
            "xdp: {} flows of {}, under {} key masks; {} packets took the slow path, {} were rewritten in user space",
            flows.len(),
            flows.capacity(),
            flows.key_masks().len(),
            stats.slow_path_packets,
            stats.rewritten
        )];
        match &self.kernel {
            Err(reason) => notes.push(format!("xdp: not in the kernel: {reason}")),
            Ok(kernel) => notes.extend(kernel_counts::kernel_notes(kernel)),
        }
        notes.extend(
            self.not_installed
                .iter()
                .map(|(reason, count)| format!("xdp: {count} flows not in the kernel: {}", reason.description())),
        );
        notes.extend(rewrites::rewrite_notes(self.cache.path_count(), stats, "xdp"));
        notes
    }
}
