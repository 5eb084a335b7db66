//! A program's demand, from its IR.

use super::alias::Classes;
use super::edges::{Edges, Finder, order, reduced};
use super::error::DemandError;
use super::graph::Graph;
use super::leaves::Leaves;
use super::nodes::{Moment, Node, NodeId};
use super::regions::{Code, Walk};
use super::state::{Cell, Fate, State};
use super::table::Wanted;
use super::{Action, DependencyKind, Gateway, Match, Program, Table, fields, parser, table};
use crate::rewrite::Sizes;
use ir::{ControlKind, ExternId, ExternKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};

/// More tables and steps than this are no program for a chip; the bound keeps quadratic work small.
const MAX_NODES: usize = 2_000;

impl Program {
    /// What the pipeline asks of a chip when its tables hold `sizes` entries. Tables are named by their control-plane name, or by a suffix of
    /// it that no other table has; those that `sizes` leaves out have the size that the program declares. A table that asks for ALPM is
    /// the two tables that it is on a chip: [`Program::with_pivots`].
    ///
    /// # Errors
    /// [`DemandError`]: a size for no table, or a program beyond all measure.
    pub fn of(pipeline: &Pipeline, sizes: &Sizes) -> Result<Program, DemandError> {
        let wanted = Wanted::new(pipeline, sizes)?;
        let graph = Graph::new(pipeline)?;
        let leaves: Vec<Leaves> = graph.controls.iter().map(|c| Leaves::new(&c.body)).collect();
        let state = State::new(pipeline, Classes::new(pipeline, &graph, &leaves));
        let mut code = Walk::run(&graph, &leaves, &state);
        if code.nodes.len() > MAX_NODES {
            let what = "tables and steps of code";
            return Err(DemandError::TooLarge { what, count: code.nodes.len(), most: MAX_NODES });
        }
        if graph.loops {
            code.notes.insert("the program has a loop: a chip's stages come once".to_owned());
        }
        let (shared, mut edges) = objects(&mut code, &graph, &state);
        let conditions = condition_cells(&graph, &leaves, &state, &code);
        let mut finder = Finder {
            graph: &graph,
            leaves: &leaves,
            state: &state,
            code: &mut code,
            edges: Edges::new(),
            alone: Vec::new(),
            early: BTreeSet::new(),
        };
        finder.run();
        let (alone, early) = (std::mem::take(&mut finder.alone), std::mem::take(&mut finder.early));
        edges.extend(finder.edges);
        Ok(Assembly { pipeline, graph: &graph, state: &state, code, edges, shared, conditions, alone, early, wanted }
            .program()
            .with_pivots())
    }
}

/// Objects that the code executes at several places: a chip has each at one stage only. Where no packet meets two of these places, a table
/// behind them executes the object, with an index that they leave in the packet's state. Gives those tables' nodes and what they wait for.
fn objects(code: &mut Code, graph: &Graph, state: &State) -> (BTreeSet<NodeId>, Edges) {
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
        let place = |n: usize| (code.accesses[n].at, code.accesses[n].moment);
        let pairs = accesses.iter().flat_map(|a| accesses.iter().map(move |b| (place(*a), place(*b))));
        let again = pairs.filter(|(a, b)| a.0 != b.0 && graph.leads(a.0, b.0) || a.0 == b.0 && a.1 < b.1).count() > 0;
        if matches!(declared.kind, ExternKind::Counter { .. }) && !again {
            code.notes.insert(format!("{name}: {} places count; on a chip one table behind them does", nodes.len()));
            code.nodes.push(Node { table: None, name: name.clone(), objects: vec![object], conditions: Vec::new() });
            let node = code.nodes.len() - 1;
            shared.insert(node);
            for before in nodes {
                edges.insert((before, node), (DependencyKind::Match, format!("index of {name}")));
            }
        } else {
            let why = if again { "a packet can meet more than one" } else { "each needs its result" };
            code.notes
                .insert(format!("{name}: {} places execute it, and {why}; a chip has it at one stage", nodes.len()));
            code.nodes[first].objects.push(object);
        }
    }
    (shared, edges)
}

/// Cells by which branches decide, with a node right behind each branch.
fn condition_cells(graph: &Graph, leaves: &[Leaves], state: &State, code: &Code) -> Vec<(Cell, NodeId)> {
    let mut cells = Vec::new();
    for (at, site) in graph.sites.iter().enumerate() {
        let value = match graph.data(at).term.as_ref().map(|t| &t.term) {
            Some(ir::Term::Branch { cond, .. }) => *cond,
            Some(ir::Term::Switch { value, .. }) => *value,
            _ => continue,
        };
        let behind = (at..graph.sites.len()).filter(|b| *b != at && graph.leads(at, *b)).find_map(|b| code.first[b]);
        let Some(node) = site.succs.iter().find_map(|s| code.first[*s]).or(behind) else { continue };
        cells.extend(leaves[site.control].of(value).iter().map(|l| (state.leaf(site.control, *l), node)));
    }
    cells
}

