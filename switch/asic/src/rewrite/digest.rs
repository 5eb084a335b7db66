//! A wide key of an exact table becomes a digest; what collides is kept whole, in a table that is looked up first. (Pan et al., "Sailfish:
//! accelerating cloud-scale multi-tenant multi-service gateways with programmable switches", SIGCOMM 2021, section 4.3.)
//!
//! # What an entry becomes
//! Keys with one digest: the first one is in the table of digests, all others are in the table of conflicts with their whole keys. When the
//! first one is deleted, another one takes its place and leaves the conflicts. So a key that has an entry always finds its own.
//!
//! # What is not kept
//! A key that has *no* entry can have the digest of one, and then hits it: with probability n / 2^bits for a table of n entries and a key
//! that was chosen without knowing the seed. Keys that are not digested are compared whole: where the VNI is one of them, a tenant's
//! packets hit that tenant's entries alone. [`Options::most_false_hits`] bounds the probability: a greater table is refused.
//!
//! # The seed
//! Who knows collisions could fill the table of conflicts. A CRC is no help with that, as two messages with one CRC have the same CRC behind any seed;
//! so this takes the algorithm `random`: here a keyed mix, and on a chip a random matrix. The control side computes the same.

use super::entries::{BitString, Words, copy, write};
use super::graph::{self, Code};
use super::journal::Journal;
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use entries::{Entry, KeyLayout, Update, UpdateKind};
use ir::{
    Action, ActionCall, ActionRef, Arg, Arm, BlockCall, ExternFn, ExternInst, ExternKind, HashAlgorithm, Inst, Key,
    MatchKind, Pipeline, Preamble, TableId, Term, Type, Value,
};
use std::sync::Arc;

/// How a table is digested.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Bits of a digest, 8 to 64.
    pub bits: u32,
    /// What the digest starts from. Choose it at random, and tell nobody.
    pub seed: u64,
    /// Keys (by name) that are digested, together; none: those of 64 bits and more.
    pub keys: Vec<String>,
    /// Entries that the table of conflicts holds; none: as many as random keys need, see [`conflicts`].
    pub conflicts: Option<u64>,
    /// Probability that is accepted for a key without entry to hit one.
    pub most_false_hits: f64,
}

impl Options {
    /// 32 bits, all wide keys, conflicts as random keys have them, at most one false hit in a thousand unknown keys.
    pub fn new(seed: u64) -> Options {
        Options { bits: 32, seed, keys: Vec::new(), conflicts: None, most_false_hits: 1e-3 }
    }
}

/// Entries that a table of conflicts needs for `entries` random keys with digests of `bits` bits, all other keys being equal: the number of colliding
/// pairs that the birthday bound gives, n (n - 1) / 2^(bits + 1), and six standard deviations more.
pub fn conflicts(entries: u64, bits: u32) -> u64 {
    let pairs = entries as f64 * (entries.saturating_sub(1)) as f64 / 2f64.powi(bits as i32 + 1);
    (pairs + 6.0 * pairs.sqrt()).ceil() as u64 + 8
}

/// Probability that a key without entry hits one of `entries`.
pub fn false_hits(entries: u64, bits: u32) -> f64 {
    entries as f64 / 2f64.powi(bits as i32)
}

/// The digest of keys, each given as its width in bits and its words, least significant word first.
pub fn digest_of(options: &Options, keys: &[(u32, &[u64])]) -> u64 {
    hashed(options.seed, options.bits, keys.iter().copied())
}

fn hashed<'a>(seed: u64, bits: u32, keys: impl Iterator<Item = (u32, &'a [u64])>) -> u64 {
    let mut data = BitString::new();
    data.push(64, &[seed]);
    keys.for_each(|(width, words)| data.push(width, words));
    interp::hash(HashAlgorithm::Random, data.bytes()) & (u64::MAX >> (64 - bits))
}

