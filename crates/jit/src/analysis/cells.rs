//! Cells: what a packet carries from stage to stage besides its bytes. Which of them each node reads and writes, and where each is
//! still needed.

use crate::analysis::flow::Flow;
use crate::analysis::headers::{Headers, Place};
use crate::analysis::node::{Glue, Node, Step};
use fixedbitset::FixedBitSet;
use ir::{Arg, Entity, ExternFn, ExternId, ExternKind, HeaderId, Inst, Pipeline, TableId, Term, Type, VarId, VarKind};
use std::collections::BTreeMap;

/// One thing that a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cell {
    /// A variable that is no header field.
    Var(VarId),
    /// 64 headers' validity.
    Valid(u32),
    /// Where the header's bytes are: an address.
    HeaderAt(HeaderId),
    /// Length of the header's varbit, in bits.
    VarbitLen(HeaderId),
    /// How far the parser is, in bytes from the packet's start.
    Cursor,
    /// The parser's error.
    ParserError,
    /// `verify_checksum` found a mismatch.
    ChecksumError,
    /// Where the packet goes: low half 0 nowhere yet, 1 drop, 2 to the port in the high half.
    Destination,
    /// The sum of an `InternetChecksum`.
    Sum(ExternId),
    /// Number plus 1 of the entry that was hit last; 0 after a miss.
    Hit(TableId),
    /// Colour of a table's direct meter.
    Colour(TableId),
    /// v1model: bytes of valid headers when the parser was done.
    ParsedBytes,
    /// Bytes that `truncate` leaves, plus 1; 0 if it was not called.
    Truncate,
}

/// All cells of a pipeline, and where they are live.
#[derive(Clone, Debug)]
pub struct Cells {
    /// Each cell's number.
    pub index: BTreeMap<Cell, usize>,
    /// In order of their numbers.
    pub list: Vec<Cell>,
    /// For each node, the cells that it reads before it writes them.
    pub reads: Vec<FixedBitSet>,
    /// For each node, the cells that it may write.
    pub writes: Vec<FixedBitSet>,
    /// For each node, the cells whose value on entry is needed.
    pub live: Vec<FixedBitSet>,
}

/// All numbers below `count`.
pub fn all_below(count: usize) -> FixedBitSet {
    let mut set = FixedBitSet::with_capacity(count);
    set.insert_range(..);
    set
}

/// What one node reads and writes, in order.
struct Walk<'a> {
    pipeline: &'a Pipeline,
    headers: &'a Headers,
    index: &'a BTreeMap<Cell, usize>,
    reads: FixedBitSet,
    writes: FixedBitSet,
    /// Cells that the node has written for certain.
    sure: FixedBitSet,
    /// The parser may have given up before: what follows is not certain.
    may_have_left: bool,
}

impl Cells {
    /// The cells of a pipeline.
    pub fn new(pipeline: &Pipeline, flow: &Flow, headers: &Headers) -> Cells {
        let mut list = Vec::new();
        let plain = pipeline.vars.iter().filter(|(_, var)| !matches!(var.kind, VarKind::Field(..)));
        list.extend(plain.map(|(id, _)| Cell::Var(id)));
        list.extend((0..pipeline.headers.len().div_ceil(64)).map(|word| Cell::Valid(word as u32)));
        for id in pipeline.headers.keys() {
            if headers.places[id.index()] == Place::Moves {
                list.push(Cell::HeaderAt(id));
            }
            if headers.varbit[id.index()].is_some() {
                list.push(Cell::VarbitLen(id));
            }
        }
        list.extend([Cell::Cursor, Cell::ParserError, Cell::ChecksumError, Cell::Destination]);
        list.extend([Cell::ParsedBytes, Cell::Truncate]);
        let sums = pipeline.externs.iter().filter(|(_, e)| matches!(e.kind, ExternKind::InternetChecksum));
        list.extend(sums.map(|(id, _)| Cell::Sum(id)));
        list.extend(pipeline.tables.keys().flat_map(|id| [Cell::Hit(id), Cell::Colour(id)]));
        let index: BTreeMap<Cell, usize> = list.iter().enumerate().map(|(n, cell)| (*cell, n)).collect();
        let mut cells = Cells { index, list, reads: Vec::new(), writes: Vec::new(), live: Vec::new() };
        for node in 0..flow.nodes.len() {
            let mut walk = Walk::new(pipeline, headers, &cells.index);
            walk.node(flow, node);
            let (reads, writes, sure) = (walk.reads, walk.writes, walk.sure);
            cells.reads.push(reads.clone());
            cells.writes.push(writes);
            // Until the fixed point is found, `live` holds what is certain to be written.
            cells.live.push(sure);
        }
        cells.find_live(pipeline, flow);
        cells
    }

