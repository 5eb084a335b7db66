//! [`EntryPacker`]: numbers of any width, by position, to the words of a [`PackedEntry`].

use crate::bits::{push_words, words_for, words_from_bytes};
use crate::entry::{Action, ActionSpec, PackedAction, PackedKey, TableEntry, UpdateKind};
use crate::error::EntryError;
use crate::layout::{KeyField, KeyLayout};
use crate::packed::PackedEntry;
use crate::validate;
use ir::{ActionCall, ActionId, Key, KeyMatch, MatchKind, Pipeline, Table, TableId};
use num_bigint::BigUint;
use smallvec::SmallVec;

/// A number that can be packed: a [`BigUint`], a `u64`, or bytes, the most significant first (network order), of which zeros in front
/// don't matter. Of a signed type it is the two's complement in the type's width.
pub trait Number: Copy {
    /// Fills the words of a value of `width` bits. `false` if the number has more.
    fn fill(self, width: u32, words: &mut [u64]) -> bool;
    /// The number, for messages.
    fn big(self) -> BigUint;
}

impl Number for &[u8] {
    fn fill(self, width: u32, words: &mut [u64]) -> bool {
        words_from_bytes(self, width, words)
    }
    fn big(self) -> BigUint {
        BigUint::from_bytes_be(self)
    }
}

impl Number for &BigUint {
    fn fill(self, width: u32, words: &mut [u64]) -> bool {
        let mut digits = self.iter_u64_digits();
        words.iter_mut().for_each(|word| *word = digits.next().unwrap_or(0));
        self.bits() <= u64::from(width)
    }
    fn big(self) -> BigUint {
        self.clone()
    }
}

impl Number for u64 {
    fn fill(self, width: u32, words: &mut [u64]) -> bool {
        words.fill(0);
        words[0] = self;
        width >= 64 || self >> width == 0
    }
    fn big(self) -> BigUint {
        BigUint::from(self)
    }
}

impl KeyLayout {
    /// Packs keys.
    ///
    /// # Errors
    /// They are not of this layout.
    pub fn pack(&self, keys: &[KeyMatch]) -> Result<PackedKey, EntryError> {
        KeyPacker { owner: "", declared: &[], layout: self }.pack(keys)
    }
}

/// Where the keys of a table or value set go.
#[derive(Clone, Copy)]
pub(crate) struct KeyPacker<'a> {
    /// The table's or value set's name.
    pub owner: &'a str,
    pub declared: &'a [Key],
    pub layout: &'a KeyLayout,
}

impl<'a> KeyPacker<'a> {
    /// Keys that can't be packed: not one for each field, of another kind, or with numbers that are too wide. Nothing else is checked.
    pub fn pack(&self, given: &[KeyMatch]) -> Result<PackedKey, EntryError> {
        let mut key = PackedKey::from_elem(0, self.layout.len);
        self.pack_into(given, &mut key)?;
        Ok(key)
    }

    fn pack_into(&self, given: &[KeyMatch], key: &mut [u64]) -> Result<(), EntryError> {
        if given.len() != self.layout.fields.len() {
            return Err(self.count(given.len()));
        }
        for (at, given) in given.iter().enumerate() {
            match given {
                KeyMatch::Exact(value) => self.exact(at, value, key),
                KeyMatch::Ternary { value, mask } => self.pair(at, MatchKind::Ternary, value, mask, key),
                KeyMatch::Lpm { value, prefix_len } => self.lpm(at, value, *prefix_len, key),
                KeyMatch::Range { lo, hi } => self.pair(at, MatchKind::Range, lo, hi, key),
                KeyMatch::Optional(value) => self.optional(at, value.as_ref(), key),
            }?;
        }
        Ok(())
    }

    fn count(&self, got: usize) -> EntryError {
        let names: Vec<&str> = self.layout.fields.iter().map(|f| self.name(f)).collect();
        EntryError::KeyCount { table: self.owner.to_owned(), expected: names.len(), got, names: names.join(", ") }
    }

