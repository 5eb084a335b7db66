//! Dependencies between nodes, from data accesses and from the conditions that control them.

use super::action_steps::StepAssignment;
use super::graph::{BlockIndex, StageGraph};
use super::leaves::ValueLeaves;
use super::nodes::{AccessEvent, BLOCK_END, EventOrder, NodeId, source_location};
use super::state::{StateCell, StateCells};
use super::{Dependency, DependencyKind};
use fixedbitset::FixedBitSet;
use ir::{Terminator, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// Maximum product of nodes and edges for the transitive reduction. Larger graphs keep redundant
/// edges.
const MAX_REDUCTION: usize = 50_000_000;

/// Dependencies by (first, second), each with its kind and the name of the cell or condition that
/// causes it.
pub(super) type Edges = BTreeMap<(NodeId, NodeId), (DependencyKind, String)>;

/// Nodes that decide the conditions over a node, each with the kind of dependency and the cell that
/// causes it.
type NodePredecessors = BTreeMap<NodeId, (DependencyKind, StateCell)>;

fn keep_strongest(before: &mut NodePredecessors, node: NodeId, kind: DependencyKind, cell: StateCell) {
    let known = before.entry(node).or_insert((kind, cell));
    if kind > known.0 {
        *known = (kind, cell);
    }
}

/// Finds dependencies and assigns the gateways of conditions to nodes.
pub(super) struct DependencyFinder<'a, 'p> {
    pub graph: &'a StageGraph<'p>,
    pub leaves: &'a [ValueLeaves],
    pub state: &'a StateCells<'p>,
    pub code: &'a mut StepAssignment,
    pub edges: Edges,
    /// Conditions that no node's gateway can decide.
    pub unattached_conditions: Vec<(String, u32)>,
    /// Steps that can run before some of the conditions over them.
    pub early_steps: BTreeSet<NodeId>,
}

impl DependencyFinder<'_, '_> {
    pub fn find_dependencies(&mut self) {
        self.add_data_dependencies();
        self.add_control_dependencies();
    }

    fn precedes(&self, a: (BlockIndex, EventOrder), b: (BlockIndex, EventOrder)) -> bool {
        if a.0 == b.0 { a.1 < b.1 } else { a.0 < b.0 && self.graph.reaches(a.0, b.0) }
    }

    fn add_edge(
        &mut self,
        first: NodeId,
        second: NodeId,
        kind: DependencyKind,
        through: impl FnOnce(&StateCells) -> String,
    ) {
        let known = self.edges.get(&(first, second)).map(|(k, _)| *k);
        if first != second && known.is_none_or(|k| k < kind) {
            let name = through(self.state);
            self.edges.insert((first, second), (kind, name));
        }
    }

    /// Adds the dependencies of accesses to the same cell: read after write (match), write after
    /// read (reverse) and write after write (action). Each applies only if a path runs the first
    /// access before the second.
    fn add_data_dependencies(&mut self) {
        let mut accesses: BTreeMap<StateCell, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (n, event) in self.code.events.iter().enumerate() {
            event.reads.iter().for_each(|c| accesses.entry(*c).or_default().0.push(n));
            event.writes.iter().for_each(|c| accesses.entry(*c).or_default().1.push(n));
        }
        let mut dependencies = Vec::new();
        let events = &self.code.events;
        let is_before = |a: usize, b: usize| {
            let (a, b): (&AccessEvent, &AccessEvent) = (&events[a], &events[b]);
            a.node != b.node && self.precedes((a.at, a.order), (b.at, b.order))
        };
        for (cell, (reads, writes)) in &accesses {
            for &write in writes {
                let mut add = |first: usize, second: usize, kind| {
                    if is_before(first, second) {
                        dependencies.push((events[first].node, events[second].node, kind, *cell));
                    }
                };
                reads.iter().for_each(|r| add(write, *r, DependencyKind::Match));
                reads.iter().for_each(|r| add(*r, write, DependencyKind::Reverse));
                writes.iter().for_each(|w| add(write, *w, DependencyKind::Action));
            }
        }
        for (first, second, kind, cell) in dependencies {
            self.add_edge(first, second, kind, |s| s.cell_name(cell));
        }
    }

    /// Returns the cells that a block's branch reads and its value, if the block branches without a
    /// table.
    fn branch_inputs(&self, at: BlockIndex) -> Option<(Vec<StateCell>, Value)> {
        let value = match &self.graph.block_data(at).term.as_ref()?.term {
            Terminator::Branch { cond, .. } => *cond,
            Terminator::Switch { value, .. } => *value,
            _ => return None,
        };
        let control = self.graph.sites[at].control;
        let leaves = self.leaves[control].leaves_of(value);
        Some((leaves.iter().map(|l| self.state.leaf_cell(control, *l)).collect(), value))
    }

    /// Returns the nodes directly after a branch that can decide its condition: one code step, or
    /// all tables.
    fn deciding_nodes(&self, at: BlockIndex) -> Vec<NodeId> {
        let sites = &self.graph.sites;
        let behind = sites[at].succs.iter().filter(|s| sites[**s].preds.len() == 1);
        let nodes: Vec<NodeId> = behind.filter_map(|s| self.code.first_node[*s]).collect();
        match nodes.iter().find(|n| self.code.nodes[**n].table.is_none()) {
            Some(step) => vec![*step],
            None => nodes,
        }
    }

    /// Adds the dependencies of a node on the nodes that decide whether it runs, and gives each
    /// condition's gateway to a node. Arrays are indexed by block: `own_deciders` has the nodes
    /// that a block's branch reads from, `all_deciders` also those of the conditions over it,
    /// `carriers` the nodes whose gateway decides it, `pending` the conditions passed on from
    /// earlier branches.
    fn add_control_dependencies(&mut self) {
        let count = self.graph.sites.len();
        let mut writers: HashMap<StateCell, Vec<(BlockIndex, EventOrder, NodeId)>> = HashMap::new();
        for event in &self.code.events {
            event.writes.iter().for_each(|c| writers.entry(*c).or_default().push((event.at, event.order, event.node)));
        }
        let mut all_deciders: Vec<NodePredecessors> = vec![NodePredecessors::new(); count];
        let mut own_deciders: Vec<NodePredecessors> = vec![NodePredecessors::new(); count];
        let mut carriers: Vec<Vec<NodeId>> = vec![Vec::new(); count];
        let mut pending: Vec<Vec<(String, u32)>> = vec![Vec::new(); count];
        for block in 0..count {
            if self.graph.sites[block].succs.len() < 2 {
                continue;
            }
            if let Some(table) = self.code.applied_table[block] {
                own_deciders[block].insert(table, (DependencyKind::Control, StateCell::Class(usize::MAX)));
                all_deciders[block] = own_deciders[block].clone();
                continue;
            }
            let Some((cells, _)) = self.branch_inputs(block) else { continue };
            for cell in &cells {
                let is_hit_flag = self.code.hit_flags.contains(cell);
                let kind = if is_hit_flag { DependencyKind::Control } else { DependencyKind::Match };
                for &(write_block, write_order, node) in writers.get(cell).into_iter().flatten() {
                    if self.precedes((write_block, write_order), (block, BLOCK_END)) {
                        keep_strongest(&mut own_deciders[block], node, kind, *cell);
                    }
                }
            }
            all_deciders[block] = self.condition_predecessors(block, &all_deciders, &carriers);
            own_deciders[block]
                .iter()
                .for_each(|(node, (kind, cell))| keep_strongest(&mut all_deciders[block], *node, *kind, *cell));
            carriers[block] = self.deciding_nodes(block);
            let conditions = self.branch_conditions(block, &cells, std::mem::take(&mut pending[block]));
            self.assign_conditions(block, conditions, &carriers[block], &mut pending);
        }
        self.add_condition_edges(&all_deciders, &own_deciders, &carriers);
    }

    /// Returns the predecessors that the conditions over a block impose.
    fn condition_predecessors(
        &self,
        at: BlockIndex,
        before: &[NodePredecessors],
        carried: &[Vec<NodeId>],
    ) -> NodePredecessors {
        let mut all = NodePredecessors::new();
        for &parent in self.graph.sites[at].controlling_branches.iter().filter(|p| **p < at) {
            for (node, (kind, cell)) in &before[parent] {
                keep_strongest(&mut all, *node, *kind, *cell);
            }
            if let [one] = carried[parent][..] {
                keep_strongest(&mut all, one, DependencyKind::Control, StateCell::Class(usize::MAX));
            }
        }
        all
    }

    fn branch_conditions(
        &self,
        at: BlockIndex,
        cells: &[StateCell],
        mut above: Vec<(String, u32)>,
    ) -> Vec<(String, u32)> {
        let term = self.graph.block_data(at).term.as_ref();
        let place = term.map_or(String::new(), |t| source_location(self.state.pipeline, t.loc));
        let names: BTreeSet<String> = cells.iter().map(|c| self.state.cell_name(*c)).collect();
        let names: Vec<String> = names.into_iter().collect();
        let distinct: BTreeSet<&StateCell> = cells.iter().collect();
        let bits = distinct.into_iter().map(|c| self.state.cell_bits(*c)).sum();
        above.push((format!("{place}: by {}", names.join(", ")), bits));
        above
    }

    /// Assigns conditions (text, bits) to the nodes that decide them (`carriers`), to the branches
    /// that follow, or to a gateway without table.
    fn assign_conditions(
        &mut self,
        block: BlockIndex,
        conditions: Vec<(String, u32)>,
        carriers: &[NodeId],
        pending: &mut [Vec<(String, u32)>],
    ) {
        if !carriers.is_empty() {
            carriers.iter().for_each(|n| self.code.nodes[*n].conditions.extend(conditions.iter().cloned()));
            return;
        }
        let sites = &self.graph.sites;
        let continues = |s: &&BlockIndex| sites[**s].preds.len() == 1 && sites[**s].succs.len() > 1 && **s > block;
        let next_branches: Vec<BlockIndex> = sites[block].succs.iter().filter(continues).copied().collect();
        if next_branches.is_empty() {
            self.unattached_conditions.extend(conditions);
        } else {
            next_branches.iter().for_each(|s| pending[*s].extend(conditions.iter().cloned()));
        }
    }

    /// Adds the dependencies of each node on the deciders of the conditions over it. The slices are
    /// indexed by block: all deciders, those of the block's own branch
    /// (`own_deciders`), and the nodes whose gateway decides it (`carriers`).
    fn add_condition_edges(
        &mut self,
        all_deciders: &[NodePredecessors],
        own_deciders: &[NodePredecessors],
        carriers: &[Vec<NodeId>],
    ) {
        let mut blocks: BTreeMap<NodeId, BTreeSet<BlockIndex>> = BTreeMap::new();
        let applied = self.code.applied_table.iter().enumerate().filter_map(|(block, n)| Some(((*n)?, block)));
        for (node, block) in self.code.events.iter().map(|e| (e.node, e.at)).chain(applied) {
            blocks.entry(node).or_default().insert(block);
        }
        let accessing = self.accessing_blocks();
        for (node, blocks) in blocks {
            let written_cells = self.cells_if_only_written(node);
            let mut predecessors = NodePredecessors::new();
            for block in blocks {
                let deciders = match &written_cells {
                    Some(cells) => {
                        let (needed, has_skipped) =
                            self.needed_conditions(block, cells, &accessing, own_deciders, carriers);
                        if has_skipped {
                            self.early_steps.insert(node);
                        }
                        needed
                    }
                    None => self.condition_predecessors(block, all_deciders, carriers),
                };
                deciders
                    .iter()
                    .for_each(|(first, (kind, cell))| keep_strongest(&mut predecessors, *first, *kind, *cell));
            }
            self.add_dependencies(node, predecessors);
        }
    }

    /// Adds an edge from each predecessor to the node.
    fn add_dependencies(&mut self, node: NodeId, all: NodePredecessors) {
        for (first, (kind, cell)) in all {
            let decider = self.code.nodes[first].name.clone();
            let plain = cell == StateCell::Class(usize::MAX);
            self.add_edge(first, node, kind, |s| if plain { decider } else { s.cell_name(cell) });
        }
    }

    /// Returns the blocks that read or write each cell.
    fn accessing_blocks(&self) -> BTreeMap<StateCell, FixedBitSet> {
        let mut touched: BTreeMap<StateCell, FixedBitSet> = BTreeMap::new();
        let mut add = |cell: StateCell, at: BlockIndex| {
            let none = || FixedBitSet::with_capacity(self.graph.sites.len());
            touched.entry(cell).or_insert_with(none).insert(at);
        };
        for event in &self.code.events {
            event.reads.iter().chain(&event.writes).for_each(|c| add(*c, event.at));
        }
        for at in 0..self.graph.sites.len() {
            self.branch_inputs(at).into_iter().flat_map(|(cells, _)| cells).for_each(|c| add(c, at));
        }
        touched
    }

    /// Returns the cells that a code step writes, if it has no other effect.
    fn cells_if_only_written(&self, node: NodeId) -> Option<BTreeSet<StateCell>> {
        let of = &self.code.nodes[node];
        let writes: BTreeSet<StateCell> =
            self.code.events.iter().filter(|e| e.node == node).flat_map(|e| e.writes.iter().copied()).collect();
        let plain = writes.iter().all(|c| matches!(c, StateCell::Class(n) if !self.state.outlives_stages(*n)));
        (of.table.is_none() && of.objects.is_empty() && !writes.is_empty() && plain).then_some(writes)
    }

    /// Returns the predecessors of a step that only writes `cells`: those conditions over it for
    /// which another path reads or writes one of the cells. The step can run before the other
    /// conditions because no other path reads its writes. The flag reports whether such conditions
    /// exist.
    fn needed_conditions(
        &self,
        block: BlockIndex,
        cells: &BTreeSet<StateCell>,
        touched: &BTreeMap<StateCell, FixedBitSet>,
        own_deciders: &[NodePredecessors],
        carriers: &[Vec<NodeId>],
    ) -> (NodePredecessors, bool) {
        let (mut needed, mut has_skipped) = (NodePredecessors::new(), false);
        let sites = &self.graph.sites;
        let mut seen: BTreeSet<BlockIndex> =
            sites[block].controlling_branches.iter().copied().filter(|p| *p < block).collect();
        let mut waiting: Vec<BlockIndex> = seen.iter().copied().collect();
        while let Some(branch) = waiting.pop() {
            for &outer in sites[branch].controlling_branches.iter().filter(|p| **p < branch) {
                if seen.insert(outer) {
                    waiting.push(outer);
                }
            }
            let other_targets = sites[branch].succs.iter().filter(|s| **s != block && !self.graph.reaches(**s, block));
            let accesses_cells = |s: &BlockIndex| {
                let accessing = cells.iter().filter_map(|c| touched.get(c));
                accessing.into_iter().any(|p| p.contains(*s) || !p.is_disjoint(&sites[*s].reachable))
            };
            // Where both edges reach this block, the nearer branches decide. Such a branch counts
            // as needed if it is the nearest one.
            let joins = sites[branch].succs.iter().all(|s| *s == block || self.graph.reaches(*s, block));
            if joins || other_targets.into_iter().any(accesses_cells) {
                own_deciders[branch]
                    .iter()
                    .for_each(|(node, (kind, cell))| keep_strongest(&mut needed, *node, *kind, *cell));
                if let [carrier] = carriers[branch][..] {
                    keep_strongest(&mut needed, carrier, DependencyKind::Control, StateCell::Class(usize::MAX));
                }
            } else {
                has_skipped = true;
            }
        }
        (needed, has_skipped)
    }
}

/// Returns a topological order of the nodes. Edges that form a cycle (a table applied twice on one
/// path) are removed; the second list has the nodes that then come too early.
pub(super) fn topological_order(
    count: usize,
    edges: &mut Edges,
    first_seen: &[(BlockIndex, EventOrder)],
) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut pending_count = vec![0usize; count];
    let mut followers: Vec<Vec<NodeId>> = vec![Vec::new(); count];
    for (first, second) in edges.keys() {
        pending_count[*second] += 1;
        followers[*first].push(*second);
    }
    let mut ready: BinaryHeap<Reverse<((BlockIndex, EventOrder), NodeId)>> =
        (0..count).filter(|n| pending_count[*n] == 0).map(|n| Reverse((first_seen[n], n))).collect();
    let (mut order, mut is_done, mut early) = (Vec::new(), vec![false; count], Vec::new());
    while order.len() < count {
        let node = match ready.pop() {
            Some(Reverse((_, node))) => node,
            None => {
                // A cycle: the node that the program reaches first ignores its remaining
                // predecessors.
                let remaining = (0..count).filter(|n| !is_done[*n]).min_by_key(|n| first_seen[*n]);
                let Some(node) = remaining else { break };
                early.push(node);
                edges.retain(|(first, second), _| *second != node || is_done[*first]);
                node
            }
        };
        if std::mem::replace(&mut is_done[node], true) {
            continue;
        }
        order.push(node);
        for &next in &followers[node] {
            pending_count[next] = pending_count[next].saturating_sub(1);
            if pending_count[next] == 0 && !is_done[next] {
                ready.push(Reverse((first_seen[next], next)));
            }
        }
    }
    (order, early)
}

