//! [`Fresh`]: which segments a change of a table makes stale, and no others.
//!
//! A segment was made from lookups ([`Asked`]). It is stale if one of them would now find another entry, or the same one with another action: if its entry was
//! changed or deleted; or if a new entry matches some packet of the segment and is stronger than what was found. So segments stand in lists, at most a node for each
//! lookup: of a table whose keys are all exact under the number of the entry that was found, as a new entry cannot be stronger than it; else under
//! the exact keys, so that a change of one tenant's route looks at that tenant's segments only. Who found nothing also stands in a list of the table's, for
//! changes of the default action.

use crate::heads::{Heads, NONE};
use crate::segment::{Asked, Segment};
use crate::witness::Witness;
use entries::Entry;
use ir::{Entity, Pipeline};
use lookup::{HugeVec, soon};
use std::hash::{BuildHasher, Hasher};

type Fast = foldhash::fast::RandomState;

/// Where a segment is: number of its store, and place.
pub type Place = (u32, u32);

/// A segment in a list: the nodes before it and behind it, and its place.
type Node = [u32; 4];

const BEFORE: usize = 0;
const BEHIND: usize = 1;

fn node(before: u32, behind: u32, place: Place) -> Node {
    [before, behind, place.0, place.1]
}

fn place(node: Node) -> Place {
    (node[2], node[3])
}

/// A list.
#[derive(Clone, Copy, Debug)]
enum List {
    /// Table, and number of the entry.
    Number(u32, u32),
    /// Hash of exact keys.
    Key(u64),
    /// Table.
    Missed(u32),
}

/// Keeps back keys' lists that were told before, if they are among the first few.
fn once(each: &mut impl FnMut(List)) -> impl FnMut(List) {
    let (mut told, mut count) = ([0; 8], 0);
    move |list| {
        if let List::Key(hash) = list {
            if told[..count].contains(&hash) {
                return;
            }
            if count < told.len() {
                told[count] = hash;
                count += 1;
            }
        }
        each(list);
    }
}

/// Segments by what they asked.
#[derive(Clone, Debug)]
pub struct Fresh {
    nodes: HugeVec<Node>,
    /// How many there are.
    count: usize,
    /// Runs of nodes that are free, by their length: the first of each.
    free: Vec<Vec<u32>>,
    /// By table whose keys are all exact and whose entries have numbers for whoever takes them out: by number of the entry.
    by_number: Vec<Option<Vec<u32>>>,
    /// Two keys may share a list: whoever looks there checks each segment.
    by_key: Heads,
    /// By table.
    missed: Vec<u32>,
    /// By table: there may be another default action.
    defaults: Vec<bool>,
    hasher: Fast,
}

impl Fresh {
    /// For a program's tables.
    pub fn new(pipeline: &Pipeline, witnesses: &[Witness]) -> Fresh {
        // Entries that go for being idle are told without their number.
        let by_number = pipeline.tables.iter().map(|(id, table)| {
            let numbered = witnesses[id.index()].all_exact() && !table.idle_timeout && !table.add_on_miss;
            numbered.then(Vec::new)
        });
        Fresh {
            nodes: HugeVec::new(),
            count: 0,
            free: Vec::new(),
            by_number: by_number.collect(),
            by_key: Heads::default(),
            missed: vec![NONE; pipeline.tables.len()],
            defaults: pipeline.tables.values().map(|table| !table.const_default).collect(),
            hasher: Fast::default(),
        }
    }

    /// Nothing is kept any more.
    pub fn clear(&mut self) {
        self.forget_nodes();
        self.by_number.iter_mut().flatten().for_each(Vec::clear);
        self.by_key.clear();
        self.missed.fill(NONE);
    }

