//! [`LookupLayout`]: the memory layout of a table's lookup keys and action data.
//!
//! The native code that builds keys and reads action data and the code that encodes entries both
//! use this layout, so that they always agree.

use ir::{MatchKind, Table};

/// Data structure that holds a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupKind {
    /// No match keys: every packet takes the default action.
    Keyless,
    /// All keys exact.
    Exact,
    /// Exact keys (or none) and one LPM key.
    Lpm,
    /// Anything else: ternary, range, optional, several LPM keys.
    Ternary,
}

/// Position of one match key in the words of a lookup key. A key of up to 64 bits lies within one
/// word; a wider key starts at a word boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookupKeyField {
    /// Position in [`ir::Table::keys`].
    pub position: usize,
    /// Match kind.
    pub kind: MatchKind,
    /// Width in bits.
    pub width_bits: u32,
    /// First bit, counted from the least significant bit of word 0.
    pub bit_offset: u32,
    /// Whether ranges compare as two's complement.
    pub signed: bool,
}

/// Position of an action parameter in the bytes of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueParamField {
    /// Offset in bytes from the value's first byte.
    pub offset: usize,
    /// Width in bits; it takes `width.div_ceil(8)` bytes, least significant first.
    pub width: u32,
}

/// Layout of a value, the result of a lookup.
///
/// Byte 0 is the arm: the position of the action in [`ir::Table::actions`], or
/// [`ValueLayout::MEMBER`] or [`ValueLayout::GROUP`]. If [`ValueLayout::entry_id`] is set, four
/// bytes with the entry id follow. The arm's parameters follow, or the four bytes of the member id
/// or group id. All numbers are little-endian. The length of a value depends on its arm. At least
/// [`ValueLayout::readable_bytes`] bytes may be read from the first byte of any value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueLayout {
    /// Whether values carry the id of their entry. Direct counters, direct meters and idle times
    /// need it.
    pub entry_id: bool,
    /// The parameters of each action, in the order of the table's actions.
    pub arms: Vec<Vec<ValueParamField>>,
    /// Length in bytes of each arm's value.
    pub arm_len_bytes: Vec<usize>,
    /// Bytes that may be read at any value, whatever its length: [`ValueLayout::SHORT`] if all
    /// values of entries are at most that long, otherwise [`ValueLayout::LONG`].
    pub readable_bytes: usize,
}

impl ValueLayout {
    /// Byte 0 of an entry that names a member of an action profile.
    pub const MEMBER: u8 = 0xfe;
    /// Byte 0 of an entry that names a group of an action selector.
    pub const GROUP: u8 = 0xff;
    /// Maximum number of actions of a table.
    pub const MAX_ARMS: usize = 0xf0;
    /// Offset of the entry id, if values carry one, in bytes.
    pub const ENTRY_ID: usize = 1;

    /// Bytes that may be read at any value of a table with values of at most this length.
    pub const SHORT: usize = 8;
    /// Bytes that may be read at any value of a table with longer values.
    pub const LONG: usize = 16;

    /// Returns the offset in bytes of the parameters, after the arm and the entry id.
    pub fn data_offset(&self) -> usize {
        if self.entry_id { 5 } else { 1 }
    }

    /// Returns the length in bytes of the longest value.
    pub fn max_len_bytes(&self) -> usize {
        self.arm_len_bytes.iter().copied().max().unwrap_or(0).max(self.data_offset() + 4)
    }
}

/// Layout of a table's lookup keys and values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookupLayout {
    /// The data structure.
    pub kind: LookupKind,
    /// The match keys. [`LookupKind::Exact`]: packed, widest first. [`LookupKind::Lpm`]: the exact
    /// keys in the same order, then the LPM key at the next word. [`LookupKind::Ternary`]: packed,
    /// in the table's order.
    pub keys: Vec<LookupKeyField>,
    /// Bits of the lookup key, padding between keys included. For [`LookupKind::Lpm`]: bits of the
    /// exact part.
    pub key_bits: u32,
    /// 64-bit words of a lookup key. Bits outside all keys are 0.
    pub words: usize,
    /// Positions in [`ir::Table::keys`] of the keys that feed a selector's hash.
    pub selector_keys: Vec<usize>,
    /// Layout of the values.
    pub value: ValueLayout,
}

impl LookupLayout {
    /// Computes the layout of a table. `params` returns the widths in bits of an action's
    /// parameters; `entry_id` requests entry ids in values.
    pub fn new(table: &Table, entry_id: bool, params: impl Fn(ir::ActionId) -> Vec<u32>) -> LookupLayout {
        let kind = lookup_kind(table);
        let (keys, key_bits, words) = layout_keys(table, kind);
        let selector_index = |(index, key): (usize, &ir::MatchKey)| (key.kind == MatchKind::Selector).then_some(index);
        let data_offset = if entry_id { 5 } else { 1 };
        let mut value =
            ValueLayout { entry_id, arms: Vec::new(), arm_len_bytes: Vec::new(), readable_bytes: ValueLayout::SHORT };
        for action in &table.actions {
            let mut offset = data_offset;
            let mut next_field = |width: u32| {
                let field = ValueParamField { offset, width };
                offset += width.div_ceil(8) as usize;
                field
            };
            value.arms.push(params(action.action).into_iter().map(&mut next_field).collect());
            value.arm_len_bytes.push(offset);
            if !action.default_only && offset > ValueLayout::SHORT {
                value.readable_bytes = ValueLayout::LONG;
            }
        }
        let selector_keys = table.keys.iter().enumerate().filter_map(selector_index).collect();
        LookupLayout { kind, keys, key_bits, words, selector_keys, value }
    }
}

fn lookup_kind(table: &Table) -> LookupKind {
    let count = |kind: MatchKind| table.keys.iter().filter(|key| key.kind == kind).count();
    let (exact, lpm) = (count(MatchKind::Exact), count(MatchKind::Lpm));
    match table.match_keys().count() {
        0 => LookupKind::Keyless,
        all if all == exact => LookupKind::Exact,
        all if all == exact + lpm && lpm == 1 => LookupKind::Lpm,
        _ => LookupKind::Ternary,
    }
}

/// Assigns each key element its bits in the lookup key. Returns the fields, the number of bits (for
/// LPM of the exact keys alone), and the number of words. No key straddles words unless it is wider
/// than one; an LPM key starts at a word.
fn layout_keys(table: &Table, kind: LookupKind) -> (Vec<LookupKeyField>, u32, usize) {
    let mut keys: Vec<(usize, &ir::MatchKey)> = table.match_keys().collect();
    if kind != LookupKind::Ternary {
        // The sort is stable and false sorts before true, so the LPM key comes last.
        keys.sort_by_key(|(_, key)| (key.kind == MatchKind::Lpm, std::cmp::Reverse(key.ty.width())));
    }
    let mut next_bit = 0;
    let mut exact_bits = 0;
    let mut fields = Vec::new();
    for (position, key) in keys {
        let width = key.ty.width();
        let straddles = next_bit % 64 + width > 64;
        if straddles || (kind == LookupKind::Lpm && key.kind == MatchKind::Lpm) {
            next_bit = next_bit.next_multiple_of(64);
        }
        fields.push(LookupKeyField {
            position,
            kind: key.kind,
            width_bits: width,
            bit_offset: next_bit,
            signed: key.ty.is_signed(),
        });
        next_bit += width;
        if key.kind == MatchKind::Exact {
            exact_bits = next_bit;
        }
    }
    let bits = if kind == LookupKind::Lpm { exact_bits } else { next_bit };
    (fields, bits, next_bit.div_ceil(64).max(1) as usize)
}