/// Returns the edges as positions in `order`, without those that other paths imply.
pub(super) fn transitive_reduction(edges: &Edges, order: &[NodeId]) -> Vec<Dependency> {
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(index, n)| position[*n] = index);
    let mut dependencies: Vec<Dependency> = edges
        .iter()
        .map(|((first, second), (kind, through))| Dependency {
            first: position[*first],
            second: position[*second],
            kind: *kind,
            through: through.clone(),
        })
        .filter(|d| d.first < d.second)
        .collect();
    dependencies.sort_by_key(|d| (d.first, d.second));
    if order.len().saturating_mul(dependencies.len()) <= MAX_REDUCTION {
        let is_necessary = necessary_edges(&dependencies, order.len());
        let mut is_necessary = is_necessary.into_iter();
        dependencies.retain(|_| is_necessary.next().unwrap_or(true));
    }
    dependencies
}

/// Returns for each edge whether it is necessary: every path over other edges allows its ends
/// closer together than the edge does. Distances are in stages; `count` is the number of nodes.
fn necessary_edges(edges: &[Dependency], count: usize) -> Vec<bool> {
    let mut outgoing: Vec<Vec<usize>> = vec![Vec::new(); count];
    edges.iter().enumerate().for_each(|(n, d)| outgoing[d.first].push(n));
    let mut is_necessary = vec![true; edges.len()];
    for start in 0..count {
        let mut direct: Vec<Option<u32>> = vec![None; count];
        let mut longest_around: Vec<Option<u32>> = vec![None; count];
        outgoing[start].iter().for_each(|n| direct[edges[*n].second] = Some(edges[*n].kind.min_stage_distance()));
        for middle in start + 1..count {
            let Some(distance) = direct[middle].max(longest_around[middle]) else { continue };
            for n in &outgoing[middle] {
                let target_distance = &mut longest_around[edges[*n].second];
                *target_distance = (*target_distance).max(Some(distance + edges[*n].kind.min_stage_distance()));
            }
        }
        for n in &outgoing[start] {
            is_necessary[*n] = longest_around[edges[*n].second] < direct[edges[*n].second];
        }
    }
    is_necessary
}
