//! Replaces a wide key of an exact table by a digest. Colliding keys are stored in full, in a
//! conflict table that is looked up first. (Pan et al., "Sailfish: accelerating cloud-scale
//! multi-tenant multi-service gateways with programmable switches", SIGCOMM 2021, section 4.3.)
//!
//! # Mapping of entries
//! Of several keys with one digest, the first is stored in the digest table, and all others are
//! stored in the conflict table with their full keys. When the first one is deleted, another one
//! moves from the conflict table to the digest table. A key with an entry therefore always finds
//! its own entry.
//!
//! # Deviation
//! A key *without* an entry can share the digest of another one and then hits it: with probability
//! n / 2^bits for a table of n entries and a key chosen without knowledge of the seed. Keys that
//! are not digested are compared in full. If the VNI is one of them, a tenant's packets hit only
//! that tenant's entries. [`DigestOptions::max_false_hit_probability`] bounds the probability;
//! larger tables are refused.
//!
//! # Seed
//! An attacker that knows collisions could fill the conflict table. A CRC does not prevent this,
//! because two messages with the same CRC have the same CRC for every seed. The digest therefore
//! uses the algorithm `random`: here a keyed mix, and on a chip a random matrix. The control plane
//! computes the same function.

use super::apply_site::{self, CodeInserter};
use super::entries::{BitString, KeyWords, copy_key_field, entry_update};
use super::shadowed_map::{EntryChange, EntryMapping, ShadowedMap};
use super::undo_map::UndoMap;
use super::{TableSizes, TransformError, TransformedPipeline};
use entries::{KeyLayout, StateUpdate, StoredEntry, UpdateKind};
use ir::{
    Action, ActionArm, ActionCall, ActionId, ActionRef, BlockCall, ExternArg, ExternFn, ExternInst, ExternKind,
    HashAlgorithm, Inst, MatchKey, MatchKind, Pipeline, Preamble, Table, TableId, Terminator, Type, Value,
};
use std::sync::Arc;

/// Options of a digest.
#[derive(Clone, Debug, PartialEq)]
pub struct DigestOptions {
    /// Bits of a digest, 8 to 64.
    pub bits: u32,
    /// Seed of the digest. Choose it at random and keep it secret.
    pub seed: u64,
    /// Names of the keys that are digested together. Empty: those of 64 bits and more.
    pub keys: Vec<String>,
    /// Capacity of the conflict table. `None`: enough for random keys, see [`conflict_capacity`].
    pub conflicts: Option<u64>,
    /// Maximum accepted probability that a key without entry hits one.
    pub max_false_hit_probability: f64,
}

impl DigestOptions {
    /// Returns options with 32 bits, all wide keys, conflicts for random keys, and at most one
    /// false hit per thousand unknown keys.
    pub fn new(seed: u64) -> DigestOptions {
        DigestOptions { bits: 32, seed, keys: Vec::new(), conflicts: None, max_false_hit_probability: 1e-3 }
    }
}

/// Returns the capacity of a conflict table for `entries` random keys with digests of `bits` bits
/// and equal other keys: the number of colliding pairs by the birthday bound, n (n - 1) / 2^(bits +
/// 1), plus six standard deviations.
pub fn conflict_capacity(entries: u64, bits: u32) -> u64 {
    let pairs = entries as f64 * (entries.saturating_sub(1)) as f64 / 2f64.powi(bits as i32 + 1);
    (pairs + 6.0 * pairs.sqrt()).ceil() as u64 + 8
}

/// Returns the probability that a key without entry hits one of `entries`.
pub fn false_hit_probability(entries: u64, bits: u32) -> f64 {
    entries as f64 / 2f64.powi(bits as i32)
}

/// Returns the digest of keys, each given as its width in bits and its words, least significant
/// word first.
pub fn key_digest(options: &DigestOptions, keys: &[(u32, &[u64])]) -> u64 {
    hash_keys(options.seed, options.bits, keys.iter().copied())
}

fn hash_keys<'a>(seed: u64, bits: u32, keys: impl Iterator<Item = (u32, &'a [u64])>) -> u64 {
    let mut data = BitString::new();
    data.push_bits(64, &[seed]);
    keys.for_each(|(width, words)| data.push_bits(width, words));
    interp::hash(HashAlgorithm::Random, data.bytes()) & (u64::MAX >> (64 - bits))
}

