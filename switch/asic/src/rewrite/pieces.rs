//! A large table over several pieces, looked up one after the other until one hits: each fits where the whole does not (another pipe, the stages that are
//! left).
//!
//! Entries of one table exclude each other in exact tables, so an entry may lie in any piece: the first with room. Elsewhere the strongest entry must
//! be found first, so the pieces hold the entries in the order of their strength: longer prefixes, or greater priorities, in earlier pieces.
//! A full piece passes its weakest entry on to the next one, so an insert moves at most one entry from each piece; and a piece that
//! has room again stays that way until an entry of its strength comes.

use super::entries::{Words, write};
use super::graph::{self, Code};
use super::shadow::{EntryChange, Rule, Shadowed};
use super::{RewriteError, Rewritten, Sizes};
use entries::{Entry, KeyLayout, Update, UpdateKind};
use ir::{Action, ActionCall, ActionRef, Arm, BlockCall, MatchKind, Pipeline, Preamble, TableId, Term};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// How strong an entry is, the strongest first, and then its key, so that no two are equal.
type Rank = (Reverse<i32>, Reverse<u64>, Words);

/// Makes pieces of a table (control-plane name) that hold so many entries each, in the order in which they are looked up.
///
/// # Errors
/// Fewer than two pieces, pieces that hold less than the table has to, or a table whose entries cannot be moved.
pub fn pieces(first: &Arc<Pipeline>, sizes: &Sizes, table: &str, room: &[u64]) -> Result<Rewritten, RewriteError> {
    let id = graph::find(first, table)?;
    let declared = graph::plain(first, id)?;
    let site = graph::site(first, id)?;
    let entries = sizes.get(table).copied().or(declared.size).unwrap_or(1024);
    let refused = |reason: String| Err(RewriteError::new(table, reason));
    let Some((last, before)) = room.split_last().filter(|(_, before)| !before.is_empty()) else {
        return refused("one piece is the table itself; give the sizes of two or more".to_owned());
    };
    if room.iter().sum::<u64>() < entries {
        return refused(format!("the pieces hold {} entries, and it needs {entries}", room.iter().sum::<u64>()));
    }
    let mut second = (**first).clone();
    let mut sizes = sizes.clone();
    let mut made = Vec::new();
    for (number, size) in before.iter().enumerate() {
        let next = second.actions.push(Action {
            preamble: Preamble { name: format!("{table}_{number}_next"), hidden: true, ..Preamble::default() },
            params: Vec::new(),
            loc: declared.loc,
        });
        let mut piece = graph::like(declared, &number.to_string());
        piece.actions.retain(|action| !action.default_only);
        piece.actions.push(ActionRef { default_only: true, ..ActionRef::new(next) });
        piece.default_action = ActionCall { action: next, args: Vec::new() };
        (piece.const_default, piece.size) = (true, Some(*size));
        sizes.insert(piece.preamble.name.clone(), *size);
        made.push((second.tables.push(piece), next));
    }
    // The last piece has the table's own number, and so its default action.
    let rest = &mut second.tables[id];
    (rest.entries, rest.const_entries, rest.size) = (Vec::new(), false, Some(*last));
    sizes.insert(table.to_owned(), *last);

    let listed = second.tables.clone();
    let body = &mut second.controls[site.control].body;
    let Some((keys, arms, loc)) = graph::take_apply(body, site.block) else {
        return refused("its application is gone, which is a bug".to_owned());
    };
    let mut code = Code { body, block: site.block, loc };
    for (piece, next) in &made {
        let (missed, _) = code.arm_block(&[]);
        let then = code.new_block();
        let here = arms.iter().filter(|arm| listed[*piece].actions.iter().any(|a| a.action == arm.action)).cloned();
        let here = here.chain([Arm { action: *next, block: missed }]).collect();
        code.end(Term::Apply { table: *piece, keys: keys.clone(), arms: here });
        code.block = missed;
        code.end(Term::Jump(BlockCall::to(then)));
        code.block = then;
    }
    code.end(Term::Apply { table: id, keys, arms });

    let pieces: Vec<TableId> = made.iter().map(|(piece, _)| *piece).chain([id]).collect();
    let rule = Pieces {
        name: table.to_owned(),
        from: id,
        layout: KeyLayout::new(&declared.keys),
        ordered: declared.keys.iter().any(|key| key.kind != MatchKind::Exact),
        room: room.iter().map(|room| *room as usize).collect(),
        held: vec![BTreeMap::new(); room.len()],
        place: HashMap::new(),
        pieces: pieces.clone(),
        before: Vec::new(),
    };
    let numbers = first.tables.keys().collect();
    let (map, pipeline) = Shadowed::new(first, second, numbers, &pieces, rule)?;
    Ok(Rewritten { pipeline, sizes, map: Box::new(map) })
}

/// Which piece holds which entries.
struct Pieces {
    name: String,
    from: TableId,
    layout: KeyLayout,
    /// Whether the order of pieces matters.
    ordered: bool,
    room: Vec<usize>,
    /// Entries of each piece by their strength.
    held: Vec<BTreeMap<Rank, Entry>>,
    place: HashMap<Rank, usize>,
    pieces: Vec<TableId>,
    /// Since the beginning: piece, entry, and what was there before.
    before: Vec<(usize, Rank, Option<Entry>)>,
}

