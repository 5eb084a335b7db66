//! Variables that an architecture and its engine look at for each packet, wherever an engine keeps variables.

use crate::reasons::{cpu_variable, drop_variable};
use ir::{Pipeline, VarId};

/// Variables with a meaning to the architecture, where the program has them. `R` is an engine's place of a variable.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // the names are those of the specification
pub struct WellKnown<R> {
    pub ingress_port: Option<R>,
    pub egress_spec: Option<R>,
    pub egress_port: Option<R>,
    pub instance_type: Option<R>,
    pub packet_length: Option<R>,
    pub enq_timestamp: Option<R>,
    pub ingress_global_timestamp: Option<R>,
    pub egress_global_timestamp: Option<R>,
    pub mcast_grp: Option<R>,
    pub egress_rid: Option<R>,
    pub checksum_error: Option<R>,
    pub parser_error: Option<R>,
    /// PNA: what each block is told: pre control, parser, main control.
    pub pna: [PnaInput<R>; 3],
    /// The program's own reason for a drop: a variable named `drop_reason`, or `....drop_reason`.
    pub drop_reason: Option<R>,
    /// The program's own reason for handing a packet to the CPU: `cpu_reason` or `punt_reason`.
    pub cpu_reason: Option<R>,
}

/// What a PNA block is told about a packet.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // the names are those of the specification
pub struct PnaInput<R> {
    pub input_port: Option<R>,
    pub parser_error: Option<R>,
    pub direction: Option<R>,
    pub pass: Option<R>,
    pub timestamp: Option<R>,
}

impl<R> WellKnown<R> {
    /// Those of a program; `place` says where the engine keeps a variable.
    pub fn new(pipeline: &Pipeline, place: impl Fn(VarId) -> R) -> Self {
        let var = |name: &str| intrinsic(pipeline, name).map(&place);
        let std = |name: &str| var(&format!("standard_metadata.{name}"));
        WellKnown {
            ingress_port: std("ingress_port"),
            egress_spec: std("egress_spec"),
            egress_port: std("egress_port"),
            instance_type: std("instance_type"),
            packet_length: std("packet_length"),
            enq_timestamp: std("enq_timestamp"),
            ingress_global_timestamp: std("ingress_global_timestamp"),
            egress_global_timestamp: std("egress_global_timestamp"),
            mcast_grp: std("mcast_grp"),
            egress_rid: std("egress_rid"),
            checksum_error: std("checksum_error"),
            parser_error: std("parser_error"),
            pna: ["pre_istd", "parser_istd", "istd"].map(|block| {
                let var = |name: &str| var(&format!("{block}.{name}"));
                PnaInput {
                    input_port: var("input_port"),
                    parser_error: var("parser_error"),
                    direction: var("direction"),
                    pass: var("pass"),
                    timestamp: var("timestamp"),
                }
            }),
            drop_reason: drop_variable(pipeline).map(&place),
            cpu_reason: cpu_variable(pipeline).map(&place),
        }
    }
}

/// A variable that an architecture reads or writes, if the program has it:
/// `standard_metadata.egress_spec`, `pre_istd.input_port`, `parser_istd.pass`, `istd.timestamp`.
pub fn intrinsic(pipeline: &Pipeline, name: &str) -> Option<VarId> {
    pipeline.intrinsics.get(name).copied().filter(|var| pipeline.vars.get(*var).is_some())
}
