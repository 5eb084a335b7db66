//! What the architectures do between the bodies.

use crate::abi::{Head, destination};
use crate::analysis::cells::Cell;
use crate::analysis::facts::reason_vars;
use crate::analysis::node::{Glue, Node, Step};
use crate::code::registers::mask;
use crate::code::stage::StageCode;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{Entity, VarId};
use std::mem::offset_of;

/// v1model's port of dropped packets.
const DROP_PORT: u64 = interp::host::architecture::v1model::DROP_PORT;

impl StageCode<'_, '_> {
    /// A step of the architecture.
    pub fn glue(&mut self, node: Node, glue: Glue) {
        match glue {
            Glue::Begin => self.begin_trace(),
            Glue::PnaTell(block) => self.pna_tell(block),
            Glue::PnaVerdict => return self.pna_verdict(node),
            Glue::V1Arrive => self.v1_arrive(),
            Glue::V1Parsed => {
                let error = self.cell(Cell::ParserError);
                self.set_standard_to("parser_error", error);
            }
            Glue::V1Verified => {
                let error = self.cell(Cell::ChecksumError);
                self.set_standard_to("checksum_error", error);
                if self.standard("packet_length").is_some() {
                    let bytes = self.header_bytes();
                    self.set_cell(Cell::ParsedBytes, bytes);
                }
            }
            Glue::V1Traffic => self.v1_traffic(),
            Glue::V1Leave => self.v1_leave(),
            Glue::End => {
                let lies =
                    if self.c.plan.flow.deparser.is_some() { self.end_deparser() } else { self.end_without_deparser() };
                self.tell_verdict(Some(lies));
                return self.finish();
            }
        }
        self.go_on(self.c.plan.flow.next(node));
    }