    /// The cells that an instruction may write.
    pub fn written_by(&self, pipeline: &Pipeline, headers: &Headers, inst: &Inst) -> Vec<usize> {
        let mut walk = Walk::new(pipeline, headers, &self.index);
        walk.inst(inst);
        walk.writes.ones().collect()
    }

    /// The cells that applying a table may write.
    pub fn written_by_table(&self, pipeline: &Pipeline, headers: &Headers, table: TableId) -> Vec<usize> {
        let mut walk = Walk::new(pipeline, headers, &self.index);
        walk.table(table);
        walk.writes.ones().collect()
    }

    fn find_live(&mut self, pipeline: &Pipeline, flow: &Flow) {
        let kills = std::mem::take(&mut self.live);
        self.live = self.reads.clone();
        let successors: Vec<Vec<Node>> = (0..flow.nodes.len()).map(|n| flow.successors(pipeline, n)).collect();
        loop {
            let mut changed = false;
            for node in (0..flow.nodes.len()).rev() {
                let mut out = FixedBitSet::with_capacity(self.list.len());
                for next in &successors[node] {
                    out.union_with(&self.live[*next]);
                }
                out.difference_with(&kills[node]);
                changed |= !out.is_subset(&self.live[node]);
                self.live[node].union_with(&out);
            }
            if !changed {
                return;
            }
        }
    }

    /// A cell's number.
    pub fn of(&self, cell: Cell) -> usize {
        self.index[&cell]
    }

    /// The type of what a cell holds.
    pub fn ty(&self, pipeline: &Pipeline, index: usize) -> Type {
        match self.list[index] {
            Cell::Var(id) => pipeline.vars[id].ty,
            Cell::Valid(_) | Cell::HeaderAt(_) | Cell::Destination | Cell::Truncate => Type::Bit(64),
            Cell::VarbitLen(_) | Cell::Cursor | Cell::ParserError | Cell::Sum(_) | Cell::Hit(_) => Type::Bit(32),
            Cell::ChecksumError | Cell::ParsedBytes | Cell::Colour(_) => Type::Bit(32),
        }
    }
}

