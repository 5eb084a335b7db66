//! Builder of packed entries from numbers of any width, by position.

use crate::bits::{push_words, words_for, words_from_bytes};
use crate::entry::{ActionSpec, PackedKey, StoredAction, StoredActionRef, TableEntry, UpdateKind};
use crate::error::EntryError;
use crate::layout::{KeyLayout, PackedKeyField};
use crate::packed::PackedEntry;
use crate::validate;
use ir::{ActionCall, ActionId, KeyMatch, MatchKey, MatchKind, Pipeline, Table, TableId};
use num_bigint::BigUint;
use smallvec::SmallVec;

/// A number that can be packed: a [`BigUint`], a `u64`, or bytes in network order, with any number
/// of leading zeros. A number of a signed type is the two's complement in the type's width.
pub trait PackValue: Copy {
    /// Fills the words of a value of `width` bits. Returns `false` if the number has more bits.
    fn fill_words(self, width: u32, words: &mut [u64]) -> bool;
    /// Converts the number, for messages.
    fn to_biguint(self) -> BigUint;
}

impl PackValue for &[u8] {
    fn fill_words(self, width: u32, words: &mut [u64]) -> bool {
        words_from_bytes(self, width, words)
    }
    fn to_biguint(self) -> BigUint {
        BigUint::from_bytes_be(self)
    }
}

impl PackValue for &BigUint {
    fn fill_words(self, width: u32, words: &mut [u64]) -> bool {
        let mut digits = self.iter_u64_digits();
        words.iter_mut().for_each(|word| *word = digits.next().unwrap_or(0));
        self.bits() <= u64::from(width)
    }
    fn to_biguint(self) -> BigUint {
        self.clone()
    }
}

impl PackValue for u64 {
    fn fill_words(self, width: u32, words: &mut [u64]) -> bool {
        words.fill(0);
        words[0] = self;
        width >= 64 || self >> width == 0
    }
    fn to_biguint(self) -> BigUint {
        BigUint::from(self)
    }
}

impl KeyLayout {
    /// Packs keys.
    ///
    /// # Errors
    /// The keys do not match this layout.
    pub fn pack(&self, keys: &[KeyMatch]) -> Result<PackedKey, EntryError> {
        KeyPacker { owner: "", declared: &[], layout: self }.pack(keys)
    }
}

/// Packer of the keys of a table or value set.
#[derive(Clone, Copy)]
pub(crate) struct KeyPacker<'a> {
    /// The table's or value set's name.
    pub owner: &'a str,
    pub declared: &'a [MatchKey],
    pub layout: &'a KeyLayout,
}

impl<'a> KeyPacker<'a> {
    /// Packs keys. Fails for keys that cannot be packed: not one for each field, of another match
    /// kind, or with numbers that are too wide. Nothing else is checked.
    pub fn pack(&self, given: &[KeyMatch]) -> Result<PackedKey, EntryError> {
        let mut key = PackedKey::from_elem(0, self.layout.len);
        self.pack_into(given, &mut key)?;
        Ok(key)
    }

    fn pack_into(&self, given: &[KeyMatch], key: &mut [u64]) -> Result<(), EntryError> {
        if given.len() != self.layout.fields.len() {
            return Err(self.key_count_error(given.len()));
        }
        for (at, given) in given.iter().enumerate() {
            match given {
                KeyMatch::Exact(value) => self.pack_exact(at, value, key),
                KeyMatch::Ternary { value, mask } => self.pack_value_pair(at, MatchKind::Ternary, value, mask, key),
                KeyMatch::Lpm { value, prefix_len } => self.pack_lpm(at, value, *prefix_len, key),
                KeyMatch::Range { lo, hi } => self.pack_value_pair(at, MatchKind::Range, lo, hi, key),
                KeyMatch::Optional(value) => self.pack_optional(at, value.as_ref(), key),
            }?;
        }
        Ok(())
    }

    fn key_count_error(&self, got: usize) -> EntryError {
        let names: Vec<&str> = self.layout.fields.iter().map(|f| self.key_name(f)).collect();
        EntryError::KeyCount { table: self.owner.to_owned(), expected: names.len(), got, names: names.join(", ") }
    }

