//! Live state that a packet carries from each pass into the next ones.

use super::placed::{PlacedPart, PlacementMap};
use super::schedule::{NO_PASS, PassSchedule};
use crate::live::{ExecutedPart, LiveSet, LivenessAnalysis, live_at_boundaries};
use ir::{Arch, Block, ControlId, ControlKind, Entity, Pipeline, TableId};

/// Live sets between passes.
#[derive(Debug, Default)]
pub struct PassLiveness {
    /// For each pass except the last, the live set at its end, and the control that is cut there.
    /// The control owns the set's values and arms.
    pub passes: Vec<(LiveSet, Option<ControlId>)>,
}

/// Distribution of an architecture's programmable blocks over passes.
pub struct PassExtents<'a> {
    /// Schedule of each control.
    pub schedules: &'a [PassSchedule],
    /// First pass of v1model's egress, or of PNA's deparser.
    pub boundary: u32,
    /// Number of passes.
    pub passes: u32,
    /// Placement of the tables.
    pub placed: &'a PlacementMap,
}

impl PassExtents<'_> {
    /// Returns the first and the last pass of a table's parts.
    pub fn pass_range(&self, table: TableId) -> (u16, u16) {
        let parts = self.placed.tables.get(&table).map_or(&[][..], |table| &table.parts);
        let pass = |part: Option<&PlacedPart>| part.map_or(0, |part| part.pass as u16);
        (pass(parts.first()), pass(parts.last()))
    }
}

/// Progress of a control after a pass.
struct PassProgress<'a> {
    extents: &'a PassExtents<'a>,
    schedule: &'a PassSchedule,
    /// Last finished pass, or [`NO_PASS`].
    pass: i32,
}

impl PassProgress<'_> {
    /// Returns whether work of this pass has yet to run.
    fn is_ahead(&self, pass: u16) -> bool {
        i32::from(pass) > self.pass
    }
}

impl ExecutedPart for PassProgress<'_> {
    fn is_inst_pending(&self, block: Block, at: usize) -> bool {
        self.is_ahead(self.schedule.insts[block.index()][at].last)
    }
    fn is_decision_pending(&self, block: Block) -> bool {
        self.schedule.relevant[block.index()] > self.pass
    }
    fn pending_lookups(&self, table: TableId) -> (bool, bool) {
        let (first, last) = self.extents.pass_range(table);
        (self.is_ahead(first), self.is_ahead(last))
    }
    fn are_params_pending(&self, block: Block) -> bool {
        self.is_ahead(self.schedule.params[block.index()])
    }
}

impl PassLiveness {
    /// Computes the live sets of a pipeline.
    pub fn new(pipeline: &Pipeline, extents: &PassExtents<'_>) -> PassLiveness {
        let section = |kind| ControlSection::new(pipeline, extents, kind);
        let ends = live_at_boundaries(pipeline, |kind, end| section(kind).live_after(NO_PASS, end));
        let (first, second) = match pipeline.arch {
            Arch::V1Model => (section(ControlKind::Ingress), Some(section(ControlKind::Egress))),
            Arch::Pna => (section(ControlKind::MainControl), None),
        };
        let pass = |pass: u32| match &second {
            _ if pass < first.last_pass() => (first.live_after(pass as i32, &ends.first), first.control),
            Some(second) if pass >= extents.boundary => (second.live_after(pass as i32, &ends.second), second.control),
            _ => (ends.between.clone(), None),
        };
        PassLiveness { passes: (0..extents.passes - 1).map(pass).collect() }
    }
}

/// Liveness of one programmable block after each pass.
struct ControlSection<'a> {
    pipeline: &'a Pipeline,
    extents: &'a PassExtents<'a>,
    control: Option<ControlId>,
}

impl<'a> ControlSection<'a> {
    fn new(pipeline: &'a Pipeline, extents: &'a PassExtents<'a>, kind: ControlKind) -> ControlSection<'a> {
        let control = pipeline.controls.iter().find(|(_, control)| control.kind == kind).map(|(id, _)| id);
        ControlSection { pipeline, extents, control }
    }

    /// Returns the last pass in which the block has work.
    fn last_pass(&self) -> u32 {
        self.control.map_or(0, |control| u32::from(self.extents.schedules[control.index()].end))
    }

    /// Returns the live set at the block's start after the passes up to `done`, given the live set
    /// `end` at its end.
    fn live_after(&self, done: i32, end: &LiveSet) -> LiveSet {
        let Some(control) = self.control else { return end.clone() };
        let body = &self.pipeline.controls[control].body;
        let schedule = &self.extents.schedules[control.index()];
        let progress = PassProgress { extents: self.extents, schedule, pass: done };
        LivenessAnalysis { pipeline: self.pipeline, body, progress: &progress }.live_at_entry(end)
    }
}
