//! Where rules are: hash tables over the bits that many rules ask for, and in their buckets chains of blocks or, where too many rules
//! meet, smaller trees of the same kind.
//!
//! A *table* has a mask, and holds rules whose own mask includes it: so a rule is in one bucket, never in several, and adding or
//! removing it touches one bucket. (Tuple space search with relaxed tuples, after TupleMerge, Daly et al., ToN 2019; buckets that are
//! searched further by other bits, after the cut trees of CutSplit and KickTree.) A *node* has a few tables and a chain with
//! the *rest*. A rule goes to the first table that can hold it.
//!
//! Which masks a node has is a plan ([`super::plan`]), made from a sample of its rules. When a node has grown by half, a new plan is
//! made and rules move to the new tables, some with each later change ([`super::work`]); until then they are found in the old ones.

use super::blocks::Blocks;
use super::head::{Head, NODE, common, factor, mark_of, number, with_mark};
use super::lanes::Buckets;
use super::plan::{MAX_REST, Planner};
use super::records::Records;
use super::rule::{Shape, priority_of};
use std::collections::VecDeque;

/// Longest chain of a bucket, in blocks; a longer one becomes a node.
const MAX_CHAIN: usize = 6;
/// Nodes below this depth stay chains.
pub const MAX_DEPTH: u32 = 12;
/// A node with fewer rules becomes a chain again.
const COLLAPSE: u32 = 8;
/// A rest of a node with more tables stays a chain.
const MAX_TABLES: usize = 32;
/// A node with fewer rules is not planned.
pub const MIN_PLAN: u32 = 25;

pub const ROOT: u32 = 0;

/// Rules by the bits of a mask.
#[derive(Clone, Debug)]
pub struct Table {
    /// The mask's words, and then the heads, a power of two of them.
    pub data: Vec<u64>,
    /// What to shift a hash by to get a head's position.
    pub shift: u32,
    pub count: u32,
    /// Where a search for any rule goes on.
    pub cursor: u32,
    /// No rule has a greater priority (biased to be unsigned).
    pub top: u32,
}

impl Table {
    pub fn new(mask: &[u64], heads: usize) -> Table {
        let heads = heads.next_power_of_two().clamp(2, 1 << 30);
        let mut data = vec![0; mask.len() + heads];
        data[..mask.len()].copy_from_slice(mask);
        Table { data, shift: 64 - heads.trailing_zeros(), count: 0, cursor: 0, top: 0 }
    }

    /// For a search of keys of so many words.
    #[inline(always)]
    pub fn buckets(&self, words: usize) -> Buckets {
        let (mask, heads) = self.data.split_at(words);
        Buckets {
            mask: mask.as_ptr(),
            heads: heads.as_ptr(),
            shift: self.shift,
            top: u64::from(self.top) << 32 | u64::from(u32::MAX),
        }
    }

    /// Where in `data` the head for a rule is, if the table can hold it, and the rule's mark.
    fn position(&self, value: &[u64], mask: &[u64]) -> Option<(usize, u64)> {
        let mut hash = 0_u64;
        for (at, (value, mask)) in value.iter().zip(mask).enumerate() {
            let own = self.data[at];
            if own & !mask != 0 {
                return None;
            }
            hash = hash.wrapping_add((value & own).wrapping_mul(factor(at)));
        }
        Some((value.len() + (hash >> self.shift) as usize, mark_of(hash, self.shift)))
    }
}

/// Tables and a rest.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Those of the plan, and behind them old ones whose rules are still to move.
    pub tables: Vec<Table>,
    /// How many tables are of the plan.
    pub live: usize,
    /// A chain.
    pub rest: Head,
    /// A chain whose rules are still to move.
    pub old_rest: Head,
    /// Rules in and below it.
    pub count: u32,
    /// Rules in `rest`.
    pub rest_count: u32,
    /// `count` and `rest_count` when it was planned.
    pub planned: (u32, u32),
    /// Nodes above it.
    pub depth: u32,
    /// Counts how often the number was used.
    pub generation: u32,
    pub queued: bool,
    /// Has a plan, for all rules (`true`) or for the rest, and moves them.
    pub moving: Option<bool>,
}

