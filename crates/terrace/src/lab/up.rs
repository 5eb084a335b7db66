//! Builds a lab.

use super::command::carry_out;
use super::down::{self, RemovedLab, lab_namespaces};
use super::error::LabError;
use super::state::{LabState, Process};
use super::steps::steps;
use super::topology::Topology;
use std::sync::atomic::{AtomicBool, Ordering};

/// A lab that is up. Dropping it removes everything unless [`Lab::keep`] was called, so that a lab
/// does not outlive an error or a panic of its creator.
#[derive(Debug)]
pub struct Lab {
    topology: Topology,
    keep: bool,
}

/// Builds a lab. `progress` is called with the finished and the total number of steps. If `stop`
/// becomes true or a step fails, everything created by then is removed.
///
/// # Errors
/// If the topology is invalid, or a lab of that name exists, or a step fails.
pub fn up(topology: Topology, stop: &AtomicBool, progress: &mut dyn FnMut(usize, usize)) -> Result<Lab, LabError> {
    topology.check()?;
    if !lab_namespaces(&topology.name)?.is_empty() {
        return Err(LabError::Exists { name: topology.name });
    }
    // The state file is created first, so that `down` finds the namespaces even after a crash.
    LabState { topology: topology.clone(), owner: Process::current(), gateway: None }.create()?;
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
    /// Returns the topology of the lab.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Leaves the lab up, to be removed later by [`super::down`].
    pub fn keep(mut self) {
        self.keep = true;
    }

    /// Removes the lab.
    ///
    /// # Errors
    /// If something could not be removed.
    pub fn down(mut self) -> Result<RemovedLab, LabError> {
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
