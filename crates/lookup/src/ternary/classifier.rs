//! The classifier: hash tables over common mask bits of rules. A bucket holds a chain of blocks or,
//! if it has too many rules, a smaller node of the same kind.
//!
//! A *subtable* has a mask and holds rules with masks that include it. A rule is therefore in
//! exactly one bucket, and inserting or removing it touches one bucket. (Tuple space search with
//! relaxed tuples, after TupleMerge, Daly et al., ToN 2019; buckets subdivided by other bits, after
//! the cut trees of CutSplit and KickTree.) A *node* has a few subtables and a chain of *unhashed*
//! rules. A rule goes to the first subtable that can hold it.
//!
//! The masks of a node are a plan ([`super::mask_planner`]) made from a sample of its rules. After
//! a node has grown by half, a new plan is made and later changes move rules to the new subtables
//! ([`super::maintenance`]). Until then lookups find them in the old ones.

use super::blocks::RuleBlocks;
use super::bucket_head::{BucketHead, NODE_FLAG, common_tag, hash_factor, head_number, tag_of_hash, with_tag};
use super::compare::SubtableView;
use super::mask_planner::{MAX_UNHASHED, MaskPlanner};
use super::records::RuleSlab;
use super::rule::{RuleLayout, biased_priority};
use std::collections::VecDeque;

/// Maximum number of blocks of a bucket's chain; a longer chain becomes a node.
const MAX_CHAIN_BLOCKS: usize = 6;
/// Maximum depth of nodes; deeper buckets stay chains.
pub const MAX_DEPTH: u32 = 12;
/// A node with fewer rules becomes a chain again.
const COLLAPSE_RULES: u32 = 8;
/// Maximum number of subtables of a node for which more are planned for its unhashed rules.
const MAX_TABLES: usize = 32;
/// A node with fewer rules gets no plan.
pub const MIN_PLAN_RULES: u32 = 25;

pub const ROOT_NODE: u32 = 0;

/// Hash table of rules by the bits of a mask.
#[derive(Clone, Debug)]
pub struct Subtable {
    /// The words of the mask, followed by the heads. The number of heads is a power of two.
    pub data: Vec<u64>,
    /// Right shift of a hash that yields the position of a head.
    pub hash_shift: u32,
    pub count: u32,
    /// Position at which the next search for any rule starts.
    pub cursor: u32,
    /// Upper bound of the priorities of its rules, biased to be unsigned.
    pub max_priority: u32,
}

impl Subtable {
    pub fn new(mask: &[u64], heads: usize) -> Subtable {
        let heads = heads.next_power_of_two().clamp(2, 1 << 30);
        let mut data = vec![0; mask.len() + heads];
        data[..mask.len()].copy_from_slice(mask);
        Subtable { data, hash_shift: 64 - heads.trailing_zeros(), count: 0, cursor: 0, max_priority: 0 }
    }

    /// Returns a view for lookups of keys of `words` words.
    #[inline(always)]
    pub fn bucket_view(&self, words: usize) -> SubtableView {
        let (mask, heads) = self.data.split_at(words);
        SubtableView {
            mask: mask.as_ptr(),
            heads: heads.as_ptr(),
            shift: self.hash_shift,
            max_head: u64::from(self.max_priority) << 32 | u64::from(u32::MAX),
        }
    }

    /// Returns the index in `data` of the head for a rule, and the rule's tag, if the subtable can
    /// hold it.
    fn head_position(&self, value: &[u64], mask: &[u64]) -> Option<(usize, u64)> {
        let mut hash = 0_u64;
        for (at, (value, mask)) in value.iter().zip(mask).enumerate() {
            let own = self.data[at];
            if own & !mask != 0 {
                return None;
            }
            hash = hash.wrapping_add((value & own).wrapping_mul(hash_factor(at)));
        }
        Some((value.len() + (hash >> self.hash_shift) as usize, tag_of_hash(hash, self.hash_shift)))
    }
}