/// Digests the keys of a table (control-plane name).
///
/// # Errors
/// A table that is not exact, has no such keys, or has more entries than the accepted probability allows.
pub fn digest(first: &Arc<Pipeline>, sizes: &Sizes, table: &str, options: &Options) -> Result<Rewritten, RewriteError> {
    let id = graph::find(first, table)?;
    let declared = graph::plain(first, id)?;
    let site = graph::site(first, id)?;
    let chosen = chosen(declared, options)?;
    let entries = sizes.get(table).copied().or(declared.size).unwrap_or(1024);
    if false_hits(entries, options.bits) > options.most_false_hits {
        let reason = format!(
            "with {entries} entries, a key without entry hits one with probability {:.2e}, and {:.2e} is accepted; take more than {} bits",
            false_hits(entries, options.bits),
            options.most_false_hits,
            options.bits
        );
        return Err(RewriteError::new(table, reason));
    }
    let room = options.conflicts.unwrap_or_else(|| conflicts(entries, options.bits));

    let mut second = (**first).clone();
    let miss = second.actions.push(Action {
        preamble: Preamble { name: format!("{table}_no_conflict"), hidden: true, ..Preamble::default() },
        params: Vec::new(),
        loc: declared.loc,
    });
    let mut conflicts = graph::like(declared, "conflicts");
    conflicts.actions.retain(|action| !action.default_only);
    conflicts.actions.push(ActionRef { default_only: true, ..ActionRef::new(miss) });
    conflicts.default_action = ActionCall { action: miss, args: Vec::new() };
    (conflicts.const_default, conflicts.size) = (true, Some(room));
    let conflicts_name = conflicts.preamble.name.clone();
    let conflict_actions: Vec<_> = conflicts.actions.iter().map(|action| action.action).collect();
    let conflicts = second.tables.push(conflicts);

    let digested = &mut second.tables[id];
    (digested.entries, digested.const_entries) = (Vec::new(), false);
    digested.keys = digested_keys(&declared.keys, &chosen, options.bits);
    digested.properties.push(("digest_bits".to_owned(), options.bits.to_string()));

    let hash = Hash::new(&mut second, declared.preamble.name.as_str(), options);
    let body = &mut second.controls[site.control].body;
    let Some((keys, arms, loc)) = graph::take_apply(body, site.block) else { return Err(gone(table)) };
    let mut code = Code { body, block: site.block, loc };
    let then = code.new_block();
    let (miss_block, _) = code.arm_block(&[]);
    let with_conflict = arms.iter().filter(|arm| conflict_actions.contains(&arm.action)).cloned();
    let with_conflict = with_conflict.chain([Arm { action: miss, block: miss_block }]).collect();
    code.end(Term::Apply { table: conflicts, keys: keys.clone(), arms: with_conflict });
    code.block = miss_block;
    code.end(Term::Jump(BlockCall::to(then)));
    code.block = then;
    let digest = hash.emit(&mut code, chosen.iter().map(|at| keys[*at]).collect());
    let keys = keys.iter().enumerate().filter_map(|(at, key)| match chosen.iter().position(|chosen| *chosen == at) {
        Some(0) => Some(digest),
        Some(_) => None,
        None => Some(*key),
    });
    let keys = keys.collect();
    code.end(Term::Apply { table: id, keys, arms });

    let rule = Digested {
        name: table.to_owned(),
        from: id,
        conflicts,
        room: room as usize,
        bits: options.bits,
        seed: options.seed,
        full: KeyLayout::new(&declared.keys),
        short: KeyLayout::new(&second.tables[id].keys),
        chosen,
        placed: Journal::new(),
        conflicting: 0,
        conflicting_before: 0,
    };
    let numbers = first.tables.keys().collect();
    let (map, pipeline) = Shadowed::new(first, second, numbers, &[id, conflicts], rule)?;
    let mut sizes = sizes.clone();
    sizes.insert(table.to_owned(), entries);
    sizes.insert(conflicts_name, room);
    Ok(Rewritten { pipeline, sizes, map: Box::new(map) })
}

fn gone(table: &str) -> RewriteError {
    RewriteError::new(table, "its application is gone, which is a bug")
}

