//! [`TiersPlan`]: which tiers are in this process, and how a program is divided.

use crate::SwitchPlan;
use crate::plan::sizes;
use entries::find_table;
use interp::Config;
use ir::{Pipeline, TableId};
use node::config::{DOWN_PORT, TIERS_KEY};
use node::engine::Factory;
use offload::cut::{Cut, Held, Options, cut, stops};
use offload::share;
use p4runtime::Refusal;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A table that does not fit is made smaller until it has so many hot entries.
const LEAST_HOT: u64 = 64;

/// Which tiers are in this process, and how the program is divided.
#[derive(Clone, Debug)]
pub struct TiersPlan {
    /// What runs the upper half, if it is here.
    pub above: Option<Factory>,
    /// What runs the lower half, if it is here: a flow cache, which is the DPU's and the CPU's tier in one, or an engine for the CPU's alone.
    pub below: Option<Factory>,
    /// How the switch holds tables, by control-plane name, or the end of it behind a dot. Tables that are not named are whole; those that packets write to are always absent.
    pub held: BTreeMap<String, Held>,
    /// The number that bridge headers have and frames of others do not.
    pub key: u32,
    /// The port by which the upper half knows what is below. No front port may have it.
    pub down_port: u32,
    /// Ports to tiers below in other processes, each of which has the whole lower half.
    pub down: Vec<u32>,
    /// Ports to the switch, if it is in another process.
    pub up: Vec<u32>,
    /// The meter or register by whose index flows are spread over those, so that each of its elements is in one place. Without it, by addresses and ports.
    pub spread: Option<String>,
    /// A tier below that has not answered for so long is not there.
    pub silence: Duration,
    /// How often hot entries are chosen anew.
    pub choose: Duration,
}

impl TiersPlan {
    /// All tiers in this process: these engines.
    pub fn here(above: Factory, below: Factory, held: BTreeMap<String, Held>) -> TiersPlan {
        TiersPlan {
            above: Some(above),
            below: Some(below),
            held,
            key: TIERS_KEY,
            down_port: DOWN_PORT,
            down: Vec::new(),
            up: Vec::new(),
            spread: None,
            silence: Duration::from_millis(350),
            choose: Duration::from_secs(1),
        }
    }

    /// A program in two, as it is divided here: all processes with the same plan divide it alike.
    ///
    /// # Errors
    /// No such table, or it cannot be cut there.
    pub fn cut(&self, pipeline: &Pipeline) -> Result<Cut, Refusal> {
        let refused = |error: entries::EntryTextError| Refusal::unimplemented(format!("{}: {error}", pipeline.name));
        let find =
            |(name, held): (&String, &Held)| Ok::<_, Refusal>((find_table(pipeline, name).map_err(refused)?, *held));
        let held: BTreeMap<TableId, Held> = self.held.iter().map(find).collect::<Result<_, _>>()?;
        let options = Options { down_port: self.down_port, key: self.key };
        let cut = stops(pipeline, &held).and_then(|stops| cut(pipeline, &stops, options));
        let cut =
            cut.map_err(|error| Refusal::unimplemented(format!("{} cannot be divided so: {error}", pipeline.name)))?;
        for half in [&cut.upper, &cut.lower] {
            alike(pipeline, half).map_err(Refusal::unimplemented)?;
        }
        Ok(cut)
    }

    /// How many entries of hot tables there may be above.
    pub(super) fn rooms(&self, pipeline: &Pipeline) -> BTreeMap<TableId, u64> {
        let hot = self.held.iter().filter_map(|(name, held)| match held {
            Held::Hot(entries) => Some((find_table(pipeline, name).ok()?, *entries)),
            _ => None,
        });
        hot.collect()
    }

    /// What runs the upper half: a chip with room for the hot entries of hot tables.
    pub(super) fn with_rooms(&self, pipeline: &Pipeline) -> Option<Factory> {
        let above = self.above.clone()?;
        let Some(chip) = self.chip() else { return Some(above) };
        let mut chip = chip.clone();
        let rooms = self.rooms(pipeline);
        let names = rooms.iter().map(|(table, room)| (pipeline.tables[*table].preamble.name.clone(), *room));
        chip.room.tables.extend(names);
        Some(Arc::new(chip))
    }

    /// The chip of the upper half, if one runs it.
    fn chip(&self) -> Option<&SwitchPlan> {
        (&**self.above.as_ref()? as &dyn Any).downcast_ref()
    }

    /// The chip has no room: the table that takes most of it becomes hot, or less of it does. What was done; `None` if nothing is left to be done.
    pub(super) fn smaller(&mut self, pipeline: &Pipeline, cut: &Cut) -> Option<String> {
        let sizes = sizes(&self.chip()?.room, pipeline).ok()?;
        let rooms = self.rooms(pipeline);
        let declared = |table: TableId| &pipeline.tables[table];
        let bits =
            |table: TableId| declared(table).keys.iter().map(|key| u64::from(key.ty.width())).sum::<u64>().max(1);
        let room = |table: TableId| {
            let whole = sizes.get(&declared(table).preamble.name).copied().unwrap_or(0);
            rooms.get(&table).copied().unwrap_or(whole)
        };
        let applied = share::applied(&cut.upper);
        let may = |table: &TableId| !declared(*table).const_entries && room(*table) > LEAST_HOT;
        let weight = |table: &TableId| (room(*table).saturating_mul(bits(*table)), *table);
        let largest = applied.into_iter().filter(may).max_by_key(weight)?;
        let name = declared(largest).preamble.name.clone();
        let (had, has) = (room(largest), (room(largest) / 4).max(LEAST_HOT));
        self.held.retain(|held, _| find_table(pipeline, held) != Ok(largest));
        self.held.insert(name.clone(), Held::Hot(has));
        Some(format!("tiers: {name} is hot, {has} entries: the chip has no room for {had}"))
    }
}

/// Settings for the upper half: it knows the port that leads down, too, of which the program is not told.
pub(super) fn with_port(settings: &Config, port: u32) -> Config {
    let mut settings = settings.clone();
    if let Some(ports) = &mut settings.ports {
        ports.insert(port);
        settings.inner_ports.insert(port);
    }
    settings
}

/// Whether a half has the tables and objects of the whole under the same numbers, so that writes to one are writes to the other.
fn alike(whole: &Pipeline, half: &Pipeline) -> Result<(), String> {
    let names = |p: &Pipeline| -> Vec<String> { p.tables.values().map(|table| table.preamble.name.clone()).collect() };
    let objects = |p: &Pipeline| -> Vec<String> {
        let all = p.externs.values().take(whole.externs.len());
        all.map(|object| format!("{} {:?}", object.preamble.name, object.kind)).collect()
    };
    let actions =
        |p: &Pipeline| -> Vec<String> { p.actions.values().map(|action| action.preamble.name.clone()).collect() };
    if names(whole) == names(half) && objects(whole) == objects(half) && actions(whole) == actions(half) {
        return Ok(());
    }
    Err(format!("{}: {} has other tables, actions or objects, which is a bug", whole.name, half.name))
}
