//! The emulated switch as a gateway's engine: the program is placed on a chip first.

use asic::demand::Program;
use asic::emulate::{Placed, Switch};
use asic::place::{Objective, Path, heuristic};
use asic::rewrite::Sizes;
use asic::target::Target;
use clap::Args;
use interp::Config;
use ir::{Pipeline, TableId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::{Update, UpdateKind, WriteBatch};

/// Entries that a table has room for at least, unless the program gives it a smaller size.
const LEAST_ROOM: u64 = 512;

/// The chip of `--engine asic`.
#[derive(Clone, Debug, Args)]
pub struct ChipArgs {
    /// With `--engine asic`: the chip, one that is shipped (tofino1, tofino2, dpu8) or a target file.
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "tofino1")]
    target: String,
    /// With `--engine asic`: pipes that stand one behind the other; unless given, the fewest of 1, 2 and 4 with which the program fits.
    #[arg(long, value_name = "PIPES")]
    fold: Option<u32>,
}

impl Default for ChipArgs {
    fn default() -> ChipArgs {
        ChipArgs { target: "tofino1".to_owned(), fold: None }
    }
}

impl ChipArgs {
    /// Places a program, with twice the room that its first entries take, and makes the chip.
    ///
    /// # Errors
    /// No such chip, or the program does not fit: why not, and what comes nearest.
    pub fn switch(&self, pipeline: Arc<Pipeline>, config: Config, entries: &WriteBatch) -> Result<Switch, String> {
        let target = self.target()?;
        let mut program = Program::of(&pipeline, &sizes(&pipeline, entries)).map_err(|error| error.to_string())?;
        // A program declares counters for all numbers that there can be; no stage holds them. The chip has as many as it has room for tenants.
        for attached in program.tables.iter_mut().flat_map(|table| &mut table.attached) {
            attached.size = attached.size.map(|size| size.min(LEAST_ROOM));
        }
        let folds = self.fold.map_or_else(|| vec![1, 2, 4], |fold| vec![fold]);
        let mut why = String::new();
        for fold in folds {
            let found = match Path::folded(&target, fold) {
                Ok(path) => heuristic(&target, &program, &path, Objective::Fits).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let switch = found.and_then(|placement| {
                let placed = Placed::of(&target, &program, &placement).map_err(|error| error.to_string())?;
                Switch::new(pipeline.clone(), placed, config.clone()).map_err(|error| error.to_string())
            });
            match switch {
                Ok(switch) => return Ok(switch),
                Err(error) => {
                    why = format!("{} does not run on {} ({fold} pipes folded): {error}", pipeline.name, target.name)
                }
            }
        }
        Err(why)
    }

    fn target(&self) -> Result<Target, String> {
        if let Some(target) = Target::shipped(&self.target) {
            return Ok(target);
        }
        let known = Target::SHIPPED.join(", ");
        let text = std::fs::read_to_string(&self.target)
            .map_err(|error| format!("{}: {error}; give a target file, or one of {known}", self.target))?;
        Target::from_toml(&text, &self.target).map_err(|error| error.to_string())
    }
}

/// Room for twice the entries, and for some where there are few; never more than the program declares.
fn sizes(pipeline: &Pipeline, entries: &WriteBatch) -> Sizes {
    let mut count: BTreeMap<TableId, u64> = BTreeMap::new();
    for update in &entries.updates {
        match update {
            Update::Entry(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            Update::Packed(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            _ => {}
        }
    }
    let room = |(id, table): (TableId, &ir::Table)| {
        let own = table.entries.len() as u64;
        let wanted = (2 * count.get(&id).copied().unwrap_or(0)).max(LEAST_ROOM).max(own);
        (table.preamble.name.clone(), table.size.map_or(wanted, |size| wanted.min(size.max(1))))
    };
    pipeline.tables.iter().map(room).collect()
}
