//! Splits a large table into several pieces that are looked up in sequence until one hits. Each
//! piece fits where the whole table does not, such as in another pipe or in the remaining stages.
//!
//! Entries of an exact table exclude each other, so an entry can be in any piece with capacity.
//! Other tables must find the entry of the highest precedence first, so their pieces hold entries
//! in order of precedence: longer prefixes or higher priorities are in earlier pieces. A full piece
//! moves its entry of lowest precedence to the next one, so an insert moves at most one entry per
//! piece. Free capacity of a piece remains until an entry of its precedence arrives.

use super::apply_site::{self, CodeInserter};
use super::entries::{KeyWords, entry_update};
use super::shadowed_map::{EntryChange, EntryMapping, ShadowedMap};
use super::{TableSizes, TransformError, TransformedPipeline};
use entries::{KeyLayout, StateUpdate, StoredEntry, UpdateKind};
use ir::{Action, ActionArm, ActionCall, ActionRef, BlockCall, MatchKind, Pipeline, Preamble, TableId, Terminator};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Match precedence of an entry, highest first, followed by its key for uniqueness.
type EntryRank = (Reverse<i32>, Reverse<u64>, KeyWords);

/// Splits a table (control-plane name) into pieces with the given capacities, in
/// lookup order. A miss in one piece leads to the next.
///
/// # Errors
/// [`TransformError`]: fewer than two pieces, pieces with insufficient total capacity, or a table
/// with entries that cannot move.
pub fn split_table(
    original: &Arc<Pipeline>,
    sizes: &TableSizes,
    table: &str,
    capacities: &[u64],
) -> Result<TransformedPipeline, TransformError> {
    let id = apply_site::find_table(original, table)?;
    let declared = apply_site::check_movable(original, id)?;
    let site = apply_site::find_apply_site(original, id)?;
    let entries = sizes.get(table).copied().or(declared.size).unwrap_or(1024);
    let refused = |reason: String| Err(TransformError::new(table, reason));
    let Some((last, earlier)) = capacities.split_last().filter(|(_, earlier)| !earlier.is_empty()) else {
        return refused("one piece is the table itself; give the sizes of two or more".to_owned());
    };
    if capacities.iter().sum::<u64>() < entries {
        return refused(format!("the pieces hold {} entries, and it needs {entries}", capacities.iter().sum::<u64>()));
    }
    let mut transformed = (**original).clone();
    let mut sizes = sizes.clone();
    let mut new_pieces = Vec::new();
    for (number, size) in earlier.iter().enumerate() {
        let next = transformed.actions.push(Action {
            preamble: Preamble { name: format!("{table}_{number}_next"), hidden: true, ..Preamble::default() },
            params: Vec::new(),
            loc: declared.loc,
        });
        let mut piece = apply_site::derived_table(declared, &number.to_string());
        piece.actions.retain(|action| !action.default_only);
        piece.actions.push(ActionRef { default_only: true, ..ActionRef::new(next) });
        piece.default_action = ActionCall { action: next, args: Vec::new() };
        (piece.const_default, piece.size) = (true, Some(*size));
        sizes.insert(piece.preamble.name.clone(), *size);
        new_pieces.push((transformed.tables.push(piece), next));
    }
    // The last piece keeps the table's number and therefore its default action.
    let last_piece = &mut transformed.tables[id];
    (last_piece.entries, last_piece.const_entries, last_piece.size) = (Vec::new(), false, Some(*last));
    sizes.insert(table.to_owned(), *last);

    let listed = transformed.tables.clone();
    let body = &mut transformed.controls[site.control].body;
    let (keys, arms, loc) = apply_site::take_apply(body, site.block, table)?;
    let mut code = CodeInserter { body, block: site.block, loc };
    for (piece, next) in &new_pieces {
        let (missed, _) = code.arm_block(&[]);
        let next_block = code.new_block();
        let piece_arms =
            arms.iter().filter(|arm| listed[*piece].actions.iter().any(|a| a.action == arm.action)).cloned();
        let piece_arms = piece_arms.chain([ActionArm { action: *next, block: missed }]).collect();
        code.set_terminator(Terminator::Apply { table: *piece, keys: keys.clone(), arms: piece_arms });
        code.block = missed;
        code.set_terminator(Terminator::Jump(BlockCall::to(next_block)));
        code.block = next_block;
    }
    code.set_terminator(Terminator::Apply { table: id, keys, arms });

    let pieces: Vec<TableId> = new_pieces.iter().map(|(piece, _)| *piece).chain([id]).collect();
    let rule = SplitTableMap {
        name: table.to_owned(),
        from: id,
        layout: KeyLayout::new(&declared.keys),
        ordered: declared.keys.iter().any(|key| key.kind != MatchKind::Exact),
        capacities: capacities.iter().map(|capacity| *capacity as usize).collect(),
        entries_by_piece: vec![BTreeMap::new(); capacities.len()],
        piece_of_entry: HashMap::new(),
        pieces: pieces.clone(),
        undo_log: Vec::new(),
    };
    let numbers = original.tables.keys().collect();
    let (map, pipeline) = ShadowedMap::new(original, transformed, numbers, &pieces, rule)?;
    Ok(TransformedPipeline { pipeline, sizes, map: Box::new(map) })
}