    fn key_name(&self, field: &PackedKeyField) -> &'a str {
        &self.declared[field.position].name
    }

    fn expect_field(&self, at: usize, kind: MatchKind) -> Result<&'a PackedKeyField, EntryError> {
        let field = self.layout.fields.get(at).ok_or_else(|| self.key_count_error(at + 1))?;
        if field.kind == kind {
            return Ok(field);
        }
        let (expected, example, got) = (field.kind.keyword(), field.kind.example(), kind.keyword());
        let (table, key) = (self.owner.to_owned(), self.key_name(field).to_owned());
        Err(EntryError::WrongMatchKind { table, key, expected, got, example })
    }

    fn pack_value(&self, field: &PackedKeyField, value: impl PackValue, words: &mut [u64]) -> Result<(), EntryError> {
        match value.fill_words(field.width, words) {
            true => Ok(()),
            false => {
                Err(validate::value_too_wide_error(self.owner, self.key_name(field), value.to_biguint(), field.width))
            }
        }
    }

    fn pack_exact(&self, at: usize, value: impl PackValue, key: &mut [u64]) -> Result<(), EntryError> {
        let field = self.expect_field(at, MatchKind::Exact)?;
        self.pack_value(field, value, field.value_mut(key))
    }

    fn pack_value_pair(
        &self,
        at: usize,
        kind: MatchKind,
        first: impl PackValue,
        second: impl PackValue,
        key: &mut [u64],
    ) -> Result<(), EntryError> {
        let field = self.expect_field(at, kind)?;
        self.pack_value(field, first, field.value_mut(key))?;
        self.pack_value(field, second, field.second_mut(key))
    }

    fn pack_lpm(&self, at: usize, value: impl PackValue, prefix_len: u32, key: &mut [u64]) -> Result<(), EntryError> {
        let field = self.expect_field(at, MatchKind::Lpm)?;
        field.second_mut(key)[0] = u64::from(prefix_len);
        self.pack_value(field, value, field.value_mut(key))
    }

    fn pack_optional(&self, at: usize, value: Option<impl PackValue>, key: &mut [u64]) -> Result<(), EntryError> {
        let field = self.expect_field(at, MatchKind::Optional)?;
        field.second_mut(key)[0] = u64::from(value.is_some());
        match value {
            Some(value) => self.pack_value(field, value, field.value_mut(key)),
            None => {
                field.value_mut(key).fill(0);
                Ok(())
            }
        }
    }
}

/// Builds a [`PackedEntry`] from keys and arguments in any order, identified by their positions.
///
/// Keys that can match any value do so unless they are set: a ternary mask of 0, a prefix length of
/// 0, the whole range, no value of an optional key. This is P4Runtime's convention for omitted
/// keys. Input that cannot be packed fails at once with the error of
/// [`crate::ControlState::apply`]: another match kind, a number that is too wide, an action that is
/// not the table's. Everything else is checked when the entry is applied. The last value wins if a
/// key or argument is set twice.
#[derive(Clone)]
pub struct EntryPacker<'a> {
    pipeline: &'a Pipeline,
    table: &'a Table,
    keys: KeyPacker<'a>,
    entry: PackedEntry,
    /// Whether each key, then each argument, has been set.
    is_set: SmallVec<[bool; 16]>,
}

