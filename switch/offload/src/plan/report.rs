//! What a plan says, as data: the same for a terminal, a page and JSON.

use crate::clusters::Clusters;
use crate::sweep::Reach;
use serde::Serialize;

/// A plan: does the program with these entries fit on this chip, how, and what comes of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The program.
    pub program: String,
    /// The chip.
    pub target: String,
    /// Whether the last step is placed.
    pub fits: bool,
    /// A sentence: how it fits; or which resource binds, and the nearest thing that fits.
    pub verdict: String,
    /// The program as it was written, then after each step.
    pub steps: Vec<Step>,
    /// The tables after the last step.
    pub tables: Vec<TableRow>,
    /// What the placed program does per second; none if it is not placed.
    pub performance: Option<Performance>,
    /// Clusters for the region; none if tenants are not known.
    pub clusters: Option<Clusters>,
    /// How far parameters can go.
    pub sweeps: Vec<Sweep>,
}

/// The program before or after a step.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Its name: `as written`, `pooling`.
    pub name: String,
    /// What it does, in a sentence.
    pub what: String,
    /// SRAM blocks that tables ask for, in per cent of those of one pipe: an estimate.
    pub sram: f64,
    /// TCAM blocks likewise.
    pub tcam: f64,
    /// Whether a placement was found.
    pub placed: bool,
    /// Pipes by stages and resources: as placed, or as far as placing came.
    pub heat: Vec<PipeHeat>,
}

/// One pipe's stages by resources.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PipeHeat {
    /// `pipe 0`.
    pub name: String,
    /// A row for each resource.
    pub rows: Vec<HeatRow>,
}

/// One resource over the stages of a pipe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HeatRow {
    /// `SRAM blocks`.
    pub resource: String,
    /// What is used in each stage.
    pub used: Vec<u32>,
    /// What each stage has.
    pub of: Vec<u32>,
    /// Tables that have a part in each stage.
    pub tables: Vec<Vec<String>>,
}

impl HeatRow {
    /// Share of the pipe's resource that is used.
    pub fn share(&self) -> f64 {
        let sum = |values: &[u32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        sum(&self.used) / sum(&self.of).max(1.0)
    }
}

/// A table after the last step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TableRow {
    /// Control-plane name.
    pub name: String,
    /// `exact`, `ternary`, ...
    pub kind: &'static str,
    /// Width of its key in bits.
    pub key_bits: u32,
    /// Entries that it must hold.
    pub entries: u64,
    /// SRAM blocks that it has.
    pub sram: u32,
    /// TCAM blocks that it has.
    pub tcam: u32,
    /// Pipes and stages, `pipe 1: 3-5`; or why it is nowhere.
    pub places: String,
}

/// What a placed program does per second, from the target's clock and ports.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Performance {
    /// Times that a packet walks through a pipe's ingress and egress.
    pub passes: u32,
    /// Packets per second that the chip takes.
    pub packets_per_second: f64,
    /// Bits per second that its ports take.
    pub bits_per_second: f64,
    /// From port to port, without queues.
    pub latency_ns: f64,
    /// Bits that are carried in front of the packet, all crossings together.
    pub bridged_bits: u32,
    /// Power of a switch, if the target says it.
    pub watts: Option<f64>,
}

/// How far a parameter can go.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sweep {
    /// The parameter.
    pub parameter: String,
    /// A second parameter, with a line for each of its values.
    pub per: Option<String>,
    /// The lines.
    pub lines: Vec<SweepLine>,
}

/// One line of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepLine {
    /// Value of the second parameter.
    pub value: Option<f64>,
    /// How far the first one goes.
    pub reach: Reach,
    /// Points on the way.
    pub points: Vec<SweepPoint>,
}

/// What tables ask for at one value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SweepPoint {
    /// The value.
    pub at: f64,
    /// SRAM in per cent of a pipe.
    pub sram: f64,
    /// TCAM in per cent of a pipe.
    pub tcam: f64,
}
