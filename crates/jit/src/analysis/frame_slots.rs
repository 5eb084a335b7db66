//! Frame slots: values other than packet bytes that a packet carries between stages. Computes the
//! slots that each node reads and writes, and their liveness.

use crate::analysis::flow::FlowGraph;
use crate::analysis::headers::{HeaderLayout, HeaderLocation};
use crate::analysis::node::{ArchStep, FlowNodeId, NodeKind};
use fixedbitset::FixedBitSet;
use ir::{
    Entity, ExternArg, ExternFn, ExternId, ExternKind, HeaderId, Inst, Pipeline, TableId, Terminator, Type, VarId,
    VarKind,
};
use std::collections::BTreeMap;

/// A value that a packet carries between stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FrameSlot {
    /// A variable that is not a header field.
    Var(VarId),
    /// Validity bits of 64 headers.
    Valid(u32),
    /// Address of the header's bytes.
    HeaderAddr(HeaderId),
    /// Length of the header's varbit, in bits.
    VarbitLen(HeaderId),
    /// Position of the parser, in bytes from the start of the packet.
    Cursor,
    /// The parser's error.
    ParserError,
    /// Whether `verify_checksum` found a mismatch.
    ChecksumError,
    /// Destination of the packet. Low half: 0 none yet, 1 drop, 2 to the port in the high half.
    Destination,
    /// Sum of an `InternetChecksum`.
    Sum(ExternId),
    /// Id plus 1 of the entry that was hit last; 0 after a miss.
    HitEntry(TableId),
    /// Color of a table's direct meter.
    MeterColor(TableId),
    /// v1model: bytes of the valid headers at the end of the parser.
    ParsedBytes,
    /// Length in bytes that `truncate` leaves, plus 1; 0 if it was not called.
    Truncate,
}

/// All frame slots of a pipeline, with liveness.
#[derive(Clone, Debug)]
pub struct FrameSlots {
    /// Index of each slot.
    pub index: BTreeMap<FrameSlot, usize>,
    /// Slots by index.
    pub slots: Vec<FrameSlot>,
    /// For each node, the slots that it reads before it writes them.
    pub reads: Vec<FixedBitSet>,
    /// For each node, the slots that it may write.
    pub writes: Vec<FixedBitSet>,
    /// For each node, the slots that are live on entry.
    pub live: Vec<FixedBitSet>,
}

/// Returns a set of all numbers below `count`.
pub fn all_below(count: usize) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(count);
    set.insert_range(..);
    set
}

/// Collects the slots that one node reads and writes, in order.
struct SlotAccess<'a> {
    pipeline: &'a Pipeline,
    headers: &'a HeaderLayout,
    index: &'a BTreeMap<FrameSlot, usize>,
    reads: FixedBitSet,
    writes: FixedBitSet,
    /// Slots that the node has definitely written.
    definite_writes: FixedBitSet,
    /// Whether the parser may have rejected before; later writes are then not definite.
    may_have_exited: bool,
}

