//! [`Encoder`]: an entry of one table as the key and the value bytes that lookups use, by [`LookupShape`].

use super::shape::{LookupKind, LookupShape, ValueLayout};
use entries::{Action, PackedAction};
use entries::{KeyLayout, action_layout};
use ir::{ActionId, Entity, MatchKind, Pipeline, TableId};
use smallvec::SmallVec;
use thiserror::Error;

/// A table that lookups can't hold.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LookupError {
    /// The action of a value is one byte.
    #[error("table {table}: {got} actions are more than possible ({most}); split the table")]
    TooManyActions {
        /// The table's name.
        table: String,
        /// How many it has.
        got: usize,
        /// How many it may have.
        most: usize,
    },
}

/// Where a key is made: on the stack, unless it is uncommonly long.
pub(super) type KeyRoom = SmallVec<[u64; 8]>;
/// Where a value is made.
pub(super) type ValueRoom = SmallVec<[u8; 64]>;

/// From where in an entry's words to where in a lookup key a value goes.
#[derive(Clone, Copy, Debug)]
struct KeyMove {
    /// First word of the value among the entry's.
    from: usize,
    /// Words of the value.
    words: usize,
    /// First word in the lookup key.
    to: usize,
    /// Bits to shift left by; 0 for values wider than a word.
    shift: u32,
}

/// Makes keys and values of one table's entries.
#[derive(Debug)]
pub(super) struct Encoder {
    /// How they lie.
    pub shape: LookupShape,
    moves: Vec<KeyMove>,
    /// Word of the prefix length in an entry's words, for [`LookupKind::Lpm`].
    prefix_len: usize,
    /// Position in the table's list of each action of the pipeline.
    arms: Vec<Option<u8>>,
    /// For each arm, the first argument word of each parameter.
    args: Vec<Vec<usize>>,
    /// The longest value that an entry of this table can have, in bytes.
    pub longest: usize,
}

impl Encoder {
    /// For a table of the pipeline; `layout` is that of its entries' keys.
    pub fn new(pipeline: &Pipeline, id: TableId, layout: &KeyLayout, entry_id: bool) -> Result<Encoder, LookupError> {
        let table = &pipeline.tables[id];
        let (got, most) = (table.actions.len(), ValueLayout::MAX_ARMS);
        if got > most {
            return Err(LookupError::TooManyActions { table: table.preamble.name.clone(), got, most });
        }
        let known = |action: ActionId| pipeline.actions.get(action).is_some();
        let fields = |action| if known(action) { action_layout(pipeline, action) } else { Vec::new() };
        let shape = LookupShape::new(table, entry_id, |action| fields(action).iter().map(|f| f.width).collect());
        let mut arms = vec![None; pipeline.actions.len()];
        for (position, listed) in table.actions.iter().enumerate() {
            if let Some(arm) = arms.get_mut(listed.action.index()) {
                *arm = Some(position as u8);
            }
        }
        let args = table.actions.iter().map(|listed| fields(listed.action).iter().map(|f| f.offset).collect());
        let direct = || {
            let usable = table.actions.iter().zip(&shape.value.lens).filter(|(listed, _)| !listed.default_only);
            usable.map(|(_, len)| *len).max().unwrap_or(1)
        };
        let longest = match table.implementation {
            // Only what the program itself declares can name an action then.
            Some(_) if table.entries.is_empty() => shape.value.data() + 4,
            Some(_) => direct().max(shape.value.data() + 4),
            None => direct(),
        };
        let prefix = layout.fields.iter().find(|f| f.kind == MatchKind::Lpm);
        Ok(Encoder {
            moves: moves(&shape, layout),
            prefix_len: prefix.map_or(0, |f| f.offset + f.words),
            arms,
            args: args.collect(),
            longest,
            shape,
        })
    }

    /// The words that a packet with an entry's values looks up; for tables without masks that is the entry's key.
    pub fn key<'a>(&self, entry: &[u64], room: &'a mut KeyRoom) -> &'a [u64] {
        room.clear();
        room.resize(self.shape.words, 0);
        for place in &self.moves {
            let value = &entry[place.from..place.from + place.words];
            match value {
                [one] => room[place.to] |= one << place.shift,
                wide => room[place.to..place.to + place.words].copy_from_slice(wide),
            }
        }
        room
    }

    /// The prefix length of an entry of a table of [`LookupKind::Lpm`].
    pub fn prefix_len(&self, entry: &[u64]) -> u32 {
        debug_assert_eq!(self.shape.kind, LookupKind::Lpm);
        entry[self.prefix_len] as u32
    }

    /// The bytes of what an action says; `number` is the entry's, if values carry it.
    pub fn value<'a>(&self, action: PackedAction<'_>, number: u32, room: &'a mut ValueRoom) -> &'a [u8] {
        room.clear();
        let (arm, id) = match action {
            // The state has only actions that the table lists.
            PackedAction::Call(action, _) => (self.arms.get(action.index()).copied().flatten().unwrap_or(0), None),
            PackedAction::Member(id) => (ValueLayout::MEMBER, Some(id)),
            PackedAction::Group(id) => (ValueLayout::GROUP, Some(id)),
        };
        room.push(arm);
        if self.shape.value.entry_id {
            room.extend_from_slice(&number.to_le_bytes());
        }
        if let Some(id) = id {
            room.extend_from_slice(&id.to_le_bytes());
        }
        if let (PackedAction::Call(_, words), Some(params)) = (action, self.shape.value.arms.get(usize::from(arm))) {
            for (param, first) in params.iter().zip(&self.args[usize::from(arm)]) {
                let mut left = param.width.div_ceil(8) as usize;
                for word in words.iter().skip(*first) {
                    let bytes = word.to_le_bytes();
                    let count = left.min(8);
                    room.extend_from_slice(&bytes[..count]);
                    left -= count;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
        room
    }

    /// A value on its own, with the zeros behind it that let readers load whole words anywhere in it.
    pub fn padded_value(&self, action: &Action) -> Box<[u8]> {
        let mut room = ValueRoom::new();
        let mut bytes = self.value(action.packed(), 0, &mut room).to_vec();
        bytes.resize(bytes.len().next_multiple_of(8) + ValueLayout::LONG, 0);
        bytes.into_boxed_slice()
    }
}

fn moves(shape: &LookupShape, layout: &KeyLayout) -> Vec<KeyMove> {
    let one = |place: &super::shape::KeyPlace| {
        let field = layout.fields.iter().find(|field| field.position == place.position)?;
        Some(KeyMove { from: field.offset, words: field.words, to: (place.bit / 64) as usize, shift: place.bit % 64 })
    };
    // A key of no bits has no bits to move, and its place may lie behind the last word.
    shape.keys.iter().filter(|place| place.width > 0).filter_map(one).collect()
}