impl<'a> EntryPacker<'a> {
    /// Creates a packer of entries of a table. `layout` must be that of its keys
    /// ([`KeyLayout::new`], [`crate::ControlState::layout`]).
    ///
    /// # Errors
    /// The table does not exist.
    pub fn new(pipeline: &'a Pipeline, layout: &'a KeyLayout, table: TableId) -> Result<EntryPacker<'a>, EntryError> {
        let declared = validate::find_table(pipeline, table)?;
        let keys = KeyPacker { owner: &declared.preamble.name, declared: &declared.keys, layout };
        let mut entry = PackedEntry::with_zero_key(table, layout.len);
        layout
            .fields
            .iter()
            .filter(|field| field.kind == MatchKind::Range)
            .for_each(|f| fill_whole_range(f, entry.key_mut()));
        let is_set = SmallVec::from_elem(false, layout.fields.len());
        Ok(EntryPacker { pipeline, table: declared, keys, entry, is_set })
    }

    fn set_key(
        &mut self,
        at: usize,
        put: impl FnOnce(&KeyPacker<'a>, &mut [u64]) -> Result<(), EntryError>,
    ) -> Result<&mut Self, EntryError> {
        put(&self.keys, self.entry.key_mut())?;
        self.is_set[at] = true;
        Ok(self)
    }

    /// Sets the value of an exact key. `at` is the position among the table's keys without selector
    /// keys, from 0.
    ///
    /// # Errors
    /// No such key, a key of another match kind, or a value that is too wide.
    pub fn exact(&mut self, at: usize, value: impl PackValue) -> Result<&mut Self, EntryError> {
        self.set_key(at, |keys, key| keys.pack_exact(at, value, key))
    }

    /// Sets value and mask of a ternary key.
    ///
    /// # Errors
    /// Fails as [`EntryPacker::exact`] does.
    pub fn ternary(&mut self, at: usize, value: impl PackValue, mask: impl PackValue) -> Result<&mut Self, EntryError> {
        self.set_key(at, |keys, key| keys.pack_value_pair(at, MatchKind::Ternary, value, mask, key))
    }

    /// Sets a prefix. Bits after its length must be 0.
    ///
    /// # Errors
    /// Fails as [`EntryPacker::exact`] does.
    pub fn lpm(&mut self, at: usize, value: impl PackValue, prefix_len: u32) -> Result<&mut Self, EntryError> {
        self.set_key(at, |keys, key| keys.pack_lpm(at, value, prefix_len, key))
    }

    /// Sets a range, both bounds included.
    ///
    /// # Errors
    /// Fails as [`EntryPacker::exact`] does.
    pub fn range(&mut self, at: usize, lo: impl PackValue, hi: impl PackValue) -> Result<&mut Self, EntryError> {
        self.set_key(at, |keys, key| keys.pack_value_pair(at, MatchKind::Range, lo, hi, key))
    }

    /// Sets the value of an optional key.
    ///
    /// # Errors
    /// Fails as [`EntryPacker::exact`] does.
    pub fn optional(&mut self, at: usize, value: impl PackValue) -> Result<&mut Self, EntryError> {
        self.set_key(at, |keys, key| keys.pack_optional(at, Some(value), key))
    }

    /// Sets the action; set its arguments afterwards.
    ///
    /// # Errors
    /// The action is not the table's, or is allowed only as the default.
    pub fn call(&mut self, action: ActionId) -> Result<&mut Self, EntryError> {
        let declared = validate::listed_action(self.pipeline, self.table, action, false)?;
        let words = declared.params.iter().map(|param| words_for(param.ty.width())).sum();
        self.entry.set_action(StoredActionRef::Call(action, &[]), words);
        self.is_set.truncate(self.keys.layout.fields.len());
        self.is_set.resize(self.keys.layout.fields.len() + declared.params.len(), false);
        Ok(self)
    }

    /// Sets an argument of the action. `at` is the position of its parameter, from 0.
    ///
    /// # Errors
    /// No such parameter, or the value is too wide.
    pub fn arg(&mut self, at: usize, value: impl PackValue) -> Result<&mut Self, EntryError> {
        let StoredActionRef::Call(id, _) = self.entry.action() else { return Ok(self) };
        let Some(action) = self.pipeline.actions.get(id) else { return Ok(self) };
        let Some(param) = action.params.get(at) else {
            return Err(validate::arity_error(self.table, action, at + 1));
        };
        let first = action.params[..at].iter().map(|param| words_for(param.ty.width())).sum::<usize>();
        let width = param.ty.width();
        if !value.fill_words(width, &mut self.entry.args_mut()[first..first + words_for(width)]) {
            return Err(validate::arg_too_wide_error(self.table, action, param, value.to_biguint()));
        }
        self.is_set[self.keys.layout.fields.len() + at] = true;
        Ok(self)
    }

    /// Sets a member of the table's action profile or selector instead of an action.
    pub fn member(&mut self, id: u32) -> &mut Self {
        self.entry.set_action(StoredActionRef::Member(id), 0);
        self
    }

    /// Sets a group of the table's action selector instead of an action.
    pub fn group(&mut self, id: u32) -> &mut Self {
        self.entry.set_action(StoredActionRef::Group(id), 0);
        self
    }

    /// Returns the entry.
    ///
    /// # Errors
    /// An exact key or an argument was not set.
    pub fn finish(self) -> Result<PackedEntry, EntryError> {
        let fields = &self.keys.layout.fields;
        let (keys, args) = self.is_set.split_at(fields.len());
        if let Some((field, _)) = fields.iter().zip(keys).find(|(f, given)| f.kind == MatchKind::Exact && !**given) {
            let (table, key) = (self.keys.owner.to_owned(), self.keys.key_name(field).to_owned());
            return Err(EntryError::KeyMissing { table, key });
        }
        if let StoredActionRef::Call(id, _) = self.entry.action()
            && let Some(action) = self.pipeline.actions.get(id)
            && args.contains(&false)
        {
            return Err(validate::arity_error(self.table, action, args.iter().filter(|given| **given).count()));
        }
        Ok(self.entry)
    }
}

