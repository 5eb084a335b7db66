//! Which of several parallel pipes holds an entry, and which one a packet goes to.
//!
//! The program stays as it is; each pipe runs it with a part of the entries. A packet is sent to a pipe by fields that the parser has read, so
//! a table is split by those of its keys that hold the same fields. An entry whose keys do not settle the pipe (bits that are open, a table
//! without these fields) is in all of them.

use entries::{EntryId, Update, WriteBatch};
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::BTreeMap;

/// How a number becomes a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Bits of the first field, from this one (0 is the least significant) upwards, as many as number the pipes.
    Bits(u32),
    /// The parity of all bits of all fields: two pipes.
    Parity,
    /// A hash of all fields, with a seed.
    Hash(u64),
}

/// A split of entries and traffic between pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Pipes, a power of two.
    pub pipes: u32,
    /// How a pipe is chosen.
    pub how: How,
    /// Width in bits of each field that it is chosen by, at most 128.
    pub fields: Vec<u32>,
    /// For each table (control-plane name) that has these fields as keys: the position of the key for each field.
    pub keys: BTreeMap<String, Vec<usize>>,
}

/// Where an entry belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// In this pipe.
    One(u32),
    /// In all pipes.
    All,
}

/// Why a split cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// Number of pipes.
    #[error("{0} pipes cannot be numbered by bits; take a power of two")]
    Pipes(u32),
    /// Parity with another number of pipes.
    #[error("parity makes two parts, not {0}; take bits or a hash")]
    Parity(u32),
    /// Bits that the field does not have.
    #[error("bits {from} to {to} are asked for, and the field has {width}")]
    Bits {
        /// First bit.
        from: u32,
        /// Last bit.
        to: u32,
        /// Width in bits.
        width: u32,
    },
    /// A table or key that is not there, or not of the field's width.
    #[error("table {table}: key number {key} is not there, or has not the field's {width} bits")]
    Key {
        /// Control-plane name.
        table: String,
        /// Position.
        key: usize,
        /// Width in bits of the field.
        width: u32,
    },
}

/// How evenly something is spread over pipes.
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    /// What each pipe has.
    pub pipes: Vec<f64>,
}

impl Balance {
    /// The fullest pipe by the mean: 1 is even, the number of pipes is all in one. 0 if there is nothing.
    pub fn worst(&self) -> f64 {
        let sum: f64 = self.pipes.iter().sum();
        let most = self.pipes.iter().copied().fold(0.0, f64::max);
        if sum == 0.0 { 0.0 } else { most * self.pipes.len() as f64 / sum }
    }
}

impl Split {
    /// Checks the split against the program.
    ///
    /// # Errors
    /// What does not go together.
    pub fn check(&self, pipeline: &Pipeline) -> Result<(), SplitError> {
        if !self.pipes.is_power_of_two() {
            return Err(SplitError::Pipes(self.pipes));
        }
        let first = self.fields.first().copied().unwrap_or(0);
        match self.how {
            How::Parity if self.pipes != 2 => return Err(SplitError::Parity(self.pipes)),
            How::Bits(from) if from.saturating_add(self.pipes.ilog2()) > first.min(128) => {
                return Err(SplitError::Bits { from, to: from.saturating_add(self.pipes.ilog2()), width: first });
            }
            _ => {}
        }
        for (name, positions) in &self.keys {
            let table = pipeline.tables.values().find(|table| table.preamble.name == *name);
            for (at, width) in self.fields.iter().enumerate() {
                let position = positions.get(at).copied().unwrap_or(usize::MAX);
                let key = table.and_then(|table| table.keys.get(position)).filter(|key| key.ty.width() == *width);
                if key.is_none() || *width > 128 {
                    return Err(SplitError::Key { table: name.clone(), key: position, width: *width });
                }
            }
        }
        Ok(())
    }

    /// The pipe for a packet with these values of the fields, in their order.
    pub fn pipe(&self, values: &[u128]) -> u32 {
        let number = match self.how {
            How::Bits(from) => values.first().map_or(0, |value| value.checked_shr(from).unwrap_or(0)) as u32,
            How::Parity => values.iter().map(|value| value.count_ones()).sum(),
            How::Hash(seed) => {
                let mut bytes = seed.to_be_bytes().to_vec();
                values.iter().for_each(|value| bytes.extend(value.to_be_bytes()));
                interp::hash(ir::HashAlgorithm::Random, &bytes) as u32
            }
        };
        number & (self.pipes.max(1) - 1)
    }

    /// Bits of a field that the pipe depends on.
    fn decisive(&self, field: usize) -> u128 {
        let all = |width: u32| if width == 0 { 0 } else { u128::MAX >> (128 - width.min(128)) };
        match self.how {
            How::Bits(from) if field == 0 => all(self.pipes.ilog2()).checked_shl(from).unwrap_or(0),
            How::Bits(_) => 0,
            How::Parity | How::Hash(_) => all(self.fields[field]),
        }
    }

    /// The pipe for an entry of a table.
    pub fn holder(&self, pipeline: &Pipeline, table: TableId, keys: &[KeyMatch]) -> Holder {
        let Some(declared) = pipeline.tables.get(table) else { return Holder::All };
        let Some(positions) = self.keys.get(&declared.preamble.name) else { return Holder::All };
        let mut values = Vec::new();
        for (field, position) in positions.iter().enumerate().take(self.fields.len()) {
            // Selector keys have no match.
            let at = declared.match_keys().position(|(at, _)| at == *position);
            let settled = at.and_then(|at| keys.get(at)).and_then(|key| settled(key, self.fields[field]));
            match settled {
                Some((value, known)) if known & self.decisive(field) == self.decisive(field) => values.push(value),
                _ => return Holder::All,
            }
        }
        Holder::One(self.pipe(&values))
    }

    /// A batch for each pipe. What belongs to no entry is written to all.
    pub fn divide(&self, pipeline: &Pipeline, batch: &WriteBatch) -> Vec<WriteBatch> {
        let mut parts = vec![WriteBatch::new(); self.pipes as usize];
        let of_id = |id: &EntryId| self.holder(pipeline, id.table, &id.keys);
        for update in &batch.updates {
            let holder = match update {
                Update::Entry(_, entry) => self.holder(pipeline, entry.table, &entry.keys),
                Update::Packed(_, entry) => pipeline.tables.get(entry.table).map_or(Holder::All, |table| {
                    let layout = entries::KeyLayout::new(&table.keys);
                    // One of another length is refused by whoever applies it.
                    let whole = entry.key().len() == layout.len;
                    if whole { self.holder(pipeline, entry.table, &layout.unpack(entry.key())) } else { Holder::All }
                }),
                Update::DirectMeter(id, _) => of_id(id),
                Update::DirectCounter(id, _) => of_id(id),
                _ => Holder::All,
            };
            for (pipe, part) in parts.iter_mut().enumerate() {
                if holder == Holder::All || holder == Holder::One(pipe as u32) {
                    part.push(update.clone());
                }
            }
        }
        parts
    }

    /// How traffic is spread: for each flow the values of the fields, and its weight (bytes, packets).
    pub fn balance<'a>(&self, traffic: impl IntoIterator<Item = (&'a [u128], f64)>) -> Balance {
        let mut pipes = vec![0.0; self.pipes as usize];
        for (values, weight) in traffic {
            pipes[self.pipe(values) as usize] += weight;
        }
        Balance { pipes }
    }
}

/// The value of a key as far as it is settled, and which bits are.
fn settled(key: &KeyMatch, width: u32) -> Option<(u128, u128)> {
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