    /// Nothing stands in any list: all nodes are as if none had been.
    pub fn forget_nodes(&mut self) {
        self.count = 0;
        self.free.clear();
    }

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        let numbers: usize = self.by_number.iter().flatten().map(|heads| size_of_val(&**heads)).sum();
        self.nodes.bytes() + numbers + self.by_key.memory()
    }

    /// Of exact keys. Tables with the same ones share lists, so that a segment that asks several tables about one tenant stands there once.
    fn hash(&self, exact: impl Iterator<Item = u64>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        exact.for_each(|word| hasher.write_u64(word));
        hasher.finish()
    }

    fn first(&self, list: List) -> u32 {
        match list {
            List::Number(table, number) => {
                let heads = self.by_number[table as usize].as_deref().unwrap_or_default();
                heads.get(number as usize).copied().unwrap_or(NONE)
            }
            List::Key(hash) => self.by_key.get(hash),
            List::Missed(table) => self.missed[table as usize],
        }
    }

    /// The list begins with another node; what was its first.
    fn set_first(&mut self, list: List, first: u32) -> u32 {
        match list {
            List::Number(table, number) => {
                let Some(heads) = &mut self.by_number[table as usize] else { return NONE };
                if heads.len() <= number as usize {
                    heads.resize(number as usize + 1, NONE);
                }
                std::mem::replace(&mut heads[number as usize], first)
            }
            List::Missed(table) => std::mem::replace(&mut self.missed[table as usize], first),
            List::Key(hash) => self.by_key.set(hash, first),
        }
    }

    /// The lists for a question, each with a node of its own.
    fn lists_for(
        &self,
        witnesses: &[Witness],
        (table, found): (u32, Option<u32>),
        key: impl Fn(usize) -> u64,
        each: &mut impl FnMut(List),
    ) {
        match (found, &self.by_number[table as usize]) {
            (Some(found), Some(_)) => each(List::Number(table, found)),
            // There is never an entry.
            _ if witnesses[table as usize].words() == 0 => {}
            _ => each(List::Key(self.hash(witnesses[table as usize].exact_words().map(key)))),
        }
        if found.is_none() && self.defaults[table as usize] {
            each(List::Missed(table));
        }
    }

    /// The lists of whatever was made from these lookups: table, entry that was found, words of the key.
    pub fn lists_of<'k>(
        &self,
        witnesses: &[Witness],
        asked: impl Iterator<Item = (u32, Option<u32>, &'k [u64])>,
        lists: &mut Lists,
    ) {
        lists.0.clear();
        let mut push = |list| lists.0.push(list);
        let mut each = once(&mut push);
        for (table, found, key) in asked {
            self.lists_for(witnesses, (table, found), |word| key[word], &mut each);
        }
    }

    /// The lists of a segment.
    pub fn lists_of_segment(&self, witnesses: &[Witness], segment: &Segment, lists: &mut Lists) {
        self.lists_of(witnesses, segment.asked.iter().map(|asked| (asked.table, asked.found, &*asked.key)), lists);
    }

    /// Asks for where these lists begin, so that it is near when somebody is put in front.
    pub fn lists_soon(&self, lists: &Lists) {
        for list in &lists.0 {
            match list {
                List::Number(table, number) => {
                    if let Some(heads) = &self.by_number[*table as usize] {
                        soon(heads, *number as usize);
                    }
                }
                List::Key(hash) => self.by_key.soon(*hash),
                List::Missed(_) => {}
            }
        }
    }

    /// The same for whoever stands first.
    pub fn first_soon(&self, lists: &Lists) {
        lists.0.iter().for_each(|list| soon(&self.nodes, self.first(*list) as usize));
    }

    /// Asks for the nodes of whoever will be linked to so many lists, after `before` others.
    pub fn link_soon(&self, lists: &Lists, before: usize) {
        let free = self.free.get(lists.0.len()).map(Vec::as_slice).unwrap_or_default();
        if let Some(nodes) = free.len().checked_sub(before + 1).map(|at| free[at]) {
            self.nodes_soon(nodes, lists);
        }
    }

    /// Asks for the nodes of whoever stands in these lists.
    pub fn nodes_soon(&self, nodes: u32, lists: &Lists) {
        (0..lists.0.len()).step_by(4).for_each(|at| soon(&self.nodes, nodes as usize + at));
    }

    /// The same for whoever stands before and behind them.
    pub fn neighbours_soon(&self, nodes: u32, lists: &Lists) {
        for [before, behind, ..] in self.nodes.iter().skip(nodes as usize).take(lists.0.len()) {
            soon(&self.nodes, *before as usize);
            soon(&self.nodes, *behind as usize);
        }
    }

    /// Something is kept that stands in these lists ([`Fresh::lists_of`]): the first of its nodes.
    pub fn link(&mut self, place: Place, lists: &Lists) -> u32 {
        let count = lists.0.len();
        if count == 0 {
            return NONE;
        }
        let nodes = match self.free.get_mut(count).and_then(Vec::pop) {
            Some(nodes) => nodes,
            None => {
                let nodes = self.count as u32;
                self.count += count;
                self.nodes.grow_by_steps(self.count);
                nodes
            }
        };
        for (at, list) in lists.0.iter().enumerate() {
            let number = nodes + at as u32;
            let behind = self.set_first(*list, number);
            self.nodes[number as usize] = node(NONE, behind, place);
            if let Some(behind) = self.nodes.get_mut(behind as usize) {
                behind[BEFORE] = number;
            }
        }
        nodes
    }

    /// What stood in these lists, with its first node there, is gone.
    pub fn unlink(&mut self, nodes: u32, lists: &Lists) {
        for (at, list) in lists.0.iter().enumerate() {
            let [before, behind, ..] = self.nodes[nodes as usize + at];
            match self.nodes.get_mut(before as usize) {
                Some(before) => before[BEHIND] = behind,
                None => {
                    self.set_first(*list, behind);
                }
            }
            if let Some(behind) = self.nodes.get_mut(behind as usize) {
                behind[BEFORE] = before;
            }
        }
        let count = lists.0.len();
        if count == 0 {
            return;
        }
        if self.free.len() <= count {
            self.free.resize(count + 1, Vec::new());
        }
        self.free[count].push(nodes);
    }

    /// Checks the invalidation index: each of these segments, given with its first node and its
    /// place, is once in each of its lists, and no other segment is there.
    ///
    /// # Errors
    /// What is wrong: a bug.
    pub fn check<'s>(
        &self,
        witnesses: &[Witness],
        segments: impl Iterator<Item = (&'s Segment, u32, Place)>,
    ) -> Result<(), String> {
        let (mut nodes, mut lists, mut own) = (0, 0, Lists::default());
        for (segment, first, place) in segments {
            let mut wrong = None;
            self.lists_of_segment(witnesses, segment, &mut own);
            for (list, number) in own.0.iter().zip(first..) {
                let [before, behind, ..] = self.nodes[number as usize];
                let follows = match self.nodes.get(before as usize) {
                    Some(before) => before[BEHIND] == number,
                    None => {
                        lists += 1;
                        self.first(*list) == number
                    }
                };
                let leads = self.nodes.get(behind as usize).is_none_or(|behind| behind[BEFORE] == number);
                if self::place(self.nodes[number as usize]) != place || !follows || !leads {
                    wrong = Some(format!("node {number} of {place:?} in {list:?}: {:?}", self.nodes[number as usize]));
                }
            }
            nodes += own.0.len();
            wrong.map_or(Ok(()), Err)?;
        }
        let free: usize = self.free.iter().enumerate().map(|(length, runs)| length * runs.len()).sum();
        let numbered = self.by_number.iter().flatten().flatten();
        let heads = numbered.chain(&self.missed).filter(|first| **first != NONE).count() + self.by_key.len();
        match nodes + free == self.count && heads == lists {
            true => Ok(()),
            false => Err(format!("{} nodes, {nodes} in lists, {free} free; {heads} lists, {lists} begun", self.count)),
        }
    }

    fn all(&self, list: List) -> impl Iterator<Item = Place> + '_ {
        let at = |node: u32| self.nodes.get(node as usize);
        std::iter::successors(at(self.first(list)), move |node| at(node[BEHIND])).map(|node| place(*node))
    }

    /// Segments that asked a table under the exact keys of an entry: of a table whose keys are all exact those that found nothing, and those that found the
    /// entry of that number.
    pub fn under(
        &self,
        witness: &Witness,
        table: u32,
        entry: &Entry,
        number: Option<u32>,
    ) -> impl Iterator<Item = Place> + '_ {
        let key = self.hash(witness.exact_of_entry(entry).iter().copied());
        let numbered = number.filter(|_| self.by_number[table as usize].is_some());
        let numbered = numbered.map(|number| self.all(List::Number(table, number)));
        self.all(List::Key(key)).chain(numbered.into_iter().flatten())
    }

    /// Segments that found nothing in a table.
    pub fn missed(&self, table: u32) -> impl Iterator<Item = Place> + '_ {
        self.all(List::Missed(table))
    }
}

/// Room for the lists of a segment.
#[derive(Clone, Debug, Default)]
pub struct Lists(Vec<List>);

/// Whether an entry matches some key of what was asked.
pub fn may_match(witness: &Witness, asked: &Asked, entry: &Entry) -> bool {
    witness.fields().all(|(field, at)| {
        let (key, mask) = (&asked.key[at..at + field.words], &asked.mask[at..at + field.words]);
        field.may_match(entry.key(), key, mask)
    })
}