impl Node {
    /// Whether its plan is for much fewer or more rules than it has.
    pub fn outgrown(&self) -> bool {
        let planned = self.planned.0;
        self.count >= MIN_PLAN && self.count >= planned + planned / 2 + 8 || self.count < planned / 4
    }

    /// Whether its rest has become so long that tables of its own are worth while.
    fn rest_outgrown(&self) -> bool {
        let planned = self.planned.1;
        self.rest_count > MAX_REST as u32
            && self.rest_count >= planned + planned / 4 + 8
            && self.tables.len() < MAX_TABLES
    }
}

/// All rules of a table.
#[derive(Clone, Debug)]
pub struct Tree {
    pub shape: Shape,
    pub records: Records,
    pub blocks: Blocks,
    pub nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    /// Nodes to be planned anew, with their generation.
    pub queue: VecDeque<(u32, u32)>,
    /// For the first of the queue.
    pub planner: Option<Box<Planner>>,
    pub random: u64,
    /// Where the bits of the fields are.
    pub fields: Vec<Vec<u64>>,
}

/// The head of a chain.
fn chain(blocks: &Blocks, first: u32) -> Head {
    if first == 0 { 0 } else { u64::from(priority_of(blocks.ranks(first)[0])) << 32 | u64::from(first) }
}

