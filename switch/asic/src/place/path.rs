//! Path of a packet through the chip's pipes.
//!
//! A pipe has two gresses, ingress and egress, which share the memories of its stages. Unfolded,
//! each pipe holds a copy of all tables, and a packet passes the ingress of one pipe and the egress
//! of another. Folded, the ports of some pipes loop packets back, so that a packet passes several
//! pipes with different tables (Sailfish, section 4.4): more memory, fewer packets per second.

use crate::target::ChipTarget;
use serde::{Deserialize, Serialize};

/// Gress of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeHalf {
    /// Before the traffic manager.
    Ingress,
    /// After the traffic manager.
    Egress,
}

/// One gress of a pipe on a packet's path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
pub struct GressHop {
    /// Pipe number. Pipes with copies of the same tables are represented by the first of them.
    pub pipe: u32,
    /// Gress.
    pub half: PipeHalf,
}

/// The gresses that a packet passes, in order: an ingress and an egress per pass.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct PipePath {
    /// Gresses in order.
    pub hops: Vec<GressHop>,
}

/// Reason why pipes cannot be folded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{pipes} pipes of {have} cannot be folded into one: fold 1, 2 or 4 that divide them")]
pub struct FoldError {
    /// Requested number of pipes per fold.
    pub pipes: u32,
    /// Pipes of the chip.
    pub have: u32,
}

impl PipePath {
    /// Returns the path of an unfolded chip: ingress, then egress.
    pub fn unfolded() -> PipePath {
        PipePath::through_pipes(1)
    }

    /// Returns the path through `pipes` pipes in sequence. Packets enter and leave at the first
    /// pipe; the others loop back. 1 is [`PipePath::unfolded`].
    ///
    /// # Errors
    /// [`FoldError`] if `pipes` is 0 or does not divide the chip's pipes.
    pub fn folded(target: &ChipTarget, pipes: u32) -> Result<PipePath, FoldError> {
        if pipes == 0 || !target.pipes.is_multiple_of(pipes) {
            return Err(FoldError { pipes, have: target.pipes });
        }
        Ok(PipePath::through_pipes(pipes))
    }

    /// Returns the ingress of each pipe, each followed by the egress of the next pipe.
    fn through_pipes(pipes: u32) -> PipePath {
        let hop = |pipe, half| GressHop { pipe: pipe % pipes, half };
        PipePath { hops: (0..pipes).flat_map(|p| [hop(p, PipeHalf::Ingress), hop(p + 1, PipeHalf::Egress)]).collect() }
    }

    /// Returns the number of passes through an ingress.
    pub fn pass_count(&self) -> u32 {
        self.hops.iter().filter(|h| h.half == PipeHalf::Ingress).count() as u32
    }

    /// Returns the number of pipes with different tables.
    pub fn pipe_count(&self) -> u32 {
        self.hops.iter().map(|h| h.pipe + 1).max().unwrap_or(0)
    }

    /// Returns the last hop with tables that can decide the output port: the last ingress.
    pub fn last_ingress(&self) -> usize {
        self.hops.iter().rposition(|h| h.half == PipeHalf::Ingress).unwrap_or(0)
    }

    /// Returns the packets per second of the chip: pipes x clock / passes. Each gress takes one
    /// packet per clock tick, and a packet takes one ingress per pass.
    pub fn packets_per_second(&self, target: &ChipTarget) -> u64 {
        target.clock_hz.saturating_mul(u64::from(target.pipes)) / u64::from(self.pass_count().max(1))
    }

    /// Returns the external bandwidth of the chip in bits per second: ports x speed / passes. A
    /// looped-back packet takes as much port bandwidth as an external one.
    pub fn bits_per_second(&self, target: &ChipTarget) -> u64 {
        u64::from(target.ports) * u64::from(target.port_gbps) * 1_000_000_000 / u64::from(self.pass_count().max(1))
    }

    /// Returns the latency of an unqueued packet in nanoseconds: passes x time of a pass.
    pub fn latency_ns(&self, target: &ChipTarget) -> u64 {
        u64::from(self.pass_count()) * u64::from(target.pass_ns)
    }
}
