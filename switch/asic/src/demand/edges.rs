//! Which node must be behind which, by what they read and write and by the conditions over them.

use super::graph::{At, Graph};
use super::leaves::Leaves;
use super::nodes::{END, Event, Moment, NodeId, place};
use super::regions::Code;
use super::state::{Cell, State};
use super::{Dependency, DependencyKind};
use fixedbitset::FixedBitSet;
use ir::{Term, Value};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

/// With more nodes times edges than this, edges that follow from others are kept.
const MAX_REDUCTION: usize = 50_000_000;

/// What each node waits for: by (first, second) the kind and the cell or condition through which.
pub(super) type Edges = BTreeMap<(NodeId, NodeId), (DependencyKind, String)>;

/// What a node has to wait for because of the conditions over it.
type Before = BTreeMap<NodeId, (DependencyKind, Cell)>;

fn stronger(before: &mut Before, node: NodeId, kind: DependencyKind, cell: Cell) {
    let known = before.entry(node).or_insert((kind, cell));
    if kind > known.0 {
        *known = (kind, cell);
    }
}

/// Finds the edges, and gives nodes the gateways of their conditions.
pub(super) struct Finder<'a, 'p> {
    pub graph: &'a Graph<'p>,
    pub leaves: &'a [Leaves],
    pub state: &'a State<'p>,
    pub code: &'a mut Code,
    pub edges: Edges,
    /// Conditions that no node's gateway can decide along the way.
    pub alone: Vec<(String, u32)>,
    /// Steps that can run before some of the conditions over them.
    pub early: BTreeSet<NodeId>,
}

impl Finder<'_, '_> {
    pub fn run(&mut self) {
        self.by_cells();
        self.by_conditions();
    }

    fn precedes(&self, a: (At, Moment), b: (At, Moment)) -> bool {
        if a.0 == b.0 { a.1 < b.1 } else { a.0 < b.0 && self.graph.leads(a.0, b.0) }
    }

    fn edge(&mut self, first: NodeId, second: NodeId, kind: DependencyKind, through: impl FnOnce(&State) -> String) {
        let known = self.edges.get(&(first, second)).map(|(k, _)| *k);
        if first != second && known.is_none_or(|k| k < kind) {
            let name = through(self.state);
            self.edges.insert((first, second), (kind, name));
        }
    }

    fn by_cells(&mut self) {
        let mut touched: BTreeMap<Cell, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (n, event) in self.code.events.iter().enumerate() {
            event.reads.iter().for_each(|c| touched.entry(*c).or_default().0.push(n));
            event.writes.iter().for_each(|c| touched.entry(*c).or_default().1.push(n));
        }
        let mut found = Vec::new();
        let events = &self.code.events;
        let before = |a: usize, b: usize| {
            let (a, b): (&Event, &Event) = (&events[a], &events[b]);
            a.node != b.node && self.precedes((a.at, a.moment), (b.at, b.moment))
        };
        for (cell, (reads, writes)) in &touched {
            for &write in writes {
                let mut add = |first: usize, second: usize, kind| {
                    if before(first, second) {
                        found.push((events[first].node, events[second].node, kind, *cell));
                    }
                };
                reads.iter().for_each(|r| add(write, *r, DependencyKind::Match));
                reads.iter().for_each(|r| add(*r, write, DependencyKind::Reverse));
                writes.iter().for_each(|w| add(write, *w, DependencyKind::Action));
            }
        }
        for (first, second, kind, cell) in found {
            self.edge(first, second, kind, |s| s.name(cell));
        }
    }

    /// The cells that the end of a block decides by, if it decides something without a table.
    fn decides(&self, at: At) -> Option<(Vec<Cell>, Value)> {
        let value = match &self.graph.data(at).term.as_ref()?.term {
            Term::Branch { cond, .. } => *cond,
            Term::Switch { value, .. } => *value,
            _ => return None,
        };
        let control = self.graph.sites[at].control;
        let leaves = self.leaves[control].of(value);
        Some((leaves.iter().map(|l| self.state.leaf(control, *l)).collect(), value))
    }