impl FrameSlots {
    /// Computes the slots of a pipeline, and for each node of the graph: the slots that it reads
    /// and writes, and those that are live before it.
    pub fn new(pipeline: &Pipeline, flow: &FlowGraph, headers: &HeaderLayout) -> FrameSlots {
        let mut slots = Vec::new();
        let variables = pipeline.vars.iter().filter(|(_, var)| !matches!(var.kind, VarKind::Field(..)));
        slots.extend(variables.map(|(id, _)| FrameSlot::Var(id)));
        slots.extend((0..pipeline.headers.len().div_ceil(64)).map(|word| FrameSlot::Valid(word as u32)));
        for id in pipeline.headers.keys() {
            if headers.locations[id.index()] == HeaderLocation::Dynamic {
                slots.push(FrameSlot::HeaderAddr(id));
            }
            if headers.varbit[id.index()].is_some() {
                slots.push(FrameSlot::VarbitLen(id));
            }
        }
        slots.extend([FrameSlot::Cursor, FrameSlot::ParserError, FrameSlot::ChecksumError, FrameSlot::Destination]);
        slots.extend([FrameSlot::ParsedBytes, FrameSlot::Truncate]);
        let checksums = pipeline.externs.iter().filter(|(_, e)| matches!(e.kind, ExternKind::InternetChecksum));
        slots.extend(checksums.map(|(id, _)| FrameSlot::Sum(id)));
        slots.extend(pipeline.tables.keys().flat_map(|id| [FrameSlot::HitEntry(id), FrameSlot::MeterColor(id)]));
        let index: BTreeMap<FrameSlot, usize> = slots.iter().enumerate().map(|(n, slot)| (*slot, n)).collect();
        let mut frame_slots = FrameSlots { index, slots, reads: Vec::new(), writes: Vec::new(), live: Vec::new() };
        for node in 0..flow.nodes.len() {
            let mut access = SlotAccess::new(pipeline, headers, &frame_slots.index);
            access.scan_node(flow, node);
            let (reads, writes, definite_writes) = (access.reads, access.writes, access.definite_writes);
            frame_slots.reads.push(reads.clone());
            frame_slots.writes.push(writes);
            // `live` holds the definite writes until `find_live`.
            frame_slots.live.push(definite_writes);
        }
        frame_slots.find_live(pipeline, flow);
        frame_slots
    }

    /// Returns the slots that an instruction may write.
    pub fn slots_written_by(&self, pipeline: &Pipeline, headers: &HeaderLayout, inst: &Inst) -> Vec<usize> {
        let mut walk = SlotAccess::new(pipeline, headers, &self.index);
        walk.scan_inst(inst);
        walk.writes.ones().collect()
    }

    /// Returns the slots that a table application may write.
    pub fn slots_written_by_table(&self, pipeline: &Pipeline, headers: &HeaderLayout, table: TableId) -> Vec<usize> {
        let mut walk = SlotAccess::new(pipeline, headers, &self.index);
        walk.scan_table(table);
        walk.writes.ones().collect()
    }

    /// Computes the slots that are live before each node, by iterating backwards until nothing
    /// changes. On entry `live` holds the definite writes, which end the life of a slot's old
    /// value.
    fn find_live(&mut self, pipeline: &Pipeline, flow: &FlowGraph) {
        let kills = std::mem::take(&mut self.live);
        self.live = self.reads.clone();
        let successors: Vec<Vec<FlowNodeId>> = (0..flow.nodes.len()).map(|n| flow.successors(pipeline, n)).collect();
        loop {
            let mut changed = false;
            for node in (0..flow.nodes.len()).rev() {
                let mut live_after = FixedBitSet::with_capacity(self.slots.len());
                for next in &successors[node] {
                    live_after.union_with(&self.live[*next]);
                }
                live_after.difference_with(&kills[node]);
                changed |= !live_after.is_subset(&self.live[node]);
                self.live[node].union_with(&live_after);
            }
            if !changed {
                return;
            }
        }
    }

    /// Returns the index of a slot.
    pub fn index_of(&self, cell: FrameSlot) -> usize {
        self.index[&cell]
    }

    /// Returns the type of a slot's value.
    pub fn slot_type(&self, pipeline: &Pipeline, index: usize) -> Type {
        match self.slots[index] {
            FrameSlot::Var(id) => pipeline.vars[id].ty,
            FrameSlot::Valid(_) | FrameSlot::HeaderAddr(_) | FrameSlot::Destination | FrameSlot::Truncate => {
                Type::Bit(64)
            }
            FrameSlot::VarbitLen(_)
            | FrameSlot::Cursor
            | FrameSlot::ParserError
            | FrameSlot::Sum(_)
            | FrameSlot::HitEntry(_) => Type::Bit(32),
            FrameSlot::ChecksumError | FrameSlot::ParsedBytes | FrameSlot::MeterColor(_) => Type::Bit(32),
        }
    }
}