/// Positions of the keys that are digested.
fn chosen(table: &ir::Table, options: &Options) -> Result<Vec<usize>, RewriteError> {
    let refused = |reason: String| Err(RewriteError::new(&table.preamble.name, reason));
    if !(8..=64).contains(&options.bits) {
        return refused(format!("a digest of {} bits is not possible; take 8 to 64", options.bits));
    }
    if let Some(key) = table.keys.iter().find(|key| key.kind != MatchKind::Exact) {
        return refused(format!(
            "its key {} is not exact, and a digest says nothing about masks and prefixes",
            key.name
        ));
    }
    let wide = |key: &Key| match options.keys.is_empty() {
        true => key.ty.width() >= 64,
        false => options.keys.contains(&key.name),
    };
    let chosen: Vec<usize> = (0..table.keys.len()).filter(|at| wide(&table.keys[*at])).collect();
    if chosen.is_empty() || (!options.keys.is_empty() && chosen.len() != options.keys.len()) {
        let names: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
        return refused(format!(
            "none of its keys, or not all that are named, can be digested; its keys are {}",
            names.join(", ")
        ));
    }
    let width: u32 = chosen.iter().map(|at| table.keys[*at].ty.width()).sum();
    if width <= options.bits {
        return refused(format!("its keys have {width} bits, and a digest of {} is no shorter", options.bits));
    }
    Ok(chosen)
}

fn digested_keys(keys: &[Key], chosen: &[usize], bits: u32) -> Vec<Key> {
    let one = |(at, key): (usize, &Key)| match chosen.iter().position(|chosen| *chosen == at) {
        Some(0) => {
            let name = format!("{}_digest", key.name);
            Some(Key { name, ty: Type::Bit(bits), annotations: Vec::new(), id: 0, type_name: None, ..key.clone() })
        }
        Some(_) => None,
        None => Some(key.clone()),
    };
    keys.iter().enumerate().filter_map(one).collect()
}

/// The call that computes a digest.
struct Hash {
    object: Option<ir::ExternId>,
    seed: u64,
    bits: u32,
}

impl Hash {
    fn new(pipeline: &mut Pipeline, table: &str, options: &Options) -> Hash {
        let object = (pipeline.arch == ir::Arch::Pna).then(|| {
            let preamble = Preamble { name: format!("{table}_digest"), hidden: true, ..Preamble::default() };
            let kind = ExternKind::Hash { algorithm: HashAlgorithm::Random, output: Type::Bit(options.bits) };
            pipeline.externs.push(ExternInst { preamble, kind, loc: ir::Loc::default() })
        });
        Hash { object, seed: options.seed, bits: options.bits }
    }

    fn emit(&self, code: &mut Code<'_>, keys: Vec<Value>) -> Value {
        let ty = Type::Bit(self.bits);
        let seed = code.bits(64, self.seed);
        let data = Arg::Values(std::iter::once(seed).chain(keys).collect());
        let (func, args) = match self.object {
            Some(_) => (ExternFn::HashGet, vec![data]),
            None => {
                let base = code.bits(self.bits, 0u32);
                let most = code.bits(self.bits + 1, 1u128 << self.bits);
                (ExternFn::Hash, vec![Arg::Str("random".to_owned()), Arg::Value(base), data, Arg::Value(most)])
            }
        };
        code.inst(Inst::Extern { object: self.object, func, args }, ty)
    }
}

/// Where the entries of a digested table lie.
struct Digested {
    name: String,
    from: TableId,
    conflicts: TableId,
    room: usize,
    bits: u32,
    seed: u64,
    full: KeyLayout,
    short: KeyLayout,
    chosen: Vec<usize>,
    /// By short key: the entry in the table of digests, then those in the table of conflicts.
    placed: Journal<Words, Vec<Entry>>,
    conflicting: usize,
    conflicting_before: usize,
}

