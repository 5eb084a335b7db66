//! [`Program`]: a compiled P4 program, read as verified IR: what `terrace compile` writes. Compiling P4 is not measured here.

use anyhow::{Context, anyhow, bail};
use entries::{ActionSpec, TableEntry};
use ir::{ActionCall, ActionId, KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::path::Path;
use std::sync::Arc;

/// Which program: they have different tables for the same world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `programs/overlay`.
    Overlay,
    /// `programs/gateway`.
    Gateway,
}

impl Kind {
    /// The folder of its source, and its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Overlay => "overlay",
            Kind::Gateway => "gateway",
        }
    }
}

/// Tables made for this many entries get room for more.
const LARGE: u64 = 1 << 20;

/// A program that is ready to be loaded into engines.
#[derive(Debug, Clone)]
pub struct Program {
    /// Which one.
    pub kind: Kind,
    /// Verified.
    pub pipeline: Arc<Pipeline>,
}

impl Program {
    /// Reads `<name>.ir` from a folder. Tables made for a million entries or more have room for 32
    /// times as many here: 16 million VMs are more than the gateway is made for, and how fast a
    /// lookup is among so many is the question. All others have the size that the program declares,
    /// because native code decides by sizes which tables it looks up together and which in place,
    /// and what is measured has to be what a node runs.
    ///
    /// # Errors
    /// The file is missing, or no verified pipeline.
    pub fn load(kind: Kind, folder: &Path) -> anyhow::Result<Program> {
        let path = folder.join(format!("{}.ir", kind.name()));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: `make bench` writes it with `terrace compile`", path.display()))?;
        let mut pipeline = ir::text::parse(&text)
            .map_err(|errors| anyhow!("{}: {}", path.display(), errors.first().map_or("", |error| &error.message)))?;
        for table in pipeline.tables.values_mut() {
            table.size = table.size.map(|size| if size < LARGE { size } else { size << 5 });
        }
        if let Err(faults) = ir::verify::verify(&pipeline) {
            bail!("{}: {} faults, the first: {:?}", path.display(), faults.len(), faults.first());
        }
        Ok(Program { kind, pipeline: Arc::new(pipeline) })
    }

    /// The table whose full name ends in `.name`, with those of its actions that are named.
    ///
    /// # Errors
    /// The program has no such table or action.
    pub fn table<const N: usize>(&self, name: &str, actions: [&str; N]) -> anyhow::Result<Table<N>> {
        let ends =
            |full: &str, name: &str| full.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let mut found = self.pipeline.tables.iter().filter(|(_, table)| ends(&table.preamble.name, name));
        let (id, table) = found.next().with_context(|| format!("{} has no table {name}", self.kind.name()))?;
        let mut ids = [ActionId(0); N];
        for (slot, action) in ids.iter_mut().zip(actions) {
            let is = |id: &ActionId| ends(&self.pipeline.actions[*id].preamble.name, action);
            let id = table.actions.iter().map(|found| found.action).find(is);
            *slot = id.with_context(|| format!("table {name} has no action {action}"))?;
        }
        Ok(Table { id, actions: ids })
    }
}

/// A table and some of its actions.
#[derive(Debug, Clone, Copy)]
pub struct Table<const N: usize> {
    /// The table.
    pub id: TableId,
    /// The actions, in the order in which they were asked for.
    pub actions: [ActionId; N],
}

impl<const N: usize> Table<N> {
    /// A call of the action with this position.
    pub fn call(&self, action: usize, args: &[u64]) -> ActionSpec {
        let args = args.iter().map(|&arg| BigUint::from(arg)).collect();
        ActionSpec::Call(ActionCall { action: self.actions[action], args })
    }

    /// An entry.
    pub fn entry(&self, keys: Vec<KeyMatch>, action: usize, args: &[u64]) -> TableEntry {
        TableEntry::new(self.id, keys, self.call(action, args))
    }
}

/// Equal.
pub fn exact(value: impl Into<u64>) -> KeyMatch {
    KeyMatch::Exact(BigUint::from(value.into()))
}

/// The first `prefix_len` bits.
pub fn lpm(value: u32, prefix_len: u32) -> KeyMatch {
    KeyMatch::Lpm { value: BigUint::from(value), prefix_len }
}
