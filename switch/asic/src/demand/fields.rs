//! What the packet carries through the stages, and which tables need it.

use super::Field;
use super::graph::in_stages;
use super::nodes::Event;
use super::state::{Cell, State};
use ir::{Arg, HeaderId, Inst, Pipeline, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// What parser and deparser (and what stands behind it) do with variables.
#[derive(Default)]
struct Ends {
    set: BTreeSet<VarId>,
    read: BTreeSet<VarId>,
    extracted: BTreeSet<HeaderId>,
    emitted: BTreeSet<HeaderId>,
}

impl Ends {
    fn new(pipeline: &Pipeline) -> Self {
        let mut ends = Ends::default();
        for control in pipeline.controls.values().filter(|c| !in_stages(c.kind)) {
            let parser = control.kind.is_parser();
            for inst in control.body.blocks.values().flat_map(|b| &b.insts) {
                ends.see(&inst.inst, parser);
            }
        }
        ends
    }

    fn see(&mut self, inst: &Inst, parser: bool) {
        match inst {
            Inst::Store(var, _) if parser => {
                self.set.insert(*var);
            }
            Inst::Load(var) if !parser => {
                self.read.insert(*var);
            }
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                self.extracted.insert(*header);
            }
            Inst::SetValid(header) if parser => {
                self.extracted.insert(*header);
            }
            Inst::Emit(header) => {
                self.emitted.insert(*header);
            }
            Inst::Extern { args, .. } if !parser => {
                let vars = args.iter().flat_map(|a| if let Arg::Vars(vars) = a { &vars[..] } else { &[] });
                self.read.extend(vars);
            }
            _ => {}
        }
    }
}

/// Which nodes touch a cell, as places in the order of tables.
#[derive(Default)]
struct Touched {
    written: BTreeSet<usize>,
    read: BTreeSet<usize>,
}

/// All fields. `position` gives a node's place among the tables; `conditions` are cells with the nodes that decide by them; `told` cells are
/// no state of the packet.
pub(super) fn fields(
    state: &State,
    events: &[Event],
    conditions: &[(Cell, usize)],
    position: &[usize],
    told: &BTreeSet<Cell>,
) -> Vec<Field> {
    let mut touched: BTreeMap<Cell, Touched> = BTreeMap::new();
    for event in events {
        let at = position[event.node];
        for cell in &event.reads {
            touched.entry(*cell).or_default().read.insert(at);
        }
        for cell in &event.writes {
            touched.entry(*cell).or_default().written.insert(at);
        }
    }
    for (cell, node) in conditions {
        touched.entry(*cell).or_default().read.insert(position[*node]);
    }
    let ends = Ends::new(state.pipeline);
    let mut fields = headers(state, &touched, &ends);
    fields.extend(metadata(state, &touched, &ends, told));
    fields
}

fn field(name: String, bits: u32, header: Option<&str>, touched: Option<&Touched>) -> Field {
    let list = |set: fn(&Touched) -> &BTreeSet<usize>| touched.map_or(Vec::new(), |t| set(t).iter().copied().collect());
    let (written, read) = (list(|t| &t.written), list(|t| &t.read));
    let used = !written.is_empty() || !read.is_empty();
    Field { name, bits, header: header.map(str::to_owned), used, parsed: false, emitted: false, written, read }
}

/// Fields of headers that are on the wire or are used, each header followed by its validity.
fn headers(state: &State, touched: &BTreeMap<Cell, Touched>, ends: &Ends) -> Vec<Field> {
    let pipeline = state.pipeline;
    let mut fields = Vec::new();
    for (id, header) in pipeline.headers.iter().filter(|(_, h)| !h.local) {
        let (parsed, emitted) = (ends.extracted.contains(&id), ends.emitted.contains(&id));
        let cells = header.fields.iter().map(|v| (*v, state.var(*v)));
        let any = cells.clone().any(|(_, c)| touched.contains_key(&c)) || touched.contains_key(&Cell::Valid(id));
        if !(parsed || emitted || any) {
            continue;
        }
        for (var, cell) in cells {
            let var = &pipeline.vars[var];
            let bits = var.ty.width();
            if bits > 0 {
                fields.push(Field {
                    parsed,
                    emitted,
                    ..field(var.name.clone(), bits, Some(&header.name), touched.get(&cell))
                });
            }
        }
        let valid = field(state.name(Cell::Valid(id)), 1, None, touched.get(&Cell::Valid(id)));
        fields.push(Field { parsed: true, emitted: true, used: true, ..valid });
    }
    fields
}

/// Metadata, the architecture's variables and intermediate values that go from one table to another, or to and from the packet's ends.
fn metadata(state: &State, touched: &BTreeMap<Cell, Touched>, ends: &Ends, told: &BTreeSet<Cell>) -> Vec<Field> {
    let pipeline = state.pipeline;
    let mut by_class: BTreeMap<Cell, (bool, bool)> = BTreeMap::new();
    for (id, var) in pipeline.vars.iter() {
        if matches!(var.kind, VarKind::Field(header, _) if !pipeline.headers[header].local) {
            continue;
        }
        // The architecture sets its variables before the packet enters, and reads those that the program sets when it has left.
        let cell = state.var(id);
        let entry = by_class.entry(cell).or_default();
        if var.kind == VarKind::Intrinsic {
            entry.0 |= !written(touched, cell);
            entry.1 |= written(touched, cell);
        }
    }
    for id in &ends.set {
        by_class.entry(state.var(*id)).and_modify(|e| e.0 = true);
    }
    for id in &ends.read {
        by_class.entry(state.var(*id)).and_modify(|e| e.1 = true);
    }
    for cell in touched.keys().filter(|c| matches!(c, Cell::Class(_))) {
        let header_field = matches!(cell, Cell::Class(n) if state.classes.anchor(*n).is_some_and(|v| {
            matches!(pipeline.vars[v].kind, VarKind::Field(..))
        }));
        if !header_field {
            by_class.entry(*cell).or_default();
        }
    }
    let mut fields = Vec::new();
    for (cell, (parsed, emitted)) in by_class {
        let Some(touch) = touched.get(&cell) else { continue };
        let only_told = told.contains(&cell) && !matches!(cell, Cell::Class(n) if state.classes.has_var(n));
        let carried = (!touch.written.is_empty() || parsed) && (!touch.read.is_empty() || emitted);
        let bits = state.bits(cell);
        if carried && !only_told && bits > 0 {
            fields.push(Field { parsed, emitted, ..field(state.name(cell), bits, None, Some(touch)) });
        }
    }
    fields
}

fn written(touched: &BTreeMap<Cell, Touched>, cell: Cell) -> bool {
    touched.get(&cell).is_some_and(|t| !t.written.is_empty())
}