impl<'a> Walk<'a> {
    fn new(pipeline: &'a Pipeline, headers: &'a Headers, index: &'a BTreeMap<Cell, usize>) -> Walk<'a> {
        let new = || FixedBitSet::with_capacity(index.len());
        Walk { pipeline, headers, index, reads: new(), writes: new(), sure: new(), may_have_left: false }
    }

    fn read(&mut self, cell: Cell) {
        if let Some(index) = self.index.get(&cell)
            && !self.sure.contains(*index)
        {
            self.reads.insert(*index);
        }
    }

    fn write(&mut self, cell: Cell) {
        if let Some(index) = self.index.get(&cell) {
            self.writes.insert(*index);
            if !self.may_have_left {
                self.sure.insert(*index);
            }
        }
    }

    fn maybe_write(&mut self, cell: Cell) {
        if let Some(index) = self.index.get(&cell) {
            self.writes.insert(*index);
        }
    }

    fn header(&mut self, id: HeaderId) {
        self.read(Cell::Valid(id.0 / 64));
        self.read(Cell::HeaderAt(id));
    }

    fn validity(&mut self, id: HeaderId) {
        self.read(Cell::Valid(id.0 / 64));
        self.write(Cell::Valid(id.0 / 64));
        for sibling in &self.headers.siblings[id.index()] {
            self.read(Cell::Valid(sibling.0 / 64));
            self.write(Cell::Valid(sibling.0 / 64));
        }
    }

    fn node(&mut self, flow: &Flow, node: Node) {
        match flow.nodes[node] {
            Step::Glue(glue) => self.glue(glue),
            Step::Block(control, block) => {
                let control = &self.pipeline.controls[ir::ControlId(control as u32)];
                if control.body.entry == Some(block) {
                    // Sums are per block of the architecture.
                    let sums = self.pipeline.externs.iter();
                    let sums = sums.filter(|(_, e)| matches!(e.kind, ExternKind::InternetChecksum));
                    sums.for_each(|(id, _)| self.write(Cell::Sum(id)));
                }
                for data in &control.body.blocks[block].insts {
                    self.inst(&data.inst);
                    self.may_have_left |= crate::analysis::facts::may_reject(&data.inst);
                }
                if let Some(Term::Apply { table, .. }) = control.body.blocks[block].term.as_ref().map(|t| &t.term) {
                    // The key of what is looked up together with it is made in front of it.
                    let together = flow.together(node).into_iter().flat_map(|there| &there.insts);
                    together.for_each(|data| self.inst(&data.inst));
                    self.table(*table);
                }
            }
        }
    }

    fn table(&mut self, table: TableId) {
        self.write(Cell::Hit(table));
        self.write(Cell::Colour(table));
        if let Some(var) = self.pipeline.tables[table].meter_result {
            match self.pipeline.vars[var].kind {
                VarKind::Field(header, _) => self.header(header),
                _ => self.maybe_write(Cell::Var(var)),
            }
        }
    }

    fn glue(&mut self, glue: Glue) {
        let intrinsic = |name: &str| self.pipeline.intrinsics.get(name).copied().map(Cell::Var);
        let reads = |names: &[&str]| names.iter().filter_map(|n| intrinsic(n)).collect::<Vec<_>>();
        let std = |names: &[&str]| {
            names.iter().filter_map(|n| intrinsic(&format!("standard_metadata.{n}"))).collect::<Vec<_>>()
        };
        let reasons: Vec<Cell> =
            crate::analysis::facts::reason_vars(self.pipeline).into_iter().flatten().map(Cell::Var).collect();
        match glue {
            Glue::Begin => {
                let all: Vec<Cell> = self.index.keys().copied().collect();
                all.into_iter().for_each(|cell| self.write(cell));
            }
            Glue::PnaTell(block) => {
                let prefix = ["pre_istd", "parser_istd", "istd"][block];
                let names = ["input_port", "parser_error", "direction", "pass", "timestamp"];
                let names: Vec<String> = names.iter().map(|n| format!("{prefix}.{n}")).collect();
                let cells = reads(&names.iter().map(String::as_str).collect::<Vec<_>>());
                self.read(Cell::ParserError);
                cells.into_iter().for_each(|cell| self.write(cell));
            }
            Glue::PnaVerdict => {
                self.read(Cell::Destination);
                self.read(Cell::Truncate);
                reasons.into_iter().for_each(|cell| self.read(cell));
            }
            Glue::V1Arrive => {
                let cells = std(&["ingress_port", "packet_length", "instance_type", "ingress_global_timestamp"]);
                cells.into_iter().for_each(|cell| self.write(cell));
            }
            Glue::V1Parsed => {
                self.read(Cell::ParserError);
                std(&["parser_error"]).into_iter().for_each(|cell| self.write(cell));
            }
            Glue::V1Verified => {
                self.read(Cell::ChecksumError);
                std(&["checksum_error"]).into_iter().for_each(|cell| self.write(cell));
                self.header_bytes();
                self.write(Cell::ParsedBytes);
            }
            Glue::V1Traffic => {
                std(&["egress_spec", "mcast_grp"]).into_iter().for_each(|cell| self.read(cell));
                reasons.into_iter().for_each(|cell| self.read(cell));
                self.read(Cell::ParsedBytes);
                self.read(Cell::Truncate);
                self.header_bytes();
                let written = ["egress_port", "egress_spec", "instance_type", "packet_length", "enq_timestamp"];
                std(&written).into_iter().for_each(|cell| self.write(cell));
                std(&["egress_global_timestamp"]).into_iter().for_each(|cell| self.write(cell));
                self.write(Cell::Destination);
                let tables: Vec<TableId> = self.pipeline.tables.keys().collect();
                tables.into_iter().for_each(|table| self.write(Cell::Hit(table)));
            }
            Glue::V1Leave => {
                std(&["egress_spec"]).into_iter().for_each(|cell| self.read(cell));
                reasons.into_iter().for_each(|cell| self.read(cell));
                self.read(Cell::Destination);
                self.read(Cell::Truncate);
            }
            Glue::End => {
                [Cell::Destination, Cell::Cursor, Cell::Truncate].into_iter().for_each(|cell| self.read(cell));
                reasons.into_iter().for_each(|cell| self.read(cell));
            }
        }
    }

    fn header_bytes(&mut self) {
        for id in self.pipeline.headers.keys() {
            self.read(Cell::Valid(id.0 / 64));
            self.read(Cell::VarbitLen(id));
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Load(var) => match self.pipeline.vars[*var].kind {
                VarKind::Field(header, _) => self.header(header),
                _ => self.read(Cell::Var(*var)),
            },
            Inst::Store(var, _) => match self.pipeline.vars[*var].kind {
                VarKind::Field(header, _) => self.header(header),
                _ => self.write(Cell::Var(*var)),
            },
            Inst::IsValid(header) => self.read(Cell::Valid(header.0 / 64)),
            Inst::SetValid(header) => {
                self.header(*header);
                self.validity(*header);
                self.write(Cell::HeaderAt(*header));
                self.maybe_write(Cell::VarbitLen(*header));
                self.read(Cell::VarbitLen(*header));
            }
            Inst::SetInvalid(header) => self.validity(*header),
            Inst::CopyHeader { dst, src } => {
                self.header(*src);
                self.header(*dst);
                self.validity(*dst);
                self.write(Cell::HeaderAt(*dst));
            }
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                self.read(Cell::Cursor);
                // A short packet leaves all as it was.
                self.validity_maybe(*header);
                [Cell::HeaderAt(*header), Cell::VarbitLen(*header), Cell::Cursor, Cell::ParserError]
                    .into_iter()
                    .for_each(|cell| self.maybe_write(cell));
            }
            Inst::Advance(_) => {
                self.read(Cell::Cursor);
                [Cell::Cursor, Cell::ParserError].into_iter().for_each(|cell| self.maybe_write(cell));
            }
            Inst::Lookahead(_) => {
                self.read(Cell::Cursor);
                self.maybe_write(Cell::ParserError);
            }
            Inst::Verify(..) => self.maybe_write(Cell::ParserError),
            Inst::Emit(header) => {
                self.header(*header);
                self.read(Cell::VarbitLen(*header));
            }
            Inst::Extern { object, func, args } => self.call(*object, *func, args),
            _ => {}
        }
    }

