//! [`LookupShape`]: how a table's keys and action data lie in memory when an engine looks up in batches.
//!
//! One place decides it, so that native code that builds keys and reads action data, and the code that turns entries into
//! bytes, cannot disagree.

use ir::{MatchKind, Table};

/// Which data structure holds a table.
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

/// Where one match key lies among the words of a lookup key. A key never straddles a word unless it is wider than one; then it
/// starts at a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPlace {
    /// Position in [`ir::Table::keys`].
    pub position: usize,
    /// How it is matched.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
    /// First bit, counted from the least significant bit of word 0.
    pub bit: u32,
    /// Whether ranges compare as two's complement.
    pub signed: bool,
}

/// Where an action's parameter lies among the bytes of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParamPlace {
    /// Offset in bytes from the value's first byte.
    pub offset: usize,
    /// Width in bits; it takes `width.div_ceil(8)` bytes, least significant first.
    pub width: u32,
}

/// The bytes of a value: what a lookup gives.
///
/// Byte 0 is the arm: the position of the action in [`ir::Table::actions`], or [`ValueLayout::MEMBER`] or
/// [`ValueLayout::GROUP`]; then, if [`ValueLayout::entry_id`], four bytes with the entry's number; then the arm's
/// parameters, or the four bytes of the member's or group's number. All numbers least significant byte first.
/// A value is as long as its arm needs, and at least [`ValueLayout::readable`] bytes from its first on may always be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueLayout {
    /// Whether values carry the number of their entry: for direct counters and meters and for idle times.
    pub entry_id: bool,
    /// For each action of the table, in order, its parameters.
    pub arms: Vec<Vec<ParamPlace>>,
    /// Length in bytes of each arm's value.
    pub lens: Vec<usize>,
    /// Bytes that may be read at any value, however long it is: [`ValueLayout::SHORT`] if no entry's is longer than that, else [`ValueLayout::LONG`].
    pub readable: usize,
}

impl ValueLayout {
    /// Byte 0 of an entry that names a member of an action profile.
    pub const MEMBER: u8 = 0xfe;
    /// Byte 0 of an entry that names a group of an action selector.
    pub const GROUP: u8 = 0xff;
    /// The most actions that a table may have.
    pub const MAX_ARMS: usize = 0xf0;
    /// Offset of the entry's number, if there is one.
    pub const ENTRY_ID: usize = 1;

    /// Bytes that may be read at any value of a table whose entries all have values that are no longer.
    pub const SHORT: usize = 8;
    /// Bytes that may be read at any value of other tables.
    pub const LONG: usize = 16;

    /// Offset of what follows arm and number.
    pub fn data(&self) -> usize {
        if self.entry_id { 5 } else { 1 }
    }

    /// The longest value in bytes.
    pub fn longest(&self) -> usize {
        self.lens.iter().copied().max().unwrap_or(0).max(self.data() + 4)
    }
}

/// How a table is looked up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LookupShape {
    /// The data structure.
    pub kind: LookupKind,
    /// The match keys. [`LookupKind::Exact`]: widest first, packed tight. [`LookupKind::Lpm`]: the exact ones likewise, then the LPM
    /// key at the next word. [`LookupKind::Ternary`]: in the table's order, packed.
    pub keys: Vec<KeyPlace>,
    /// Bits from the first to the last of the key, padding between included. For [`LookupKind::Lpm`]: of the exact part.
    pub key_bits: u32,
    /// 64-bit words of a lookup key. Bits that belong to no key are 0.
    pub words: usize,
    /// Positions in [`ir::Table::keys`] of the keys that feed a selector's hash.
    pub selector: Vec<usize>,
    /// What a lookup gives.
    pub value: ValueLayout,
}

impl LookupShape {
    /// The shape of a table. `params` gives the widths in bits of an action's parameters; `entry_id` asks for entry numbers in values.
    pub fn new(table: &Table, entry_id: bool, params: impl Fn(ir::ActionId) -> Vec<u32>) -> LookupShape {
        let kind = kind(table);
        let (keys, key_bits, words) = places(table, kind);
        let selector = |(index, key): (usize, &ir::Key)| (key.kind == MatchKind::Selector).then_some(index);
        let data = if entry_id { 5 } else { 1 };
        let mut value = ValueLayout { entry_id, arms: Vec::new(), lens: Vec::new(), readable: ValueLayout::SHORT };
        for action in &table.actions {
            let mut offset = data;
            let mut place = |width: u32| {
                let place = ParamPlace { offset, width };
                offset += width.div_ceil(8) as usize;
                place
            };
            value.arms.push(params(action.action).into_iter().map(&mut place).collect());
            value.lens.push(offset);
            if !action.default_only && offset > ValueLayout::SHORT {
                value.readable = ValueLayout::LONG;
            }
        }
        let selector = table.keys.iter().enumerate().filter_map(selector).collect();
        LookupShape { kind, keys, key_bits, words, selector, value }
    }
}

fn kind(table: &Table) -> LookupKind {
    let count = |kind: MatchKind| table.keys.iter().filter(|key| key.kind == kind).count();
    let (exact, lpm) = (count(MatchKind::Exact), count(MatchKind::Lpm));
    match table.match_keys().count() {
        0 => LookupKind::Keyless,
        all if all == exact => LookupKind::Exact,
        all if all == exact + lpm && lpm == 1 => LookupKind::Lpm,
        _ => LookupKind::Ternary,
    }
}

fn places(table: &Table, kind: LookupKind) -> (Vec<KeyPlace>, u32, usize) {
    let mut keys: Vec<(usize, &ir::Key)> = table.match_keys().collect();
    if kind != LookupKind::Ternary {
        // Stable, and false sorts before true: the LPM key comes last.
        keys.sort_by_key(|(_, key)| (key.kind == MatchKind::Lpm, std::cmp::Reverse(key.ty.width())));
    }
    let mut next = 0;
    let mut exact_bits = 0;
    let mut places = Vec::new();
    for (position, key) in keys {
        let width = key.ty.width();
        let straddles = next % 64 + width > 64;
        if straddles || (kind == LookupKind::Lpm && key.kind == MatchKind::Lpm) {
            next = next.next_multiple_of(64);
        }
        places.push(KeyPlace { position, kind: key.kind, width, bit: next, signed: key.ty.is_signed() });
        next += width;
        if key.kind == MatchKind::Exact {
            exact_bits = next;
        }
    }
    let bits = if kind == LookupKind::Lpm { exact_bits } else { next };
    (places, bits, next.div_ceil(64).max(1) as usize)
}