/// Sets a range from the smallest to the greatest value of the field's type.
fn fill_whole_range(field: &PackedKeyField, key: &mut [u64]) {
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
    /// Packs an entry for `kind` of update. A deletion needs only table, keys and priority, so
    /// everything else is omitted. `layout` must be that of the table's keys.
    ///
    /// # Errors
    /// The entry cannot be packed: no such table, another number or match kind of keys, an action
    /// that is not the table's, another number of arguments, or numbers that are too wide. The
    /// errors are those of [`crate::ControlState::apply`].
    pub fn pack(
        pipeline: &Pipeline,
        layout: &KeyLayout,
        kind: UpdateKind,
        entry: &TableEntry,
    ) -> Result<PackedEntry, EntryError> {
        pack_entry(pipeline, layout, kind, entry)
    }
}

/// Packs an entry for its table; for a deletion, only its identity. The checks are in the order of
/// [`crate::ControlState::apply`], so that both report the same error of several.
pub(crate) fn pack_entry(
    pipeline: &Pipeline,
    layout: &KeyLayout,
    kind: UpdateKind,
    written: &TableEntry,
) -> Result<PackedEntry, EntryError> {
    let table = validate::find_table(pipeline, written.table)?;
    let keys = KeyPacker { owner: &table.preamble.name, declared: &table.keys, layout };
    let mut entry = PackedEntry::with_zero_key(written.table, layout.len);
    entry.priority = written.priority;
    keys.pack_into(&written.keys, entry.key_mut())?;
    if kind == UpdateKind::Delete {
        return Ok(entry);
    }
    match &written.action {
        ActionSpec::Member(id) => entry.set_action(StoredActionRef::Member(*id), 0),
        ActionSpec::Group(id) => entry.set_action(StoredActionRef::Group(*id), 0),
        ActionSpec::Call(written) => {
            if let Some(id) = table.implementation.filter(|id| pipeline.externs.get(*id).is_some()) {
                return Err(validate::needs_member_error(pipeline, table, id));
            }
            let args = pack_valid_args(pipeline, table, written, false)?;
            entry.set_action(StoredActionRef::Call(written.action, &args), 0);
        }
    }
    entry.idle_timeout_ns = written.idle_timeout_ns;
    entry.counter = written.counter;
    entry.is_const = written.is_const;
    entry.set_extras(written.meter, written.provenance.as_ref(), &written.metadata);
    Ok(entry)
}

/// Packs the arguments of an action that the table lists, for the default action (`is_default`) or
/// an entry. Checks their number and widths.
pub(crate) fn pack_valid_args(
    pipeline: &Pipeline,
    table: &Table,
    call: &ActionCall,
    is_default: bool,
) -> Result<PackedKey, EntryError> {
    let action = validate::listed_action(pipeline, table, call.action, is_default)?;
    if action.params.len() != call.args.len() {
        return Err(validate::arity_error(table, action, call.args.len()));
    }
    let mut words = PackedKey::new();
    for (param, value) in action.params.iter().zip(&call.args) {
        let width = param.ty.width();
        if value.bits() > u64::from(width) {
            return Err(validate::arg_too_wide_error(table, action, param, value.clone()));
        }
        push_words(value, words_for(width), &mut words);
    }
    Ok(words)
}

/// Packs keys and validates them against their declaration. `owner` is the table's or value set's
/// name.
pub fn pack_valid_keys(
    owner: &str,
    declared: &[MatchKey],
    layout: &KeyLayout,
    given: &[KeyMatch],
) -> Result<PackedKey, EntryError> {
    let packed = KeyPacker { owner, declared, layout }.pack(given)?;
    validate::check_keys(owner, declared, layout, &packed)?;
    Ok(packed)
}

/// Packs an action with its arguments and validates it for a table.
pub fn pack_call(
    pipeline: &Pipeline,
    table: &Table,
    call: &ActionCall,
    default: bool,
) -> Result<StoredAction, EntryError> {
    let words = pack_valid_args(pipeline, table, call, default)?;
    validate::check_args(pipeline, table, call.action, &words, default)?;
    Ok(StoredAction::Call(call.action, words.as_slice().into()))
}