    fn name(&self, field: &KeyField) -> &'a str {
        &self.declared[field.position].name
    }

    fn field(&self, at: usize, kind: MatchKind) -> Result<&'a KeyField, EntryError> {
        let field = self.layout.fields.get(at).ok_or_else(|| self.count(at + 1))?;
        if field.kind == kind {
            return Ok(field);
        }
        let (expected, example, got) = (field.kind.word(), field.kind.example(), kind.word());
        let (table, key) = (self.owner.to_owned(), self.name(field).to_owned());
        Err(EntryError::WrongMatchKind { table, key, expected, got, example })
    }

    fn put(&self, field: &KeyField, value: impl Number, words: &mut [u64]) -> Result<(), EntryError> {
        match value.fill(field.width, words) {
            true => Ok(()),
            false => Err(validate::too_wide(self.owner, self.name(field), value.big(), field.width)),
        }
    }

    fn exact(&self, at: usize, value: impl Number, key: &mut [u64]) -> Result<(), EntryError> {
        let field = self.field(at, MatchKind::Exact)?;
        self.put(field, value, field.value_mut(key))
    }

    fn pair(
        &self,
        at: usize,
        kind: MatchKind,
        first: impl Number,
        second: impl Number,
        key: &mut [u64],
    ) -> Result<(), EntryError> {
        let field = self.field(at, kind)?;
        self.put(field, first, field.value_mut(key))?;
        self.put(field, second, field.second_mut(key))
    }

    fn lpm(&self, at: usize, value: impl Number, prefix_len: u32, key: &mut [u64]) -> Result<(), EntryError> {
        let field = self.field(at, MatchKind::Lpm)?;
        field.second_mut(key)[0] = u64::from(prefix_len);
        self.put(field, value, field.value_mut(key))
    }

    fn optional(&self, at: usize, value: Option<impl Number>, key: &mut [u64]) -> Result<(), EntryError> {
        let field = self.field(at, MatchKind::Optional)?;
        field.second_mut(key)[0] = u64::from(value.is_some());
        match value {
            Some(value) => self.put(field, value, field.value_mut(key)),
            None => {
                field.value_mut(key).fill(0);
                Ok(())
            }
        }
    }
}

/// Makes a [`PackedEntry`] of keys and arguments in any order, named by their positions.
///
/// Keys that may match anything do so unless they are given: a ternary mask of 0, a prefix length of 0, the whole range, no value of
/// an optional key. That is how P4Runtime leaves keys out. What has no packed form is refused at once, as
/// [`crate::State::apply`] would refuse it: another kind of match, a number too wide, an action that is not the table's. The rest is looked
/// at when the entry is applied. A key or argument that is given twice has the last value.
#[derive(Clone)]
pub struct EntryPacker<'a> {
    pipeline: &'a Pipeline,
    table: &'a Table,
    keys: KeyPacker<'a>,
    entry: PackedEntry,
    /// Which keys, then which arguments, were given.
    given: SmallVec<[bool; 16]>,
}

