//! What a packet has to carry from a pass into the next ones.

use super::placed::{Placed, PlacedPart};
use super::schedule::{NEVER, Schedule};
use crate::live::{Analysis, Live, Progress, ends};
use ir::{Arch, Block, ControlId, ControlKind, Entity, Pipeline, TableId};

/// What is live between the passes.
#[derive(Debug, Default)]
pub struct Liveness {
    /// For each pass but the last, what is carried out of it; and the control that is cut there, which its values and tables belong to.
    pub passes: Vec<(Live, Option<ControlId>)>,
}

/// The blocks of an architecture, as they lie in the passes.
pub struct Extents<'a> {
    /// For each control when its code runs.
    pub schedules: &'a [Schedule],
    /// The pass in which v1model's egress, or PNA's deparser, begins.
    pub boundary: u32,
    /// How many passes there are.
    pub passes: u32,
    /// Where the tables are.
    pub placed: &'a Placed,
}

impl Extents<'_> {
    /// The first and the last pass of a table's parts.
    pub fn passes_of(&self, table: TableId) -> (u16, u16) {
        let parts = self.placed.tables.get(&table).map_or(&[][..], |table| &table.parts);
        let pass = |part: Option<&PlacedPart>| part.map_or(0, |part| part.pass as u16);
        (pass(parts.first()), pass(parts.last()))
    }
}

/// How far a control is after a pass.
struct Done<'a> {
    extents: &'a Extents<'a>,
    schedule: &'a Schedule,
    /// The last pass that is over; [`NEVER`] if none is.
    pass: i32,
}

impl Done<'_> {
    /// Whether something of this pass is still to be done.
    fn ahead(&self, pass: u16) -> bool {
        i32::from(pass) > self.pass
    }
}

impl Progress for Done<'_> {
    fn inst(&self, block: Block, at: usize) -> bool {
        self.ahead(self.schedule.insts[block.index()][at].last)
    }
    fn decides(&self, block: Block) -> bool {
        self.schedule.relevant[block.index()] > self.pass
    }
    fn lookups(&self, table: TableId) -> (bool, bool) {
        let (first, last) = self.extents.passes_of(table);
        (self.ahead(first), self.ahead(last))
    }
    fn params(&self, block: Block) -> bool {
        self.ahead(self.schedule.params[block.index()])
    }
}

impl Liveness {
    /// The liveness of a pipeline.
    pub fn new(pipeline: &Pipeline, extents: &Extents<'_>) -> Liveness {
        let section = |kind| Section::new(pipeline, extents, kind);
        let ends = ends(pipeline, |kind, end| section(kind).after(NEVER, end));
        let (first, second) = match pipeline.arch {
            Arch::V1Model => (section(ControlKind::Ingress), Some(section(ControlKind::Egress))),
            Arch::Pna => (section(ControlKind::MainControl), None),
        };
        let pass = |pass: u32| match &second {
            _ if pass < first.end() => (first.after(pass as i32, &ends.first), first.control),
            Some(second) if pass >= extents.boundary => (second.after(pass as i32, &ends.second), second.control),
            _ => (ends.between.clone(), None),
        };
        Liveness { passes: (0..extents.passes - 1).map(pass).collect() }
    }
}

/// One block of the architecture: what is live in it after each pass.
struct Section<'a> {
    pipeline: &'a Pipeline,
    extents: &'a Extents<'a>,
    control: Option<ControlId>,
}

impl<'a> Section<'a> {
    fn new(pipeline: &'a Pipeline, extents: &'a Extents<'a>, kind: ControlKind) -> Section<'a> {
        let control = pipeline.controls.iter().find(|(_, control)| control.kind == kind).map(|(id, _)| id);
        Section { pipeline, extents, control }
    }

    /// The last pass in which it has something to do.
    fn end(&self) -> u32 {
        self.control.map_or(0, |control| u32::from(self.extents.schedules[control.index()].end))
    }

    /// What is live where it begins once the passes up to `done` are over, if `end` is live where it ends.
    fn after(&self, done: i32, end: &Live) -> Live {
        let Some(control) = self.control else { return end.clone() };
        let body = &self.pipeline.controls[control].body;
        let schedule = &self.extents.schedules[control.index()];
        let progress = Done { extents: self.extents, schedule, pass: done };
        Analysis { pipeline: self.pipeline, body, progress: &progress }.entry(end)
    }
}