    /// The nodes right behind a branch that can decide its condition: one step of code, or all tables.
    fn carriers(&self, at: At) -> Vec<NodeId> {
        let sites = &self.graph.sites;
        let behind = sites[at].succs.iter().filter(|s| sites[**s].preds.len() == 1);
        let nodes: Vec<NodeId> = behind.filter_map(|s| self.code.first[*s]).collect();
        match nodes.iter().find(|n| self.code.nodes[**n].table.is_none()) {
            Some(step) => vec![*step],
            None => nodes,
        }
    }

    fn by_conditions(&mut self) {
        let count = self.graph.sites.len();
        let mut writers: HashMap<Cell, Vec<(At, Moment, NodeId)>> = HashMap::new();
        for event in &self.code.events {
            event.writes.iter().for_each(|c| writers.entry(*c).or_default().push((event.at, event.moment, event.node)));
        }
        let mut before: Vec<Before> = vec![Before::new(); count];
        let mut own: Vec<Before> = vec![Before::new(); count];
        let mut carried: Vec<Vec<NodeId>> = vec![Vec::new(); count];
        let mut pending: Vec<Vec<(String, u32)>> = vec![Vec::new(); count];
        for at in 0..count {
            if self.graph.sites[at].succs.len() < 2 {
                continue;
            }
            if let Some(table) = self.code.applied[at] {
                own[at].insert(table, (DependencyKind::Control, Cell::Class(usize::MAX)));
                before[at] = own[at].clone();
                continue;
            }
            let Some((cells, _)) = self.decides(at) else { continue };
            for cell in &cells {
                let told = self.code.told.contains(cell);
                let kind = if told { DependencyKind::Control } else { DependencyKind::Match };
                for &(place, moment, node) in writers.get(cell).into_iter().flatten() {
                    if self.precedes((place, moment), (at, END)) {
                        stronger(&mut own[at], node, kind, *cell);
                    }
                }
            }
            before[at] = self.inherited(at, &before, &carried);
            own[at].iter().for_each(|(node, (kind, cell))| stronger(&mut before[at], *node, *kind, *cell));
            carried[at] = self.carriers(at);
            let conditions = self.conditions(at, &cells, std::mem::take(&mut pending[at]));
            self.give(at, conditions, &carried[at], &mut pending);
        }
        self.apply(&before, &own, &carried);
    }

    /// What the conditions over a place wait for.
    fn inherited(&self, at: At, before: &[Before], carried: &[Vec<NodeId>]) -> Before {
        let mut all = Before::new();
        for &parent in self.graph.sites[at].parents.iter().filter(|p| **p < at) {
            for (node, (kind, cell)) in &before[parent] {
                stronger(&mut all, *node, *kind, *cell);
            }
            if let [one] = carried[parent][..] {
                stronger(&mut all, one, DependencyKind::Control, Cell::Class(usize::MAX));
            }
        }
        all
    }

    fn conditions(&self, at: At, cells: &[Cell], mut above: Vec<(String, u32)>) -> Vec<(String, u32)> {
        let term = self.graph.data(at).term.as_ref();
        let place = term.map_or(String::new(), |t| place(self.state.pipeline, t.loc));
        let names: BTreeSet<String> = cells.iter().map(|c| self.state.name(*c)).collect();
        let names: Vec<String> = names.into_iter().collect();
        let distinct: BTreeSet<&Cell> = cells.iter().collect();
        let bits = distinct.into_iter().map(|c| self.state.bits(*c)).sum();
        above.push((format!("{place}: by {}", names.join(", ")), bits));
        above
    }

    /// Hands conditions to the nodes that decide them, or down to the branches behind, or to a gateway without table.
    fn give(
        &mut self,
        at: At,
        conditions: Vec<(String, u32)>,
        carriers: &[NodeId],
        pending: &mut [Vec<(String, u32)>],
    ) {
        if !carriers.is_empty() {
            carriers.iter().for_each(|n| self.code.nodes[*n].conditions.extend(conditions.iter().cloned()));
            return;
        }
        let sites = &self.graph.sites;
        let behind = |s: &&At| sites[**s].preds.len() == 1 && sites[**s].succs.len() > 1 && **s > at;
        let next: Vec<At> = sites[at].succs.iter().filter(behind).copied().collect();
        if next.is_empty() {
            self.alone.extend(conditions);
        } else {
            next.iter().for_each(|s| pending[*s].extend(conditions.iter().cloned()));
        }
    }

