//! Architecture steps between the bodies.

use crate::abi::{FrameHeader, destination};
use crate::analysis::facts::reason_vars;
use crate::analysis::frame_slots::FrameSlot;
use crate::analysis::node::{ArchStep, FlowNodeId, NodeKind};
use crate::code::registers::low_bits_mask;
use crate::code::stage::StageBuilder;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{Entity, VarId};
use std::mem::offset_of;

/// v1model's port of dropped packets.
const DROP_PORT: u64 = interp::host::architecture::v1model::DROP_PORT;

impl StageBuilder<'_, '_> {
    /// Emits a step of the architecture, which reads and writes intrinsic metadata.
    pub fn emit_arch_step(&mut self, node: FlowNodeId, step: ArchStep) {
        match step {
            ArchStep::Begin => self.branch_to_hot_path(),
            ArchStep::PnaStdMetadata(block) => self.set_pna_metadata(block),
            ArchStep::PnaVerdict => return self.pna_verdict(node),
            ArchStep::V1Arrive => self.v1_arrive(),
            ArchStep::V1Parsed => {
                let error = self.slot_value(FrameSlot::ParserError);
                self.set_standard_to("parser_error", error);
            }
            ArchStep::V1Verified => {
                let error = self.slot_value(FrameSlot::ChecksumError);
                self.set_standard_to("checksum_error", error);
                if self.standard("packet_length").is_some() {
                    let bytes = self.header_bytes();
                    self.set_slot(FrameSlot::ParsedBytes, bytes);
                }
            }
            ArchStep::V1Traffic => self.v1_traffic(),
            ArchStep::V1Leave => self.v1_leave(),
            ArchStep::End => {
                let leaves_as_it_is =
                    if self.c.plan.flow.deparser.is_some() { self.end_deparser() } else { self.end_without_deparser() };
                self.store_verdict(Some(leaves_as_it_is));
                return self.finish();
            }
        }
        self.continue_at_option(self.c.plan.flow.next_node(node));
    }

