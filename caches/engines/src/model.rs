//! The model of a SmartNIC's cache, in front of the reference engine.

use crate::plan::{CachePlan, no_tenant};
use crate::wrapped::Wrapped;
use entries::{WriteBatch, WriteError};
use flowcache::{FlowCache, Kind, Stats};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use node::engine::{Controlled, Inside, NOT_WANTED, in_turns};
use std::sync::Arc;

pub(crate) fn load(
    plan: &CachePlan,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<Box<dyn Controlled>, String> {
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
    Ok(in_turns(pipeline, Wrapped(engine), Some(NOT_WANTED.to_owned())))
}

impl Inside for Wrapped<FlowCache> {
    type Of = Interp;

    const NAME: &'static str = "flowcache";

    fn inside(&mut self) -> &mut Interp {
        self.0.interp_mut()
    }

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.0.write(batch)
    }

    fn pass(&mut self, now: u64) -> Vec<IdleEntry> {
        self.0.advance_time(now)
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        let Stats { packets, misses, .. } = self.0.stats();
        vec![("dpu", packets.saturating_sub(*misses)), ("cpu", *misses)]
    }

    fn notes(&self) -> Vec<String> {
        let Stats { packets, misses, partial, passed_again, evicted, expired, stale, rejected, shed, .. } =
            self.0.stats();
        let kind = match self.0.config().kind {
            kind @ (Kind::Exact | Kind::Megaflow) => kind.to_string(),
            kind => format!("{kind}, {} tables", kind.tables()),
        };
        let held: Vec<String> =
            self.0.tables().map(|table| format!("{} under {} masks", table.entries, table.masks)).collect();
        let hit = 100.0 * self.0.stats().hit_rate();
        let mut notes = vec![
            format!(
                "cache: {kind} of {} entries; held: {}; {} KiB",
                self.0.config().entries,
                held.join(", "),
                self.0.memory() >> 10
            ),
            format!(
                "cache: {hit:.2} % of {packets} packets hit, {misses} took the slow path, {partial} of them in part; {passed_again} went through the tables twice"
            ),
            format!(
                "cache: {evicted} evicted, {expired} idle, {rejected} not kept, {shed} packets shed; {stale} stale"
            ),
        ];
        let why = self.0.stats().uncacheable.iter();
        notes.extend(why.map(|(reason, count)| format!("cache: {count} not kept: {}", reason.why())));
        notes
    }
}
