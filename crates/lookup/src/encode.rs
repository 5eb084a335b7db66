//! [`EntryEncoder`]: encodes the entries of a table as lookup keys and values in a
//! [`LookupLayout`].

use super::lookup_layout::{LookupKind, LookupLayout, ValueLayout};
use entries::{KeyLayout, action_layout};
use entries::{StoredAction, StoredActionRef};
use ir::{ActionId, Entity, MatchKind, Pipeline, TableId};
use smallvec::SmallVec;
use thiserror::Error;

/// Table that lookups cannot represent.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LookupError {
    /// More actions than the arm byte of a value can encode.
    #[error("table {table}: {got} actions exceed the maximum of {most}; split the table")]
    TooManyActions {
        /// The table's name.
        table: String,
        /// Number of its actions.
        got: usize,
        /// Maximum number of actions.
        most: usize,
    },
}

/// Stack buffer for a key; unusually long keys use the heap.
pub(super) type KeyBuf = SmallVec<[u64; 8]>;
/// Stack buffer for a value.
pub(super) type ValueBuf = SmallVec<[u8; 64]>;

/// Copy of one field from an entry's words to a lookup key.
#[derive(Clone, Copy, Debug)]
struct KeyCopy {
    /// First word of the field in the entry.
    from: usize,
    /// Words of the field.
    words: usize,
    /// First word in the lookup key.
    to: usize,
    /// Bits to shift left by; 0 for values wider than a word.
    shift: u32,
}

/// Encoder of one table's entries.
#[derive(Debug)]
pub(super) struct EntryEncoder {
    /// Layout of the encoded keys and values.
    pub layout: LookupLayout,
    key_copies: Vec<KeyCopy>,
    /// Index of the prefix length in an entry's words, for [`LookupKind::Lpm`].
    prefix_len: usize,
    /// Arm of each action of the pipeline: its position in the table's action list.
    arms: Vec<Option<u8>>,
    /// For each arm, the first argument word of each parameter.
    args: Vec<Vec<usize>>,
    /// Maximum length in bytes of an entry's value.
    pub max_value_len_bytes: usize,
}

impl EntryEncoder {
    /// Creates the encoder of a table; `layout` is the layout of its entries' keys. `entry_id`
    /// requests entry ids in values.
    ///
    /// # Errors
    /// A table with more actions than a value's first byte can name.
    pub fn new(
        pipeline: &Pipeline,
        id: TableId,
        layout: &KeyLayout,
        entry_id: bool,
    ) -> Result<EntryEncoder, LookupError> {
        let table = &pipeline.tables[id];
        let (got, most) = (table.actions.len(), ValueLayout::MAX_ARMS);
        if got > most {
            return Err(LookupError::TooManyActions { table: table.preamble.name.clone(), got, most });
        }
        let exists = |action: ActionId| pipeline.actions.get(action).is_some();
        let fields = |action| if exists(action) { action_layout(pipeline, action) } else { Vec::new() };
        let lookup_layout =
            LookupLayout::new(table, entry_id, |action| fields(action).iter().map(|f| f.width).collect());
        let mut arms = vec![None; pipeline.actions.len()];
        for (position, listed) in table.actions.iter().enumerate() {
            if let Some(arm) = arms.get_mut(listed.action.index()) {
                *arm = Some(position as u8);
            }
        }
        let args = table.actions.iter().map(|listed| fields(listed.action).iter().map(|f| f.offset).collect());
        let max_action_len = || {
            let usable_lens =
                table.actions.iter().zip(&lookup_layout.value.arm_len_bytes).filter(|(listed, _)| !listed.default_only);
            usable_lens.map(|(_, len)| *len).max().unwrap_or(1)
        };
        let max_len = match table.implementation {
            // In this case only entries that the program declares can name an action directly.
            Some(_) if table.entries.is_empty() => lookup_layout.value.data_offset() + 4,
            Some(_) => max_action_len().max(lookup_layout.value.data_offset() + 4),
            None => max_action_len(),
        };
        let prefix = layout.fields.iter().find(|f| f.kind == MatchKind::Lpm);
        Ok(EntryEncoder {
            key_copies: build_key_copies(&lookup_layout, layout),
            prefix_len: prefix.map_or(0, |f| f.offset + f.words),
            arms,
            args: args.collect(),
            max_value_len_bytes: max_len,
            layout: lookup_layout,
        })
    }