/// Subtables and unhashed rules.
#[derive(Clone, Debug, Default)]
pub struct ClassifierNode {
    /// Subtables of the plan, followed by old ones with rules that have yet to move.
    pub subtables: Vec<Subtable>,
    /// Number of subtables that belong to the plan.
    pub planned_subtables: usize,
    /// Chain of rules in no subtable.
    pub unhashed: BucketHead,
    /// Chain of rules that have yet to move to the new plan.
    pub old_unhashed: BucketHead,
    /// Rules in this node and below.
    pub count: u32,
    /// Rules in `unhashed`.
    pub unhashed_count: u32,
    /// `count` and `unhashed_count` when the plan was made.
    pub planned_counts: (u32, u32),
    /// Number of nodes above it.
    pub depth: u32,
    /// Number of times that the node's number was reused.
    pub generation: u32,
    pub is_queued: bool,
    /// Set while rules move to a new plan: `true` for all rules, `false` for the unhashed ones.
    pub moves_all_rules: Option<bool>,
}

impl ClassifierNode {
    /// Returns whether the number of rules differs too much from that of the plan.
    pub fn has_outgrown_plan(&self) -> bool {
        let planned = self.planned_counts.0;
        self.count >= MIN_PLAN_RULES && self.count >= planned + planned / 2 + 8 || self.count < planned / 4
    }

    /// Returns whether there are enough unhashed rules for more subtables.
    fn has_outgrown_unhashed(&self) -> bool {
        let planned = self.planned_counts.1;
        self.unhashed_count > MAX_UNHASHED as u32
            && self.unhashed_count >= planned + planned / 4 + 8
            && self.subtables.len() < MAX_TABLES
    }
}

/// All rules of a table.
#[derive(Clone, Debug)]
pub struct Classifier {
    pub layout: RuleLayout,
    pub records: RuleSlab,
    pub blocks: RuleBlocks,
    pub nodes: Vec<ClassifierNode>,
    free_nodes: Vec<u32>,
    /// Nodes that need a new plan, with their generations.
    pub plan_queue: VecDeque<(u32, u32)>,
    /// Planner for the first node of the queue.
    pub planner: Option<Box<MaskPlanner>>,
    pub random_state: u64,
    /// Mask of the bits of each field.
    pub field_masks: Vec<Vec<u64>>,
}

/// Returns the head of a chain.
fn chain_head(blocks: &RuleBlocks, first: u32) -> BucketHead {
    if first == 0 { 0 } else { u64::from(biased_priority(blocks.block_ranks(first)[0])) << 32 | u64::from(first) }
}

