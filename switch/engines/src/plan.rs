//! Placement of a program on the emulated chip: with the requested table sizes, after the requested
//! transformations.

use asic::demand::ResourceDemand;
use asic::emulate::{EmulatedSwitch, MappedSwitch, PlacementMap};
use asic::place::{Objective, PipePath, Placement, find_binding, heuristic};
use asic::target::ChipTarget;
use asic::transform::{TableSizes, TransformedPipeline};
use interp::Config;
use ir::passes::without_recirculation;
use ir::{Block, ExternKind, Pipeline};
use node::engine::ChipSizing;
use offload::plan::{Compression, compressions};
use offload::sizing::{AllowedNames, Sizing};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Configuration of the emulated switch.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    /// The chip.
    pub target: ChipTarget,
    /// Number of pipes folded into one; `None`: the smallest of 1, 2 and 4 with which the program
    /// fits.
    pub fold: Option<u32>,
    /// Compression of tables.
    pub compress: Compress,
    /// Capacities of tables.
    pub room: ChipSizing,
}

impl SwitchPlan {
    /// Returns a chip with a capacity of [`ChipSizing::DEFAULT`] entries per table and without
    /// compression.
    pub fn new(target: ChipTarget) -> SwitchPlan {
        SwitchPlan { target, fold: None, compress: Compress::default(), room: ChipSizing::default() }
    }
}

/// Compression of tables: `none`, `auto` for the cheapest combination, or steps
/// ([`offload::plan::compressions`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress(pub String);

impl Default for Compress {
    fn default() -> Compress {
        Compress("none".to_owned())
    }
}

/// Reason for which a program cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchPlanError {
    /// A resource is exhausted; the text names it and the nearest placement.
    Full(String),
    /// The program cannot be placed with any resources.
    Impossible(String),
}

/// Program placed on the chip.
pub struct PlacedProgram {
    /// The chip.
    pub target: ChipTarget,
    program: ResourceDemand,
    placement: Placement,
    steps: Vec<String>,
}

impl PlacedProgram {
    /// Returns a sentence on the resource that prevents more entries.
    pub fn binding_resource(&self) -> String {
        find_binding(&self.target, &self.program, &self.placement).sentence
    }

    /// Returns the placement and the transformations for display.
    pub fn notes(&self) -> Vec<String> {
        let (used, stages) = (self.placement.stages_used(), self.target.stages);
        let pipes = match self.placement.path.pipe_count() {
            1 => "each pipe alike".to_owned(),
            pipes => format!("{pipes} pipes folded"),
        };
        let place = format!("on {} in {used} of {stages} stages, {pipes}", self.target.name);
        std::iter::once(place).chain(self.steps.iter().cloned()).collect()
    }
}

/// Returns the sizes of all tables and objects.
pub(crate) fn requested_sizes(sizing: &ChipSizing, pipeline: &Pipeline) -> Result<TableSizes, String> {
    let indexed = pipeline.externs.values().filter(|inst| inst.kind.is_indexed());
    let mut sizes = TableSizes::new();
    for table in pipeline.tables.values() {
        let declared_entries = table.entries.len() as u64;
        let entries = table.size.map_or(sizing.others, |size| sizing.others.min(size.max(1))).max(declared_entries);
        sizes.insert(table.preamble.name.clone(), entries);
    }
    for object in indexed {
        let count = element_count(&object.kind).map_or(sizing.others, |size| sizing.others.min(size.max(1)));
        sizes.insert(object.preamble.name.clone(), count);
    }
    sizes.extend(sizing.tables.clone());
    if let Some((file, text)) = &sizing.sizing {
        let sizing = Sizing::parse(text, &AllowedNames::from_pipeline(pipeline)).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{file}:{mistake}")).collect();
            lines.join("; ")
        })?;
        sizes.extend(sizing.sizes().map_err(|error| format!("{file}: {error}"))?);
        sizes.extend(sizing.objects().map_err(|error| format!("{file}: {error}"))?);
    }
    Ok(sizes)
}

/// Returns a table that a path of a control applies twice.
fn table_applied_twice(pipeline: &Pipeline) -> Option<&str> {
    for control in pipeline.controls.values() {
        let blocks = &control.body.blocks;
        let applies = |block: Block| blocks[block].applied_table();
        for (first, table) in blocks.keys().filter_map(|block| Some((block, applies(block)?))) {
            let next = |block: Block| blocks[block].successors();
            let (mut open, mut seen) = (next(first), HashSet::new());
            while let Some(block) = open.pop() {
                if applies(block) == Some(table) {
                    return Some(&pipeline.tables[table].preamble.name);
                }
                if seen.insert(block) {
                    open.extend(next(block));
                }
            }
        }
    }
    None
}