/// All that was found, on its way to a [`Program`].
struct Assembly<'a, 'p> {
    pipeline: &'p Pipeline,
    graph: &'a Graph<'p>,
    state: &'a State<'p>,
    code: Code,
    edges: Edges,
    shared: BTreeSet<NodeId>,
    conditions: Vec<(Cell, NodeId)>,
    alone: Vec<(String, u32)>,
    early: BTreeSet<NodeId>,
    wanted: Wanted,
}

impl Assembly<'_, '_> {
    fn program(mut self) -> Program {
        let count = self.code.nodes.len();
        let mut seen: Vec<(usize, Moment)> = vec![(usize::MAX, 0); count];
        for event in &self.code.events {
            seen[event.node] = seen[event.node].min((event.at, event.moment));
        }
        let (order, early) = order(count, &mut self.edges, &seen);
        for node in early {
            let name = &self.code.nodes[node].name;
            self.code.notes.insert(format!("{name}: a packet can meet it twice; on a chip it comes once in a pass"));
        }
        let mut position = vec![0; count];
        order.iter().enumerate().for_each(|(at, n)| position[*n] = at);
        let names = self.names(&order);
        let tables: Vec<Table> = order.iter().zip(names).map(|(n, name)| self.table(*n, name)).collect();
        Program {
            name: self.pipeline.name.clone(),
            dependencies: reduced(&self.edges, &order),
            exclusive: self.exclusive(&order),
            gateways: self.gateways(&order),
            fields: fields::fields(self.state, &self.code.events, &self.conditions, &position, &self.code.told),
            parser: parser::states(self.pipeline),
            egress: self.nodes_where(&position, |s, at| {
                s.graph.controls[s.graph.sites[at].control].kind == ControlKind::Egress
            }),
            ports: self.ports(&position),
            early: (0..count).filter(|at| self.early.contains(&order[*at])).collect(),
            notes: self.code.notes.into_iter().collect(),
            tables,
        }
    }

    /// Names of steps are made distinct: two can begin at one line.
    fn names(&self, order: &[NodeId]) -> Vec<String> {
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

    fn table(&self, node: NodeId, name: String) -> Table {
        let Node { table: id, objects, .. } = &self.code.nodes[node];
        if let Some(id) = id {
            return table::table(self.pipeline, *id, &self.wanted, objects);
        }
        let action = Action { name: name.clone(), params: Vec::new(), default_only: true };
        let attached = objects.iter().filter_map(|o| table::attached(self.pipeline, *o, Some(&self.wanted))).collect();
        let (keys, actions) = (Vec::new(), vec![action]);
        Table { name, id: None, kind: Match::None, keys, entries: 1, actions, attached }
    }

    /// Pairs of which a packet meets one at most.
    fn exclusive(&self, order: &[NodeId]) -> Vec<(usize, usize)> {
        let mut sites: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); order.len()];
        for event in &self.code.events {
            sites[event.node].insert(event.at);
        }
        let meets = |a: NodeId, b: NodeId| {
            let any = |x: &BTreeSet<usize>, y: &BTreeSet<usize>| {
                x.iter().any(|at| y.iter().any(|to| at == to || self.graph.leads(*at, *to)))
            };
            any(&sites[a], &sites[b]) || any(&sites[b], &sites[a])
        };
        let mut pairs = Vec::new();
        for (n, a) in order.iter().enumerate() {
            for (m, b) in order.iter().enumerate().skip(n + 1) {
                if !self.shared.contains(a) && !self.shared.contains(b) && !meets(*a, *b) {
                    pairs.push((n, m));
                }
            }
        }
        pairs
    }

    fn gateways(&self, order: &[NodeId]) -> Vec<Gateway> {
        let of = |table, list: &[(String, u32)]| {
            let gateway =
                |(condition, bits): &(String, u32)| Gateway { table, condition: condition.clone(), bits: *bits };
            list.iter().map(gateway).collect::<Vec<Gateway>>()
        };
        let mut all: Vec<Gateway> =
            order.iter().enumerate().flat_map(|(at, n)| of(Some(at), &self.code.nodes[*n].conditions)).collect();
        all.extend(of(None, &self.alone));
        all
    }

    fn nodes_where(&self, position: &[usize], is: impl Fn(&Self, usize) -> bool) -> Vec<usize> {
        let nodes: BTreeSet<usize> =
            self.code.events.iter().filter(|e| is(self, e.at)).map(|e| position[e.node]).collect();
        nodes.into_iter().collect()
    }

    /// Tables that decide the output port or group.
    fn ports(&self, position: &[usize]) -> Vec<usize> {
        let names = ["standard_metadata.egress_spec", "standard_metadata.mcast_grp", "ostd.multicast_group"];
        let vars = names.iter().filter_map(|n| self.pipeline.intrinsics.get(*n));
        let mut cells: BTreeSet<Cell> = vars.map(|v| self.state.var(*v)).collect();
        cells.insert(Cell::Fate(Fate::Port));
        let writes = self.code.events.iter().filter(|e| e.writes.iter().any(|c| cells.contains(c)));
        let nodes: BTreeSet<usize> = writes.map(|e| position[e.node]).collect();
        nodes.into_iter().collect()
    }
}