impl Classifier {
    pub fn new(shape: RuleLayout, longest_value: usize) -> Classifier {
        Classifier {
            records: RuleSlab::new(&shape, longest_value),
            blocks: RuleBlocks::new(&shape),
            nodes: vec![ClassifierNode::default()],
            free_nodes: Vec::new(),
            plan_queue: VecDeque::new(),
            planner: None,
            random_state: 0x5eed,
            field_masks: shape.field_masks(),
            layout: shape,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let tables = |node: &ClassifierNode| {
            node.subtables.iter().map(|table| table.data.capacity() * 8 + size_of::<Subtable>()).sum::<usize>()
        };
        let nodes = self.nodes.iter().map(|node| tables(node) + size_of::<ClassifierNode>()).sum::<usize>();
        self.records.memory_bytes() + self.blocks.memory_bytes() + nodes
    }

    /// Inserts a record's rule below a node.
    pub fn insert_below(&mut self, mut node: u32, id: u32) {
        let priority = u64::from(biased_priority(self.records.rule(id)[0])) << 32;
        loop {
            let rule = self.records.rule(id);
            let this_node = &mut self.nodes[node as usize];
            this_node.count += 1;
            let (value, mask) = (self.layout.value_words(rule), self.layout.mask_words(rule));
            let found = this_node.subtables[..this_node.planned_subtables].iter().enumerate().find_map(
                |(table_index, table)| {
                    let (head_index, tag) = table.head_position(value, mask)?;
                    Some((table_index, head_index, tag))
                },
            );
            let has_outgrown_plan = this_node.has_outgrown_plan();
            let Some((table_index, head_index, tag)) = found else {
                this_node.unhashed_count += 1;
                let has_outgrown_plan = has_outgrown_plan || this_node.has_outgrown_unhashed();
                let (first, _) =
                    self.blocks.add_to_chain(&self.layout, &self.records, head_number(this_node.unhashed) as u32, id);
                this_node.unhashed = chain_head(&self.blocks, first);
                return self.queue_plan_if(has_outgrown_plan, node);
            };
            this_node.subtables[table_index].count += 1;
            this_node.subtables[table_index].max_priority =
                this_node.subtables[table_index].max_priority.max((priority >> 32) as u32);
            let head = this_node.subtables[table_index].data[head_index];
            // A head keeps a tag only while all rules below it share the tag.
            let tag = common_tag(head, tag);
            if head & NODE_FLAG == 0 {
                let (first, blocks) =
                    self.blocks.add_to_chain(&self.layout, &self.records, head_number(head) as u32, id);
                this_node.subtables[table_index].data[head_index] = with_tag(chain_head(&self.blocks, first), tag);
                if blocks > MAX_CHAIN_BLOCKS && this_node.depth < MAX_DEPTH {
                    let depth = this_node.depth + 1;
                    let child = self.node_from_chain(first, depth);
                    let head = &mut self.nodes[node as usize].subtables[table_index].data[head_index];
                    *head = with_tag(*head >> 32 << 32 | NODE_FLAG | u64::from(child), tag);
                    self.queue_plan_if(true, child);
                }
                return self.queue_plan_if(has_outgrown_plan, node);
            }
            // The node's head bounds the priority of all rules below it.
            this_node.subtables[table_index].data[head_index] =
                with_tag(priority.max(head >> 32 << 32) | head << 32 >> 32, tag);
            self.queue_plan_if(has_outgrown_plan, node);
            node = head_number(head) as u32;
        }
    }

    /// Creates a node with a chain of unhashed rules that starts at block `first`. Returns its
    /// number. A reused node keeps its generation, which tells it from the earlier one.
    fn node_from_chain(&mut self, first: u32, depth: u32) -> u32 {
        let mut count = 0;
        self.blocks.visit_records(first, &mut |_| {
            count += 1;
            true
        });
        let new_node = ClassifierNode {
            unhashed: chain_head(&self.blocks, first),
            count,
            unhashed_count: count,
            depth,
            ..ClassifierNode::default()
        };
        let Some(node) = self.free_nodes.pop() else {
            self.nodes.push(new_node);
            return self.nodes.len() as u32 - 1;
        };
        let generation = self.nodes[node as usize].generation;
        self.nodes[node as usize] = ClassifierNode { generation, ..new_node };
        node
    }

    /// Marks a node's plan as complete.
    pub fn complete_plan(&mut self, node: u32, whole: bool) {
        let here = &mut self.nodes[node as usize];
        here.planned_counts = if whole { (here.count, 0) } else { (here.planned_counts.0, here.unhashed_count) };
        if here.subtables.is_empty() {
            here.planned_counts = (here.count, here.unhashed_count);
        }
        (here.is_queued, here.moves_all_rules) = (false, None);
        let outgrown = here.has_outgrown_plan() || here.has_outgrown_unhashed();
        self.plan_queue.pop_front();
        self.queue_plan_if(outgrown, node);
    }

    fn queue_plan_if(&mut self, outgrown: bool, node: u32) {
        let here = &mut self.nodes[node as usize];
        if outgrown && !here.is_queued {
            here.is_queued = true;
            self.plan_queue.push_back((node, here.generation));
        }
    }

    /// Returns the record of the rule that equals this one except for its sequence number.
    pub fn find_rule(&self, node: u32, rule: &[u64]) -> Option<u32> {
        let here = &self.nodes[node as usize];
        let (value, mask) = (self.layout.value_words(rule), self.layout.mask_words(rule));
        let heads = here.subtables.iter().filter_map(|table| Some(table.data[table.head_position(value, mask)?.0]));
        let heads = heads.chain([here.unhashed, here.old_unhashed]);
        let in_head = |head: BucketHead| match head & NODE_FLAG {
            _ if head >> 32 < u64::from(biased_priority(rule[0])) => None,
            0 => self.blocks.find_in_chain(&self.records, head_number(head) as u32, rule),
            _ => self.find_rule(head_number(head) as u32, rule),
        };
        heads.into_iter().find_map(in_head)
    }

    /// Removes the rule that equals this one except for its sequence number. Returns its record,
    /// which still exists; `None` if there is no such rule below the node. The rule may be in a
    /// subtable, in the chain of unhashed rules, or in the old chain of an incomplete
    /// reorganisation.
    pub fn remove_below(&mut self, node: u32, rule: &[u64]) -> Option<u32> {
        for table_index in 0..self.nodes[node as usize].subtables.len() {
            let table = &self.nodes[node as usize].subtables[table_index];
            let Some((head_index, _)) =
                table.head_position(self.layout.value_words(rule), self.layout.mask_words(rule))
            else {
                continue;
            };
            let old = table.data[head_index];
            let Some((head, id)) = self.remove_from_bucket(old, rule) else { continue };
            let this_node = &mut self.nodes[node as usize];
            this_node.subtables[table_index].data[head_index] = with_tag(head, old);
            this_node.subtables[table_index].count -= 1;
            return Some(self.count_removal(node, id));
        }
        let this_node = &self.nodes[node as usize];
        let (unhashed, old_unhashed) = (this_node.unhashed, this_node.old_unhashed);
        if let Some((head, id)) = self.remove_from_bucket(unhashed, rule) {
            let this_node = &mut self.nodes[node as usize];
            this_node.unhashed = head;
            this_node.unhashed_count -= 1;
            return Some(self.count_removal(node, id));
        }
        let (head, id) = self.remove_from_bucket(old_unhashed, rule)?;
        self.nodes[node as usize].old_unhashed = head;
        Some(self.count_removal(node, id))
    }

    fn count_removal(&mut self, node: u32, id: u32) -> u32 {
        let here = &mut self.nodes[node as usize];
        here.count -= 1;
        let outgrown = here.has_outgrown_plan();
        self.queue_plan_if(outgrown, node);
        id
    }

    /// Removes a rule from a bucket. Returns the new head and the record.
    fn remove_from_bucket(&mut self, head: BucketHead, rule: &[u64]) -> Option<(BucketHead, u32)> {
        if head >> 32 < u64::from(biased_priority(rule[0])) {
            return None;
        }
        let number = head_number(head) as u32;
        if head & NODE_FLAG == 0 {
            let (first, id) = self.blocks.remove_from_chain(&self.records, number, rule)?;
            return Some((chain_head(&self.blocks, first), id));
        }
        let id = self.remove_below(number, rule)?;
        Some((if self.nodes[number as usize].count < COLLAPSE_RULES { self.collapse_node(number) } else { head }, id))
    }

    /// Converts a node to a chain.
    fn collapse_node(&mut self, node: u32) -> BucketHead {
        let mut first = 0;
        while let Some(id) = self.pop_rule(node, true) {
            (first, _) = self.blocks.add_to_chain(&self.layout, &self.records, first, id);
        }
        self.free_node(node);
        chain_head(&self.blocks, first)
    }

    fn free_node(&mut self, node: u32) {
        let generation = self.nodes[node as usize].generation + 1;
        self.nodes[node as usize] = ClassifierNode { generation, ..ClassifierNode::default() };
        self.free_nodes.push(node);
    }

    /// Removes an arbitrary rule of a node and returns its id; `None` if no rule is left. With
    /// `all`, every part of the node is searched. Otherwise only the parts that remain from the
    /// layout before the last choice of masks: the subtables after the first `planned_subtables`,
    /// and the old chain. Maintenance moves these rules into the new layout, a few at a time.
    pub fn pop_rule(&mut self, node: u32, all: bool) -> Option<u32> {
        let kept_subtables = if all { 0 } else { self.nodes[node as usize].planned_subtables };
        while self.nodes[node as usize].subtables.len() > kept_subtables {
            let this_node = &mut self.nodes[node as usize];
            let table_index = this_node.subtables.len() - 1;
            let table = &mut this_node.subtables[table_index];
            if table.count == 0 {
                this_node.subtables.pop();
                this_node.planned_subtables = this_node.planned_subtables.min(table_index);
                continue;
            }
            let head_index = next_used_head(table, self.layout.key_words);
            let old = table.data[head_index];
            let (head, id) = self.pop_from_bucket(old);
            let this_node = &mut self.nodes[node as usize];
            this_node.subtables[table_index].data[head_index] = with_tag(head, old);
            this_node.subtables[table_index].count -= 1;
            this_node.count -= 1;
            return Some(id);
        }
        let this_node = &mut self.nodes[node as usize];
        if this_node.old_unhashed != 0 {
            let (first, id) = self.blocks.pop_from_chain(head_number(this_node.old_unhashed) as u32);
            (this_node.old_unhashed, this_node.count) = (chain_head(&self.blocks, first), this_node.count - 1);
            return Some(id);
        }
        if all && this_node.unhashed != 0 {
            let (first, id) = self.blocks.pop_from_chain(head_number(this_node.unhashed) as u32);
            this_node.unhashed = chain_head(&self.blocks, first);
            (this_node.unhashed_count, this_node.count) = (this_node.unhashed_count - 1, this_node.count - 1);
            return Some(id);
        }
        None
    }

    fn pop_from_bucket(&mut self, head: BucketHead) -> (BucketHead, u32) {
        let number = head_number(head) as u32;
        if head & NODE_FLAG == 0 {
            let (first, id) = self.blocks.pop_from_chain(number);
            return (chain_head(&self.blocks, first), id);
        }
        let id = self.pop_rule(number, true).expect("a referenced node has rules");
        if self.nodes[number as usize].count > 0 {
            return (head, id);
        }
        self.free_node(number);
        (0, id)
    }

    /// Samples up to `want` records of rules below a node, or of its unhashed rules only if not
    /// `whole`. A subtable's share of the sample is its share of the rules; a random start makes
    /// samples differ.
    pub fn sample_rules(&mut self, node: u32, whole: bool, want: usize, into: &mut Vec<u32>) {
        let start = self.next_random();
        let this_node = &self.nodes[node as usize];
        let (mut children, rule_count) = (Vec::new(), this_node.count.max(1) as usize);
        let end = into.len() + want;
        for table in this_node.subtables.iter().filter(|table| whole && table.count > 0) {
            let mut remaining = (want * table.count as usize).div_ceil(rule_count);
            let heads = &table.data[self.layout.key_words..];
            for index in 0..heads.len() {
                let head = heads[(start as usize).wrapping_add(index) & (heads.len() - 1)];
                if remaining == 0 {
                    break;
                }
                if head & NODE_FLAG != 0 {
                    let share = remaining.min(self.nodes[head_number(head) as usize].count as usize);
                    children.push((head_number(head) as u32, share));
                    remaining -= share;
                } else {
                    remaining -= sample_chain(&self.blocks, head, remaining, into);
                }
            }
        }
        for head in [this_node.unhashed, this_node.old_unhashed] {
            sample_chain(&self.blocks, head, end.saturating_sub(into.len()), into);
        }
        for (child, share) in children {
            self.sample_rules(child, true, share, into);
        }
    }

    pub fn next_random(&mut self) -> u64 {
        self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash_factor(self.random_state as usize)
    }
}

/// Appends up to `want` records of a chain. Returns their number.
fn sample_chain(blocks: &RuleBlocks, head: BucketHead, want: usize, into: &mut Vec<u32>) -> usize {
    let end = into.len() + want;
    blocks.visit_records(head_number(head) as u32, &mut |id| {
        let more = into.len() < end;
        if more {
            into.push(id);
        }
        more
    });
    want - (end - into.len())
}

/// Returns the position of a nonempty head, in a subtable that has one.
fn next_used_head(table: &mut Subtable, words: usize) -> usize {
    let heads = &table.data[words..];
    let mut at = table.cursor as usize;
    while heads[at] == 0 {
        at = (at + 1) % heads.len();
    }
    table.cursor = at as u32;
    words + at
}