/// Entry mapping of a table split into pieces.
struct SplitTableMap {
    name: String,
    from: TableId,
    layout: KeyLayout,
    /// Whether the order of pieces matters.
    ordered: bool,
    capacities: Vec<usize>,
    /// Entries of each piece by precedence.
    entries_by_piece: Vec<BTreeMap<EntryRank, StoredEntry>>,
    piece_of_entry: HashMap<EntryRank, usize>,
    pieces: Vec<TableId>,
    /// Undo log: piece, entry, and its previous value.
    undo_log: Vec<(usize, EntryRank, Option<StoredEntry>)>,
}

impl SplitTableMap {
    fn entry_rank(&self, entry: &StoredEntry) -> EntryRank {
        let prefix = self.layout.fields.iter().find(|field| field.kind == MatchKind::Lpm);
        let len = prefix.map_or(0, |field| field.second(entry.key())[0]);
        (Reverse(entry.priority()), Reverse(len), KeyWords::from_slice(entry.key()))
    }

    fn set_entry(&mut self, piece: usize, rank: EntryRank, entry: Option<StoredEntry>) {
        let old = match entry {
            Some(entry) => {
                self.piece_of_entry.insert(rank.clone(), piece);
                self.entries_by_piece[piece].insert(rank.clone(), entry)
            }
            None => {
                if self.piece_of_entry.get(&rank) == Some(&piece) {
                    self.piece_of_entry.remove(&rank);
                }
                self.entries_by_piece[piece].remove(&rank)
            }
        };
        self.undo_log.push((piece, rank, old));
    }

    fn piece_update(&self, kind: UpdateKind, piece: usize, entry: &StoredEntry) -> StateUpdate {
        entry_update(kind, self.pieces[piece], entry.key(), entry, entry.priority())
    }