impl<'a> EntryPacker<'a> {
    /// For an entry of a table; `layout` must be that of its keys ([`KeyLayout::new`], [`crate::State::layout`]).
    ///
    /// # Errors
    /// There is no such table.
    pub fn new(pipeline: &'a Pipeline, layout: &'a KeyLayout, table: TableId) -> Result<EntryPacker<'a>, EntryError> {
        let declared = validate::table(pipeline, table)?;
        let keys = KeyPacker { owner: &declared.preamble.name, declared: &declared.keys, layout };
        let mut entry = PackedEntry::blank(table, layout.len);
        layout
            .fields
            .iter()
            .filter(|field| field.kind == MatchKind::Range)
            .for_each(|f| whole_range(f, entry.key_mut()));
        let given = SmallVec::from_elem(false, layout.fields.len());
        Ok(EntryPacker { pipeline, table: declared, keys, entry, given })
    }

    fn key(
        &mut self,
        at: usize,
        put: impl FnOnce(&KeyPacker<'a>, &mut [u64]) -> Result<(), EntryError>,
    ) -> Result<&mut Self, EntryError> {
        put(&self.keys, self.entry.key_mut())?;
        self.given[at] = true;
        Ok(self)
    }

    /// The value of an exact key. `at` counts the table's keys but selector keys, from 0, here and below.
    ///
    /// # Errors
    /// No such key, a key of another kind, a value that is too wide; so below.
    pub fn exact(&mut self, at: usize, value: impl Number) -> Result<&mut Self, EntryError> {
        self.key(at, |keys, key| keys.exact(at, value, key))
    }

    /// Value and mask of a ternary key.
    ///
    /// # Errors
    /// As [`EntryPacker::exact`].
    pub fn ternary(&mut self, at: usize, value: impl Number, mask: impl Number) -> Result<&mut Self, EntryError> {
        self.key(at, |keys, key| keys.pair(at, MatchKind::Ternary, value, mask, key))
    }

    /// A prefix: bits behind its length must be 0.
    ///
    /// # Errors
    /// As [`EntryPacker::exact`].
    pub fn lpm(&mut self, at: usize, value: impl Number, prefix_len: u32) -> Result<&mut Self, EntryError> {
        self.key(at, |keys, key| keys.lpm(at, value, prefix_len, key))
    }

    /// A range, both bounds included.
    ///
    /// # Errors
    /// As [`EntryPacker::exact`].
    pub fn range(&mut self, at: usize, lo: impl Number, hi: impl Number) -> Result<&mut Self, EntryError> {
        self.key(at, |keys, key| keys.pair(at, MatchKind::Range, lo, hi, key))
    }

    /// The value of an optional key.
    ///
    /// # Errors
    /// As [`EntryPacker::exact`].
    pub fn optional(&mut self, at: usize, value: impl Number) -> Result<&mut Self, EntryError> {
        self.key(at, |keys, key| keys.optional(at, Some(value), key))
    }

    /// The action; its arguments follow.
    ///
    /// # Errors
    /// It is not the table's, or for its default only.
    pub fn call(&mut self, action: ActionId) -> Result<&mut Self, EntryError> {
        let declared = validate::listed(self.pipeline, self.table, action, false)?;
        let words = declared.params.iter().map(|param| words_for(param.ty.width())).sum();
        self.entry.set_action(PackedAction::Call(action, &[]), words);
        self.given.truncate(self.keys.layout.fields.len());
        self.given.resize(self.keys.layout.fields.len() + declared.params.len(), false);
        Ok(self)
    }

    /// An argument of the action, by the position of its parameter, from 0.
    ///
    /// # Errors
    /// No such parameter, or the value is too wide.
    pub fn arg(&mut self, at: usize, value: impl Number) -> Result<&mut Self, EntryError> {
        let PackedAction::Call(id, _) = self.entry.action() else { return Ok(self) };
        let Some(action) = self.pipeline.actions.get(id) else { return Ok(self) };
        let Some(param) = action.params.get(at) else {
            return Err(validate::arity(self.table, action, at + 1));
        };
        let first = action.params[..at].iter().map(|param| words_for(param.ty.width())).sum::<usize>();
        let width = param.ty.width();
        if !value.fill(width, &mut self.entry.args_mut()[first..first + words_for(width)]) {
            return Err(validate::arg_too_wide(self.table, action, param, value.big()));
        }
        self.given[self.keys.layout.fields.len() + at] = true;
        Ok(self)
    }

    /// A member of the table's action profile or selector instead of an action.
    pub fn member(&mut self, id: u32) -> &mut Self {
        self.entry.set_action(PackedAction::Member(id), 0);
        self
    }

    /// A group of the table's action selector instead of an action.
    pub fn group(&mut self, id: u32) -> &mut Self {
        self.entry.set_action(PackedAction::Group(id), 0);
        self
    }

    /// The entry.
    ///
    /// # Errors
    /// An exact key or an argument was not given.
    pub fn finish(self) -> Result<PackedEntry, EntryError> {
        let fields = &self.keys.layout.fields;
        let (keys, args) = self.given.split_at(fields.len());
        if let Some((field, _)) = fields.iter().zip(keys).find(|(f, given)| f.kind == MatchKind::Exact && !**given) {
            let (table, key) = (self.keys.owner.to_owned(), self.keys.name(field).to_owned());
            return Err(EntryError::KeyMissing { table, key });
        }
        if let PackedAction::Call(id, _) = self.entry.action()
            && let Some(action) = self.pipeline.actions.get(id)
            && args.contains(&false)
        {
            return Err(validate::arity(self.table, action, args.iter().filter(|given| **given).count()));
        }
        Ok(self.entry)
    }
}