    fn validity_maybe(&mut self, id: HeaderId) {
        self.read(Cell::Valid(id.0 / 64));
        self.maybe_write(Cell::Valid(id.0 / 64));
        for sibling in &self.headers.siblings[id.index()] {
            self.read(Cell::Valid(sibling.0 / 64));
            self.maybe_write(Cell::Valid(sibling.0 / 64));
        }
    }

    fn call(&mut self, object: Option<ExternId>, func: ExternFn, args: &[Arg]) {
        use ExternFn::*;
        for arg in args {
            if let Arg::Table(table) = arg {
                self.read(Cell::Hit(*table));
                self.read(Cell::Colour(*table));
            }
        }
        match func {
            InternetChecksumAdd | InternetChecksumSubtract | InternetChecksumGet | InternetChecksumGetState => {
                if let Some(id) = object {
                    self.read(Cell::Sum(id));
                    if matches!(func, InternetChecksumAdd | InternetChecksumSubtract) {
                        self.write(Cell::Sum(id));
                    }
                }
            }
            InternetChecksumClear | InternetChecksumSetState => {
                if let Some(id) = object {
                    self.write(Cell::Sum(id));
                }
            }
            MarkToDrop => {
                for name in ["standard_metadata.egress_spec", "standard_metadata.mcast_grp"] {
                    if let Some(var) = self.pipeline.intrinsics.get(name) {
                        self.write(Cell::Var(*var));
                    }
                }
            }
            DropPacket | SendToPort => self.write(Cell::Destination),
            VerifyChecksum | VerifyChecksumWithPayload => {
                self.read(Cell::ChecksumError);
                self.read(Cell::Cursor);
                self.write(Cell::ChecksumError);
            }
            UpdateChecksumWithPayload => self.read(Cell::Cursor),
            Truncate => self.write(Cell::Truncate),
            _ => {}
        }
    }
}
