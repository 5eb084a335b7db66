//! The engines that a gateway can run on.

use super::chip::ChipArgs;
use super::serve::Writable;
use super::stats::{Count, CounterCell};
use asic::emulate::Switch;
use interp::{Config, Interp};
use ir::{ExternId, ExternKind, Pipeline};
use jit::Jit;
use packet::{Engine, ReasonId, ReasonTable};
use std::sync::Arc;
use tables::{CounterData, WriteBatch};

/// The most cells of one counter that are looked at.
const MAX_CELLS: u64 = 1 << 21;

/// Which engine runs the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum EngineKind {
    /// Native code for batches of packets
    #[default]
    Jit,
    /// The reference engine: slow, one packet at a time
    Interp,
    /// An emulated switch: the program is placed on a chip (`--target`, `--fold`), and runs as that would run it; slow
    Asic,
}

/// As it is written on the command line.
impl std::fmt::Display for EngineKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EngineKind::Jit => "jit",
            EngineKind::Interp => "interp",
            EngineKind::Asic => "asic",
        })
    }
}

/// Why a program was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotLoaded {
    /// The chip cannot run it.
    Refused(String),
    /// The engine refuses what it should not: always a bug.
    Bug(String),
}

impl EngineKind {
    /// Loads a program. The engine has the program's own entries. A chip gets room for `entries`, which are still to be written.
    ///
    /// # Errors
    /// See [`NotLoaded`].
    pub fn load(
        self,
        chip: &ChipArgs,
        pipeline: Arc<Pipeline>,
        config: Config,
        entries: &WriteBatch,
    ) -> Result<Box<dyn Writable>, NotLoaded> {
        match self {
            EngineKind::Jit => match Jit::new(pipeline, config) {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(NotLoaded::Bug(error.to_string())),
            },
            EngineKind::Interp => match Interp::new(pipeline, config) {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(NotLoaded::Bug(error.to_string())),
            },
            EngineKind::Asic => match chip.switch(pipeline, config, entries) {
                Ok(engine) => Ok(Box::new(engine)),
                Err(error) => Err(NotLoaded::Refused(error)),
            },
        }
    }
}

impl<E: Writable + ?Sized> Writable for Box<E> {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        (**self).write(batch)
    }

    fn version(&self) -> u64 {
        (**self).version()
    }

    fn counters(&self) -> Vec<CounterCell> {
        (**self).counters()
    }
}

impl Writable for Interp {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        Interp::write(self, batch).map_err(|refused| refused.error.to_string())
    }

    fn version(&self) -> u64 {
        self.state().version()
    }

    fn counters(&self) -> Vec<CounterCell> {
        cells(self.pipeline(), self.reasons(), one_by_one(|id, index| self.counter(id, index)))
    }
}

impl Writable for Switch {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        Switch::write(self, batch).map_err(|refused| refused.error.to_string())
    }

    fn version(&self) -> u64 {
        self.state().version()
    }

    fn counters(&self) -> Vec<CounterCell> {
        cells(self.pipeline(), Engine::reasons(self), one_by_one(|id, index| self.counter(id, index)))
    }
}

impl Writable for Jit {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        Jit::write(self, batch).map_err(|refused| refused.error.to_string())
    }

    fn version(&self) -> u64 {
        self.with_state(tables::State::version)
    }

    fn counters(&self) -> Vec<CounterCell> {
        cells(self.pipeline(), Engine::reasons(self), |id, size| self.counted(id, size.min(MAX_CELLS)))
    }
}

/// For engines that are asked for one cell at a time: those of an object that are not zero.
fn one_by_one(
    counter: impl Fn(ExternId, u64) -> Option<CounterData>,
) -> impl Fn(ExternId, u64) -> Vec<(u64, CounterData)> {
    move |id, size| {
        let value = |index| Some((index, counter(id, index).filter(|value| value.packets != 0)?));
        (0..size.min(MAX_CELLS)).filter_map(value).collect()
    }
}

/// The counters of a program that are not zero. `counted` gives those of one object.
fn cells(
    pipeline: &Pipeline,
    reasons: &ReasonTable,
    counted: impl Fn(ExternId, u64) -> Vec<(u64, CounterData)>,
) -> Vec<CounterCell> {
    let mut cells = Vec::new();
    for (id, object) in pipeline.externs.iter() {
        let ExternKind::Counter { size, .. } = object.kind else { continue };
        let name = &object.preamble.name;
        // A counter of drops or punts is indexed by the program's own reasons.
        let by_reason = name.rsplit('.').next().is_some_and(|last| matches!(last, "drops" | "punts"));
        for (index, value) in counted(id, size) {
            let reason = u32::try_from(index).ok().and_then(|index| reasons.get(ReasonId(index)));
            cells.push(CounterCell {
                counter: name.clone(),
                index,
                label: reason.filter(|_| by_reason).map(str::to_owned),
                count: Count { packets: value.packets, bytes: value.bytes },
            });
        }
    }
    cells
}