    /// Returns the piece for a new entry. With an order: the first one between the neighbours in
    /// precedence that has capacity.
    fn choose_piece(&self, rank: &EntryRank) -> usize {
        let has_room = |piece: &usize| self.entries_by_piece[*piece].len() < self.capacities[*piece];
        let all = 0..self.entries_by_piece.len();
        if !self.ordered {
            return all.clone().find(has_room).unwrap_or(self.entries_by_piece.len() - 1);
        }
        // Entries of higher precedence must be in this piece or earlier, those of lower precedence
        // in this or later.
        let from = all
            .clone()
            .rev()
            .find(|at| self.entries_by_piece[*at].first_key_value().is_some_and(|(first, _)| first < rank));
        let to =
            all.clone().find(|at| self.entries_by_piece[*at].last_key_value().is_some_and(|(last, _)| last > rank));
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(self.entries_by_piece.len() - 1));
        (from..=to).find(has_room).unwrap_or(from)
    }

    /// Maps an insertion. In a table with an order, each piece holds entries of higher precedence
    /// than the next one, so an insertion into a full piece pushes its last entry onwards.
    fn insert(&mut self, entry: &StoredEntry, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        let rank = self.entry_rank(entry);
        let mut piece = self.choose_piece(&rank);
        let (mut rank, mut entry) = (rank, entry.clone());
        loop {
            let is_full = self.entries_by_piece[piece].len() >= self.capacities[piece];
            if !is_full {
                out.push(self.piece_update(UpdateKind::Insert, piece, &entry));
                self.set_entry(piece, rank, Some(entry));
                return Ok(());
            }
            if !self.ordered || piece + 1 == self.entries_by_piece.len() {
                return self.shift_to_earlier_piece(piece, rank, entry, out);
            }
            // The entry of lowest precedence moves to the next piece. It can be the new entry
            // itself.
            let weakest =
                self.entries_by_piece[piece].last_key_value().map(|(rank, entry)| (rank.clone(), entry.clone()));
            if let Some((weakest_rank, moved)) = weakest.filter(|(weakest_rank, _)| *weakest_rank > rank) {
                out.push(self.piece_update(UpdateKind::Delete, piece, &moved));
                self.set_entry(piece, weakest_rank.clone(), None);
                out.push(self.piece_update(UpdateKind::Insert, piece, &entry));
                self.set_entry(piece, rank, Some(entry));
                (rank, entry) = (weakest_rank, moved);
            }
            piece += 1;
        }
    }

    /// Inserts into a full last piece by shifting the first entry of each piece to the piece
    /// before, if an earlier piece has capacity.
    fn shift_to_earlier_piece(
        &mut self,
        last: usize,
        rank: EntryRank,
        entry: StoredEntry,
        out: &mut Vec<StateUpdate>,
    ) -> Result<(), String> {
        let free_piece = (0..last)
            .rev()
            .find(|piece| self.entries_by_piece[*piece].len() < self.capacities[*piece])
            .filter(|_| self.ordered);
        let Some(free_piece) = free_piece else {
            let name = &self.name;
            return Err(format!("table {name}: its pieces are full; delete entries, or give it larger ones"));
        };
        let (mut rank, mut entry) = (rank, entry);
        for piece in (free_piece + 1..=last).rev() {
            let strongest =
                self.entries_by_piece[piece].first_key_value().map(|(rank, entry)| (rank.clone(), entry.clone()));
            if let Some((strongest_rank, moved)) = strongest.filter(|(strongest_rank, _)| *strongest_rank < rank) {
                out.push(self.piece_update(UpdateKind::Delete, piece, &moved));
                self.set_entry(piece, strongest_rank.clone(), None);
                out.push(self.piece_update(UpdateKind::Insert, piece, &entry));
                self.set_entry(piece, rank, Some(entry));
                (rank, entry) = (strongest_rank, moved);
            }
        }
        out.push(self.piece_update(UpdateKind::Insert, free_piece, &entry));
        self.set_entry(free_piece, rank, Some(entry));
        Ok(())
    }
}

impl EntryMapping for SplitTableMap {
    fn is_mapped(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin_batch(&mut self) {
        self.undo_log.clear();
    }

    fn undo_batch(&mut self) {
        while let Some((piece, rank, old)) = self.undo_log.pop() {
            self.set_entry(piece, rank, old);
            self.undo_log.pop();
        }
    }

    /// Translates a change of an entry to updates of the piece that holds it.
    fn map_entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String> {
        match change {
            EntryChange::Inserted(entry) => self.insert(entry, out)?,
            EntryChange::Modified(_, entry) => {
                let rank = self.entry_rank(entry);
                if let Some(piece) = self.piece_of_entry.get(&rank).copied() {
                    out.push(self.piece_update(UpdateKind::Modify, piece, entry));
                    self.set_entry(piece, rank, Some(entry.clone()));
                }
            }
            EntryChange::Deleted(entry) => {
                let rank = self.entry_rank(entry);
                if let Some(piece) = self.piece_of_entry.get(&rank).copied() {
                    out.push(self.piece_update(UpdateKind::Delete, piece, entry));
                    self.set_entry(piece, rank, None);
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> Vec<(String, f64)> {
        let one = |(at, held): (usize, &BTreeMap<EntryRank, StoredEntry>)| {
            (format!("{}: entries in piece {at}", self.name), held.len() as f64)
        };
        self.entries_by_piece.iter().enumerate().map(one).collect()
    }
}