    /// Branches to the hot path for packets that are long enough; other packets continue here.
    fn branch_to_hot_path(&mut self) {
        let Some((first, bytes)) = self.c.plan.flow.hot_path else { return };
        let len = self.load_frame_header(offset_of!(FrameHeader, input.len), 4);
        let long = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, len, i64::from(bytes));
        let (trace, short) = (self.blocks[&first], self.b.create_block());
        self.b.ins().brif(long, trace, &[], short, &[]);
        self.switch_to_sealed(short);
    }

    fn intrinsic(&self, name: &str) -> Option<VarId> {
        self.c.pipeline.intrinsics.get(name).copied()
    }

    fn standard(&self, name: &str) -> Option<VarId> {
        self.intrinsic(&format!("standard_metadata.{name}"))
    }

    /// Sets a variable of the architecture, if the program has it.
    fn set_intrinsic(&mut self, var: Option<VarId>, value: cl::Value) {
        if let Some(var) = var {
            let ty = self.c.pipeline.vars[var].ty;
            let regs = if ty == ir::Type::Bool {
                self.cast(ir::Type::Bit(64), ty, &[value])
            } else {
                let value = self.mask_to_width(value, ty.width());
                self.zero_extend_regs(&[value], ty.width())
            };
            self.set_variable(var, &regs);
        }
    }

    fn set_standard_to(&mut self, name: &str, value: cl::Value) {
        let var = self.standard(name);
        self.set_intrinsic(var, value);
    }

    // ---- PNA ----

    /// Stores the intrinsic metadata of PNA for one of its blocks: 0 is the pre-control, 1 the
    /// parser, 2 the control.
    fn set_pna_metadata(&mut self, block: usize) {
        let prefix = ["pre_istd", "parser_istd", "istd"][block];
        let var = |code: &Self, name: &str| code.intrinsic(&format!("{prefix}.{name}"));
        let inputs = [
            ("input_port", offset_of!(FrameHeader, input.ingress_port), 4),
            ("direction", offset_of!(FrameHeader, input.direction), 2),
            ("segment_excess", offset_of!(FrameHeader, input.segment_excess), 2),
            ("timestamp", offset_of!(FrameHeader, time.since_start_ns), 8),
        ];
        for (name, offset, bytes) in inputs {
            if let Some(var) = var(self, name) {
                let value = self.load_frame_header(offset, bytes);
                self.set_intrinsic(Some(var), value);
            }
        }
        // Programs with further passes run on the interpreter.
        let (pass, first_pass) = (var(self, "pass"), self.iconst_u64(0));
        self.set_intrinsic(pass, first_pass);
        let error = self.slot_value(FrameSlot::ParserError);
        let parser_error = var(self, "parser_error");
        self.set_intrinsic(parser_error, error);
    }

    fn pna_verdict(&mut self, node: FlowNodeId) {
        let Some(next) = self.c.plan.flow.next_node(node) else { return self.finish() };
        if self.c.deparser_calls {
            return self.continue_at_node(next);
        }
        // A dropped packet needs no headers.
        let destination = self.slot_value(FrameSlot::Destination);
        let dropped = self.b.ins().icmp_imm_u(IntCC::Equal, destination, 1);
        let [end, on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(dropped, end, &[], on, &[]);
        self.switch_to_sealed(end);
        self.store_verdict(None);
        self.finish();
        self.switch_to_sealed(on);
        self.continue_at_node(next);
    }

    /// At the end of PNA's main control: finishes the packet without the deparser, if it would emit
    /// exactly the headers that were parsed. Other packets go through the deparser. Returns whether
    /// this was possible.
    pub fn finish_without_deparser(&mut self) -> bool {
        let plan = self.c.plan;
        let Some(node) = plan.flow.return_target(self.node) else { return false };
        let (NodeKind::ArchStep(ArchStep::PnaVerdict), Some(deparser)) = (plan.flow.nodes[node], plan.flow.deparser)
        else {
            return false;
        };
        if plan.flow.next_node(node) != Some(deparser) {
            return false;
        }
        let leaves = self.finish_if_unchanged(deparser);
        if leaves {
            self.return_from_body();
        }
        leaves
    }

    /// Stores the verdict to the frame header. `in_place` is a bool: the packet leaves unchanged
    /// except for bytes of its headers. `None`: the flag is 0.
    pub fn store_verdict(&mut self, in_place: Option<cl::Value>) {
        let mut destination = self.slot_value(FrameSlot::Destination);
        if let Some(flag) = in_place {
            let flag = self.b.ins().uextend(I64, flag);
            let flag = self.shl_imm(flag, destination::IN_PLACE.trailing_zeros());
            destination = self.b.ins().bor(destination, flag);
        }
        if let Some(truncate) = self.truncation_length() {
            self.store_frame_header(offset_of!(FrameHeader, truncate), 8, truncate);
            let truncated = self.b.ins().icmp_imm_u(IntCC::NotEqual, truncate, 0);
            let truncated = self.b.ins().uextend(I64, truncated);
            let truncated = self.shl_imm(truncated, destination::TRUNCATED.trailing_zeros());
            destination = self.b.ins().bor(destination, truncated);
        }
        self.store_frame_header(offset_of!(FrameHeader, destination), 8, destination);
        let [drop, cpu] = reason_vars(self.c.pipeline);
        for (var, offset) in [(drop, offset_of!(FrameHeader, drop_reason)), (cpu, offset_of!(FrameHeader, cpu_reason))]
        {
            if let Some(var) = var {
                let reason = self.variable(var)[0];
                self.store_frame_header(offset, 4, reason);
            }
        }
    }

    /// Returns the length in bytes that `truncate` leaves, plus 1, or 0; `None` where the packet is
    /// never truncated.
    fn truncation_length(&mut self) -> Option<cl::Value> {
        if !self.c.truncates {
            return None;
        }
        let (plan, index) = (self.c.plan, self.c.plan.slots.index_of(FrameSlot::Truncate));
        let whole = plan.slot_constant(self.c.pipeline, self.node, index) == Some(0);
        let may_cut_here = plan.slots.writes[self.node].contains(index);
        (may_cut_here || !whole).then(|| self.slot_value(FrameSlot::Truncate))
    }

    /// Stores that the packet starts after the parsed bytes. Returns whether nothing was parsed.
    fn end_without_deparser(&mut self) -> cl::Value {
        let data = self.load_frame_header(offset_of!(FrameHeader, input.data), 8);
        let cursor = self.slot_value(FrameSlot::Cursor);
        let payload = self.b.ins().iadd(data, cursor);
        self.store_output_start(payload, cursor);
        self.b.ins().icmp_imm_u(IntCC::Equal, cursor, 0)
    }

    // ---- v1model ----

    fn v1_arrive(&mut self) {
        let port = self.load_frame_header(offset_of!(FrameHeader, input.ingress_port), 4);
        self.set_standard_to("ingress_port", port);
        let len = self.load_frame_header(offset_of!(FrameHeader, input.len), 4);
        self.set_standard_to("packet_length", len);
        let zero = self.iconst_u64(0);
        self.set_standard_to("instance_type", zero);
        let now = self.load_frame_header(offset_of!(FrameHeader, time.since_start_us), 8);
        self.set_standard_to("ingress_global_timestamp", now);
    }

    /// Returns the bytes of all valid headers of the packet.
    fn header_bytes(&mut self) -> cl::Value {
        let mut sum = self.iconst_u64(0);
        for (id, header) in self.c.pipeline.headers.iter() {
            if header.local {
                continue;
            }
            let mut bytes = self.iconst_u64(u64::from(self.c.plan.headers.bytes[id.index()]));
            if self.c.plan.headers.varbit[id.index()].is_some() {
                let bits = self.slot_value(FrameSlot::VarbitLen(id));
                let more = self.shr_imm(bits, 3);
                bytes = self.b.ins().iadd(bytes, more);
            }
            let valid = self.is_valid(id);
            let zero = self.iconst_u64(0);
            let bytes = self.b.ins().select(valid, bytes, zero);
            sum = self.b.ins().iadd(sum, bytes);
        }
        sum
    }

    /// Emits v1model's traffic manager between ingress and egress: decides the port, drops packets
    /// for the drop port, and sets the standard metadata of egress.
    fn v1_traffic(&mut self) {
        let port = match self.standard("egress_spec") {
            Some(var) => self.variable(var)[0],
            None => self.iconst_u64(0),
        };
        self.drop_if_dropped_port(port);
        self.set_standard_to("egress_port", port);
        let unset_port = self.iconst_u64(DROP_PORT + 1);
        self.set_standard_to("egress_spec", unset_port);
        let zero = self.iconst_u64(0);
        self.set_standard_to("instance_type", zero);
        if self.standard("packet_length").is_some() {
            let len = self.load_frame_header(offset_of!(FrameHeader, input.len), 4);
            let headers = self.header_bytes();
            let parsed_bytes = self.slot_value(FrameSlot::ParsedBytes);
            let sum = self.b.ins().iadd(len, headers);
            let is_negative = self.b.ins().icmp(IntCC::UnsignedLessThan, sum, parsed_bytes);
            let length = self.b.ins().isub(sum, parsed_bytes);
            let length = self.b.ins().select(is_negative, zero, length);
            self.set_standard_to("packet_length", length);
        }
        let now = self.load_frame_header(offset_of!(FrameHeader, time.since_start_us), 8);
        self.set_standard_to("enq_timestamp", now);
        self.set_standard_to("egress_global_timestamp", now);
        for table in self.c.pipeline.tables.keys() {
            let zero = self.iconst_u64(0);
            self.set_slot(FrameSlot::HitEntry(table), zero);
        }
        let port = self.mask_to_width(port, 32);
        // The low half of a destination says its kind, here `PORT`; the high half is the port.
        let port = self.shl_imm(port, 32);
        let sent = self.b.ins().bor_imm_u(port, 2);
        self.set_slot(FrameSlot::Destination, sent);
    }

    fn v1_leave(&mut self) {
        if let Some(var) = self.standard("egress_spec") {
            let port = self.variable(var)[0];
            self.drop_if_dropped_port(port);
        }
    }

    fn drop_if_dropped_port(&mut self, port: cl::Value) {
        let Some(var) = self.standard("egress_spec") else { return };
        if low_bits_mask(self.c.pipeline.vars[var].ty.width()) < DROP_PORT {
            return;
        }
        let dropped = self.b.ins().icmp_imm_u(IntCC::Equal, port, DROP_PORT as i64);
        let [end, on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(dropped, end, &[], on, &[]);
        self.switch_to_sealed(end);
        self.record_rejection();
        let one = self.iconst_u64(1);
        let kept = self.slot_value(FrameSlot::Destination);
        self.set_slot(FrameSlot::Destination, one);
        self.store_verdict(None);
        self.finish();
        self.switch_to_sealed(on);
        self.set_slot(FrameSlot::Destination, kept);
    }
}
