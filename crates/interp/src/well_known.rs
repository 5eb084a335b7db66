//! Variables that an architecture and the engine access for each packet.

use crate::op::Reg;
use crate::reasons::{cpu_variable, drop_variable};
use ir::{Inst, Pipeline, VarId};

/// Registers of the variables with a meaning to the architecture; `None` if the program does not
/// have them.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // the names are those of the specification
pub struct WellKnown {
    pub ingress_port: Option<Reg>,
    pub egress_spec: Option<Reg>,
    pub egress_port: Option<Reg>,
    pub instance_type: Option<Reg>,
    pub packet_length: Option<Reg>,
    pub enq_timestamp: Option<Reg>,
    pub ingress_global_timestamp: Option<Reg>,
    pub egress_global_timestamp: Option<Reg>,
    pub mcast_grp: Option<Reg>,
    pub egress_rid: Option<Reg>,
    pub checksum_error: Option<Reg>,
    pub parser_error: Option<Reg>,
    /// PNA: inputs of the pre control, the main parser and the main control.
    pub pna: [PnaInput; 3],
    /// The program's own drop reason: a variable named `drop_reason`, or `....drop_reason`.
    pub drop_reason: Option<Reg>,
    /// The program's own reason for punting a packet to the CPU: `cpu_reason` or `punt_reason`.
    pub cpu_reason: Option<Reg>,
}

/// Input metadata of a PNA block.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)] // the names are those of the specification
pub struct PnaInput {
    pub input_port: Option<Reg>,
    pub parser_error: Option<Reg>,
    pub direction: Option<Reg>,
    pub pass: Option<Reg>,
    pub timestamp: Option<Reg>,
    pub segment_excess: Option<Reg>,
}

impl WellKnown {
    /// Finds the well-known variables of a program; `reg_of` returns the register of a variable.
    pub fn new(pipeline: &Pipeline, reg_of: impl Fn(VarId) -> Reg) -> Self {
        let var = |name: &str| intrinsic(pipeline, name).map(&reg_of);
        let standard = |name: &str| var(&format!("standard_metadata.{name}"));
        WellKnown {
            ingress_port: standard("ingress_port"),
            egress_spec: standard("egress_spec"),
            egress_port: standard("egress_port"),
            instance_type: standard("instance_type"),
            packet_length: standard("packet_length"),
            enq_timestamp: standard("enq_timestamp"),
            ingress_global_timestamp: standard("ingress_global_timestamp"),
            egress_global_timestamp: standard("egress_global_timestamp"),
            mcast_grp: standard("mcast_grp"),
            egress_rid: standard("egress_rid"),
            checksum_error: standard("checksum_error"),
            parser_error: standard("parser_error"),
            pna: ["pre_istd", "parser_istd", "istd"].map(|block| {
                let var = |name: &str| var(&format!("{block}.{name}"));
                PnaInput {
                    input_port: var("input_port"),
                    parser_error: var("parser_error"),
                    direction: var("direction"),
                    pass: var("pass"),
                    timestamp: var("timestamp"),
                    segment_excess: var("segment_excess"),
                }
            }),
            drop_reason: drop_variable(pipeline).map(&reg_of),
            cpu_reason: cpu_variable(pipeline).map(&reg_of),
        }
    }
}

/// Returns whether a program reads `istd.segment_excess`, so that it takes super-frames whole
/// ([`packet::Engine::takes_offloads`]).
pub fn reads_segment_excess(pipeline: &Pipeline) -> bool {
    let Some(excess) = intrinsic(pipeline, "istd.segment_excess") else { return false };
    let mut insts = pipeline.controls.values().flat_map(|control| control.body.insts());
    insts.any(|data| matches!(data.inst, Inst::Load(var) if var == excess))
}

/// Returns a variable that an architecture reads or writes, if the program has it:
/// `standard_metadata.egress_spec`, `pre_istd.input_port`, `parser_istd.pass`, `istd.timestamp`.
pub fn intrinsic(pipeline: &Pipeline, name: &str) -> Option<VarId> {
    pipeline.intrinsics.get(name).copied().filter(|var| pipeline.vars.get(*var).is_some())
}
