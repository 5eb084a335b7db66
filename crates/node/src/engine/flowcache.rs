//! The DPU tier's engine: a flow cache in front of the reference engine.

use super::Controlled;
use super::inside::{Inside, in_turns};
use super::interp::ASKED;
use super::rewrites;
use flowcache::pace::Spare;
use flowcache::{CacheConfig, FlowCache, Kind, Stats};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use std::sync::Arc;
use tables::{WriteBatch, WriteError};

/// How a flow cache is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePlan {
    /// Kind, sizes, times, and what the slow path takes.
    pub cache: CacheConfig,
    /// With it the slow path leaves packets that hit their time, if it has a budget ([`CacheConfig::slow_path`]).
    pub spare: Option<Spare>,
    /// Rewrites of bytes are kept, made of what native code did, and not what the reference engine replays: then `cache` says how many there are, how long they stay, and what
    /// the slow path takes.
    pub rewrites: bool,
    /// The variable that says whose packet it is (`hdr.vxlan.vni`): tenants share the slow path.
    pub tenant: Option<String>,
}

impl CachePlan {
    /// The kind, as in configurations.
    pub(super) fn kind(&self) -> &'static str {
        match self.cache.kind {
            _ if self.rewrites => "rewrites",
            Kind::Exact => "exact",
            Kind::Megaflow => "megaflow",
            Kind::SubTraversal { .. } => "sub-traversal",
            Kind::Adaptive { .. } => "adaptive",
        }
    }
}

pub(super) fn load(
    plan: &CachePlan,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<Box<dyn Controlled>, String> {
    if plan.rewrites {
        return rewrites::load(plan, pipeline, settings);
    }
    let mut engine =
        FlowCache::new(pipeline.clone(), settings.clone(), plan.cache).map_err(|error| error.to_string())?;
    if let Some(tenant) = &plan.tenant
        && !engine.tell_tenants_by(tenant)
    {
        return Err(no_tenant(tenant));
    }
    if let Some(spare) = plan.spare {
        engine.keep_pace(spare);
    }
    Ok(in_turns(pipeline, engine, Some(ASKED.to_owned())))
}

pub(super) fn no_tenant(name: &str) -> String {
    format!(
        "the program has no variable `{name}` of at most 64 bits, by which tenants were to be told apart; name one of it, as hdr.vxlan.vni"
    )
}

impl Inside for FlowCache {
    type Of = Interp;

    const NAME: &'static str = "flowcache";

    fn inside(&mut self) -> &mut Interp {
        self.interp_mut()
    }

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write(batch)
    }

    fn pass(&mut self, now: u64) -> Vec<IdleEntry> {
        self.advance_time(now)
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        let Stats { packets, misses, .. } = self.stats();
        vec![("dpu", packets.saturating_sub(*misses)), ("cpu", *misses)]
    }

    fn notes(&self) -> Vec<String> {
        let Stats { packets, misses, partial, passed_again, evicted, expired, stale, rejected, shed, .. } =
            self.stats();
        let kind = match self.config().kind {
            kind @ (Kind::Exact | Kind::Megaflow) => kind.to_string(),
            kind => format!("{kind}, {} tables", kind.tables()),
        };
        let held: Vec<String> =
            self.tables().map(|table| format!("{} under {} masks", table.entries, table.masks)).collect();
        let hit = 100.0 * self.stats().hit_rate();
        let mut notes = vec![
            format!(
                "cache: {kind} of {} entries; held: {}; {} KiB",
                self.config().entries,
                held.join(", "),
                self.memory() >> 10
            ),
            format!(
                "cache: {hit:.2} % of {packets} packets hit, {misses} took the slow path, {partial} of them in part; {passed_again} went through the tables twice"
            ),
            format!(
                "cache: {evicted} evicted, {expired} idle, {rejected} not kept, {shed} packets shed; {stale} stale"
            ),
        ];
        let why = self.stats().uncacheable.iter();
        notes.extend(why.map(|(reason, count)| format!("cache: {count} not kept: {}", reason.why())));
        notes
    }
}