impl Pieces {
    fn rank(&self, entry: &Entry) -> Rank {
        let prefix = self.layout.fields.iter().find(|field| field.kind == MatchKind::Lpm);
        let len = prefix.map_or(0, |field| field.second(entry.key())[0]);
        (Reverse(entry.priority()), Reverse(len), Words::from_slice(entry.key()))
    }

    fn set(&mut self, piece: usize, rank: Rank, entry: Option<Entry>) {
        let old = match entry {
            Some(entry) => {
                self.place.insert(rank.clone(), piece);
                self.held[piece].insert(rank.clone(), entry)
            }
            None => {
                if self.place.get(&rank) == Some(&piece) {
                    self.place.remove(&rank);
                }
                self.held[piece].remove(&rank)
            }
        };
        self.before.push((piece, rank, old));
    }

    fn say(&self, kind: UpdateKind, piece: usize, entry: &Entry) -> Update {
        write(kind, self.pieces[piece], entry.key(), entry, entry.priority())
    }

    /// The piece for a new entry. With an order: the first one with an entry that is weaker, or that all later ones leave to it.
    fn choose(&self, rank: &Rank) -> usize {
        let has_room = |piece: &usize| self.held[*piece].len() < self.room[*piece];
        let all = 0..self.held.len();
        if !self.ordered {
            return all.clone().find(has_room).unwrap_or(self.held.len() - 1);
        }
        // Entries stronger than it must be in this piece or earlier, weaker ones in this or later.
        let from = all.clone().rev().find(|at| self.held[*at].first_key_value().is_some_and(|(first, _)| first < rank));
        let to = all.clone().find(|at| self.held[*at].last_key_value().is_some_and(|(last, _)| last > rank));
        let (from, to) = (from.unwrap_or(0), to.unwrap_or(self.held.len() - 1));
        (from..=to).find(has_room).unwrap_or(from)
    }

    fn insert(&mut self, entry: &Entry, out: &mut Vec<Update>) -> Result<(), String> {
        let rank = self.rank(entry);
        let mut piece = self.choose(&rank);
        let (mut rank, mut entry) = (rank, entry.clone());
        loop {
            let full = self.held[piece].len() >= self.room[piece];
            if !full {
                out.push(self.say(UpdateKind::Insert, piece, &entry));
                self.set(piece, rank, Some(entry));
                return Ok(());
            }
            if !self.ordered || piece + 1 == self.held.len() {
                return self.make_room(piece, rank, entry, out);
            }
            // The weakest goes on to the next piece, which may be the new one itself.
            let weakest = self.held[piece].last_key_value().map(|(rank, entry)| (rank.clone(), entry.clone()));
            if let Some((weak, moved)) = weakest.filter(|(weak, _)| *weak > rank) {
                out.push(self.say(UpdateKind::Delete, piece, &moved));
                self.set(piece, weak.clone(), None);
                out.push(self.say(UpdateKind::Insert, piece, &entry));
                self.set(piece, rank, Some(entry));
                (rank, entry) = (weak, moved);
            }
            piece += 1;
        }
    }

    /// The last piece is full, but an earlier one may have room: the strongest of each piece in between goes back by one.
    fn make_room(&mut self, last: usize, rank: Rank, entry: Entry, out: &mut Vec<Update>) -> Result<(), String> {
        let free = (0..last).rev().find(|at| self.held[*at].len() < self.room[*at]).filter(|_| self.ordered);
        let Some(free) = free else {
            let name = &self.name;
            return Err(format!("table {name}: its pieces are full; delete entries, or give it larger ones"));
        };
        let (mut rank, mut entry) = (rank, entry);
        for piece in (free + 1..=last).rev() {
            let strongest = self.held[piece].first_key_value().map(|(rank, entry)| (rank.clone(), entry.clone()));
            if let Some((strong, moved)) = strongest.filter(|(strong, _)| *strong < rank) {
                out.push(self.say(UpdateKind::Delete, piece, &moved));
                self.set(piece, strong.clone(), None);
                out.push(self.say(UpdateKind::Insert, piece, &entry));
                self.set(piece, rank, Some(entry));
                (rank, entry) = (strong, moved);
            }
        }
        out.push(self.say(UpdateKind::Insert, free, &entry));
        self.set(free, rank, Some(entry));
        Ok(())
    }
}

impl Rule for Pieces {
    fn owns(&self, table: TableId) -> bool {
        table == self.from
    }

    fn begin(&mut self) {
        self.before.clear();
    }

    fn undo(&mut self) {
        while let Some((piece, rank, old)) = self.before.pop() {
            self.set(piece, rank, old);
            self.before.pop();
        }
    }

    fn entry(&mut self, _: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String> {
        match change {
            EntryChange::Inserted(entry) => self.insert(entry, out)?,
            EntryChange::Modified(_, entry) => {
                let rank = self.rank(entry);
                if let Some(piece) = self.place.get(&rank).copied() {
                    out.push(self.say(UpdateKind::Modify, piece, entry));
                    self.set(piece, rank, Some(entry.clone()));
                }
            }
            EntryChange::Deleted(entry) => {
                let rank = self.rank(entry);
                if let Some(piece) = self.place.get(&rank).copied() {
                    out.push(self.say(UpdateKind::Delete, piece, entry));
                    self.set(piece, rank, None);
                }
            }
        }
        Ok(())
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let one = |(at, held): (usize, &BTreeMap<Rank, Entry>)| {
            (format!("{}: entries in piece {at}", self.name), held.len() as f64)
        };
        self.held.iter().enumerate().map(one).collect()
    }
}
