//! Our engines, loaded with the entries of a workload.

use crate::program::Program;
use crate::workload::{Entries, Workload};
use anyhow::{Context, bail};
use entries::{WriteBatch, WriteError};
use flowcache::rewrite::RewriteCache;
use interp::{Config, Interp};
use jit::Jit;
use packet::Engine;
use std::time::{Duration, Instant};

/// An engine with a control plane.
pub trait Writable: Engine {
    /// Applies a batch atomically.
    ///
    /// # Errors
    /// If an update is refused; nothing has changed.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Returns the engine if it is native code, for its statistics.
    fn native(&self) -> Option<&Jit> {
        None
    }

    /// Returns the number of cache misses, for an engine with a flow cache.
    fn missed(&self) -> Option<u64> {
        None
    }
}

impl Writable for Interp {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        Interp::write(self, batch)
    }
}

impl Writable for Jit {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        Jit::write(self, batch)
    }

    fn native(&self) -> Option<&Jit> {
        Some(self)
    }
}

impl Writable for RewriteCache<Jit> {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write_and_release(batch)
    }

    fn missed(&self) -> Option<u64> {
        Some(self.stats().slow_path_packets)
    }
}

/// Selects an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// The interpreter: the reference for correctness.
    Interp,
    /// The JIT: native code for batches.
    Jit,
    /// The JIT behind a cache of flow rewrites. The value is the cache's capacity in flows.
    Cached(usize),
}

impl EngineKind {
    /// The measured engine.
    pub const MEASURED: EngineKind = EngineKind::Jit;

    /// Creates an engine without entries.
    ///
    /// # Errors
    /// If the engine refuses the program.
    pub fn load(self, program: &Program) -> anyhow::Result<Box<dyn Writable>> {
        let pipeline = program.pipeline.clone();
        Ok(match self {
            EngineKind::Interp => Box::new(Interp::new(pipeline, Config::default())?),
            EngineKind::Jit => {
                let jit = Jit::new(pipeline, Config::default())?;
                if let Some(reason) = jit.fallback_reason() {
                    bail!("{} is not run by native code: {}", program.kind.name(), reason.name());
                }
                Box::new(jit)
            }
            EngineKind::Cached(flows) => Box::new(RewriteCache::native(pipeline, Config::default(), flows)?),
        })
    }
}

/// An engine loaded with a workload.
pub struct FilledEngine {
    /// The engine.
    pub engine: Box<dyn Writable>,
    /// Number of entries.
    pub entries: usize,
    /// Time to write the entries, without generating them.
    pub writing: Duration,
}

/// Loads a new engine with a workload.
///
/// # Errors
/// If the engine refuses the program or an entry.
pub fn load(kind: EngineKind, program: &Program, world: Workload) -> anyhow::Result<FilledEngine> {
    let mut engine = kind.load(program)?;
    let entries = Entries::new(world, program)?;
    let (mut write_time, mut last_shown, mut count) = (Duration::ZERO, 0, 0);
    let total = entries.write_all(|batch| {
        let start = Instant::now();
        engine.write(batch)?;
        write_time += start.elapsed();
        count += batch.updates.len();
        if count - last_shown >= 2_000_000 {
            last_shown = count;
            eprintln!(
                "  {} {}: {:.1} million entries, {:.1} s",
                engine.name(),
                program.kind.name(),
                count as f64 / 1e6,
                write_time.as_secs_f64()
            );
        }
        Ok::<(), WriteError>(())
    });
    let entries = total.with_context(|| format!("filling {}", program.kind.name()))?;
    Ok(FilledEngine { engine, entries, writing: write_time })
}

/// Creates the interpreter with only the entries for packets to these VMs, because a whole workload
/// may be too large for it.
///
/// # Errors
/// If the program or an entry is refused.
pub fn reference_engine(program: &Program, world: Workload, vms: &[u32]) -> anyhow::Result<Interp> {
    let mut judge = Interp::new(program.pipeline.clone(), Config::default())?;
    let sorted = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let numbers = sorted(vms.iter().map(|&number| number as usize).collect());
    let tenants = sorted(numbers.iter().map(|&number| world.vm(number).tenant).collect());
    let entries = Entries::new(world, program)?;
    entries.write_subset(tenants.into_iter(), numbers.into_iter(), |batch| judge.write(batch))?;
    Ok(judge)
}
