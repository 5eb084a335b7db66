//! The bridge header: its fields, and the egress parser and deparser around it.

use super::kept::Kept;
use ir::*;
use std::collections::{BTreeMap, BTreeSet};

/// What is carried, while it is made: a header for each field. Fields of one header have to lie beside each other in a chip's containers, and with
/// them all that they are moved to or from; of several headers each finds its own place.
pub(super) struct Bridge {
    /// In their order in front of the packet.
    pub(super) headers: Vec<HeaderId>,
    /// Variables of the program that are fields now.
    pub(super) taken: Vec<VarId>,
    /// Name of the headers' struct.
    hdr: String,
}

impl Bridge {
    /// One without fields.
    pub(super) fn new(hdr: &str) -> Bridge {
        Bridge { headers: Vec::new(), taken: Vec::new(), hdr: hdr.to_owned() }
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
        let last = crate::emit::names::flat(p.vars[var].name.rsplit('.').next().unwrap_or_default());
        let stem = free(&format!("bridge_{last}"), |name| {
            let full = format!("{}.{name}", self.hdr);
            p.headers.values().any(|h| h.name == full) || p.header_types.values().any(|t| t.name == format!("{name}_h"))
        });
        let ty = p.header_types.push(HeaderType { name: format!("{stem}_h"), fields: Vec::new() });
        let name = format!("{}.{stem}", self.hdr);
        let header = p.headers.push(Header { name: name.clone(), ty, fields: Vec::new(), union: None, local: false });
        self.headers.push(header);
        // It ends the header, whose first bits fill up a byte.
        let width = p.vars[var].ty.width();
        let missing = width.next_multiple_of(8) - width;
        if missing > 0 {
            let pad = if last == "pad" { "filler" } else { "pad" };
            let (kind, loc) = (VarKind::Meta, Loc::default());
            let filler = p.vars.push(Var { name: format!("{name}.{pad}"), ty: Type::Bit(missing), kind, loc });
            place(p, header, filler, pad);
        }
        p.vars[var].name = format!("{name}.{last}");
        place(p, header, var, &last);
    }

    /// Length of all.
    pub(super) fn bytes(&self, p: &Pipeline) -> u32 {
        let fields = self.headers.iter().flat_map(|h| &p.headers[*h].fields);
        fields.map(|v| p.vars[*v].ty.width()).sum::<u32>() / 8
    }

    /// The same for each header.
    pub(super) fn each(&self, of: fn(HeaderId) -> Inst, loc: Loc) -> impl Iterator<Item = InstData> {
        self.headers.iter().map(move |h| InstData { inst: of(*h), results: Vec::new(), loc })
    }
}

/// Makes a variable the last field of a header.
fn place(p: &mut Pipeline, header: HeaderId, var: VarId, name: &str) {
    let number = p.headers[header].fields.len();
    p.vars[var].kind = VarKind::Field(header, u32::try_from(number).unwrap_or(u32::MAX));
    p.headers[header].fields.push(var);
    let ty = p.headers[header].ty;
    p.header_types[ty].fields.push(HeaderField { name: name.to_owned(), ty: p.vars[var].ty });
}

fn free(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n| format!("{wanted}_{n}"));
    let found = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !taken(name));
    found.unwrap_or_else(|| wanted.to_owned())
}

/// A header of the first fields of another one.
pub(super) fn front(p: &mut Pipeline, header: HeaderId, count: usize) -> HeaderId {
    let Header { name, ty, fields, .. } = p.headers[header].clone();
    let HeaderType { name: ty_name, fields: of } = p.header_types[ty].clone();
    let stem = ty_name.strip_suffix("_h").or(ty_name.strip_suffix("_t")).unwrap_or(&ty_name);
    let ty_name = free(&format!("{stem}_front_h"), |name| p.header_types.values().any(|t| t.name == name));
    let ty = p.header_types.push(HeaderType { name: ty_name, fields: of[..count].to_vec() });
    let (root, last) = name.rsplit_once('.').unwrap_or(("hdr", &name));
    let last = crate::emit::names::flat(last);
    let name = free(&format!("{last}_front"), |name| p.headers.values().any(|h| h.name == format!("{root}.{name}")));
    let name = format!("{root}.{name}");
    let new = p.headers.push(Header { name: name.clone(), ty, fields: Vec::new(), union: None, local: false });
    for (n, (var, field)) in fields[..count].iter().zip(&of).enumerate() {
        let kind = VarKind::Field(new, u32::try_from(n).unwrap_or(u32::MAX));
        let var = Var { name: format!("{name}.{}", field.name), kind, ..p.vars[*var].clone() };
        let var = p.vars.push(var);
        p.headers[new].fields.push(var);
    }
    new
}