impl<'a> SlotAccess<'a> {
    fn new(pipeline: &'a Pipeline, headers: &'a HeaderLayout, index: &'a BTreeMap<FrameSlot, usize>) -> SlotAccess<'a> {
        let new = || FixedBitSet::with_capacity(index.len());
        SlotAccess {
            pipeline,
            headers,
            index,
            reads: new(),
            writes: new(),
            definite_writes: new(),
            may_have_exited: false,
        }
    }

    fn record_read(&mut self, cell: FrameSlot) {
        if let Some(index) = self.index.get(&cell)
            && !self.definite_writes.contains(*index)
        {
            self.reads.insert(*index);
        }
    }

    fn record_write(&mut self, cell: FrameSlot) {
        if let Some(index) = self.index.get(&cell) {
            self.writes.insert(*index);
            if !self.may_have_exited {
                self.definite_writes.insert(*index);
            }
        }
    }

    fn record_possible_write(&mut self, cell: FrameSlot) {
        if let Some(index) = self.index.get(&cell) {
            self.writes.insert(*index);
        }
    }

    fn read_header_slots(&mut self, id: HeaderId) {
        self.record_read(FrameSlot::Valid(id.0 / 64));
        self.record_read(FrameSlot::HeaderAddr(id));
    }

    fn write_validity(&mut self, id: HeaderId) {
        self.record_read(FrameSlot::Valid(id.0 / 64));
        self.record_write(FrameSlot::Valid(id.0 / 64));
        for sibling in &self.headers.siblings[id.index()] {
            self.record_read(FrameSlot::Valid(sibling.0 / 64));
            self.record_write(FrameSlot::Valid(sibling.0 / 64));
        }
    }

    /// Records the frame slots that a node of the control-flow graph accesses: its instructions,
    /// its table application, and the key of a lookup that is paired with it (issued together with
    /// this node's lookup, so its key is computed here).
    fn scan_node(&mut self, flow: &FlowGraph, node: FlowNodeId) {
        match flow.nodes[node] {
            NodeKind::ArchStep(glue) => self.scan_arch_step(glue),
            NodeKind::Block(control, block) => {
                let control = &self.pipeline.controls[ir::ControlId(control as u32)];
                if control.body.entry == Some(block) {
                    // Checksum state is reset for each programmable block.
                    let sums = self.pipeline.externs.iter();
                    let sums = sums.filter(|(_, e)| matches!(e.kind, ExternKind::InternetChecksum));
                    sums.for_each(|(id, _)| self.record_write(FrameSlot::Sum(id)));
                }
                for data in &control.body.blocks[block].insts {
                    self.scan_inst(&data.inst);
                    self.may_have_exited |= crate::analysis::facts::may_reject(&data.inst);
                }
                if let Some(Terminator::Apply { table, .. }) = control.body.blocks[block].term.as_ref().map(|t| &t.term)
                {
                    let paired_key = flow.paired_lookup(node).into_iter().flat_map(|paired| &paired.insts);
                    paired_key.for_each(|data| self.scan_inst(&data.inst));
                    self.scan_table(*table);
                }
            }
        }
    }

    fn scan_table(&mut self, table: TableId) {
        self.record_write(FrameSlot::HitEntry(table));
        self.record_write(FrameSlot::MeterColor(table));
        if let Some(var) = self.pipeline.tables[table].meter_result {
            match self.pipeline.vars[var].kind {
                VarKind::Field(header, _) => self.read_header_slots(header),
                _ => self.record_possible_write(FrameSlot::Var(var)),
            }
        }
    }

    /// Records the frame slots that a step of the architecture reads and writes: intrinsic metadata
    /// by name, and the state that the step itself uses.
    fn scan_arch_step(&mut self, step: ArchStep) {
        let intrinsic = |name: &str| self.pipeline.intrinsics.get(name).copied().map(FrameSlot::Var);
        let reads = |names: &[&str]| names.iter().filter_map(|n| intrinsic(n)).collect::<Vec<_>>();
        let standard = |names: &[&str]| {
            names.iter().filter_map(|n| intrinsic(&format!("standard_metadata.{n}"))).collect::<Vec<_>>()
        };
        let reasons: Vec<FrameSlot> =
            crate::analysis::facts::reason_vars(self.pipeline).into_iter().flatten().map(FrameSlot::Var).collect();
        match step {
            ArchStep::Begin => {
                let all: Vec<FrameSlot> = self.index.keys().copied().collect();
                all.into_iter().for_each(|slot| self.record_write(slot));
            }
            ArchStep::PnaStdMetadata(block) => {
                let prefix = ["pre_istd", "parser_istd", "istd"][block];
                let names = ["input_port", "parser_error", "direction", "pass", "timestamp", "segment_excess"];
                let names: Vec<String> = names.iter().map(|n| format!("{prefix}.{n}")).collect();
                let slots = reads(&names.iter().map(String::as_str).collect::<Vec<_>>());
                self.record_read(FrameSlot::ParserError);
                slots.into_iter().for_each(|slot| self.record_write(slot));
            }
            ArchStep::PnaVerdict => {
                self.record_read(FrameSlot::Destination);
                self.record_read(FrameSlot::Truncate);
                reasons.into_iter().for_each(|slot| self.record_read(slot));
            }
            ArchStep::V1Arrive => {
                let slots = standard(&["ingress_port", "packet_length", "instance_type", "ingress_global_timestamp"]);
                slots.into_iter().for_each(|slot| self.record_write(slot));
            }
            ArchStep::V1Parsed => {
                self.record_read(FrameSlot::ParserError);
                standard(&["parser_error"]).into_iter().for_each(|slot| self.record_write(slot));
            }
            ArchStep::V1Verified => {
                self.record_read(FrameSlot::ChecksumError);
                standard(&["checksum_error"]).into_iter().for_each(|slot| self.record_write(slot));
                self.header_bytes();
                self.record_write(FrameSlot::ParsedBytes);
            }
            ArchStep::V1Traffic => {
                standard(&["egress_spec", "mcast_grp"]).into_iter().for_each(|slot| self.record_read(slot));
                reasons.into_iter().for_each(|slot| self.record_read(slot));
                self.record_read(FrameSlot::ParsedBytes);
                self.record_read(FrameSlot::Truncate);
                self.header_bytes();
                let written = ["egress_port", "egress_spec", "instance_type", "packet_length", "enq_timestamp"];
                standard(&written).into_iter().for_each(|slot| self.record_write(slot));
                standard(&["egress_global_timestamp"]).into_iter().for_each(|slot| self.record_write(slot));
                self.record_write(FrameSlot::Destination);
                let tables: Vec<TableId> = self.pipeline.tables.keys().collect();
                tables.into_iter().for_each(|table| self.record_write(FrameSlot::HitEntry(table)));
            }
            ArchStep::V1Leave => {
                standard(&["egress_spec"]).into_iter().for_each(|slot| self.record_read(slot));
                reasons.into_iter().for_each(|slot| self.record_read(slot));
                self.record_read(FrameSlot::Destination);
                self.record_read(FrameSlot::Truncate);
            }
            ArchStep::End => {
                [FrameSlot::Destination, FrameSlot::Cursor, FrameSlot::Truncate]
                    .into_iter()
                    .for_each(|slot| self.record_read(slot));
                reasons.into_iter().for_each(|slot| self.record_read(slot));
            }
        }
    }

    fn header_bytes(&mut self) {
        for id in self.pipeline.headers.keys() {
            self.record_read(FrameSlot::Valid(id.0 / 64));
            self.record_read(FrameSlot::VarbitLen(id));
        }
    }

    /// Records the frame slots that an instruction reads and writes. A possible write leaves the
    /// old value for some packets, so it does not end the life of that value.
    fn scan_inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Load(var) => match self.pipeline.vars[*var].kind {
                VarKind::Field(header, _) => self.read_header_slots(header),
                _ => self.record_read(FrameSlot::Var(*var)),
            },
            Inst::Store(var, _) => match self.pipeline.vars[*var].kind {
                VarKind::Field(header, _) => self.read_header_slots(header),
                _ => self.record_write(FrameSlot::Var(*var)),
            },
            Inst::IsValid(header) => self.record_read(FrameSlot::Valid(header.0 / 64)),
            Inst::SetValid(header) => {
                self.read_header_slots(*header);
                self.write_validity(*header);
                self.record_write(FrameSlot::HeaderAddr(*header));
                self.record_possible_write(FrameSlot::VarbitLen(*header));
                self.record_read(FrameSlot::VarbitLen(*header));
            }
            Inst::SetInvalid(header) => self.write_validity(*header),
            Inst::CopyHeader { dst, src } => {
                self.read_header_slots(*src);
                self.read_header_slots(*dst);
                self.write_validity(*dst);
                self.record_write(FrameSlot::HeaderAddr(*dst));
            }
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                self.record_read(FrameSlot::Cursor);
                // A short packet leaves all slots unchanged.
                self.write_validity_possibly(*header);
                [
                    FrameSlot::HeaderAddr(*header),
                    FrameSlot::VarbitLen(*header),
                    FrameSlot::Cursor,
                    FrameSlot::ParserError,
                ]
                .into_iter()
                .for_each(|slot| self.record_possible_write(slot));
            }
            Inst::Advance(_) => {
                self.record_read(FrameSlot::Cursor);
                [FrameSlot::Cursor, FrameSlot::ParserError]
                    .into_iter()
                    .for_each(|slot| self.record_possible_write(slot));
            }
            Inst::Lookahead(_) => {
                self.record_read(FrameSlot::Cursor);
                self.record_possible_write(FrameSlot::ParserError);
            }
            Inst::Verify(..) => self.record_possible_write(FrameSlot::ParserError),
            Inst::Emit(header) => {
                self.read_header_slots(*header);
                self.record_read(FrameSlot::VarbitLen(*header));
            }
            Inst::Extern { object, func, args } => self.scan_call(*object, *func, args),
            _ => {}
        }
    }

    fn write_validity_possibly(&mut self, id: HeaderId) {
        self.record_read(FrameSlot::Valid(id.0 / 64));
        self.record_possible_write(FrameSlot::Valid(id.0 / 64));
        for sibling in &self.headers.siblings[id.index()] {
            self.record_read(FrameSlot::Valid(sibling.0 / 64));
            self.record_possible_write(FrameSlot::Valid(sibling.0 / 64));
        }
    }

    /// Records the frame slots that an extern call reads and writes. Calls that are not listed work
    /// on their arguments and on state outside of the frame.
    fn scan_call(&mut self, object: Option<ExternId>, func: ExternFn, args: &[ExternArg]) {
        use ExternFn::*;
        for arg in args {
            if let ExternArg::Table(table) = arg {
                self.record_read(FrameSlot::HitEntry(*table));
                self.record_read(FrameSlot::MeterColor(*table));
            }
        }
        match func {
            InternetChecksumAdd | InternetChecksumSubtract | InternetChecksumGet | InternetChecksumGetState => {
                if let Some(id) = object {
                    self.record_read(FrameSlot::Sum(id));
                    if matches!(func, InternetChecksumAdd | InternetChecksumSubtract) {
                        self.record_write(FrameSlot::Sum(id));
                    }
                }
            }
            InternetChecksumClear | InternetChecksumSetState => {
                if let Some(id) = object {
                    self.record_write(FrameSlot::Sum(id));
                }
            }
            MarkToDrop => {
                for name in ["standard_metadata.egress_spec", "standard_metadata.mcast_grp"] {
                    if let Some(var) = self.pipeline.intrinsics.get(name) {
                        self.record_write(FrameSlot::Var(*var));
                    }
                }
            }
            DropPacket | SendToPort => self.record_write(FrameSlot::Destination),
            PnaRecirculate => {
                self.record_read(FrameSlot::Destination);
                self.record_write(FrameSlot::Destination);
            }
            VerifyChecksum | VerifyChecksumWithPayload => {
                self.record_read(FrameSlot::ChecksumError);
                self.record_read(FrameSlot::Cursor);
                self.record_write(FrameSlot::ChecksumError);
            }
            UpdateChecksumWithPayload => self.record_read(FrameSlot::Cursor),
            Truncate => self.record_write(FrameSlot::Truncate),
            _ => {}
        }
    }
}
