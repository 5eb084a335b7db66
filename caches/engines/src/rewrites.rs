//! Rewrites of what native code did, in front of it: the DPU tier's exact cache in user space, and what the kernel's flow cache ([`crate::xdp`]) is filled from.

use crate::plan::{CachePlan, no_tenant};
use crate::wrapped::Wrapped;
use entries::{WriteBatch, WriteError};
use flowcache::rewrite::{Held, NativeError, PerWorker, RewriteCache, RewriteStats, Runs};
use interp::{Config, IdleEntry, Interp};
use ir::Pipeline;
use jit::Jit;
use node::engine::{Controlled, Inside, NoRoom, Team, Workers, in_turns};
use packet::Engine;
use std::sync::Arc;

/// A cache in front of native code, or of the reference engine where native code does not take the program.
pub(crate) enum Made {
    Native(Box<RewriteCache<Jit>>),
    /// And why.
    Reference(Box<RewriteCache>, String),
}

/// A cache of a program, with room for so many rewrites. Of the plan, what it says of time, the slow path and tenants counts.
pub(crate) fn make(plan: &CachePlan, room: usize, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Made, String> {
    match RewriteCache::native(pipeline.clone(), settings.clone(), room) {
        Ok(mut cache) => prepare(&mut cache, plan).map(|()| Made::Native(Box::new(cache))),
        Err(NativeError::Unsupported(why)) => {
            let cache = RewriteCache::new(pipeline.clone(), settings.clone(), room);
            let mut cache = cache.map_err(|error| error.to_string())?;
            prepare(&mut cache, plan).map(|()| Made::Reference(Box::new(cache), why.to_string()))
        }
        Err(error @ NativeError::Load(_)) => Err(error.to_string()),
    }
}

fn prepare<R: Runs>(cache: &mut RewriteCache<R>, plan: &CachePlan) -> Result<(), String> {
    cache.idle_after(plan.cache.idle_ns);
    if let Some(tenant) = plan.tenant.as_ref().filter(|tenant| !cache.tell_tenants_by(tenant)) {
        return Err(no_tenant(tenant));
    }
    if let Some(budget) = plan.cache.slow_path {
        cache.admit_up_to(budget);
    }
    if let Some(spare) = plan.spare {
        cache.keep_pace(spare);
    }
    Ok(())
}

pub(crate) fn load(
    plan: &CachePlan,
    pipeline: &Arc<Pipeline>,
    settings: &Config,
) -> Result<Box<dyn Controlled>, String> {
    Ok(match make(plan, plan.cache.entries, pipeline, settings)? {
        Made::Native(cache) => Team::lead(pipeline, Wrapped(PerWorker::new(*cache)), None),
        Made::Reference(cache, why) => in_turns(pipeline, Wrapped(*cache), Some(why)),
    })
}

impl Workers for Wrapped<PerWorker> {
    type Of = Jit;

    const NAME: &'static str = "flowcache";

    fn worker(&self) -> Box<dyn Engine> {
        // The first cache was made of the same program.
        Box::new(self.0.worker().unwrap_or_else(|error| unreachable!("{error}")))
    }

    fn with<T>(&self, at: impl FnOnce(&mut Jit) -> T) -> T {
        self.0.with(at)
    }

    fn merge(&self) {
        self.0.settle();
    }

    fn change(&self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.0.write(batch)
    }

    fn load(&self, batches: &mut dyn Iterator<Item = WriteBatch>) -> Result<(), NoRoom> {
        self.0.load(batches);
        // It has room for all that is valid.
        Ok(())
    }

    fn pass(&self, now: u64) -> Vec<IdleEntry> {
        self.0.advance_time(now);
        // Programs with idle times are not made native.
        Vec::new()
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        served(&self.0.stats())
    }

    fn notes(&self) -> Vec<String> {
        cache_notes(&self.0.held(), &self.0.stats())
    }
}

impl Inside for Wrapped<RewriteCache> {
    type Of = Interp;

    const NAME: &'static str = "flowcache";

    fn inside(&mut self) -> &mut Interp {
        self.0.engine_mut()
    }

    fn change(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.0.write_alone(batch)
    }

    fn pass(&mut self, now: u64) -> Vec<IdleEntry> {
        let (idle, gone) = self.0.advance_time(now);
        gone.into_iter().for_each(|(place, _)| self.0.release(place));
        idle
    }

    fn merge(&mut self) {
        self.0.settle();
    }

    fn served(&self) -> Vec<(&'static str, u64)> {
        served(self.0.stats())
    }

    fn notes(&self) -> Vec<String> {
        cache_notes(&self.0.held(), self.0.stats())
    }
}

/// Packets that were rewritten, and those that took the slow path.
pub(crate) fn served(stats: &RewriteStats) -> Vec<(&'static str, u64)> {
    vec![("dpu", stats.rewritten), ("cpu", stats.ran)]
}

fn cache_notes(held: &Held, stats: &RewriteStats) -> Vec<String> {
    let Held { caches, flows, room, shapes, bytes, .. } = held;
    let of = if *caches == 1 { String::new() } else { format!(", in {caches} caches, one for each worker") };
    let first = format!("cache: rewrites, {flows} of {room}, under {shapes} shapes; {} KiB{of}", bytes >> 10);
    let second = format!("cache: {} packets were rewritten, {} took the slow path", stats.rewritten, stats.ran);
    [first, second].into_iter().chain(notes(held.ways, stats, "cache")).collect()
}

/// What became of rewrites, and of packets that left none; so many ways are known.
pub(crate) fn notes(ways: usize, stats: &RewriteStats, name: &str) -> Vec<String> {
    let RewriteStats { by_way, shadowed, refused_by_way, stale, evicted, scattered, expired, shed, .. } = stats;
    let RewriteStats { passed, faults, refused, .. } = stats;
    let mut notes = vec![
        format!(
            "{name}: {ways} ways known: {by_way} rewrites were made by them, {refused_by_way} packets could leave none; {shadowed} packets with a shadow"
        ),
        format!("{name}: {stale} stale, {evicted} evicted, {expired} idle, {shed} packets shed"),
    ];
    if *passed > 0 {
        notes.push(format!(
            "{name}: {passed} packets left nothing, as there was hardly room and their flows were new, or nobody looked"
        ));
    }
    if *scattered > 0 {
        notes.push(format!("{name}: all rewrites went {scattered} times, as their memory was scattered"));
    }
    notes.extend(refused.iter().map(|(why, count)| format!("{name}: {count} packets left no flow: {}", why.why())));
    if *faults > 0 {
        notes.push(format!(
            "{name}: {faults} rewrites were not what was done to their packets, and were not kept; please report it"
        ));
    }
    notes
}