    /// Returns the lookup key of a packet with the entry's field values. For tables without masks
    /// this is the entry's key.
    pub fn encode_key<'a>(&self, entry: &[u64], room: &'a mut KeyBuf) -> &'a [u64] {
        room.clear();
        room.resize(self.layout.words, 0);
        for place in &self.key_copies {
            let value = &entry[place.from..place.from + place.words];
            match value {
                [one] => room[place.to] |= one << place.shift,
                wide => room[place.to..place.to + place.words].copy_from_slice(wide),
            }
        }
        room
    }

    /// Returns the prefix length of an entry of a [`LookupKind::Lpm`] table.
    pub fn prefix_len(&self, entry: &[u64]) -> u32 {
        debug_assert_eq!(self.layout.kind, LookupKind::Lpm);
        entry[self.prefix_len] as u32
    }

    /// Encodes an action as value bytes in `buffer`: the arm, the entry id if values carry one
    /// (`entry_id`), the id of a member or group, or the parameters, each little-endian in whole
    /// bytes.
    pub fn encode_value<'a>(&self, action: StoredActionRef<'_>, entry_id: u32, buffer: &'a mut ValueBuf) -> &'a [u8] {
        buffer.clear();
        let (arm, id) = match action {
            // The control state holds only actions that the table lists.
            StoredActionRef::Call(action, _) => (self.arms.get(action.index()).copied().flatten().unwrap_or(0), None),
            StoredActionRef::Member(id) => (ValueLayout::MEMBER, Some(id)),
            StoredActionRef::Group(id) => (ValueLayout::GROUP, Some(id)),
        };
        buffer.push(arm);
        if self.layout.value.entry_id {
            buffer.extend_from_slice(&entry_id.to_le_bytes());
        }
        if let Some(id) = id {
            buffer.extend_from_slice(&id.to_le_bytes());
        }
        if let (StoredActionRef::Call(_, words), Some(params)) = (action, self.layout.value.arms.get(usize::from(arm)))
        {
            for (param, first) in params.iter().zip(&self.args[usize::from(arm)]) {
                let mut left_bytes = param.width.div_ceil(8) as usize;
                for word in words.iter().skip(*first) {
                    let bytes = word.to_le_bytes();
                    let count = left_bytes.min(8);
                    buffer.extend_from_slice(&bytes[..count]);
                    left_bytes -= count;
                    if left_bytes == 0 {
                        break;
                    }
                }
            }
        }
        buffer
    }

    /// Returns a value in its own allocation, followed by zeros so that readers can load whole
    /// words at any byte of it.
    pub fn padded_value(&self, action: &StoredAction) -> Box<[u8]> {
        let mut room = ValueBuf::new();
        let mut bytes = self.encode_value(action.packed(), 0, &mut room).to_vec();
        bytes.resize(bytes.len().next_multiple_of(8) + ValueLayout::LONG, 0);
        bytes.into_boxed_slice()
    }
}

fn build_key_copies(shape: &LookupLayout, layout: &KeyLayout) -> Vec<KeyCopy> {
    let one = |place: &super::lookup_layout::LookupKeyField| {
        let field = layout.fields.iter().find(|field| field.position == place.position)?;
        Some(KeyCopy {
            from: field.offset,
            words: field.words,
            to: (place.bit_offset / 64) as usize,
            shift: place.bit_offset % 64,
        })
    };
    // A key of zero bits has nothing to copy, and its position can lie after the last word.
    shape.keys.iter().filter(|place| place.width_bits > 0).filter_map(one).collect()
}
