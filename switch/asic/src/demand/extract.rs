//! Resource demand of a program, computed from its IR.

use super::action_steps::{StepAssigner, StepAssignment};
use super::coalescing::CoalescedClasses;
use super::edges::{DependencyFinder, Edges, topological_order, transitive_reduction};
use super::error::DemandError;
use super::graph::StageGraph;
use super::leaves::ValueLeaves;
use super::nodes::{EventOrder, NodeId, PlacementNode};
use super::state::{PacketEffect, StateCell, StateCells};
use super::table::RequestedSizes;
use super::{
    ActionDemand, DependencyKind, GatewayDemand, MemoryMatchKind, ResourceDemand, TableDemand, fields, parser, table,
};
use crate::transform::TableSizes;
use ir::{ControlKind, ExternId, ExternKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of tables and steps, which bounds quadratic work. No chip runs a program of this
/// size.
const MAX_NODES: usize = 2_000;

impl ResourceDemand {
    /// Computes the resource demand of a pipeline whose tables hold `sizes` entries. Tables are
    /// named by their control-plane name or by a unique suffix of it; tables without a size have
    /// the size that the program declares. A table with ALPM becomes the two tables that it takes
    /// on a chip: [`ResourceDemand::with_pivots`].
    ///
    /// # Errors
    /// [`DemandError`]: a size for an unknown table, or a program beyond the limits.
    pub fn from_pipeline(pipeline: &Pipeline, sizes: &TableSizes) -> Result<ResourceDemand, DemandError> {
        let requested = RequestedSizes::new(pipeline, sizes)?;
        let graph = StageGraph::new(pipeline)?;
        let leaves: Vec<ValueLeaves> = graph.controls.iter().map(|c| ValueLeaves::new(&c.body)).collect();
        let state = StateCells::new(pipeline, CoalescedClasses::new(pipeline, &graph, &leaves));
        let mut code = StepAssigner::assign_steps(&graph, &leaves, &state);
        if code.nodes.len() > MAX_NODES {
            let counted = "tables and steps of code";
            return Err(DemandError::TooLarge { what: counted, count: code.nodes.len(), max: MAX_NODES });
        }
        if graph.has_loops {
            code.notes.insert("the program has a loop, but a packet passes each stage of a chip once".to_owned());
        }
        let (shared, mut edges) = assign_objects(&mut code, &graph, &state);
        let conditions = condition_cells(&graph, &leaves, &state, &code);
        let mut finder = DependencyFinder {
            graph: &graph,
            leaves: &leaves,
            state: &state,
            code: &mut code,
            edges: Edges::new(),
            unattached_conditions: Vec::new(),
            early_steps: BTreeSet::new(),
        };
        finder.find_dependencies();
        let (alone, early) =
            (std::mem::take(&mut finder.unattached_conditions), std::mem::take(&mut finder.early_steps));
        edges.extend(finder.edges);
        Ok(DemandAssembly {
            pipeline,
            graph: &graph,
            state: &state,
            code,
            edges,
            shared,
            conditions,
            alone,
            early,
            wanted: requested,
        }
        .into_demand()
        .with_pivots())
    }
}

/// Assigns extern objects to nodes. A chip has each object at one stage only. If no packet executes
/// a counter twice, a later table executes it, with an index that the earlier nodes leave in the
/// packet's state. Returns the nodes of those tables and their edges.
fn assign_objects(code: &mut StepAssignment, graph: &StageGraph, state: &StateCells) -> (BTreeSet<NodeId>, Edges) {
    let mut by_object: BTreeMap<ExternId, Vec<usize>> = BTreeMap::new();
    for (n, access) in code.accesses.iter().enumerate() {
        by_object.entry(access.object).or_default().push(n);
    }
    let (mut shared, mut edges) = (BTreeSet::new(), Edges::new());
    for (object, accesses) in by_object {
        let nodes: BTreeSet<NodeId> = accesses.iter().map(|n| code.accesses[*n].node).collect();
        let first = code.accesses[accesses[0]].node;
        let declared = &state.pipeline.externs[object];
        let name = &declared.preamble.name;
        if nodes.len() == 1 {
            code.nodes[first].objects.push(object);
            continue;
        }
        let position = |n: usize| (code.accesses[n].at, code.accesses[n].order);
        let pairs = accesses.iter().flat_map(|a| accesses.iter().map(move |b| (position(*a), position(*b))));
        let may_repeat =
            pairs.filter(|(a, b)| a.0 != b.0 && graph.reaches(a.0, b.0) || a.0 == b.0 && a.1 < b.1).count() > 0;
        if matches!(declared.kind, ExternKind::Counter { .. }) && !may_repeat {
            code.notes.insert(format!("{name}: {} places count; on a chip one later table counts", nodes.len()));
            code.nodes.push(PlacementNode {
                table: None,
                name: name.clone(),
                objects: vec![object],
                conditions: Vec::new(),
            });
            let node = code.nodes.len() - 1;
            shared.insert(node);
            for earlier in nodes {
                edges.insert((earlier, node), (DependencyKind::Match, format!("index of {name}")));
            }
        } else {
            let reason = if may_repeat { "a packet can meet more than one" } else { "each needs its result" };
            code.notes
                .insert(format!("{name}: {} places execute it, and {reason}; a chip has it at one stage", nodes.len()));
            code.nodes[first].objects.push(object);
        }
    }
    (shared, edges)
}

/// Returns the cells that branches read, each with the first node after the branch.
fn condition_cells(
    graph: &StageGraph,
    leaves: &[ValueLeaves],
    state: &StateCells,
    code: &StepAssignment,
) -> Vec<(StateCell, NodeId)> {
    let mut cells = Vec::new();
    for (block, site) in graph.sites.iter().enumerate() {
        let value = match graph.block_data(block).term.as_ref().map(|t| &t.term) {
            Some(ir::Terminator::Branch { cond, .. }) => *cond,
            Some(ir::Terminator::Switch { value, .. }) => *value,
            _ => continue,
        };
        let any_later = (block..graph.sites.len())
            .filter(|b| *b != block && graph.reaches(block, *b))
            .find_map(|b| code.first_node[b]);
        let Some(node) = site.succs.iter().find_map(|s| code.first_node[*s]).or(any_later) else { continue };
        cells.extend(leaves[site.control].leaves_of(value).iter().map(|l| (state.leaf_cell(site.control, *l), node)));
    }
    cells
}

/// Results of the analyses from which a [`ResourceDemand`] is assembled.
struct DemandAssembly<'a, 'p> {
    pipeline: &'p Pipeline,
    graph: &'a StageGraph<'p>,
    state: &'a StateCells<'p>,
    code: StepAssignment,
    edges: Edges,
    shared: BTreeSet<NodeId>,
    conditions: Vec<(StateCell, NodeId)>,
    alone: Vec<(String, u32)>,
    early: BTreeSet<NodeId>,
    wanted: RequestedSizes,
}

impl DemandAssembly<'_, '_> {
    /// Orders the nodes and assembles the demand. Positions in all its lists refer to that order.
    fn into_demand(mut self) -> ResourceDemand {
        let count = self.code.nodes.len();
        let mut first_seen: Vec<(usize, EventOrder)> = vec![(usize::MAX, 0); count];
        for event in &self.code.events {
            first_seen[event.node] = first_seen[event.node].min((event.at, event.order));
        }
        let (order, early) = topological_order(count, &mut self.edges, &first_seen);
        for node in early {
            let name = &self.code.nodes[node].name;
            self.code.notes.insert(format!("{name}: a packet can meet it twice; a chip applies it once in a pass"));
        }
        let mut position = vec![0; count];
        order.iter().enumerate().for_each(|(index, n)| position[*n] = index);
        let names = self.distinct_names(&order);
        let tables: Vec<TableDemand> = order.iter().zip(names).map(|(n, name)| self.node_demand(*n, name)).collect();
        ResourceDemand {
            name: self.pipeline.name.clone(),
            dependencies: transitive_reduction(&self.edges, &order),
            exclusive: self.exclusive_pairs(&order),
            gateways: self.gateways(&order),
            fields: fields::phv_fields(
                self.state,
                &self.code.events,
                &self.conditions,
                &position,
                &self.code.hit_flags,
            ),
            parser: parser::parser_states(self.pipeline),
            egress: self.tables_where(&position, |s, index| {
                s.graph.controls[s.graph.sites[index].control].kind == ControlKind::Egress
            }),
            ports: self.port_tables(&position),
            early: (0..count).filter(|index| self.early.contains(&order[*index])).collect(),
            notes: self.code.notes.into_iter().collect(),
            tables,
        }
    }

    /// Makes the names of steps distinct, because two steps can begin on one line.
    fn distinct_names(&self, order: &[NodeId]) -> Vec<String> {
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        let mut names = Vec::new();
        for node in order {
            let name = &self.code.nodes[*node].name;
            let times = used.entry(name).or_default();
            *times += 1;
            names.push(if *times == 1 { name.clone() } else { format!("{name} ({times})") });
        }
        names
    }

    fn node_demand(&self, node: NodeId, name: String) -> TableDemand {
        let PlacementNode { table: id, objects, .. } = &self.code.nodes[node];
        if let Some(id) = id {
            return table::table_demand(self.pipeline, *id, &self.wanted, objects);
        }
        let action = ActionDemand { name: name.clone(), params: Vec::new(), default_only: true };
        let attached =
            objects.iter().filter_map(|o| table::attached_state(self.pipeline, *o, Some(&self.wanted))).collect();
        let (keys, actions) = (Vec::new(), vec![action]);
        TableDemand { name, id: None, kind: MemoryMatchKind::None, keys, entries: 1, actions, attached }
    }

    /// Returns pairs of tables (positions in `order`) of which a packet meets at most one.
    fn exclusive_pairs(&self, order: &[NodeId]) -> Vec<(usize, usize)> {
        let mut sites: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); order.len()];
        for event in &self.code.events {
            sites[event.node].insert(event.at);
        }
        let may_meet = |a: NodeId, b: NodeId| {
            let reaches = |x: &BTreeSet<usize>, y: &BTreeSet<usize>| {
                x.iter().any(|from| y.iter().any(|to| from == to || self.graph.reaches(*from, *to)))
            };
            reaches(&sites[a], &sites[b]) || reaches(&sites[b], &sites[a])
        };
        let mut pairs = Vec::new();
        for (n, a) in order.iter().enumerate() {
            for (m, b) in order.iter().enumerate().skip(n + 1) {
                if !self.shared.contains(a) && !self.shared.contains(b) && !may_meet(*a, *b) {
                    pairs.push((n, m));
                }
            }
        }
        pairs
    }

    fn gateways(&self, order: &[NodeId]) -> Vec<GatewayDemand> {
        let of = |table, list: &[(String, u32)]| {
            let gateway =
                |(condition, bits): &(String, u32)| GatewayDemand { table, condition: condition.clone(), bits: *bits };
            list.iter().map(gateway).collect::<Vec<GatewayDemand>>()
        };
        let mut all: Vec<GatewayDemand> =
            order.iter().enumerate().flat_map(|(at, n)| of(Some(at), &self.code.nodes[*n].conditions)).collect();
        all.extend(of(None, &self.alone));
        all
    }

    fn tables_where(&self, position: &[usize], is: impl Fn(&Self, usize) -> bool) -> Vec<usize> {
        let nodes: BTreeSet<usize> =
            self.code.events.iter().filter(|e| is(self, e.at)).map(|e| position[e.node]).collect();
        nodes.into_iter().collect()
    }

    /// Returns the tables that decide the output port or group.
    fn port_tables(&self, position: &[usize]) -> Vec<usize> {
        let names = ["standard_metadata.egress_spec", "standard_metadata.mcast_grp", "ostd.multicast_group"];
        let vars = names.iter().filter_map(|n| self.pipeline.intrinsics.get(*n));
        let mut cells: BTreeSet<StateCell> = vars.map(|v| self.state.var_cell(*v)).collect();
        cells.insert(StateCell::Effect(PacketEffect::Port));
        let writes = self.code.events.iter().filter(|e| e.writes.iter().any(|c| cells.contains(c)));
        let nodes: BTreeSet<usize> = writes.map(|e| position[e.node]).collect();
        nodes.into_iter().collect()
    }
}