    /// Packets that are long enough go on at the trace; what follows is for others.
    fn begin_trace(&mut self) {
        let Some((first, bytes)) = self.c.plan.flow.trace else { return };
        let len = self.head(offset_of!(Head, arrival.len), 4);
        let long = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, len, i64::from(bytes));
        let (trace, short) = (self.blocks[&first], self.b.create_block());
        self.b.ins().brif(long, trace, &[], short, &[]);
        self.enter(short);
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
                let value = self.cut(value, ty.width());
                self.widened(&[value], ty.width())
            };
            self.set_variable(var, &regs);
        }
    }

    fn set_standard_to(&mut self, name: &str, value: cl::Value) {
        let var = self.standard(name);
        self.set_intrinsic(var, value);
    }

    // ---- PNA ----

    fn pna_tell(&mut self, block: usize) {
        let prefix = ["pre_istd", "parser_istd", "istd"][block];
        let var = |code: &Self, name: &str| code.intrinsic(&format!("{prefix}.{name}"));
        let heads = [
            ("input_port", offset_of!(Head, arrival.port), 4),
            ("direction", offset_of!(Head, arrival.direction), 4),
            ("timestamp", offset_of!(Head, clock.now), 8),
        ];
        for (name, at, bytes) in heads {
            if let Some(var) = var(self, name) {
                let value = self.head(at, bytes);
                self.set_intrinsic(Some(var), value);
            }
        }
        // Packets that want another pass are the interpreter's.
        let (pass, first) = (var(self, "pass"), self.number(0));
        self.set_intrinsic(pass, first);
        let error = self.cell(Cell::ParserError);
        let parser_error = var(self, "parser_error");
        self.set_intrinsic(parser_error, error);
    }

    fn pna_verdict(&mut self, node: Node) {
        let Some(next) = self.c.plan.flow.next(node) else { return self.finish() };
        if self.c.deparser_calls {
            return self.go(next);
        }
        // A packet that is dropped needs no headers.
        let destination = self.cell(Cell::Destination);
        let dropped = self.b.ins().icmp_imm_u(IntCC::Equal, destination, 1);
        let [end, on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(dropped, end, &[], on, &[]);
        self.enter(end);
        self.tell_verdict(None);
        self.finish();
        self.enter(on);
        self.go(next);
    }

    /// At the end of PNA's main control: if the headers that the packet leaves with are known here, and are those that it came
    /// with, it is ready. Packets with others go through the deparser. Whether that was possible.
    pub fn leave_at_once(&mut self) -> bool {
        let plan = self.c.plan;
        let Some(node) = plan.flow.returns(self.node) else { return false };
        let (Step::Glue(Glue::PnaVerdict), Some(deparser)) = (plan.flow.nodes[node], plan.flow.deparser) else {
            return false;
        };
        if plan.flow.next(node) != Some(deparser) {
            return false;
        }
        let leaves = self.leave_if_whole(deparser);
        if leaves {
            self.return_from_body();
        }
        leaves
    }

    /// Writes into the frame's head where the packet goes; `as_it_lies`: a bool, whether nothing about it but bytes of its headers has changed.
    pub fn tell_verdict(&mut self, as_it_lies: Option<cl::Value>) {
        let mut destination = self.cell(Cell::Destination);
        if let Some(lies) = as_it_lies {
            let lies = self.b.ins().uextend(I64, lies);
            let lies = self.left(lies, destination::AS_IT_LIES.trailing_zeros());
            destination = self.b.ins().bor(destination, lies);
        }
        if let Some(truncate) = self.cut_to() {
            self.set_head(offset_of!(Head, truncate), 8, truncate);
            let cut = self.b.ins().icmp_imm_u(IntCC::NotEqual, truncate, 0);
            let cut = self.b.ins().uextend(I64, cut);
            let cut = self.left(cut, destination::CUT.trailing_zeros());
            destination = self.b.ins().bor(destination, cut);
        }
        self.set_head(offset_of!(Head, destination), 8, destination);
        let [drop, cpu] = reason_vars(self.c.pipeline);
        for (var, at) in [(drop, offset_of!(Head, drop_reason)), (cpu, offset_of!(Head, cpu_reason))] {
            if let Some(var) = var {
                let reason = self.variable(var)[0];
                self.set_head(at, 4, reason);
            }
        }
    }

    /// Bytes that `truncate` leaves of the packet, plus 1, or 0; `None` where it is certain that nothing is cut.
    fn cut_to(&mut self) -> Option<cl::Value> {
        if !self.c.truncates {
            return None;
        }
        let (plan, index) = (self.c.plan, self.c.plan.cells.of(Cell::Truncate));
        let whole = plan.constant(self.c.pipeline, self.node, index) == Some(0);
        let may_cut_here = plan.cells.writes[self.node].contains(index);
        (may_cut_here || !whole).then(|| self.cell(Cell::Truncate))
    }

    /// Tells the engine that the packet begins with what the parser left; whether that is all of it.
    fn end_without_deparser(&mut self) -> cl::Value {
        let data = self.head(offset_of!(Head, arrival.data), 8);
        let cursor = self.cell(Cell::Cursor);
        let payload = self.b.ins().iadd(data, cursor);
        self.leave_in_place(payload, cursor);
        self.b.ins().icmp_imm_u(IntCC::Equal, cursor, 0)
    }

    // ---- v1model ----

    fn v1_arrive(&mut self) {
        let port = self.head(offset_of!(Head, arrival.port), 4);
        self.set_standard_to("ingress_port", port);
        let len = self.head(offset_of!(Head, arrival.len), 4);
        self.set_standard_to("packet_length", len);
        let zero = self.number(0);
        self.set_standard_to("instance_type", zero);
        let now = self.head(offset_of!(Head, clock.now_us), 8);
        self.set_standard_to("ingress_global_timestamp", now);
    }

    /// Bytes of all valid headers of the packet.
    fn header_bytes(&mut self) -> cl::Value {
        let mut sum = self.number(0);
        for (id, header) in self.c.pipeline.headers.iter() {
            if header.local {
                continue;
            }
            let mut bytes = self.number(u64::from(self.c.plan.headers.bytes[id.index()]));
            if self.c.plan.headers.varbit[id.index()].is_some() {
                let bits = self.cell(Cell::VarbitLen(id));
                let more = self.right(bits, 3);
                bytes = self.b.ins().iadd(bytes, more);
            }
            let valid = self.is_valid(id);
            let zero = self.number(0);
            let bytes = self.b.ins().select(valid, bytes, zero);
            sum = self.b.ins().iadd(sum, bytes);
        }
        sum
    }

    fn v1_traffic(&mut self) {
        let port = match self.standard("egress_spec") {
            Some(var) => self.variable(var)[0],
            None => self.number(0),
        };
        self.drop_if_told(port);
        self.set_standard_to("egress_port", port);
        let spec = self.number(DROP_PORT + 1);
        self.set_standard_to("egress_spec", spec);
        let zero = self.number(0);
        self.set_standard_to("instance_type", zero);
        if self.standard("packet_length").is_some() {
            let len = self.head(offset_of!(Head, arrival.len), 4);
            let headers = self.header_bytes();
            let before = self.cell(Cell::ParsedBytes);
            let sum = self.b.ins().iadd(len, headers);
            let less = self.b.ins().icmp(IntCC::UnsignedLessThan, sum, before);
            let length = self.b.ins().isub(sum, before);
            let length = self.b.ins().select(less, zero, length);
            self.set_standard_to("packet_length", length);
        }
        let now = self.head(offset_of!(Head, clock.now_us), 8);
        self.set_standard_to("enq_timestamp", now);
        self.set_standard_to("egress_global_timestamp", now);
        for table in self.c.pipeline.tables.keys() {
            let zero = self.number(0);
            self.set_cell(Cell::Hit(table), zero);
        }
        let port = self.cut(port, 32);
        let port = self.left(port, 32);
        let sent = self.b.ins().bor_imm_u(port, 2);
        self.set_cell(Cell::Destination, sent);
    }

    fn v1_leave(&mut self) {
        if let Some(var) = self.standard("egress_spec") {
            let port = self.variable(var)[0];
            self.drop_if_told(port);
        }
    }

    fn drop_if_told(&mut self, port: cl::Value) {
        let Some(var) = self.standard("egress_spec") else { return };
        if mask(self.c.pipeline.vars[var].ty.width()) < DROP_PORT {
            return;
        }
        let dropped = self.b.ins().icmp_imm_u(IntCC::Equal, port, DROP_PORT as i64);
        let [end, on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(dropped, end, &[], on, &[]);
        self.enter(end);
        self.rejected();
        let one = self.number(1);
        let kept = self.cell(Cell::Destination);
        self.set_cell(Cell::Destination, one);
        self.tell_verdict(None);
        self.finish();
        self.enter(on);
        self.set_cell(Cell::Destination, kept);
    }
}