    fn apply(&mut self, before: &[Before], own: &[Before], carried: &[Vec<NodeId>]) {
        let mut places: BTreeMap<NodeId, BTreeSet<At>> = BTreeMap::new();
        let applied = self.code.applied.iter().enumerate().filter_map(|(at, n)| Some(((*n)?, at)));
        for (node, at) in self.code.events.iter().map(|e| (e.node, e.at)).chain(applied) {
            places.entry(node).or_default().insert(at);
        }
        let touched = self.touched();
        for (node, places) in places {
            let written = self.only_written(node);
            let mut all = Before::new();
            for at in places {
                let from_here = match &written {
                    Some(cells) => {
                        let (needed, skipped) = self.needed(at, cells, &touched, own, carried);
                        if skipped {
                            self.early.insert(node);
                        }
                        needed
                    }
                    None => self.inherited(at, before, carried),
                };
                from_here.iter().for_each(|(first, (kind, cell))| stronger(&mut all, *first, *kind, *cell));
            }
            self.depends(node, all);
        }
    }

    /// Adds what a node waits for.
    fn depends(&mut self, node: NodeId, all: Before) {
        for (first, (kind, cell)) in all {
            let decider = self.code.nodes[first].name.clone();
            let plain = cell == Cell::Class(usize::MAX);
            self.edge(first, node, kind, |s| if plain { decider } else { s.name(cell) });
        }
    }

    /// Where each cell is read or written.
    fn touched(&self) -> BTreeMap<Cell, FixedBitSet> {
        let mut touched: BTreeMap<Cell, FixedBitSet> = BTreeMap::new();
        let mut add = |cell: Cell, at: At| {
            let none = || FixedBitSet::with_capacity(self.graph.sites.len());
            touched.entry(cell).or_insert_with(none).insert(at);
        };
        for event in &self.code.events {
            event.reads.iter().chain(&event.writes).for_each(|c| add(*c, event.at));
        }
        for at in 0..self.graph.sites.len() {
            self.decides(at).into_iter().flat_map(|(cells, _)| cells).for_each(|c| add(c, at));
        }
        touched
    }

    /// The cells that a step of code writes, if to write them is all that it does.
    fn only_written(&self, node: NodeId) -> Option<BTreeSet<Cell>> {
        let of = &self.code.nodes[node];
        let writes: BTreeSet<Cell> =
            self.code.events.iter().filter(|e| e.node == node).flat_map(|e| e.writes.iter().copied()).collect();
        let plain = writes.iter().all(|c| matches!(c, Cell::Class(n) if !self.state.outlives(*n)));
        (of.table.is_none() && of.objects.is_empty() && !writes.is_empty() && plain).then_some(writes)
    }

    /// What a step that only writes `cells` waits for: of the conditions over it those where another way goes on to something that reads
    /// or writes one of the cells. Before the others the step can run as well, and what it writes is not looked at. Gives whether there are
    /// such others.
    fn needed(
        &self,
        at: At,
        cells: &BTreeSet<Cell>,
        touched: &BTreeMap<Cell, FixedBitSet>,
        own: &[Before],
        carried: &[Vec<NodeId>],
    ) -> (Before, bool) {
        let (mut all, mut skipped) = (Before::new(), false);
        let sites = &self.graph.sites;
        let mut seen: BTreeSet<At> = sites[at].parents.iter().copied().filter(|p| *p < at).collect();
        let mut waiting: Vec<At> = seen.iter().copied().collect();
        while let Some(branch) = waiting.pop() {
            for &above in sites[branch].parents.iter().filter(|p| **p < branch) {
                if seen.insert(above) {
                    waiting.push(above);
                }
            }
            let other = sites[branch].succs.iter().filter(|s| **s != at && !self.graph.leads(**s, at));
            let looks = |s: &At| {
                let places = cells.iter().filter_map(|c| touched.get(c));
                places.into_iter().any(|p| p.contains(*s) || !p.is_disjoint(&sites[*s].reach))
            };
            // Where both ways lead here, the nearer branches decide; such a branch counts as needed if it is the one right above.
            let joins = sites[branch].succs.iter().all(|s| *s == at || self.graph.leads(*s, at));
            if joins || other.into_iter().any(looks) {
                own[branch].iter().for_each(|(node, (kind, cell))| stronger(&mut all, *node, *kind, *cell));
                if let [one] = carried[branch][..] {
                    stronger(&mut all, one, DependencyKind::Control, Cell::Class(usize::MAX));
                }
            } else {
                skipped = true;
            }
        }
        (all, skipped)
    }
}

