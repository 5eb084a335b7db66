//! The bridge header: its fields, and the egress parser and deparser around it.

use super::Kept;
use ir::*;
use std::collections::BTreeSet;

/// A bridge header while it is made.
pub(super) struct Bridge {
    pub(super) header: HeaderId,
    /// Variables of the program that are fields of it now.
    pub(super) taken: Vec<VarId>,
    fields: Vec<VarId>,
    names: BTreeSet<String>,
}

impl Bridge {
    /// One without fields.
    pub(super) fn new(p: &mut Pipeline, hdr: &str) -> Bridge {
        let name = free("bridge", |name| {
            let full = format!("{hdr}.{name}");
            p.headers.values().any(|h| h.name == full) || p.header_types.values().any(|t| t.name == format!("{name}_h"))
        });
        let ty = p.header_types.push(HeaderType { name: format!("{name}_h"), fields: Vec::new() });
        let name = format!("{hdr}.{name}");
        let header = p.headers.push(Header { name, ty, fields: Vec::new(), union: None, local: false });
        Bridge { header, taken: Vec::new(), fields: Vec::new(), names: BTreeSet::new() }
    }

    /// A new field.
    pub(super) fn field(&mut self, p: &mut Pipeline, name: &str, ty: Type) -> VarId {
        let var = p.vars.push(Var { name: name.to_owned(), ty, kind: VarKind::Meta, loc: Loc::default() });
        self.add(p, var);
        var
    }

    /// A variable becomes a field.
    pub(super) fn take(&mut self, p: &mut Pipeline, var: VarId) {
        self.taken.push(var);
        self.add(p, var);
    }

    fn add(&mut self, p: &mut Pipeline, var: VarId) {
        let last = p.vars[var].name.rsplit('.').next().unwrap_or_default().to_owned();
        let last = crate::emit::names::flat(&last);
        let name = free(&last, |name| self.names.contains(name));
        p.vars[var].name = format!("{}.{name}", p.headers[self.header].name);
        self.names.insert(name);
        self.fields.push(var);
    }

    /// Each field ends a byte: what writes one does not touch its neighbours.
    pub(super) fn fill(&self, p: &mut Pipeline) {
        let ty = p.headers[self.header].ty;
        for var in &self.fields {
            let width = p.vars[*var].ty.width();
            let missing = width.next_multiple_of(8) - width;
            if missing > 0 {
                let name = free("pad", |name| {
                    self.names.contains(name) || p.header_types[ty].fields.iter().any(|f| f.name == name)
                });
                let pad = Var {
                    name: format!("{}.{name}", p.headers[self.header].name),
                    ty: Type::Bit(missing),
                    kind: VarKind::Meta,
                    loc: Loc::default(),
                };
                let pad = p.vars.push(pad);
                self.place(p, pad, name);
            }
            let name = p.vars[*var].name.rsplit('.').next().unwrap_or_default().to_owned();
            self.place(p, *var, name);
        }
    }

    fn place(&self, p: &mut Pipeline, var: VarId, name: String) {
        let number = p.headers[self.header].fields.len();
        p.vars[var].kind = VarKind::Field(self.header, u32::try_from(number).unwrap_or(u32::MAX));
        p.headers[self.header].fields.push(var);
        let ty = p.headers[self.header].ty;
        p.header_types[ty].fields.push(HeaderField { name, ty: p.vars[var].ty });
    }

    /// Its length.
    pub(super) fn bytes(&self, p: &Pipeline) -> u32 {
        p.headers[self.header].fields.iter().map(|v| p.vars[*v].ty.width()).sum::<u32>() / 8
    }
}

fn free(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n| format!("{wanted}_{n}"));
    let found = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !taken(name));
    found.unwrap_or_else(|| wanted.to_owned())
}