/// Replaces keys of a table (control-plane name) by one digest. A conflict table in front holds the
/// full keys whose digest another entry already has; only its misses reach the digest table.
///
/// # Errors
/// [`TransformError`]: the table is not exact, has no suitable keys, or has more entries than the
/// accepted probability allows.
pub fn digest_keys(
    original: &Arc<Pipeline>,
    sizes: &TableSizes,
    table: &str,
    options: &DigestOptions,
) -> Result<TransformedPipeline, TransformError> {
    let id = apply_site::find_table(original, table)?;
    let declared = apply_site::check_movable(original, id)?;
    let site = apply_site::find_apply_site(original, id)?;
    let positions = digested_key_positions(declared, options)?;
    let entries = sizes.get(table).copied().or(declared.size).unwrap_or(1024);
    if false_hit_probability(entries, options.bits) > options.max_false_hit_probability {
        let reason = format!(
            "with {entries} entries, a key without entry hits one with probability {:.2e}, and {:.2e} is accepted; take more than {} bits",
            false_hit_probability(entries, options.bits),
            options.max_false_hit_probability,
            options.bits
        );
        return Err(TransformError::new(table, reason));
    }
    let conflict_capacity_entries = options.conflicts.unwrap_or_else(|| conflict_capacity(entries, options.bits));

    let mut transformed = (**original).clone();
    let (conflicts, miss) = add_conflict_table(&mut transformed, declared, table, conflict_capacity_entries);
    let conflicts_name = transformed.tables[conflicts].preamble.name.clone();
    let conflict_actions: Vec<_> = transformed.tables[conflicts].actions.iter().map(|action| action.action).collect();

    let digested = &mut transformed.tables[id];
    (digested.entries, digested.const_entries) = (Vec::new(), false);
    digested.keys = digested_keys(&declared.keys, &positions, options.bits);
    digested.properties.push(("digest_bits".to_owned(), options.bits.to_string()));

    let hash = DigestExtern::new(&mut transformed, declared.preamble.name.as_str(), options);
    let body = &mut transformed.controls[site.control].body;
    let (keys, arms, loc) = apply_site::take_apply(body, site.block, table)?;
    let mut code = CodeInserter { body, block: site.block, loc };
    let digest_block = code.new_block();
    let (miss_block, _) = code.arm_block(&[]);
    let with_conflict = arms.iter().filter(|arm| conflict_actions.contains(&arm.action)).cloned();
    let with_conflict = with_conflict.chain([ActionArm { action: miss, block: miss_block }]).collect();
    code.set_terminator(Terminator::Apply { table: conflicts, keys: keys.clone(), arms: with_conflict });
    code.block = miss_block;
    code.set_terminator(Terminator::Jump(BlockCall::to(digest_block)));
    code.block = digest_block;
    let digest = hash.emit_digest(&mut code, positions.iter().map(|position| keys[*position]).collect());
    let keys = keys.iter().enumerate().filter_map(|(position, key)| {
        match positions.iter().position(|positions| *positions == position) {
            // The digest takes the position of the first key that it replaces.
            Some(0) => Some(digest),
            Some(_) => None,
            None => Some(*key),
        }
    });
    let keys = keys.collect();
    code.set_terminator(Terminator::Apply { table: id, keys, arms });

    let rule = DigestMap {
        name: table.to_owned(),
        from: id,
        conflicts,
        conflict_capacity: conflict_capacity_entries as usize,
        bits: options.bits,
        seed: options.seed,
        full: KeyLayout::new(&declared.keys),
        short: KeyLayout::new(&transformed.tables[id].keys),
        chosen: positions,
        entries_by_digest: UndoMap::new(),
        conflicting: 0,
        conflicting_before: 0,
    };
    let numbers = original.tables.keys().collect();
    let (map, pipeline) = ShadowedMap::new(original, transformed, numbers, &[id, conflicts], rule)?;
    let mut sizes = sizes.clone();
    sizes.insert(table.to_owned(), entries);
    sizes.insert(conflicts_name, conflict_capacity_entries);
    Ok(TransformedPipeline { pipeline, sizes, map: Box::new(map) })
}

/// Adds the table of `room` keys that share their digest with another key. Returns it, and the
/// action of its misses.
fn add_conflict_table(pipeline: &mut Pipeline, declared: &Table, table: &str, room: u64) -> (TableId, ActionId) {
    let miss = pipeline.actions.push(Action {
        preamble: Preamble { name: format!("{table}_no_conflict"), hidden: true, ..Preamble::default() },
        params: Vec::new(),
        loc: declared.loc,
    });
    let mut conflicts = apply_site::derived_table(declared, "conflicts");
    conflicts.actions.retain(|action| !action.default_only);
    conflicts.actions.push(ActionRef { default_only: true, ..ActionRef::new(miss) });
    conflicts.default_action = ActionCall { action: miss, args: Vec::new() };
    (conflicts.const_default, conflicts.size) = (true, Some(room));
    (pipeline.tables.push(conflicts), miss)
}

