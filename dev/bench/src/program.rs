//! [`Program`]: a compiled P4 program, read as verified IR as `terrace compile` writes it.
//! Compiling P4 is not measured here.

use anyhow::{Context, anyhow, bail};
use entries::{ActionSpec, TableEntry};
use ir::{ActionCall, ActionId, KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::path::Path;
use std::sync::Arc;

/// Selects a program. The programs have different tables for the same workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchProgram {
    /// The program `programs/overlay`.
    Overlay,
    /// The program `programs/gateway`.
    Gateway,
    /// The program `programs/nat`.
    Nat,
}

impl BenchProgram {
    /// Returns the name of its source folder, also used in results.
    pub fn name(self) -> &'static str {
        match self {
            BenchProgram::Overlay => "overlay",
            BenchProgram::Gateway => "gateway",
            BenchProgram::Nat => "nat",
        }
    }
}

/// Declared size from which tables are enlarged.
const LARGE: u64 = 1 << 20;

/// A program that can be loaded into engines.
#[derive(Debug, Clone)]
pub struct Program {
    /// Which program this is.
    pub kind: BenchProgram,
    /// Verified pipeline.
    pub pipeline: Arc<Pipeline>,
}

impl Program {
    /// Reads `<name>.ir` from a folder. Tables with a declared size of a million entries or more
    /// are enlarged 32 times, because the gateway is not designed for the 16 million VMs of the
    /// largest measurement. All other tables keep the declared size, because native code decides by
    /// sizes which lookups it pairs and which it runs in place, and the measured code must be the
    /// code that a node runs.
    ///
    /// # Errors
    /// If the file is missing, or is not a verified pipeline.
    pub fn load(kind: BenchProgram, folder: &Path) -> anyhow::Result<Program> {
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

    /// Returns the table with a full name that ends in `.name`, with the named actions.
    ///
    /// # Errors
    /// If the program has no such table or action.
    pub fn table<const N: usize>(&self, name: &str, actions: [&str; N]) -> anyhow::Result<TableRef<N>> {
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
        Ok(TableRef { id, actions: ids })
    }
}

/// A table with some of its actions.
#[derive(Debug, Clone, Copy)]
pub struct TableRef<const N: usize> {
    /// Id of the table.
    pub id: TableId,
    /// Actions, in the requested order.
    pub actions: [ActionId; N],
}

impl<const N: usize> TableRef<N> {
    /// Returns a call of the action at this position.
    pub fn call(&self, action: usize, args: &[u64]) -> ActionSpec {
        let args = args.iter().map(|&arg| BigUint::from(arg)).collect();
        ActionSpec::Call(ActionCall { action: self.actions[action], args })
    }

    /// Creates an entry.
    pub fn entry(&self, keys: Vec<KeyMatch>, action: usize, args: &[u64]) -> TableEntry {
        TableEntry::new(self.id, keys, self.call(action, args))
    }
}

/// Returns an exact match.
pub fn exact(value: impl Into<u64>) -> KeyMatch {
    KeyMatch::Exact(BigUint::from(value.into()))
}

/// Returns a match of the first `prefix_len` bits.
pub fn lpm(value: u32, prefix_len: u32) -> KeyMatch {
    KeyMatch::Lpm { value: BigUint::from(value), prefix_len }
}