/// The table that says which headers a packet has, and its action.
pub(super) fn shape_table(p: &mut Pipeline, main: ControlId, kept: &Kept) -> (TableId, ActionId) {
    let control = p.controls[main].name.clone();
    let preamble = |name: &str| Preamble { name: format!("{control}.{name}"), hidden: true, ..Preamble::default() };
    let param =
        Param { name: "pattern".into(), ty: Type::Bit(8), annotations: Vec::new(), id: 0, type_name: None };
    let loc = Loc::default();
    let action = p.actions.push(Action { preamble: preamble("bridge_with"), params: vec![param], loc });
    let key = |header: &HeaderId| Key {
        name: format!("{}.$valid", p.headers[*header].name),
        ty: Type::Bool,
        kind: MatchKind::Exact,
        annotations: Vec::new(),
        id: 0,
        type_name: None,
    };
    let entry = |pattern: &u64| ConstEntry {
        keys: (0..kept.varying.len()).map(|n| KeyMatch::Exact((pattern >> n & 1).into())).collect(),
        priority: 0,
        action: ActionCall { action, args: vec![(*pattern).into()] },
        is_const: true,
        loc,
    };
    let table = Table {
        preamble: preamble("bridged_headers"),
        keys: kept.varying.iter().map(key).collect(),
        actions: vec![ActionRef { action, table_only: false, default_only: false, annotations: Vec::new() }],
        default_action: ActionCall { action, args: vec![0u8.into()] },
        const_default: true,
        entries: kept.patterns.iter().map(entry).collect(),
        const_entries: true,
        size: Some(kept.patterns.len() as u64),
        implementation: None,
        direct_counter: None,
        direct_meter: None,
        meter_result: None,
        add_on_miss: false,
        idle_timeout: false,
        properties: Vec::new(),
        loc,
    };
    (p.tables.push(table), action)
}

/// The egress parser: the bridge header, then each header that the packet has.
pub(super) fn parser(p: &Pipeline, bridge: &Bridge, kept: &Kept, shape: Option<VarId>) -> Body {
    let mut body = Body::default();
    let loc = Loc::default();
    let inst = |inst, results| InstData { inst, results, loc };
    let to = |block| BlockCall { block, args: Vec::new() };
    let ends = |term| Some(TermData { term, loc });
    let mut next = body.blocks.push(BlockData { params: Vec::new(), insts: Vec::new(), term: ends(Term::Return) });
    for header in kept.parsed.iter().rev() {
        let insts = vec![inst(Inst::Extract(*header), Vec::new())];
        let has = body.blocks.push(BlockData { params: Vec::new(), insts, term: ends(Term::Jump(to(next))) });
        let name = p.headers[*header].name.rsplit('.').next().unwrap_or_default().to_owned();
        body.states.push(State { name, block: has, loc });
        let bit = kept.varying.iter().position(|h| h == header);
        next = match (bit, shape) {
            (Some(bit), Some(shape)) => {
                let mask = Const::new(Type::Bit(8), 1u32 << bit);
                let [value, one, part] = [(); 3].map(|()| body.values.push(Type::Bit(8)));
                let is = body.values.push(Type::Bool);
                let insts = vec![
                    inst(Inst::Load(shape), vec![value]),
                    inst(Inst::Const(mask), vec![one]),
                    inst(Inst::Binary(BinaryOp::And, value, one), vec![part]),
                    inst(Inst::Binary(BinaryOp::Eq, part, one), vec![is]),
                ];
                let term = Term::Branch { cond: is, then: to(has), els: to(next) };
                body.blocks.push(BlockData { params: Vec::new(), insts, term: ends(term) })
            }
            _ => has,
        };
    }
    let insts = vec![inst(Inst::Extract(bridge.header), Vec::new())];
    body.entry = Some(body.blocks.push(BlockData { params: Vec::new(), insts, term: ends(Term::Jump(to(next))) }));
    body
}

/// The egress deparser.
pub(super) fn deparser(needed: &[HeaderId]) -> Body {
    let mut body = Body::default();
    let loc = Loc::default();
    let insts = needed.iter().map(|h| InstData { inst: Inst::Emit(*h), results: Vec::new(), loc }).collect();
    let term = Some(TermData { term: Term::Return, loc });
    body.entry = Some(body.blocks.push(BlockData { params: Vec::new(), insts, term }));
    body
}
