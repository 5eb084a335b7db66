//! A prefix table becomes pivots and partitions: algorithmic TCAM.
//!
//! The keys in a row (exact ones first, then the prefix key) are one prefix for the pivots, so that one pivot may stand for many small tenants and
//! one tenant may have many pivots. The table of pivots gives the number of a partition; the table itself gets that number as one more
//! exact key in front. How entries are kept in partitions is in [`super::partitions`].
//!
//! The rewritten table has the properties `alpm_partitions` and `alpm_depth`: a chip compares one partition's entries side by side, in SRAM. Its
//! first key is the number of the partition.

use super::entries::write;
use super::graph::{self, Code};
use super::partitions::{Partitions, Shape, Write};
use super::prefix::{self, Prefix};
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use entries::{Entry, KeyLayout, PackedAction, PackedEntry, Update, UpdateKind};
use ir::{
    Action, ActionCall, ActionId, ActionRef, Arm, Key, KeyMatch, MatchKind, Param, Pipeline, Preamble, TableId, Term,
    Type, Value,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Shape of the partitions of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Options {
    /// What follows from the table's size.
    Fitted {
        /// Entries that a partition holds, 8 to 4096.
        depth: u32,
        /// Own entries at which pivots are cut when a whole table is placed: half the depth or less packs partitions well and takes twice the
        /// pivots.
        target: u32,
        /// Share of the partitions' room that is expected to be filled, 0 to 1; the rest is for updates.
        fill: f64,
    },
    /// This one.
    Given(Shape),
}

/// Pivots for each multiple of the target: they have between half and all of it as their own when a table is placed, and three quarters or more
/// on average, as prefixes that are announced show.
const PIVOTS: f64 = 1.6;

impl Options {
    /// Partitions of so many entries, with two pivots each or a little more, nine tenths full.
    pub fn new(depth: u32) -> Options {
        Options::Fitted { depth, target: depth / 2, fill: 0.9 }
    }

    /// As a chip's compiler makes it of a table of `entries`: two subtrees a partition, and a place more in each, as an entry is changed by
    /// writing the new one first.
    pub fn even(entries: u64, partitions: u32) -> Options {
        let depth = (entries + u64::from(partitions)).div_ceil(u64::from(partitions.max(1))) as u32;
        Options::Given(Shape { partitions, depth, target: depth / 2, pivots: 2 * partitions })
    }

    /// The shape for so many entries.
    pub fn shape(&self, entries: u64) -> Shape {
        let (depth, target, fill) = match *self {
            Options::Given(shape) => return shape,
            Options::Fitted { depth, target, fill } => (depth.clamp(8, 4096), target, fill),
        };
        let target = target.clamp(2, depth - 1);
        // Copies of covers take room, too: at most one for each pivot, but those of one partition share theirs.
        let copies = 1.0 + 1.0 / f64::from(target);
        let partitions = (entries as f64 * copies / (f64::from(depth) * fill.clamp(0.05, 1.0))).ceil() + 1.0;
        let pivots = (entries as f64 * PIVOTS / f64::from(target)).ceil() + 16.0;
        Shape { partitions: partitions as u32, depth, target, pivots: pivots as u32 }
    }
}

/// Partitions and their depth of a table that [`alpm`] has made: its first key is the number of the partition. None for all others.
pub fn partitioned(table: &ir::Table) -> Option<(u32, u32)> {
    let property = |name| table.properties.iter().find(|(known, _)| known == name)?.1.parse().ok();
    Some((property("alpm_partitions")?, property("alpm_depth")?))
}

/// Takes a prefix table (control-plane name) apart.
///
/// # Errors
/// A table without a prefix key, or with keys other than exact ones and that, or whose keys are wider than [`prefix::WIDTH`] bits.
pub fn alpm(first: &Arc<Pipeline>, sizes: &Sizes, table: &str, options: &Options) -> Result<Rewritten, RewriteError> {
    let id = graph::find(first, table)?;
    let declared = graph::plain(first, id)?;
    let site = graph::site(first, id)?;
    let order = order(declared)?;
    let entries = sizes.get(table).copied().or(declared.size).unwrap_or(1024);
    let shape = options.shape(entries);
    let width: u32 = declared.keys.iter().map(|key| key.ty.width()).sum();
    let bits = (32 - (shape.partitions - 1).leading_zeros()).max(1);

    let mut second = (**first).clone();
    let param = Param::new("partition", Type::Bit(bits));
    let lead = second.actions.push(Action {
        preamble: Preamble { name: format!("{table}_partition"), hidden: true, ..Preamble::default() },
        params: vec![param],
        loc: declared.loc,
    });
    let key = |name: String, bits, kind| Key::new(name, Type::Bit(bits), kind);
    let mut pivots = graph::like(declared, "pivots");
    pivots.keys = vec![key("pivot".to_owned(), width, MatchKind::Lpm)];
    pivots.actions = vec![ActionRef::new(lead)];
    pivots.default_action = ActionCall { action: lead, args: vec![num_bigint::BigUint::ZERO] };
    (pivots.const_default, pivots.size) = (true, Some(u64::from(shape.pivots)));
    let pivots_name = pivots.preamble.name.clone();
    let pivots = second.tables.push(pivots);

    let rest = &mut second.tables[id];
    (rest.entries, rest.const_entries) = (Vec::new(), false);
    rest.keys.insert(0, key("partition".to_owned(), bits, MatchKind::Exact));
    rest.size = Some(u64::from(shape.partitions) * u64::from(shape.depth));
    rest.properties.push(("alpm_partitions".to_owned(), shape.partitions.to_string()));
    rest.properties.push(("alpm_depth".to_owned(), shape.depth.to_string()));
    let room = rest.size.unwrap_or(0);

    let body = &mut second.controls[site.control].body;
    let Some((keys, arms, loc)) = graph::take_apply(body, site.block) else {
        return Err(RewriteError::new(table, "its application is gone, which is a bug"));
    };
    let mut code = Code { body, block: site.block, loc };
    let row = in_a_row(&mut code, &keys, &order);
    let (found, params) = code.arm_block(&[Type::Bit(bits)]);
    code.end(Term::Apply { table: pivots, keys: vec![row], arms: vec![Arm { action: lead, block: found }] });
    code.block = found;
    let keys = std::iter::once(params[1]).chain(keys).collect();
    code.end(Term::Apply { table: id, keys, arms });

    let rule = Parted {
        name: table.to_owned(),
        from: id,
        pivots,
        lead,
        width,
        layout: KeyLayout::new(&declared.keys),
        order,
        partitions: Partitions::new(shape),
        writes: 0,
    };
    let numbers = first.tables.keys().collect();
    let (map, pipeline) = Shadowed::new(first, second, numbers, &[id, pivots], rule)?;
    let mut sizes = sizes.clone();
    sizes.insert(table.to_owned(), room);
    sizes.insert(pivots_name, u64::from(shape.pivots));
    Ok(Rewritten { pipeline, sizes, map: Box::new(map) })
}

/// Positions of the keys as they stand in a row: the prefix key last.
fn order(table: &ir::Table) -> Result<Vec<usize>, RewriteError> {
    let refused = |reason: String| Err(RewriteError::new(&table.preamble.name, reason));
    let other = |key: &&Key| !matches!(key.kind, MatchKind::Exact | MatchKind::Lpm);
    if let Some(key) = table.keys.iter().find(other) {
        return refused(format!("its key {} is neither exact nor a prefix, and so has no place in a trie", key.name));
    }
    let mut order: Vec<usize> = (0..table.keys.len()).collect();
    order.sort_by_key(|at| table.keys[*at].kind == MatchKind::Lpm);
    if order.last().is_none_or(|at| table.keys[*at].kind != MatchKind::Lpm) {
        return refused("it has no prefix key; an exact table needs no partitions".to_owned());
    }
    let width: u32 = table.keys.iter().map(|key| key.ty.width()).sum();
    if width > prefix::WIDTH || table.keys.iter().any(|key| key.ty.width() > 128) {
        let most = prefix::WIDTH;
        return refused(format!(
            "its keys have {width} bits; a row of at most {most}, each key at most 128, can be parted"
        ));
    }
    Ok(order)
}

/// The keys of an entry in a row, as pivots see them; none for a table that cannot be parted, or keys of other kinds than it has.
pub fn row(table: &ir::Table, keys: &[KeyMatch]) -> Option<Prefix> {
    let order = order(table).ok()?;
    order.iter().try_fold(Prefix::ALL, |prefix, at| {
        let width = table.keys[*at].ty.width();
        let (value, len) = match keys.get(*at)? {
            KeyMatch::Exact(value) => (value, width),
            KeyMatch::Lpm { value, prefix_len } => (value, *prefix_len),
            _ => return None,
        };
        Some(prefix.and(u128::try_from(value).ok()?, width, len))
    })
}

/// One value of all keys.
fn in_a_row(code: &mut Code<'_>, keys: &[Value], order: &[usize]) -> Value {
    let values: Vec<Value> = order.iter().map(|at| keys[*at]).collect();
    let mut row = None;
    for value in values {
        let bits = Type::Bit(code.body.value_type(value).width());
        let value = code.cast(bits, value);
        row = Some(match row {
            Some(row) => code.concat(row, value),
            None => value,
        });
    }
    row.unwrap_or_else(|| code.bits(0, 0u32))
}

/// Where the entries of a parted table lie.
struct Parted {
    name: String,
    from: TableId,
    pivots: TableId,
    lead: ActionId,
    width: u32,
    layout: KeyLayout,
    order: Vec<usize>,
    partitions: Partitions<Entry>,
    writes: u64,
}

impl Parted {
    fn prefix(&self, key: &[u64]) -> Prefix {
        self.order.iter().fold(Prefix::ALL, |prefix, at| {
            let field = &self.layout.fields[*at];
            let value = field.value(key).iter().rev().fold(0u128, |value, word| value << 64 | u128::from(*word));
            let len = if field.kind == MatchKind::Lpm { field.second(key)[0] as u32 } else { field.width };
            prefix.and(value, field.width, len)
        })
    }

    fn held(&self, kind: UpdateKind, partition: u32, entry: &Entry) -> Update {
        let key: Vec<u64> = std::iter::once(u64::from(partition)).chain(entry.key().iter().copied()).collect();
        write(kind, self.from, &key, entry, 0)
    }

    fn pivot(&self, kind: UpdateKind, prefix: &Prefix, partition: u32) -> Update {
        let mut key = prefix.words(self.width);
        key.push(u64::from(prefix.len()));
        let arg = [u64::from(partition)];
        Update::Packed(kind, PackedEntry::new(self.pivots, &key, PackedAction::Call(self.lead, &arg)))
    }

    /// `gone` is the entry that has just been deleted: what leaves a partition may be it.
    fn say(&mut self, writes: &[Write], gone: Option<&Entry>, out: &mut Vec<Update>) {
        self.writes += writes.len() as u64;
        for write in writes {
            out.extend(match write {
                Write::Put(partition, prefix) => {
                    self.partitions.get(prefix).map(|entry| self.held(UpdateKind::Insert, *partition, entry))
                }
                Write::Take(partition, prefix) => {
                    let entry = self.partitions.get(prefix).or(gone);
                    entry.map(|entry| self.held(UpdateKind::Delete, *partition, entry))
                }
                Write::Pivot(partition, prefix) => Some(self.pivot(UpdateKind::Insert, prefix, *partition)),
                Write::Turn(partition, prefix) => Some(self.pivot(UpdateKind::Modify, prefix, *partition)),
                Write::Unpivot(prefix) => Some(self.pivot(UpdateKind::Delete, prefix, 0)),
            });
        }
    }
}

impl Rule for Parted {
    fn owns(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin(&mut self) {
        self.partitions.begin();
    }

    fn undo(&mut self) {
        self.partitions.undo();
    }

    fn entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String> {
        let name = self.name.clone();
        let full = |full| format!("table {name}: {full}; delete entries, or rewrite it for a greater size");
        let mut writes = Vec::new();
        match change {
            EntryChange::Inserted(entry) => {
                let prefix = self.prefix(entry.key());
                self.partitions.insert(prefix, entry.clone(), &mut writes).map_err(full)?;
                self.say(&writes, None, out);
            }
            EntryChange::Modified(_, new) => {
                let prefix = self.prefix(new.key());
                self.partitions.replace(prefix, new.clone());
                let holders = self.partitions.holders(&prefix);
                self.writes += holders.len() as u64;
                out.extend(holders.into_iter().map(|partition| self.held(UpdateKind::Modify, partition, new)));
            }
            EntryChange::Deleted(entry) => {
                self.partitions.delete(self.prefix(entry.key()), &mut writes).map_err(full)?;
                self.say(&writes, Some(entry), out);
            }
        }
        Ok(())
    }

    fn place(&mut self, entries: &[(usize, &Entry)], out: &mut Vec<(usize, Update)>) -> Result<bool, String> {
        if !self.partitions.is_empty() || self.partitions.pivots() > 1 {
            return Ok(false);
        }
        let origins: HashMap<Prefix, usize> =
            entries.iter().map(|(index, entry)| (self.prefix(entry.key()), *index)).collect();
        let new: Vec<(Prefix, Entry)> =
            entries.iter().map(|(_, entry)| (self.prefix(entry.key()), (*entry).clone())).collect();
        let mut writes = Vec::new();
        self.partitions
            .build(new, &mut writes)
            .map_err(|full| format!("table {}: {full}; delete entries, or rewrite it for a greater size", self.name))?;
        let first = entries.first().map_or(0, |(index, _)| *index);
        let mut updates = Vec::with_capacity(writes.len());
        self.say(&writes, None, &mut updates);
        let origin = |write: &Write| match write {
            Write::Put(_, prefix) => origins.get(prefix).copied().unwrap_or(first),
            _ => first,
        };
        out.extend(writes.iter().map(origin).zip(updates));
        Ok(true)
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let (name, p) = (&self.name, &self.partitions);
        vec![
            (format!("{name}: entries"), p.len() as f64),
            (format!("{name}: entries in partitions, copies included"), p.held() as f64),
            (format!("{name}: partitions in use"), p.used() as f64),
            (format!("{name}: pivots"), p.pivots() as f64),
            (format!("{name}: writes"), self.writes as f64),
        ]
    }
}