impl Tree {
    pub fn new(shape: Shape, longest_value: usize) -> Tree {
        Tree {
            records: Records::new(&shape, longest_value),
            blocks: Blocks::new(&shape),
            nodes: vec![Node::default()],
            free_nodes: Vec::new(),
            queue: VecDeque::new(),
            planner: None,
            random: 0x5eed,
            fields: shape.field_masks(),
            shape,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let tables =
            |node: &Node| node.tables.iter().map(|table| table.data.capacity() * 8 + size_of::<Table>()).sum::<usize>();
        let nodes = self.nodes.iter().map(|node| tables(node) + size_of::<Node>()).sum::<usize>();
        self.records.memory_bytes() + self.blocks.memory_bytes() + nodes
    }

    /// Puts a record's rule below a node.
    pub fn insert(&mut self, mut node: u32, id: u32) {
        let priority = u64::from(priority_of(self.records.rule(id)[0])) << 32;
        loop {
            let rule = self.records.rule(id);
            let here = &mut self.nodes[node as usize];
            here.count += 1;
            let (value, mask) = (self.shape.value(rule), self.shape.mask(rule));
            let found = here.tables[..here.live].iter().enumerate().find_map(|(t, table)| {
                let (at, mark) = table.position(value, mask)?;
                Some((t, at, mark))
            });
            let outgrown = here.outgrown();
            let Some((t, at, mark)) = found else {
                here.rest_count += 1;
                let outgrown = outgrown || here.rest_outgrown();
                let (first, _) = self.blocks.add(&self.shape, &self.records, number(here.rest) as u32, id);
                here.rest = chain(&self.blocks, first);
                return self.plan_if(outgrown, node);
            };
            here.tables[t].count += 1;
            here.tables[t].top = here.tables[t].top.max((priority >> 32) as u32);
            let head = here.tables[t].data[at];
            let mark = common(head, mark);
            if head & NODE == 0 {
                let (first, blocks) = self.blocks.add(&self.shape, &self.records, number(head) as u32, id);
                here.tables[t].data[at] = with_mark(chain(&self.blocks, first), mark);
                if blocks > MAX_CHAIN && here.depth < MAX_DEPTH {
                    let depth = here.depth + 1;
                    let child = self.node_of(first, depth);
                    let head = &mut self.nodes[node as usize].tables[t].data[at];
                    *head = with_mark(*head >> 32 << 32 | NODE | u64::from(child), mark);
                    self.plan_if(true, child);
                }
                return self.plan_if(outgrown, node);
            }
            here.tables[t].data[at] = with_mark(priority.max(head >> 32 << 32) | head << 32 >> 32, mark);
            self.plan_if(outgrown, node);
            node = number(head) as u32;
        }
    }

    /// A node with a chain as its rest.
    fn node_of(&mut self, first: u32, depth: u32) -> u32 {
        let mut count = 0;
        self.blocks.each(first, &mut |_| {
            count += 1;
            true
        });
        let made = Node { rest: chain(&self.blocks, first), count, rest_count: count, depth, ..Node::default() };
        let Some(node) = self.free_nodes.pop() else {
            self.nodes.push(made);
            return self.nodes.len() as u32 - 1;
        };
        let generation = self.nodes[node as usize].generation;
        self.nodes[node as usize] = Node { generation, ..made };
        node
    }

    /// Says that a node's plan is complete.
    pub fn planned(&mut self, node: u32, whole: bool) {
        let here = &mut self.nodes[node as usize];
        here.planned = if whole { (here.count, 0) } else { (here.planned.0, here.rest_count) };
        if here.tables.is_empty() {
            here.planned = (here.count, here.rest_count);
        }
        (here.queued, here.moving) = (false, None);
        let outgrown = here.outgrown() || here.rest_outgrown();
        self.queue.pop_front();
        self.plan_if(outgrown, node);
    }

    fn plan_if(&mut self, outgrown: bool, node: u32) {
        let here = &mut self.nodes[node as usize];
        if outgrown && !here.queued {
            here.queued = true;
            self.queue.push_back((node, here.generation));
        }
    }

    /// The record of the rule that is equal but for its sequence.
    pub fn find(&self, node: u32, rule: &[u64]) -> Option<u32> {
        let here = &self.nodes[node as usize];
        let (value, mask) = (self.shape.value(rule), self.shape.mask(rule));
        let heads = here.tables.iter().filter_map(|table| Some(table.data[table.position(value, mask)?.0]));
        let heads = heads.chain([here.rest, here.old_rest]);
        let in_head = |head: Head| match head & NODE {
            _ if head >> 32 < u64::from(priority_of(rule[0])) => None,
            0 => self.blocks.find(&self.records, number(head) as u32, rule),
            _ => self.find(number(head) as u32, rule),
        };
        heads.into_iter().find_map(in_head)
    }

    /// Takes a rule, equal but for its sequence, out of a node. Gives its record, which is still there.
    pub fn remove(&mut self, node: u32, rule: &[u64]) -> Option<u32> {
        for t in 0..self.nodes[node as usize].tables.len() {
            let table = &self.nodes[node as usize].tables[t];
            let Some((at, _)) = table.position(self.shape.value(rule), self.shape.mask(rule)) else { continue };
            let old = table.data[at];
            let Some((head, id)) = self.remove_in(old, rule) else { continue };
            let here = &mut self.nodes[node as usize];
            here.tables[t].data[at] = with_mark(head, old);
            here.tables[t].count -= 1;
            return Some(self.removed(node, id));
        }
        let here = &self.nodes[node as usize];
        let (rest, old_rest) = (here.rest, here.old_rest);
        if let Some((head, id)) = self.remove_in(rest, rule) {
            let here = &mut self.nodes[node as usize];
            here.rest = head;
            here.rest_count -= 1;
            return Some(self.removed(node, id));
        }
        let (head, id) = self.remove_in(old_rest, rule)?;
        self.nodes[node as usize].old_rest = head;
        Some(self.removed(node, id))
    }

    fn removed(&mut self, node: u32, id: u32) -> u32 {
        let here = &mut self.nodes[node as usize];
        here.count -= 1;
        let outgrown = here.outgrown();
        self.plan_if(outgrown, node);
        id
    }

    /// Gives the new head and the record.
    fn remove_in(&mut self, head: Head, rule: &[u64]) -> Option<(Head, u32)> {
        if head >> 32 < u64::from(priority_of(rule[0])) {
            return None;
        }
        let number = number(head) as u32;
        if head & NODE == 0 {
            let (first, id) = self.blocks.remove(&self.records, number, rule)?;
            return Some((chain(&self.blocks, first), id));
        }
        let id = self.remove(number, rule)?;
        Some((if self.nodes[number as usize].count < COLLAPSE { self.collapse(number) } else { head }, id))
    }

    /// Makes a chain of a node.
    fn collapse(&mut self, node: u32) -> Head {
        let mut first = 0;
        while let Some(id) = self.pop(node, true) {
            (first, _) = self.blocks.add(&self.shape, &self.records, first, id);
        }
        self.free_node(node);
        chain(&self.blocks, first)
    }

    fn free_node(&mut self, node: u32) {
        let generation = self.nodes[node as usize].generation + 1;
        self.nodes[node as usize] = Node { generation, ..Node::default() };
        self.free_nodes.push(node);
    }

    /// Takes any rule out of a node: of all, or of what is old there. `None`: there is none.
    pub fn pop(&mut self, node: u32, all: bool) -> Option<u32> {
        let least = if all { 0 } else { self.nodes[node as usize].live };
        while self.nodes[node as usize].tables.len() > least {
            let here = &mut self.nodes[node as usize];
            let t = here.tables.len() - 1;
            let table = &mut here.tables[t];
            if table.count == 0 {
                here.tables.pop();
                here.live = here.live.min(t);
                continue;
            }
            let at = next_used(table, self.shape.words);
            let old = table.data[at];
            let (head, id) = self.pop_in(old);
            let here = &mut self.nodes[node as usize];
            here.tables[t].data[at] = with_mark(head, old);
            here.tables[t].count -= 1;
            here.count -= 1;
            return Some(id);
        }
        let here = &mut self.nodes[node as usize];
        if here.old_rest != 0 {
            let (first, id) = self.blocks.pop(number(here.old_rest) as u32);
            (here.old_rest, here.count) = (chain(&self.blocks, first), here.count - 1);
            return Some(id);
        }
        if all && here.rest != 0 {
            let (first, id) = self.blocks.pop(number(here.rest) as u32);
            here.rest = chain(&self.blocks, first);
            (here.rest_count, here.count) = (here.rest_count - 1, here.count - 1);
            return Some(id);
        }
        None
    }

    fn pop_in(&mut self, head: Head) -> (Head, u32) {
        let number = number(head) as u32;
        if head & NODE == 0 {
            let (first, id) = self.blocks.pop(number);
            return (chain(&self.blocks, first), id);
        }
        let id = self.pop(number, true).expect("a node that is named has rules");
        if self.nodes[number as usize].count > 0 {
            return (head, id);
        }
        self.free_node(number);
        (0, id)
    }

    /// Up to `want` records of rules below a node, or of its rest only.
    pub fn sample(&mut self, node: u32, whole: bool, want: usize, into: &mut Vec<u32>) {
        let start = self.next_random();
        let here = &self.nodes[node as usize];
        let (mut children, all) = (Vec::new(), here.count.max(1) as usize);
        let end = into.len() + want;
        for table in here.tables.iter().filter(|table| whole && table.count > 0) {
            let mut left = (want * table.count as usize).div_ceil(all);
            let heads = &table.data[self.shape.words..];
            for at in 0..heads.len() {
                let head = heads[(start as usize).wrapping_add(at) & (heads.len() - 1)];
                if left == 0 {
                    break;
                }
                if head & NODE != 0 {
                    let share = left.min(self.nodes[number(head) as usize].count as usize);
                    children.push((number(head) as u32, share));
                    left -= share;
                } else {
                    left -= take(&self.blocks, head, left, into);
                }
            }
        }
        for head in [here.rest, here.old_rest] {
            take(&self.blocks, head, end.saturating_sub(into.len()), into);
        }
        for (child, share) in children {
            self.sample(child, true, share, into);
        }
    }

    pub fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        factor(self.random as usize)
    }
}

/// Up to `want` records of a chain; gives how many.
fn take(blocks: &Blocks, head: Head, want: usize, into: &mut Vec<u32>) -> usize {
    let end = into.len() + want;
    blocks.each(number(head) as u32, &mut |id| {
        let more = into.len() < end;
        if more {
            into.push(id);
        }
        more
    });
    want - (end - into.len())
}

/// The position of a head that isn't empty, in a table that has one.
fn next_used(table: &mut Table, words: usize) -> usize {
    let heads = &table.data[words..];
    let mut at = table.cursor as usize;
    while heads[at] == 0 {
        at = (at + 1) % heads.len();
    }
    table.cursor = at as u32;
    words + at
}