/// The table that says which headers a packet has, and its action.
pub(super) fn shape_table(p: &mut Pipeline, main: ControlId, kept: &Kept) -> (TableId, ActionId) {
    let control = p.controls[main].name.clone();
    let preamble = |name: &str| Preamble { name: format!("{control}.{name}"), hidden: true, ..Preamble::default() };
    let loc = Loc::default();
    let params = vec![Param::new("pattern", Type::Bit(8))];
    let action = p.actions.push(Action { preamble: preamble("bridge_with"), params, loc });
    let key = |header: &HeaderId| Key::new(format!("{}.$valid", p.headers[*header].name), Type::Bool, MatchKind::Exact);
    let entry = |pattern: &u64| ConstEntry {
        keys: (0..kept.varying.len()).map(|n| KeyMatch::Exact((pattern >> n & 1).into())).collect(),
        priority: 0,
        action: ActionCall { action, args: vec![(*pattern).into()] },
        is_const: true,
        loc,
    };
    let (keys, actions) = (kept.varying.iter().map(key).collect(), vec![ActionRef::new(action)]);
    let default = ActionCall { action, args: vec![0u8.into()] };
    let table = Table {
        const_default: true,
        entries: kept.patterns.iter().map(entry).collect(),
        const_entries: true,
        size: Some(kept.patterns.len() as u64),
        ..Table::new(preamble("bridged_headers"), keys, actions, default)
    };
    (p.tables.push(table), action)
}

/// The egress parser: the bridge header, then each header that the packet has. A way through it is a set of headers that there can be.
pub(super) fn parser(p: &Pipeline, bridge: &Bridge, kept: &Kept, shape: Option<VarId>) -> Body {
    let mut body = Body::default();
    let end = body.push_block(Vec::new(), Vec::new(), Term::Return);
    let mut states = States { p, kept, shape, body, end, known: BTreeMap::new() };
    let next = states.from(0, &kept.patterns);
    let insts = bridge.each(Inst::Extract, Loc::default()).collect();
    let entry = states.block(insts, Term::Jump(BlockCall::to(next)));
    states.body.entry = Some(entry);
    states.body
}

struct States<'a> {
    p: &'a Pipeline,
    kept: &'a Kept,
    shape: Option<VarId>,
    body: Body,
    end: Block,
    /// By the next header, and what there may be from it on.
    known: BTreeMap<(usize, BTreeSet<u64>), Block>,
}

impl States<'_> {
    fn block(&mut self, insts: Vec<InstData>, term: Term) -> Block {
        self.body.push_block(Vec::new(), insts, term)
    }

    /// The states for the headers from that one on, of packets with these patterns.
    fn from(&mut self, n: usize, patterns: &BTreeSet<u64>) -> Block {
        let Some(header) = self.kept.parsed.get(n).copied() else { return self.end };
        // Headers that are behind this one have the higher bits.
        let behind = self.kept.parsed[n..].iter().filter_map(|h| self.kept.varying.iter().position(|v| v == h)).min();
        let rest: BTreeSet<u64> = patterns.iter().map(|p| behind.map_or(0, |bit| p >> bit)).collect();
        if let Some(known) = self.known.get(&(n, rest.clone())) {
            return *known;
        }
        let bit = self.kept.varying.iter().position(|h| *h == header);
        let of = |wanted: u64| -> BTreeSet<u64> {
            let has = |p: &&u64| bit.is_none_or(|bit| *p >> bit & 1 == wanted);
            patterns.iter().filter(has).copied().collect()
        };
        let made = match (bit.zip(self.shape), of(1), of(0)) {
            (Some((bit, shape)), with, without) if !with.is_empty() && !without.is_empty() => {
                let els = self.from(n + 1, &without);
                let then = self.take(n, header, &with);
                self.choice(shape, bit, then, els)
            }
            (Some(_), with, without) if with.is_empty() => self.from(n + 1, &without),
            (_, with, _) => self.take(n, header, &with),
        };
        self.known.insert((n, rest), made);
        made
    }

    fn take(&mut self, n: usize, header: HeaderId, patterns: &BTreeSet<u64>) -> Block {
        let next = self.from(n + 1, patterns);
        let block = self.block(
            vec![InstData::new(Inst::Extract(self.kept.in_egress(header)), Vec::new())],
            Term::Jump(BlockCall::to(next)),
        );
        let name = self.p.headers[header].name.rsplit('.').next().unwrap_or_default().to_owned();
        self.body.states.push(State { name, block, loc: Loc::default() });
        block
    }

    fn choice(&mut self, shape: VarId, bit: usize, then: Block, els: Block) -> Block {
        let [value, one, part] = [(); 3].map(|()| self.body.values.push(Type::Bit(8)));
        let is = self.body.values.push(Type::Bool);
        let insts = vec![
            InstData::new(Inst::Load(shape), vec![value]),
            InstData::new(Inst::Const(Const::new(Type::Bit(8), 1u32 << bit)), vec![one]),
            InstData::new(Inst::Binary(BinaryOp::And, value, one), vec![part]),
            InstData::new(Inst::Binary(BinaryOp::Eq, part, one), vec![is]),
        ];
        self.block(insts, Term::Branch { cond: is, then: BlockCall::to(then), els: BlockCall::to(els) })
    }
}

/// The egress deparser.
pub(super) fn deparser(kept: &Kept) -> Body {
    let mut body = Body::default();
    let insts = kept.needed.iter().map(|h| InstData::new(Inst::Emit(kept.in_egress(*h)), Vec::new())).collect();
    let term = Some(TermData { term: Term::Return, loc: Loc::default() });
    body.entry = Some(body.blocks.push(BlockData { params: Vec::new(), insts, term }));
    body
}