impl Digested {
    fn short_key(&self, key: &[u64]) -> Words {
        let fields = self.chosen.iter().map(|at| &self.full.fields[*at]);
        let digest = hashed(self.seed, self.bits, fields.map(|field| (field.width, field.value(key))));
        let mut out: Words = std::iter::repeat_n(0, self.short.len).collect();
        let mut to = self.short.fields.iter();
        for (at, from) in self.full.fields.iter().enumerate() {
            match self.chosen.iter().position(|chosen| *chosen == at) {
                Some(0) => out[to.next().map_or(0, |field| field.offset)] = digest,
                Some(_) => {}
                None => {
                    if let Some(field) = to.next() {
                        copy(from, key, field, &mut out);
                    }
                }
            }
        }
        out
    }

    fn insert(&mut self, entry: &Entry, out: &mut Vec<Update>) -> Result<(), String> {
        let short = self.short_key(entry.key());
        let mut placed = self.placed.get(&short).cloned().unwrap_or_default();
        if placed.is_empty() {
            out.push(write(UpdateKind::Insert, self.from, &short, entry, 0));
        } else {
            if self.conflicting >= self.room {
                return Err(format!(
                    "table {}: its table of conflicts is full ({} entries) and the key has the digest of another one; delete entries, or rewrite it \
                     with more room or another seed",
                    self.name, self.room
                ));
            }
            self.conflicting += 1;
            out.push(write(UpdateKind::Insert, self.conflicts, entry.key(), entry, 0));
        }
        placed.push(entry.clone());
        self.placed.insert(short, placed);
        Ok(())
    }

    fn modify(&mut self, old: &Entry, new: &Entry, out: &mut Vec<Update>) {
        let short = self.short_key(old.key());
        let mut placed = self.placed.get(&short).cloned().unwrap_or_default();
        for (at, entry) in placed.iter_mut().enumerate().filter(|(_, entry)| entry.key() == old.key()) {
            let (table, key) = if at == 0 { (self.from, short.as_slice()) } else { (self.conflicts, new.key()) };
            out.push(write(UpdateKind::Modify, table, key, new, 0));
            *entry = new.clone();
        }
        self.placed.insert(short, placed);
    }

    fn delete(&mut self, old: &Entry, out: &mut Vec<Update>) {
        let short = self.short_key(old.key());
        let mut placed = self.placed.get(&short).cloned().unwrap_or_default();
        let Some(at) = placed.iter().position(|entry| entry.key() == old.key()) else { return };
        placed.remove(at);
        // Whoever comes first now is the one in the table of digests.
        match placed.first() {
            None => out.push(write(UpdateKind::Delete, self.from, &short, old, 0)),
            Some(heir) if at == 0 => {
                out.push(write(UpdateKind::Delete, self.conflicts, heir.key(), heir, 0));
                out.push(write(UpdateKind::Modify, self.from, &short, heir, 0));
                self.conflicting -= 1;
            }
            Some(_) => {
                out.push(write(UpdateKind::Delete, self.conflicts, old.key(), old, 0));
                self.conflicting -= 1;
            }
        }
        match placed.is_empty() {
            true => self.placed.remove(&short),
            false => self.placed.insert(short, placed),
        }
    }
}

impl Rule for Digested {
    fn owns(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin(&mut self) {
        self.placed.begin();
        self.conflicting_before = self.conflicting;
    }

    fn undo(&mut self) {
        self.placed.undo();
        self.conflicting = self.conflicting_before;
    }

    fn entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String> {
        match change {
            EntryChange::Inserted(entry) => self.insert(entry, out)?,
            EntryChange::Modified(old, new) => self.modify(old, new, out),
            EntryChange::Deleted(entry) => self.delete(entry, out),
        }
        Ok(())
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let entries = self.placed.len() as u64;
        vec![
            (format!("{}: digests", self.name), entries as f64),
            (format!("{}: keys in the table of conflicts", self.name), self.conflicting as f64),
            (format!("{}: probability that an unknown key hits", self.name), false_hits(entries, self.bits)),
        ]
    }
}