/// From the least to the greatest value of the field's type.
fn whole_range(field: &KeyField, key: &mut [u64]) {
    let sign = field.width.saturating_sub(1);
    for bit in 0..field.width {
        let (word, mask) = ((bit / 64) as usize, 1u64 << (bit % 64));
        if field.signed && bit == sign {
            field.value_mut(key)[word] |= mask;
        } else {
            field.second_mut(key)[word] |= mask;
        }
    }
}

impl PackedEntry {
    /// A packed entry for `kind` of update; a deletion needs table, keys and priority alone, so the rest is left out. `layout` must be that of
    /// the table's keys.
    ///
    /// # Errors
    /// What has no packed form: no such table, another number or kind of keys, an action that is not the table's, another number
    /// of arguments, numbers that are too wide. It is what [`crate::State::apply`] says of such an entry.
    pub fn pack(
        pipeline: &Pipeline,
        layout: &KeyLayout,
        kind: UpdateKind,
        entry: &TableEntry,
    ) -> Result<PackedEntry, EntryError> {
        pack(pipeline, layout, kind, entry)
    }
}

/// Packs an entry; for a deletion, only what it matches. As far as it goes, in the order in which [`crate::State::apply`] would find fault.
pub(crate) fn pack(
    pipeline: &Pipeline,
    layout: &KeyLayout,
    kind: UpdateKind,
    given: &TableEntry,
) -> Result<PackedEntry, EntryError> {
    let table = validate::table(pipeline, given.table)?;
    let keys = KeyPacker { owner: &table.preamble.name, declared: &table.keys, layout };
    let mut entry = PackedEntry::blank(given.table, layout.len);
    entry.priority = given.priority;
    keys.pack_into(&given.keys, entry.key_mut())?;
    if kind == UpdateKind::Delete {
        return Ok(entry);
    }
    match &given.action {
        ActionSpec::Member(id) => entry.set_action(PackedAction::Member(*id), 0),
        ActionSpec::Group(id) => entry.set_action(PackedAction::Group(*id), 0),
        ActionSpec::Call(given) => {
            if let Some(id) = table.implementation.filter(|id| pipeline.externs.get(*id).is_some()) {
                return Err(validate::needs_member(pipeline, table, id));
            }
            let args = pack_args(pipeline, table, given, false)?;
            entry.set_action(PackedAction::Call(given.action, &args), 0);
        }
    }
    entry.idle_timeout_ns = given.idle_timeout_ns;
    entry.counter = given.counter;
    entry.is_const = given.is_const;
    entry.set_rare(given.meter, given.provenance.as_ref(), &given.metadata);
    Ok(entry)
}

/// The words of an action's arguments, if it is one for the table.
pub(crate) fn pack_args(
    pipeline: &Pipeline,
    table: &Table,
    call: &ActionCall,
    default: bool,
) -> Result<PackedKey, EntryError> {
    let action = validate::listed(pipeline, table, call.action, default)?;
    if action.params.len() != call.args.len() {
        return Err(validate::arity(table, action, call.args.len()));
    }
    let mut words = PackedKey::new();
    for (param, value) in action.params.iter().zip(&call.args) {
        let width = param.ty.width();
        if value.bits() > u64::from(width) {
            return Err(validate::arg_too_wide(table, action, param, value.clone()));
        }
        push_words(value, words_for(width), &mut words);
    }
    Ok(words)
}

/// Packs keys and checks them against their declaration. `owner` is the table's or value set's name.
pub fn packed_keys(
    owner: &str,
    declared: &[Key],
    layout: &KeyLayout,
    given: &[KeyMatch],
) -> Result<PackedKey, EntryError> {
    let packed = KeyPacker { owner, declared, layout }.pack(given)?;
    validate::keys(owner, declared, layout, &packed)?;
    Ok(packed)
}

/// Packs an action with its arguments and checks it for a table.
pub fn call(pipeline: &Pipeline, table: &Table, call: &ActionCall, default: bool) -> Result<Action, EntryError> {
    let words = pack_args(pipeline, table, call, default)?;
    validate::args(pipeline, table, call.action, &words, default)?;
    Ok(Action::Call(call.action, words.as_slice().into()))
}
