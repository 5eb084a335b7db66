//! The way of a packet through the chip's pipes.
//!
//! A pipe has an ingress and an egress half, which share its stages' memories. Unfolded, each pipe holds a copy of all tables and a packet
//! takes the ingress half of one and the egress half of another. Folded, some pipes' ports loop packets back, so that a packet walks several
//! pipes with different tables (Sailfish, section 4.4): more memory, fewer packets.

use crate::target::Target;
use serde::{Deserialize, Serialize};

/// Half of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// Before the packet is queued.
    Ingress,
    /// Behind the queues.
    Egress,
}

/// One half of a pipe on a packet's way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
pub struct Hop {
    /// The pipe. Pipes that hold copies of one another's tables are one here: the first of them.
    pub pipe: u32,
    /// Its half.
    pub half: Half,
}

/// The halves of pipes that a packet walks, in order: an ingress half, an egress half, and so on for each round.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct Path {
    /// The halves.
    pub hops: Vec<Hop>,
}

/// Why pipes cannot be folded so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{pipes} pipes of {have} cannot be folded into one: fold 1, 2 or 4 that divide them")]
pub struct FoldError {
    /// Pipes that were to be one.
    pub pipes: u32,
    /// Pipes of the chip.
    pub have: u32,
}

impl Path {
    /// Each pipe alike: ingress, then egress.
    pub fn unfolded() -> Path {
        Path::through(1)
    }

    /// `pipes` pipes, one behind the other: packets enter and leave at the first, the others loop back. With 1, as [`Path::unfolded`].
    ///
    /// # Errors
    /// [`FoldError`] if the chip's pipes are no multiple of these, or there are none.
    pub fn folded(target: &Target, pipes: u32) -> Result<Path, FoldError> {
        if pipes == 0 || !target.pipes.is_multiple_of(pipes) {
            return Err(FoldError { pipes, have: target.pipes });
        }
        Ok(Path::through(pipes))
    }

    /// Ingress of each pipe, and egress of the next one around.
    fn through(pipes: u32) -> Path {
        let hop = |pipe, half| Hop { pipe: pipe % pipes, half };
        Path { hops: (0..pipes).flat_map(|p| [hop(p, Half::Ingress), hop(p + 1, Half::Egress)]).collect() }
    }

    /// Rounds: how often a packet passes an ingress half.
    pub fn passes(&self) -> u32 {
        self.hops.iter().filter(|h| h.half == Half::Ingress).count() as u32
    }

    /// Pipes with different tables.
    pub fn pipes(&self) -> u32 {
        self.hops.iter().map(|h| h.pipe + 1).max().unwrap_or(0)
    }

    /// The last hop whose tables still decide where the packet goes: the last ingress half.
    pub fn last_ingress(&self) -> usize {
        self.hops.iter().rposition(|h| h.half == Half::Ingress).unwrap_or(0)
    }

    /// Packets per second that the chip takes. Each pipe's halves take one packet per tick of the clock; a packet takes one ingress half in
    /// each pass. So it is pipes x clock / passes.
    pub fn packets_per_second(&self, target: &Target) -> u64 {
        target.clock_hz.saturating_mul(u64::from(target.pipes)) / u64::from(self.passes().max(1))
    }

    /// Bits per second that the chip takes from outside. A looped-back packet takes as much of ports as one from outside: so it is
    /// ports x speed / passes.
    pub fn bits_per_second(&self, target: &Target) -> u64 {
        u64::from(target.ports) * u64::from(target.port_gbps) * 1_000_000_000 / u64::from(self.passes().max(1))
    }

    /// Nanoseconds that an unqueued packet takes: passes x the time of one.
    pub fn latency_ns(&self, target: &Target) -> u64 {
        u64::from(self.passes()) * u64::from(target.pass_ns)
    }
}
