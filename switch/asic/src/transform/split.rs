//! Distribution of entries and packets over parallel pipes.
//!
//! The program is unchanged; each pipe runs it with a part of the entries. A packet is sent to a
//! pipe by fields that the parser has read, so a table is split by those of its keys that contain
//! the same fields. An entry with keys that do not determine the pipe (wildcard bits, or a table
//! without these fields) is stored in all pipes.

use entries::{EntryId, StateUpdate, WriteBatch};
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::BTreeMap;

/// Function from fields to a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitFunction {
    /// Bits of the first field, from this one (0 is the least significant) upward: the base-2
    /// logarithm of the number of pipes.
    Bits(u32),
    /// Parity of all bits of all fields, for two pipes.
    Parity,
    /// Hash of all fields, with a seed.
    Hash(u64),
}

/// Split of entries and traffic between pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipeSplit {
    /// Number of pipes, a power of two.
    pub pipes: u32,
    /// Function that chooses a pipe.
    pub function: SplitFunction,
    /// Width in bits of each field, at most 128.
    pub fields: Vec<u32>,
    /// For each table (control-plane name) with these fields as keys: the key position of each
    /// field.
    pub keys: BTreeMap<String, Vec<usize>>,
}

/// Pipes that store an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPipe {
    /// One pipe.
    One(u32),
    /// All pipes.
    All,
}

/// Error in a split.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The number of pipes is no power of two.
    #[error("{0} pipes cannot be numbered by bits; take a power of two")]
    Pipes(u32),
    /// Parity with another number of pipes than two.
    #[error("parity makes two parts, not {0}; take bits or a hash")]
    Parity(u32),
    /// Bits outside the field.
    #[error("bits {from} to {to} are outside the field, which has {width}")]
    Bits {
        /// First bit.
        from: u32,
        /// Last bit.
        to: u32,
        /// Width in bits.
        width: u32,
    },
    /// A table or key that does not exist, or with another width than the field.
    #[error("table {table}: key number {key} does not exist, or does not have the field's {width} bits")]
    Key {
        /// Control-plane name.
        table: String,
        /// Key position.
        key: usize,
        /// Width in bits of the field.
        width: u32,
    },
}

/// Distribution of load over pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeBalance {
    /// Load of each pipe.
    pub pipes: Vec<f64>,
}

impl PipeBalance {
    /// Returns the load of the fullest pipe relative to the mean. 1 is even; the number of pipes
    /// means that one has all. 0 without load.
    pub fn imbalance(&self) -> f64 {
        let sum: f64 = self.pipes.iter().sum();
        let most = self.pipes.iter().copied().fold(0.0, f64::max);
        if sum == 0.0 { 0.0 } else { most * self.pipes.len() as f64 / sum }
    }
}

impl PipeSplit {
    /// Checks the split against the program.
    ///
    /// # Errors
    /// [`SplitError`]: the first inconsistency.
    pub fn check(&self, pipeline: &Pipeline) -> Result<(), SplitError> {
        if !self.pipes.is_power_of_two() {
            return Err(SplitError::Pipes(self.pipes));
        }
        let first_width = self.fields.first().copied().unwrap_or(0);
        match self.function {
            SplitFunction::Parity if self.pipes != 2 => return Err(SplitError::Parity(self.pipes)),
            SplitFunction::Bits(from) if from.saturating_add(self.pipes.ilog2()) > first_width.min(128) => {
                return Err(SplitError::Bits { from, to: from.saturating_add(self.pipes.ilog2()), width: first_width });
            }
            _ => {}
        }
        for (name, positions) in &self.keys {
            let table = pipeline.tables.values().find(|table| table.preamble.name == *name);
            for (field, width) in self.fields.iter().enumerate() {
                let position = positions.get(field).copied().unwrap_or(usize::MAX);
                let key = table.and_then(|table| table.keys.get(position)).filter(|key| key.ty.width() == *width);
                if key.is_none() || *width > 128 {
                    return Err(SplitError::Key { table: name.clone(), key: position, width: *width });
                }
            }
        }
        Ok(())
    }

    /// Returns the pipe for a packet with these field values, in order.
    pub fn pipe_of(&self, values: &[u128]) -> u32 {
        let number = match self.function {
            SplitFunction::Bits(from) => values.first().map_or(0, |value| value.checked_shr(from).unwrap_or(0)) as u32,
            SplitFunction::Parity => values.iter().map(|value| value.count_ones()).sum(),
            SplitFunction::Hash(seed) => {
                let mut bytes = seed.to_be_bytes().to_vec();
                values.iter().for_each(|value| bytes.extend(value.to_be_bytes()));
                interp::hash(ir::HashAlgorithm::Random, &bytes) as u32
            }
        };
        number & (self.pipes.max(1) - 1)
    }