/// Returns the positions of the keys to digest: those that the options name, else those of 64 bits
/// and more.
fn digested_key_positions(table: &ir::Table, options: &DigestOptions) -> Result<Vec<usize>, TransformError> {
    let refused = |reason: String| Err(TransformError::new(&table.preamble.name, reason));
    if !(8..=64).contains(&options.bits) {
        return refused(format!("a digest of {} bits is not possible; take 8 to 64", options.bits));
    }
    if let Some(key) = table.keys.iter().find(|key| key.kind != MatchKind::Exact) {
        return refused(format!(
            "its key {} is not exact, and a digest says nothing about masks and prefixes",
            key.name
        ));
    }
    let is_digested = |key: &MatchKey| match options.keys.is_empty() {
        true => key.ty.width() >= 64,
        false => options.keys.contains(&key.name),
    };
    let positions: Vec<usize> = (0..table.keys.len()).filter(|position| is_digested(&table.keys[*position])).collect();
    if positions.is_empty() || (!options.keys.is_empty() && positions.len() != options.keys.len()) {
        let names: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
        return refused(format!(
            "none of its keys, or not all that are named, can be digested; its keys are {}",
            names.join(", ")
        ));
    }
    let width: u32 = positions.iter().map(|position| table.keys[*position].ty.width()).sum();
    if width <= options.bits {
        return refused(format!("its keys have {width} bits, and a digest of {} is no shorter", options.bits));
    }
    Ok(positions)
}

fn digested_keys(keys: &[MatchKey], chosen: &[usize], bits: u32) -> Vec<MatchKey> {
    let one = |(at, key): (usize, &MatchKey)| match chosen.iter().position(|chosen| *chosen == at) {
        Some(0) => {
            let name = format!("{}_digest", key.name);
            Some(MatchKey { name, ty: Type::Bit(bits), annotations: Vec::new(), id: 0, type_name: None, ..key.clone() })
        }
        Some(_) => None,
        None => Some(key.clone()),
    };
    keys.iter().enumerate().filter_map(one).collect()
}

/// Extern call that computes a digest.
struct DigestExtern {
    object: Option<ir::ExternId>,
    seed: u64,
    bits: u32,
}

impl DigestExtern {
    fn new(pipeline: &mut Pipeline, table: &str, options: &DigestOptions) -> DigestExtern {
        let object = (pipeline.arch == ir::Arch::Pna).then(|| {
            let preamble = Preamble { name: format!("{table}_digest"), hidden: true, ..Preamble::default() };
            let kind = ExternKind::Hash { algorithm: HashAlgorithm::Random, output: Type::Bit(options.bits) };
            pipeline.externs.push(ExternInst { preamble, kind, loc: ir::SourceLoc::default() })
        });
        DigestExtern { object, seed: options.seed, bits: options.bits }
    }

    fn emit_digest(&self, code: &mut CodeInserter<'_>, keys: Vec<Value>) -> Value {
        let ty = Type::Bit(self.bits);
        let seed = code.const_bits(64, self.seed);
        let data = ExternArg::Values(std::iter::once(seed).chain(keys).collect());
        let (func, args) = match self.object {
            Some(_) => (ExternFn::HashGet, vec![data]),
            None => {
                let base = code.const_bits(self.bits, 0u32);
                let most = code.const_bits(self.bits + 1, 1u128 << self.bits);
                (
                    ExternFn::Hash,
                    vec![ExternArg::Str("random".to_owned()), ExternArg::Value(base), data, ExternArg::Value(most)],
                )
            }
        };
        code.push_inst(Inst::Extern { object: self.object, func, args }, ty)
    }
}

/// Entry mapping of a digested table.
struct DigestMap {
    name: String,
    from: TableId,
    conflicts: TableId,
    conflict_capacity: usize,
    bits: u32,
    seed: u64,
    full: KeyLayout,
    short: KeyLayout,
    chosen: Vec<usize>,
    /// By short key: the entry in the digest table, followed by those in the conflict table.
    entries_by_digest: UndoMap<KeyWords, Vec<StoredEntry>>,
    conflicting: usize,
    conflicting_before: usize,
}

