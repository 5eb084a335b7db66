//! Report of a plan as data, for terminal, HTML and JSON.

use crate::clusters::Clusters;
use crate::sweep::ParameterReach;
use serde::Serialize;

/// Plan: whether and how a program with given entries fits on a chip, and its performance.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlanReport {
    /// Name of the program.
    pub program: String,
    /// Name of the chip.
    pub target: String,
    /// Whether the last step has a placement.
    pub fits: bool,
    /// Sentence on how it fits, or on the binding resource and the nearest placement.
    pub verdict: String,
    /// The program as written, then after each step.
    pub steps: Vec<PlanStep>,
    /// Tables after the last step.
    pub tables: Vec<TableRow>,
    /// Performance of the placed program; `None` if it is not placed.
    pub performance: Option<Performance>,
    /// Clusters of the region; `None` if its tenants are unknown.
    pub clusters: Option<Clusters>,
    /// Limits of parameters.
    pub sweeps: Vec<Sweep>,
}

/// Program before or after a step.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlanStep {
    /// Name of the step: `as written`, `pooling`.
    pub name: String,
    /// Effect of the step, as a sentence.
    pub what: String,
    /// Estimated SRAM blocks of the tables, in percent of those of one pipe.
    pub sram: f64,
    /// Estimated TCAM blocks of the tables, in percent of those of one pipe.
    pub tcam: f64,
    /// Whether a placement was found.
    pub placed: bool,
    /// Resource use by pipe and stage, of the placement or of the nearest attempt.
    pub heat: Vec<PipeHeat>,
}

/// Resource use of one pipe's stages.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PipeHeat {
    /// Name: `pipe 0`.
    pub name: String,
    /// One row for each resource.
    pub rows: Vec<HeatRow>,
}

/// Use of one resource in the stages of a pipe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct HeatRow {
    /// Name: `SRAM blocks`.
    pub resource: String,
    /// Used units in each stage.
    pub used: Vec<u32>,
    /// Available units in each stage.
    pub of: Vec<u32>,
    /// Tables in each stage that use the resource.
    pub tables: Vec<Vec<String>>,
}

impl HeatRow {
    /// Returns the used share of the pipe's resource.
    pub fn share(&self) -> f64 {
        let sum = |values: &[u32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        sum(&self.used) / sum(&self.of).max(1.0)
    }
}

/// Table after the last step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TableRow {
    /// Control-plane name.
    pub name: String,
    /// Match kind: `exact`, `ternary`, ...
    pub kind: &'static str,
    /// Width of the key in bits.
    pub key_bits: u32,
    /// Number of entries that it must hold.
    pub entries: u64,
    /// Number of its SRAM blocks.
    pub sram: u32,
    /// Number of its TCAM blocks.
    pub tcam: u32,
    /// Pipes and stages: `pipe 1: 3-5`; `nowhere` if unplaced.
    pub places: String,
}

/// Performance of a placed program, from the target's clock and ports.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Performance {
    /// Number of passes of a packet through a pipe's ingress and egress.
    pub passes: u32,
    /// Packet rate of the chip, per second.
    pub packets_per_second: f64,
    /// Bit rate of the chip's ports, per second.
    pub bits_per_second: f64,
    /// Latency from port to port in ns, without queues.
    pub latency_ns: f64,
    /// Bits of bridge headers at all crossings together.
    pub bridged_bits: u32,
    /// Power of a switch in watts, if the target specifies it.
    pub watts: Option<f64>,
}

/// Limits of a parameter.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sweep {
    /// Name of the parameter.
    pub parameter: String,
    /// Name of a second parameter, with one line for each of its values.
    pub per: Option<String>,
    /// Lines of the sweep.
    pub lines: Vec<SweepLine>,
}

/// One line of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SweepLine {
    /// Value of the second parameter.
    pub value: Option<f64>,
    /// Limit of the first parameter.
    pub reach: ParameterReach,
    /// Sampled points.
    pub points: Vec<SweepPoint>,
}

/// Demand of the tables at one value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SweepPoint {
    /// Value of the parameter.
    pub at: f64,
    /// SRAM in percent of a pipe.
    pub sram: f64,
    /// TCAM in percent of a pipe.
    pub tcam: f64,
}