    /// Returns the bits of a field that determine the pipe.
    fn deciding_bits(&self, field: usize) -> u128 {
        let all = |width: u32| if width == 0 { 0 } else { u128::MAX >> (128 - width.min(128)) };
        match self.function {
            SplitFunction::Bits(from) if field == 0 => all(self.pipes.ilog2()).checked_shl(from).unwrap_or(0),
            SplitFunction::Bits(_) => 0,
            SplitFunction::Parity | SplitFunction::Hash(_) => all(self.fields[field]),
        }
    }

    /// Returns the pipe for an entry of a table.
    pub fn entry_pipe(&self, pipeline: &Pipeline, table: TableId, keys: &[KeyMatch]) -> EntryPipe {
        let Some(declared) = pipeline.tables.get(table) else { return EntryPipe::All };
        let Some(positions) = self.keys.get(&declared.preamble.name) else { return EntryPipe::All };
        let mut values = Vec::new();
        for (field, position) in positions.iter().enumerate().take(self.fields.len()) {
            // Selector keys have no match.
            let at = declared.match_keys().position(|(at, _)| at == *position);
            let settled = at.and_then(|at| keys.get(at)).and_then(|key| known_bits(key, self.fields[field]));
            match settled {
                Some((value, known)) if known & self.deciding_bits(field) == self.deciding_bits(field) => {
                    values.push(value)
                }
                _ => return EntryPipe::All,
            }
        }
        EntryPipe::One(self.pipe_of(&values))
    }

    /// Divides a batch into one per pipe. Updates that belong to no entry are written to all.
    pub fn divide_batch(&self, pipeline: &Pipeline, batch: &WriteBatch) -> Vec<WriteBatch> {
        let mut parts = vec![WriteBatch::new(); self.pipes as usize];
        let pipe_of = |id: &EntryId| self.entry_pipe(pipeline, id.table, &id.keys);
        for update in &batch.updates {
            let entry_pipe = match update {
                StateUpdate::Entry(_, entry) => self.entry_pipe(pipeline, entry.table, &entry.keys),
                StateUpdate::Packed(_, entry) => pipeline.tables.get(entry.table).map_or(EntryPipe::All, |table| {
                    let layout = entries::KeyLayout::new(&table.keys);
                    // A key of another length goes to all pipes and is refused there.
                    let has_key_length = entry.key().len() == layout.len;
                    if has_key_length {
                        self.entry_pipe(pipeline, entry.table, &layout.unpack(entry.key()))
                    } else {
                        EntryPipe::All
                    }
                }),
                StateUpdate::DirectMeter(id, _) => pipe_of(id),
                StateUpdate::DirectCounter(id, _) => pipe_of(id),
                _ => EntryPipe::All,
            };
            for (pipe, part) in parts.iter_mut().enumerate() {
                if entry_pipe == EntryPipe::All || entry_pipe == EntryPipe::One(pipe as u32) {
                    part.push(update.clone());
                }
            }
        }
        parts
    }

    /// Returns the distribution of traffic, given the field values and the weight (bytes, packets)
    /// of each flow.
    pub fn traffic_balance<'a>(&self, traffic: impl IntoIterator<Item = (&'a [u128], f64)>) -> PipeBalance {
        let mut pipes = vec![0.0; self.pipes as usize];
        for (values, weight) in traffic {
            pipes[self.pipe_of(values) as usize] += weight;
        }
        PipeBalance { pipes }
    }
}

/// Returns the value of a key with a mask of its known bits.
fn known_bits(key: &KeyMatch, width: u32) -> Option<(u128, u128)> {
    let number = |value: &BigUint| u128::try_from(value).ok();
    let all = if width == 0 { 0 } else { u128::MAX >> (128 - width.min(128)) };
    match key {
        KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => Some((number(value)?, all)),
        KeyMatch::Ternary { value, mask } => Some((number(value)?, number(mask)?)),
        KeyMatch::Lpm { value, prefix_len } => {
            let open = all.checked_shr(*prefix_len).unwrap_or(0);
            Some((number(value)?, all & !open))
        }
        KeyMatch::Range { lo, hi } if lo == hi => Some((number(lo)?, all)),
        KeyMatch::Range { .. } | KeyMatch::Optional(None) => None,
    }
}