impl DigestMap {
    fn short_key(&self, key: &[u64]) -> KeyWords {
        let fields = self.chosen.iter().map(|at| &self.full.fields[*at]);
        let digest = hash_keys(self.seed, self.bits, fields.map(|field| (field.width, field.value(key))));
        let mut out: KeyWords = std::iter::repeat_n(0, self.short.len).collect();
        let mut to = self.short.fields.iter();
        for (at, from) in self.full.fields.iter().enumerate() {
            match self.chosen.iter().position(|chosen| *chosen == at) {
                Some(0) => out[to.next().map_or(0, |field| field.offset)] = digest,
                Some(_) => {}
                None => {
                    if let Some(field) = to.next() {
                        copy_key_field(from, key, field, &mut out);
                    }
                }
            }
        }
        out
    }

    /// Maps an insertion: to the digest table if the digest is new there, else with its full key to
    /// the conflict table.
    fn insert(&mut self, entry: &StoredEntry, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        let digested_key = self.short_key(entry.key());
        let mut entries = self.entries_by_digest.get(&digested_key).cloned().unwrap_or_default();
        if entries.is_empty() {
            out.push(entry_update(UpdateKind::Insert, self.from, &digested_key, entry, 0));
        } else {
            if self.conflicting >= self.conflict_capacity {
                return Err(format!(
                    "table {}: its conflict table is full ({} entries) and the key has the digest of another one; delete entries, or plan it \
                     with more conflict entries or another seed",
                    self.name, self.conflict_capacity
                ));
            }
            self.conflicting += 1;
            out.push(entry_update(UpdateKind::Insert, self.conflicts, entry.key(), entry, 0));
        }
        entries.push(entry.clone());
        self.entries_by_digest.insert(digested_key, entries);
        Ok(())
    }

    fn modify(&mut self, old: &StoredEntry, new: &StoredEntry, out: &mut Vec<StateUpdate>) {
        let short = self.short_key(old.key());
        let mut placed = self.entries_by_digest.get(&short).cloned().unwrap_or_default();
        for (at, entry) in placed.iter_mut().enumerate().filter(|(_, entry)| entry.key() == old.key()) {
            let (table, key) = if at == 0 { (self.from, short.as_slice()) } else { (self.conflicts, new.key()) };
            out.push(entry_update(UpdateKind::Modify, table, key, new, 0));
            *entry = new.clone();
        }
        self.entries_by_digest.insert(short, placed);
    }

    /// Maps a deletion. The first entry of a digest is in the digest table and all others are in
    /// the conflict table; if the first one goes, the next takes its place.
    fn delete(&mut self, old: &StoredEntry, out: &mut Vec<StateUpdate>) {
        let digested_key = self.short_key(old.key());
        let mut entries = self.entries_by_digest.get(&digested_key).cloned().unwrap_or_default();
        let Some(position) = entries.iter().position(|entry| entry.key() == old.key()) else { return };
        entries.remove(position);
        // The new first entry moves to the digest table.
        match entries.first() {
            None => out.push(entry_update(UpdateKind::Delete, self.from, &digested_key, old, 0)),
            Some(successor) if position == 0 => {
                out.push(entry_update(UpdateKind::Delete, self.conflicts, successor.key(), successor, 0));
                out.push(entry_update(UpdateKind::Modify, self.from, &digested_key, successor, 0));
                self.conflicting -= 1;
            }
            Some(_) => {
                out.push(entry_update(UpdateKind::Delete, self.conflicts, old.key(), old, 0));
                self.conflicting -= 1;
            }
        }
        match entries.is_empty() {
            true => self.entries_by_digest.remove(&digested_key),
            false => self.entries_by_digest.insert(digested_key, entries),
        }
    }
}

impl EntryMapping for DigestMap {
    fn is_mapped(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin_batch(&mut self) {
        self.entries_by_digest.begin_batch();
        self.conflicting_before = self.conflicting;
    }

    fn undo_batch(&mut self) {
        self.entries_by_digest.undo_batch();
        self.conflicting = self.conflicting_before;
    }

    fn map_entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        match change {
            EntryChange::Inserted(entry) => self.insert(entry, out)?,
            EntryChange::Modified(old, new) => self.modify(old, new, out),
            EntryChange::Deleted(entry) => self.delete(entry, out),
        }
        Ok(())
    }

    fn stats(&self) -> Vec<(String, f64)> {
        let entries = self.entries_by_digest.len() as u64;
        vec![
            (format!("{}: digests", self.name), entries as f64),
            (format!("{}: keys in the table of conflicts", self.name), self.conflicting as f64),
            (format!("{}: probability that an unknown key hits", self.name), false_hit_probability(entries, self.bits)),
        ]
    }
}