/// Returns the number of elements of an object.
fn element_count(kind: &ExternKind) -> Option<u64> {
    match kind {
        ExternKind::Counter { size, .. } | ExternKind::Meter { size, .. } | ExternKind::Register { size, .. } => {
            Some(*size)
        }
        _ => None,
    }
}

impl SwitchPlan {
    /// Places a program on the chip, after the configured transforms that make tables smaller. Folds
    /// the configured number of pipes, or 1, 2 and then 4 until the program fits. Returns the
    /// switch that controllers write to, and the placed program that runs on it.
    ///
    /// # Errors
    /// Returns the error of the last attempt; [`SwitchPlanError`] lists the causes.
    pub fn place_program(
        &self,
        pipeline: &Arc<Pipeline>,
        settings: &Config,
    ) -> Result<(MappedSwitch, PlacedProgram), SwitchPlanError> {
        // A switch has one pass: packets of a program that says so keep their first verdict.
        let pipeline = &without_recirculation(pipeline);
        if let Some(table) = table_applied_twice(pipeline) {
            let reason = "is applied twice on one path through the program, and a chip looks up a table once per pass: write it as two tables";
            return Err(SwitchPlanError::Impossible(format!("{}: table {table} {reason}", pipeline.name)));
        }
        let sizes = requested_sizes(&self.room, pipeline).map_err(SwitchPlanError::Impossible)?;
        // Key digests use a secret random seed, because senders could otherwise construct keys that
        // collide.
        let seed = RandomState::new().hash_one(0u64);
        let steps = compressions(&self.compress.0, pipeline, &sizes, &self.target, seed)
            .map_err(SwitchPlanError::Impossible)?;
        let mut last_error = SwitchPlanError::Impossible(String::new());
        for pipes in self.fold.map_or_else(|| vec![1, 2, 4], |pipes| vec![pipes]) {
            match self.place_folded(pipeline, settings, &sizes, &steps, pipes) {
                Ok(placed) => return Ok(placed),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    /// Places the transformed program on a chip with `pipes` folded pipes. A chip that is too small
    /// is [`SwitchPlanError::Full`]; the caller can then fold more pipes.
    fn place_folded(
        &self,
        pipeline: &Arc<Pipeline>,
        settings: &Config,
        sizes: &TableSizes,
        steps: &[Compression],
        pipes: u32,
    ) -> Result<(MappedSwitch, PlacedProgram), SwitchPlanError> {
        let target = &self.target;
        let sentence = |error: String| {
            let folded = if pipes == 1 { "one pipe".to_owned() } else { format!("{pipes} pipes folded") };
            format!("{} does not run on {} ({folded}): {error}", pipeline.name, target.name)
        };
        let impossible = |error: String| SwitchPlanError::Impossible(sentence(error));
        let path = PipePath::folded(target, pipes).map_err(|error| impossible(error.to_string()))?;
        let mut rewritten = TransformedPipeline::unchanged(pipeline.clone(), sizes.clone());
        for step in steps {
            let refused = |error: asic::transform::TransformError| impossible(format!("{}: {error}", step.name));
            rewritten = rewritten.then(&step.rewrite).map_err(refused)?;
        }
        let program = ResourceDemand::from_pipeline(&rewritten.pipeline, &rewritten.sizes);
        let program = program.map_err(|error| impossible(error.to_string()))?;
        let placement = heuristic(target, &program, &path, Objective::Fits);
        let placement = placement.map_err(|error| SwitchPlanError::Full(sentence(error.to_string())))?;
        let placed = PlacementMap::from_placement(target, &program, &placement)
            .map_err(|error| impossible(error.to_string()))?;
        let switch = EmulatedSwitch::new(rewritten.pipeline.clone(), placed, settings.clone());
        let switch = switch.map_err(|error| impossible(error.to_string()))?;
        let mapped = match steps.is_empty() {
            true => MappedSwitch::unmapped(switch),
            false => MappedSwitch::behind_map(pipeline, switch, rewritten.map)
                .map_err(|error| impossible(error.to_string()))?,
        };
        let steps = steps.iter().map(|step| step.name.clone()).collect();
        Ok((mapped, PlacedProgram { target: target.clone(), program, placement, steps }))
    }
}
