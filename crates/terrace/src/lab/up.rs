//! Building a lab.

use super::command::carry_out;
use super::down::{self, Removed, existing};
use super::error::LabError;
use super::state::{Process, State};
use super::steps::steps;
use super::topology::Topology;
use std::sync::atomic::{AtomicBool, Ordering};

/// A lab that is up. Dropping it removes everything, unless [`Lab::keep`] was called: so a lab does not outlive an error or a panic of
/// the one who made it.
#[derive(Debug)]
pub struct Lab {
    topology: Topology,
    keep: bool,
}

/// Builds a lab. `progress` is told how many of how many steps are done; when `stop` becomes true, or a step fails, everything made so
/// far is removed again.
///
/// # Errors
/// If the lab cannot be built like this, or one of that name exists, or a step fails.
pub fn up(topology: Topology, stop: &AtomicBool, progress: &mut dyn FnMut(usize, usize)) -> Result<Lab, LabError> {
    topology.check()?;
    if !existing(&topology.name)?.is_empty() {
        return Err(LabError::Exists { name: topology.name });
    }
    // Before anything else is made: what is in this file, `down` finds also after a crash.
    State { topology: topology.clone(), owner: Process::current(), gateway: None }.create()?;
    let lab = Lab { topology, keep: false };
    let steps = steps(&lab.topology);
    for (done, step) in steps.iter().enumerate() {
        progress(done, steps.len());
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Stopped);
        }
        carry_out(step)?;
    }
    progress(steps.len(), steps.len());
    Ok(lab)
}

impl Lab {
    /// What it consists of.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Leaves the lab as it is: for [`super::down`] at another time.
    pub fn keep(mut self) {
        self.keep = true;
    }

    /// Removes everything.
    ///
    /// # Errors
    /// If something could not be removed.
    pub fn down(mut self) -> Result<Removed, LabError> {
        self.keep = true;
        down::down(&self.topology.name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = down::down(&self.topology.name)
        {
            eprintln!("{error}");
        }
    }
}