/// An order of the nodes in which each is behind those that it waits for. Edges that make that impossible (a table applied twice on one
/// path) are taken out; gives the nodes that then come too early.
pub(super) fn order(count: usize, edges: &mut Edges, first_seen: &[(At, Moment)]) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut waits = vec![0usize; count];
    let mut followers: Vec<Vec<NodeId>> = vec![Vec::new(); count];
    for (first, second) in edges.keys() {
        waits[*second] += 1;
        followers[*first].push(*second);
    }
    let mut ready: BinaryHeap<Reverse<((At, Moment), NodeId)>> =
        (0..count).filter(|n| waits[*n] == 0).map(|n| Reverse((first_seen[n], n))).collect();
    let (mut order, mut done, mut early) = (Vec::new(), vec![false; count], Vec::new());
    while order.len() < count {
        let node = match ready.pop() {
            Some(Reverse((_, node))) => node,
            None => {
                let rest = (0..count).filter(|n| !done[*n]).min_by_key(|n| first_seen[*n]);
                let Some(node) = rest else { break };
                early.push(node);
                edges.retain(|(first, second), _| *second != node || done[*first]);
                node
            }
        };
        if std::mem::replace(&mut done[node], true) {
            continue;
        }
        order.push(node);
        for &next in &followers[node] {
            waits[next] = waits[next].saturating_sub(1);
            if waits[next] == 0 && !done[next] {
                ready.push(Reverse((first_seen[next], next)));
            }
        }
    }
    (order, early)
}

/// The edges in terms of places in `order`, without those that follow from others.
pub(super) fn reduced(edges: &Edges, order: &[NodeId]) -> Vec<Dependency> {
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, n)| position[*n] = at);
    let mut all: Vec<Dependency> = edges
        .iter()
        .map(|((first, second), (kind, through))| Dependency {
            first: position[*first],
            second: position[*second],
            kind: *kind,
            through: through.clone(),
        })
        .filter(|d| d.first < d.second)
        .collect();
    all.sort_by_key(|d| (d.first, d.second));
    if order.len().saturating_mul(all.len()) <= MAX_REDUCTION {
        let keep = necessary(&all, order.len());
        let mut keep = keep.into_iter();
        all.retain(|_| keep.next().unwrap_or(true));
    }
    all
}

/// For each edge, whether no path over other edges keeps its ends at least as far apart.
fn necessary(all: &[Dependency], count: usize) -> Vec<bool> {
    let mut from: Vec<Vec<usize>> = vec![Vec::new(); count];
    all.iter().enumerate().for_each(|(n, d)| from[d.first].push(n));
    let mut keep = vec![true; all.len()];
    for start in 0..count {
        let mut direct: Vec<Option<u32>> = vec![None; count];
        let mut around: Vec<Option<u32>> = vec![None; count];
        from[start].iter().for_each(|n| direct[all[*n].second] = Some(all[*n].kind.distance()));
        for middle in start + 1..count {
            let Some(here) = direct[middle].max(around[middle]) else { continue };
            for n in &from[middle] {
                let there = &mut around[all[*n].second];
                *there = (*there).max(Some(here + all[*n].kind.distance()));
            }
        }
        for n in &from[start] {
            keep[*n] = around[all[*n].second] < direct[all[*n].second];
        }
    }
    keep
}
