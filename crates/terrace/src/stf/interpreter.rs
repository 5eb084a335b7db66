//! The interpreter as the device of a test. Its clock starts at 0, and only the test advances it.

use super::device::{Device, ObjectCell, Refusal, Sent};
use entries::{Counter, EntryId, MeterConfig, WriteBatch};
use interp::{Config, Interp, Outputs};
use ir::{Arch, ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use packet::Verdict;
use std::sync::Arc;

/// CPU port of PNA.
const PNA_CPU_PORT: u32 = 0xffff_fffd;

/// The interpreter with a clock.
pub struct Interpreter {
    interp: Interp,
    now: u64,
    idle: Vec<EntryId>,
}

impl Interpreter {
    /// Loads a pipeline.
    ///
    /// # Errors
    /// If the interpreter refuses a verified pipeline, which is a bug.
    pub fn new(pipeline: Arc<Pipeline>) -> Result<Interpreter, String> {
        let interp = Interp::new(pipeline, Config::default()).map_err(|error| error.to_string())?;
        Ok(Interpreter { interp, now: 0, idle: Vec::new() })
    }

    fn sent(&self, outputs: &Outputs) -> Vec<Sent> {
        let leaves = |packet: &interp::OutPacket| {
            let port = match packet.verdict {
                Verdict::Forward { port } => port.0,
                Verdict::ToCpu { .. } if self.interp.pipeline().arch == Arch::Pna => PNA_CPU_PORT,
                Verdict::ToCpu { .. } | Verdict::Drop(_) => return None,
            };
            Some(Sent { port, bytes: packet.bytes.clone() })
        };
        outputs.packets().iter().filter_map(leaves).collect()
    }

    /// Returns the name of the object, for errors.
    fn name(&self, object: ExternId) -> &str {
        self.interp.pipeline().externs.get(object).map_or("?", |object| object.preamble.name.as_str())
    }
}

impl Device for Interpreter {
    fn pipeline(&self) -> &Pipeline {
        self.interp.pipeline()
    }

    fn write(&mut self, batch: WriteBatch) -> Result<(), Refusal> {
        self.interp.write(&batch).map_err(|refused| refused.error.to_string())
    }

    fn entries(&self, table: TableId) -> Vec<EntryId> {
        let state = self.interp.state();
        // Entries that the program declares are left out, because the control plane may not remove
        // them. They carry a source location.
        let declared = &self.interp.pipeline().tables[table].entries;
        let ids = state.entries(table).map(|entry| {
            let entry = entry.to_table_entry(self.interp.pipeline(), table);
            EntryId { table, keys: entry.keys, priority: entry.priority }
        });
        ids.filter(|id| !declared.iter().any(|own| own.keys == id.keys && own.priority == id.priority)).collect()
    }

    fn has_group(&self, id: u32, clone: bool) -> bool {
        let state = self.interp.state();
        if clone { state.clone_sessions().contains_key(&id) } else { state.multicast_groups().contains_key(&id) }
    }

    fn counter(&self, counter: ExternId, cell: &ObjectCell) -> Result<Counter, Refusal> {
        let value = match cell {
            ObjectCell::Index(index) => self.interp.counter(counter, *index),
            ObjectCell::Entry(id) => self.interp.direct_counter(id),
        };
        value.ok_or_else(|| match cell {
            ObjectCell::Index(index) => {
                let size = self.interp.array_len(counter).unwrap_or(0);
                format!(
                    "counter {} has no index {index}; it has {size}, and a direct one takes the handle of an entry",
                    self.name(counter)
                )
            }
            ObjectCell::Entry(_) => "the entry is not there any more".to_owned(),
        })
    }

    /// Returns the rates of a meter's cell; `None` if it has none. `cell` is an index, or an entry
    /// of the table of a direct meter.
    fn meter(&self, meter: ExternId, cell: &ObjectCell) -> Result<Option<MeterConfig>, Refusal> {
        let state = self.interp.state();
        match cell {
            ObjectCell::Index(index) => {
                let size = match self.interp.pipeline().externs[meter].kind {
                    ExternKind::Meter { size, .. } => size,
                    _ => 0,
                };
                match *index < size {
                    true => Ok(state.meter(meter, *index).copied()),
                    false => Err(format!("meter {} has no index {index}; it has {size}", self.name(meter))),
                }
            }
            ObjectCell::Entry(id) => {
                let entries =
                    state.entries(id.table).map(|entry| entry.to_table_entry(self.interp.pipeline(), id.table));
                let mut found = entries.filter(|entry| entry.keys == id.keys && entry.priority == id.priority);
                found.next().map(|entry| entry.meter).ok_or_else(|| "the entry is not there any more".to_owned())
            }
        }
    }

    fn register(&self, register: ExternId, index: u64) -> Result<Vec<BigUint>, Refusal> {
        self.interp.register(register, index).ok_or_else(|| {
            let size = self.interp.array_len(register).unwrap_or(0);
            format!("register {} has no index {index}; it has {size}", self.name(register))
        })
    }

    fn inject(&mut self, port: u32, bytes: &[u8]) -> Result<Vec<Sent>, Refusal> {
        let outputs = self.interp.process(bytes, port, self.now);
        Ok(self.sent(&outputs))
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        self.interp.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
    }

    fn take_idle(&mut self) -> Vec<EntryId> {
        std::mem::take(&mut self.idle)
    }

    fn advance(&mut self, nanoseconds: u64) -> Result<Vec<Sent>, Refusal> {
        self.now = self.now.saturating_add(nanoseconds);
        let pipeline = Arc::clone(self.interp.pipeline());
        // Entries that expire automatically are not reported.
        for idle in self.interp.advance_time(self.now).into_iter().filter(|idle| !idle.deleted) {
            let entry = idle.entry.to_table_entry(&pipeline, idle.table);
            self.idle.push(EntryId { table: idle.table, keys: entry.keys, priority: entry.priority });
        }
        Ok(Vec::new())
    }
}
