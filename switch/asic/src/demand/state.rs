//! What a packet's way through the stages reads and writes, each under a number.

use super::alias::Classes;
use super::graph::in_stages;
use super::leaves::Leaf;
use ir::{ExternFn, ExternId, HeaderId, Inst, Pipeline, Value, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// Something that code reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Cell {
    /// A class of variables and values that share one place, by the number of its representative.
    Class(usize),
    /// Whether a header is valid.
    Valid(HeaderId),
    /// The state of an extern object.
    Object(ExternId),
    /// Something that the architecture does with the packet: where it goes, whether it is dropped, copied, sent round.
    Fate(Fate),
}

/// What the architecture does with the packet because of an extern call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Fate {
    Port,
    Drop,
    Copy,
    Again,
    Length,
    Digest,
}

impl Fate {
    /// The fate that a call decides.
    pub fn of(func: ExternFn) -> Option<Fate> {
        Some(match func {
            ExternFn::SendToPort => Fate::Port,
            ExternFn::DropPacket | ExternFn::MarkToDrop => Fate::Drop,
            ExternFn::Clone | ExternFn::MirrorPacket => Fate::Copy,
            ExternFn::Resubmit | ExternFn::Recirculate | ExternFn::PnaRecirculate => Fate::Again,
            ExternFn::Truncate => Fate::Length,
            ExternFn::DigestPack => Fate::Digest,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Fate::Port => "the output port",
            Fate::Drop => "the packet's drop",
            Fate::Copy => "the packet's copies",
            Fate::Again => "the packet's next round",
            Fate::Length => "the packet's length",
            Fate::Digest => "the digest",
        }
    }
}

/// Turns what the IR names into cells.
pub(super) struct State<'p> {
    pub pipeline: &'p Pipeline,
    pub classes: Classes,
    names: BTreeMap<usize, String>,
    /// Classes of variables that are read outside of the stages.
    read_behind: BTreeSet<usize>,
}

impl<'p> State<'p> {
    pub fn new(pipeline: &'p Pipeline, classes: Classes) -> Self {
        let mut names = BTreeMap::new();
        // Of several variables in a class, the program's lasting one gives the name; it is declared before locals, or else the first.
        for (id, var) in pipeline.vars.iter() {
            let class = classes.of_var(id);
            if classes.anchor(class).is_none_or(|a| a == id) {
                names.entry(class).or_insert_with(|| var.name.clone());
            }
        }
        let outside = pipeline.controls.values().filter(|c| !in_stages(c.kind));
        let insts = outside.flat_map(|c| c.body.blocks.values()).flat_map(|b| &b.insts);
        let read = insts.filter_map(|i| if let Inst::Load(var) = i.inst { Some(classes.of_var(var)) } else { None });
        let read_behind = read.collect();
        State { pipeline, classes, names, read_behind }
    }

    pub fn var(&self, var: VarId) -> Cell {
        Cell::Class(self.classes.of_var(var))
    }

    pub fn value(&self, control: usize, value: Value) -> Cell {
        Cell::Class(self.classes.of_value(control, value))
    }

    pub fn leaf(&self, control: usize, leaf: Leaf) -> Cell {
        match leaf {
            Leaf::Value(value) => self.value(control, value),
            Leaf::Valid(header) => Cell::Valid(header),
        }
    }

    /// Whether somebody behind the stages looks at a class: it is a field of a header, the architecture's, or the deparser reads it.
    pub fn outlives(&self, class: usize) -> bool {
        let lasts = |v| matches!(self.pipeline.vars[v].kind, VarKind::Field(..) | VarKind::Intrinsic);
        self.read_behind.contains(&class) || self.classes.anchor(class).is_some_and(lasts)
    }

    /// The cell's name, for people.
    pub fn name(&self, cell: Cell) -> String {
        match cell {
            Cell::Class(class) => match self.names.get(&class) {
                Some(name) => name.clone(),
                None => self.classes.temporary_name(class),
            },
            Cell::Valid(header) => format!("{}.isValid()", self.pipeline.headers[header].name),
            Cell::Object(object) => self.pipeline.externs[object].preamble.name.clone(),
            Cell::Fate(fate) => fate.name().to_owned(),
        }
    }

    /// Bits that a condition or key reads of the cell.
    pub fn bits(&self, cell: Cell) -> u32 {
        match cell {
            Cell::Class(class) => self.classes.bits(class),
            Cell::Valid(_) => 1,
            Cell::Object(_) | Cell::Fate(_) => 0,
        }
    }
}
