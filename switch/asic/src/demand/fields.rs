//! Header and metadata fields in the PHV, and the tables that access them.

use super::PhvField;
use super::graph::runs_in_stages;
use super::nodes::AccessEvent;
use super::state::{StateCell, StateCells};
use ir::{ExternArg, HeaderId, Inst, Pipeline, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// Accesses of the parser, the deparser and the code after it to variables and headers.
#[derive(Default)]
struct BoundaryAccesses {
    set: BTreeSet<VarId>,
    read: BTreeSet<VarId>,
    extracted: BTreeSet<HeaderId>,
    emitted: BTreeSet<HeaderId>,
}

impl BoundaryAccesses {
    fn new(pipeline: &Pipeline) -> Self {
        let mut ends = BoundaryAccesses::default();
        for control in pipeline.controls.values().filter(|c| !runs_in_stages(c.kind)) {
            let parser = control.kind.is_parser();
            for inst in control.body.blocks.values().flat_map(|b| &b.insts) {
                ends.record_inst(&inst.inst, parser);
            }
        }
        ends
    }

    /// Records the accesses of one instruction of a parser (`true`) or deparser.
    fn record_inst(&mut self, inst: &Inst, in_parser: bool) {
        match inst {
            Inst::Store(var, _) if in_parser => {
                self.set.insert(*var);
            }
            Inst::Load(var) if !in_parser => {
                self.read.insert(*var);
            }
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                self.extracted.insert(*header);
            }
            Inst::SetValid(header) if in_parser => {
                self.extracted.insert(*header);
            }
            Inst::Emit(header) => {
                self.emitted.insert(*header);
            }
            Inst::Extern { args, .. } if !in_parser => {
                let vars = args.iter().flat_map(|a| if let ExternArg::Vars(vars) = a { &vars[..] } else { &[] });
                self.read.extend(vars);
            }
            _ => {}
        }
    }
}

/// Tables that access a cell, as positions in the table order.
#[derive(Default)]
struct AccessingTables {
    written: BTreeSet<usize>,
    read: BTreeSet<usize>,
}

/// Returns all fields. `position` maps a node to its position in the table order. `conditions` are
/// cells that branches read, with the deciding nodes. `hit_flags` are no
/// packet state.
pub(super) fn phv_fields(
    state: &StateCells,
    events: &[AccessEvent],
    conditions: &[(StateCell, usize)],
    position: &[usize],
    hit_flags: &BTreeSet<StateCell>,
) -> Vec<PhvField> {
    let mut accesses: BTreeMap<StateCell, AccessingTables> = BTreeMap::new();
    for event in events {
        let table = position[event.node];
        for cell in &event.reads {
            accesses.entry(*cell).or_default().read.insert(table);
        }
        for cell in &event.writes {
            accesses.entry(*cell).or_default().written.insert(table);
        }
    }
    for (cell, node) in conditions {
        accesses.entry(*cell).or_default().read.insert(position[*node]);
    }
    let boundary = BoundaryAccesses::new(state.pipeline);
    let mut fields = header_fields(state, &accesses, &boundary);
    fields.extend(metadata_fields(state, &accesses, &boundary, hit_flags));
    fields
}

fn phv_field(name: String, bits: u32, header: Option<&str>, touched: Option<&AccessingTables>) -> PhvField {
    let list = |set: fn(&AccessingTables) -> &BTreeSet<usize>| {
        touched.map_or(Vec::new(), |t| set(t).iter().copied().collect())
    };
    let (written, read) = (list(|t| &t.written), list(|t| &t.read));
    let used = !written.is_empty() || !read.is_empty();
    PhvField { name, bits, header: header.map(str::to_owned), used, parsed: false, emitted: false, written, read }
}

/// Returns the fields of headers that are on the wire or are used, each header followed by its
/// validity.
fn header_fields(
    state: &StateCells,
    accesses: &BTreeMap<StateCell, AccessingTables>,
    boundary: &BoundaryAccesses,
) -> Vec<PhvField> {
    let pipeline = state.pipeline;
    let mut fields = Vec::new();
    for (id, header) in pipeline.headers.iter().filter(|(_, h)| !h.local) {
        let (parsed, emitted) = (boundary.extracted.contains(&id), boundary.emitted.contains(&id));
        let cells = header.fields.iter().map(|v| (*v, state.var_cell(*v)));
        let is_used =
            cells.clone().any(|(_, c)| accesses.contains_key(&c)) || accesses.contains_key(&StateCell::Valid(id));
        if !(parsed || emitted || is_used) {
            continue;
        }
        for (var, cell) in cells {
            let var = &pipeline.vars[var];
            let bits = var.ty.width();
            if bits > 0 {
                fields.push(PhvField {
                    parsed,
                    emitted,
                    ..phv_field(var.name.clone(), bits, Some(&header.name), accesses.get(&cell))
                });
            }
        }
        let valid = phv_field(state.cell_name(StateCell::Valid(id)), 1, None, accesses.get(&StateCell::Valid(id)));
        fields.push(PhvField { parsed: true, emitted: true, used: true, ..valid });
    }
    fields
}

/// Returns metadata, intrinsic variables and values that cross from one table to another, or to and
/// from parser and deparser. `hit_flags` are no packet state.
fn metadata_fields(
    state: &StateCells,
    accesses: &BTreeMap<StateCell, AccessingTables>,
    boundary: &BoundaryAccesses,
    hit_flags: &BTreeSet<StateCell>,
) -> Vec<PhvField> {
    let pipeline = state.pipeline;
    // For each class of variables: whether it is set before the tables, and read after them.
    let mut by_class: BTreeMap<StateCell, (bool, bool)> = BTreeMap::new();
    for (id, var) in pipeline.vars.iter() {
        if matches!(var.kind, VarKind::Field(header, _) if !pipeline.headers[header].local) {
            continue;
        }
        // The architecture sets its variables before ingress, and reads those that the program sets
        // afterwards.
        let cell = state.var_cell(id);
        let entry = by_class.entry(cell).or_default();
        if var.kind == VarKind::Intrinsic {
            entry.0 |= !is_written(accesses, cell);
            entry.1 |= is_written(accesses, cell);
        }
    }
    for id in &boundary.set {
        by_class.entry(state.var_cell(*id)).and_modify(|e| e.0 = true);
    }
    for id in &boundary.read {
        by_class.entry(state.var_cell(*id)).and_modify(|e| e.1 = true);
    }
    for cell in accesses.keys().filter(|c| matches!(c, StateCell::Class(_))) {
        let is_header_field = matches!(cell, StateCell::Class(n) if state.classes.lasting_var(*n).is_some_and(|v| {
            matches!(pipeline.vars[v].kind, VarKind::Field(..))
        }));
        if !is_header_field {
            by_class.entry(*cell).or_default();
        }
    }
    let mut fields = Vec::new();
    for (cell, (parsed, emitted)) in by_class {
        let Some(tables) = accesses.get(&cell) else { continue };
        let is_only_flag =
            hit_flags.contains(&cell) && !matches!(cell, StateCell::Class(n) if state.classes.has_var(n));
        let is_carried = (!tables.written.is_empty() || parsed) && (!tables.read.is_empty() || emitted);
        let bits = state.cell_bits(cell);
        if is_carried && !is_only_flag && bits > 0 {
            fields.push(PhvField { parsed, emitted, ..phv_field(state.cell_name(cell), bits, None, Some(tables)) });
        }
    }
    fields
}

fn is_written(touched: &BTreeMap<StateCell, AccessingTables>, cell: StateCell) -> bool {
    touched.get(&cell).is_some_and(|t| !t.written.is_empty())
}
