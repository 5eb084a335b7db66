//! Which chip an emulated switch is, and what is where on it: a program with room for so many entries, rewritten if that is asked for, and placed.

use asic::demand::Program;
use asic::emulate::{Mapped, Placed, Switch};
use asic::place::{Objective, Path, Placement, binding, heuristic};
use asic::rewrite::{Rewritten, Sizes};
use asic::target::Target;
use interp::Config;
use ir::{Block, ExternKind, Pipeline};
use node::engine::Room;
use offload::plan::{Compression, compressions};
use offload::sizing::{Names, Sizing};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// How a program gets onto a chip.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    /// The chip.
    pub target: Target,
    /// Pipes that are one behind the other; `None`: the fewest of 1, 2 and 4 with which the program fits.
    pub fold: Option<u32>,
    /// How tables are made smaller.
    pub compress: Compress,
    /// How many entries tables have room for.
    pub room: Room,
}

impl SwitchPlan {
    /// A chip with room for [`Room::DEFAULT`] entries in each table, and the program as it is.
    pub fn new(target: Target) -> SwitchPlan {
        SwitchPlan { target, fold: None, compress: Compress::default(), room: Room::default() }
    }
}

/// How tables are made smaller: `none`, `auto` for the cheapest combination, or steps ([`offload::plan::compressions`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress(pub String);

impl Default for Compress {
    fn default() -> Compress {
        Compress("none".to_owned())
    }
}

/// Why a program is not on a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPlan {
    /// There is too little of something: what, and what comes nearest.
    Full(String),
    /// However much there were.
    Impossible(String),
}

/// A program's way onto the chip.
pub struct Made {
    /// The chip.
    pub target: Target,
    program: Program,
    placement: Placement,
    steps: Vec<String>,
}

impl Made {
    /// What stands in the way of more entries, in a sentence.
    pub fn binds(&self) -> String {
        binding(&self.target, &self.program, &self.placement).sentence
    }

    /// Where the program is, in a few words, and how it was rewritten.
    pub fn notes(&self) -> Vec<String> {
        let (used, stages) = (self.placement.stages_used(), self.target.stages);
        let pipes = match self.placement.path.pipes() {
            1 => "each pipe alike".to_owned(),
            pipes => format!("{pipes} pipes folded"),
        };
        let place = format!("on {} in {used} of {stages} stages, {pipes}", self.target.name);
        std::iter::once(place).chain(self.steps.iter().cloned()).collect()
    }
}

/// Entries of all tables and elements of all objects.
pub(crate) fn sizes(room: &Room, pipeline: &Pipeline) -> Result<Sizes, String> {
    let indexed = pipeline.externs.values().filter(|inst| inst.kind.is_indexed());
    let mut sizes = Sizes::new();
    for table in pipeline.tables.values() {
        let own = table.entries.len() as u64;
        let entries = table.size.map_or(room.others, |size| room.others.min(size.max(1))).max(own);
        sizes.insert(table.preamble.name.clone(), entries);
    }
    for object in indexed {
        let count = elements(&object.kind).map_or(room.others, |size| room.others.min(size.max(1)));
        sizes.insert(object.preamble.name.clone(), count);
    }
    sizes.extend(room.tables.clone());
    if let Some((file, text)) = &room.sizing {
        let sizing = Sizing::parse(text, &Names::of(pipeline)).map_err(|mistakes| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{file}:{mistake}")).collect();
            lines.join("; ")
        })?;
        sizes.extend(sizing.sizes().map_err(|error| format!("{file}: {error}"))?);
        sizes.extend(sizing.objects().map_err(|error| format!("{file}: {error}"))?);
    }
    Ok(sizes)
}

/// A table that a packet can meet twice before it leaves a control.
fn met_twice(pipeline: &Pipeline) -> Option<&str> {
    for control in pipeline.controls.values() {
        let blocks = &control.body.blocks;
        let applies = |block: Block| blocks[block].applied();
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

/// How many elements an object has.
fn elements(kind: &ExternKind) -> Option<u64> {
    match kind {
        ExternKind::Counter { size, .. } | ExternKind::Meter { size, .. } | ExternKind::Register { size, .. } => {
            Some(*size)
        }
        _ => None,
    }
}

impl SwitchPlan {
    /// Puts a program on the chip.
    ///
    /// # Errors
    /// See [`NoPlan`].
    pub fn make(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<(Mapped, Made), NoPlan> {
        if let Some(table) = met_twice(pipeline) {
            let why = "is looked up twice on one way through the program, and a chip looks a table up once: write it as two tables";
            return Err(NoPlan::Impossible(format!("{}: table {table} {why}", pipeline.name)));
        }
        let sizes = sizes(&self.room, pipeline).map_err(NoPlan::Impossible)?;
        // Nobody is to know which keys collide.
        let seed = RandomState::new().hash_one(0u64);
        let steps = compressions(&self.compress.0, pipeline, &sizes, &self.target, seed).map_err(NoPlan::Impossible)?;
        let mut why = NoPlan::Impossible(String::new());
        for pipes in self.fold.map_or_else(|| vec![1, 2, 4], |pipes| vec![pipes]) {
            match self.folded(pipeline, settings, &sizes, &steps, pipes) {
                Ok(made) => return Ok(made),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn folded(
        &self,
        pipeline: &Arc<Pipeline>,
        settings: &Config,
        sizes: &Sizes,
        steps: &[Compression],
        pipes: u32,
    ) -> Result<(Mapped, Made), NoPlan> {
        let target = &self.target;
        let sentence = |error: String| {
            let folded = if pipes == 1 { "one pipe".to_owned() } else { format!("{pipes} pipes folded") };
            format!("{} does not run on {} ({folded}): {error}", pipeline.name, target.name)
        };
        let impossible = |error: String| NoPlan::Impossible(sentence(error));
        let path = Path::folded(target, pipes).map_err(|error| impossible(error.to_string()))?;
        let mut rewritten = Rewritten::unchanged(pipeline.clone(), sizes.clone());
        for step in steps {
            let refused = |error: asic::rewrite::RewriteError| impossible(format!("{}: {error}", step.name));
            rewritten = rewritten.then(&step.rewrite).map_err(refused)?;
        }
        let program = Program::of(&rewritten.pipeline, &rewritten.sizes);
        let program = program.map_err(|error| impossible(error.to_string()))?;
        let placement = heuristic(target, &program, &path, Objective::Fits);
        let placement = placement.map_err(|error| NoPlan::Full(sentence(error.to_string())))?;
        let placed = Placed::of(target, &program, &placement).map_err(|error| impossible(error.to_string()))?;
        let switch = Switch::new(rewritten.pipeline.clone(), placed, settings.clone());
        let switch = switch.map_err(|error| impossible(error.to_string()))?;
        let mapped = match steps.is_empty() {
            true => Mapped::plain(switch),
            false => Mapped::behind(pipeline, switch, rewritten.map).map_err(|error| impossible(error.to_string()))?,
        };
        let steps = steps.iter().map(|step| step.name.clone()).collect();
        Ok((mapped, Made { target: target.clone(), program, placement, steps }))
    }
}
