//! State that code in the stages reads and writes, as numbered cells.

use super::coalescing::CoalescedClasses;
use super::graph::runs_in_stages;
use super::leaves::ValueLeaf;
use ir::{ExternFn, ExternId, HeaderId, Inst, Pipeline, Value, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// A unit of state that code reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum StateCell {
    /// Class of variables and values that share storage, by the number of its representative.
    Class(usize),
    /// Validity of a header.
    Valid(HeaderId),
    /// State of an extern object.
    Object(ExternId),
    /// Effect of the architecture on the packet: output port, drop, copy, recirculation.
    Effect(PacketEffect),
}

/// Effect of an extern call on the packet, executed by the architecture.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum PacketEffect {
    Port,
    Drop,
    Copy,
    Recirculate,
    Length,
    Digest,
}

impl PacketEffect {
    /// Returns the effect that a call has.
    pub fn of_call(func: ExternFn) -> Option<PacketEffect> {
        Some(match func {
            ExternFn::SendToPort => PacketEffect::Port,
            ExternFn::DropPacket | ExternFn::MarkToDrop => PacketEffect::Drop,
            ExternFn::Clone | ExternFn::MirrorPacket => PacketEffect::Copy,
            ExternFn::Resubmit | ExternFn::Recirculate | ExternFn::PnaRecirculate => PacketEffect::Recirculate,
            ExternFn::Truncate => PacketEffect::Length,
            ExternFn::DigestPack => PacketEffect::Digest,
            _ => return None,
        })
    }

    fn effect_name(self) -> &'static str {
        match self {
            PacketEffect::Port => "the output port",
            PacketEffect::Drop => "the packet's drop",
            PacketEffect::Copy => "the packet's copies",
            PacketEffect::Recirculate => "the packet's next round",
            PacketEffect::Length => "the packet's length",
            PacketEffect::Digest => "the digest",
        }
    }
}

/// Mapping from IR entities to cells.
pub(super) struct StateCells<'p> {
    pub pipeline: &'p Pipeline,
    pub classes: CoalescedClasses,
    names: BTreeMap<usize, String>,
    /// Classes of variables that are read outside the stages.
    read_behind: BTreeSet<usize>,
}

impl<'p> StateCells<'p> {
    pub fn new(pipeline: &'p Pipeline, classes: CoalescedClasses) -> Self {
        let mut names = BTreeMap::new();
        // The name of a class is that of its lasting variable, else that of its first variable.
        for (id, var) in pipeline.vars.iter() {
            let class = classes.class_of_var(id);
            if classes.lasting_var(class).is_none_or(|a| a == id) {
                names.entry(class).or_insert_with(|| var.name.clone());
            }
        }
        let outside = pipeline.controls.values().filter(|c| !runs_in_stages(c.kind));
        let insts = outside.flat_map(|c| c.body.blocks.values()).flat_map(|b| &b.insts);
        let read =
            insts.filter_map(|i| if let Inst::Load(var) = i.inst { Some(classes.class_of_var(var)) } else { None });
        let read_behind = read.collect();
        StateCells { pipeline, classes, names, read_behind }
    }

    pub fn var_cell(&self, var: VarId) -> StateCell {
        StateCell::Class(self.classes.class_of_var(var))
    }

    pub fn value_cell(&self, control: usize, value: Value) -> StateCell {
        StateCell::Class(self.classes.class_of_value(control, value))
    }

    pub fn leaf_cell(&self, control: usize, leaf: ValueLeaf) -> StateCell {
        match leaf {
            ValueLeaf::Value(value) => self.value_cell(control, value),
            ValueLeaf::Valid(header) => StateCell::Valid(header),
        }
    }

    /// Returns whether a class is read after the stages: it is a header field or intrinsic, or the
    /// deparser reads it.
    pub fn outlives_stages(&self, class: usize) -> bool {
        let lasts = |v| matches!(self.pipeline.vars[v].kind, VarKind::Field(..) | VarKind::Intrinsic);
        self.read_behind.contains(&class) || self.classes.lasting_var(class).is_some_and(lasts)
    }

    /// Returns the cell's name, for users.
    pub fn cell_name(&self, cell: StateCell) -> String {
        match cell {
            StateCell::Class(class) => match self.names.get(&class) {
                Some(name) => name.clone(),
                None => self.classes.temporary_name(class),
            },
            StateCell::Valid(header) => format!("{}.isValid()", self.pipeline.headers[header].name),
            StateCell::Object(object) => self.pipeline.externs[object].preamble.name.clone(),
            StateCell::Effect(fate) => fate.effect_name().to_owned(),
        }
    }

    /// Returns the number of bits that a condition or key reads of the cell.
    pub fn cell_bits(&self, cell: StateCell) -> u32 {
        match cell {
            StateCell::Class(class) => self.classes.class_bits(class),
            StateCell::Valid(_) => 1,
            StateCell::Object(_) | StateCell::Effect(_) => 0,
        }
    }
}
