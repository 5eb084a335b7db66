//! Our engines as values, with a world's entries in them.

use crate::program::Program;
use crate::world::{Entries, World};
use anyhow::{Context, bail};
use entries::{WriteBatch, WriteError};
use flowcache::rewrite::RewriteCache;
use interp::{Config, Interp};
use jit::Jit;
use packet::Engine;
use std::time::{Duration, Instant};

/// An engine that a control plane can write to.
pub trait Writable: Engine {
    /// Applies a batch as a whole.
    ///
    /// # Errors
    /// An update is refused; nothing has changed.
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError>;

    /// Of a cache in front of an engine: packets that the engine had to run.
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
}

impl Writable for RewriteCache<Jit> {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        self.write_alone(batch)
    }

    fn missed(&self) -> Option<u64> {
        Some(self.stats().ran)
    }
}

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The reference, and the judge of what is right.
    Interp,
    /// Native code for batches.
    Jit,
    /// Rewrites of bytes, one for each flow, with room for so many, in front of native code.
    Cached(usize),
}

impl Which {
    /// The engine that is measured.
    pub const MEASURED: Which = Which::Jit;

    /// A new engine without entries.
    ///
    /// # Errors
    /// The engine does not take the program.
    pub fn load(self, program: &Program) -> anyhow::Result<Box<dyn Writable>> {
        let pipeline = program.pipeline.clone();
        Ok(match self {
            Which::Interp => Box::new(Interp::new(pipeline, Config::default())?),
            Which::Jit => {
                let jit = Jit::new(pipeline, Config::default())?;
                if let Some(reason) = jit.unsupported() {
                    bail!("{} is not run by native code: {}", program.kind.name(), reason.name());
                }
                Box::new(jit)
            }
            Which::Cached(flows) => Box::new(RewriteCache::native(pipeline, Config::default(), flows)?),
        })
    }
}

/// An engine with all of a world, and how long the entries took.
pub struct Loaded {
    /// The engine.
    pub engine: Box<dyn Writable>,
    /// How many entries there are.
    pub entries: usize,
    /// How long writing them took, without making them.
    pub writing: Duration,
}

/// Fills a new engine with a world.
///
/// # Errors
/// The engine refuses the program or an entry.
pub fn load(which: Which, program: &Program, world: World) -> anyhow::Result<Loaded> {
    let mut engine = which.load(program)?;
    let entries = Entries::new(world, program)?;
    let (mut writing, mut shown, mut count) = (Duration::ZERO, 0, 0);
    let total = entries.all(|batch| {
        let start = Instant::now();
        engine.write(batch)?;
        writing += start.elapsed();
        count += batch.updates.len();
        if count - shown >= 2_000_000 {
            shown = count;
            eprintln!(
                "  {} {}: {:.1} million entries, {:.1} s",
                engine.name(),
                program.kind.name(),
                count as f64 / 1e6,
                writing.as_secs_f64()
            );
        }
        Ok::<(), WriteError>(())
    });
    let entries = total.with_context(|| format!("filling {}", program.kind.name()))?;
    Ok(Loaded { engine, entries, writing })
}

/// The interpreter with what packets to these VMs need: the judge, also of worlds that would not fit into it.
///
/// # Errors
/// The program or an entry is refused.
pub fn judge(program: &Program, world: World, vms: &[u32]) -> anyhow::Result<Interp> {
    let mut judge = Interp::new(program.pipeline.clone(), Config::default())?;
    let sorted = |mut numbers: Vec<usize>| {
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let numbers = sorted(vms.iter().map(|&number| number as usize).collect());
    let tenants = sorted(numbers.iter().map(|&number| world.vm(number).tenant).collect());
    let entries = Entries::new(world, program)?;
    entries.some(tenants.into_iter(), numbers.into_iter(), |batch| judge.write(batch))?;
    Ok(judge)
}
