//! Bridge headers, with the egress parser and deparser around them.

use super::egress_headers::EgressHeaders;
use ir::*;
use std::collections::{BTreeMap, BTreeSet};

/// Bridge headers under construction, one for each carried field. Fields of one header must be
/// adjacent in the chip's containers, together with the fields that they are moved to or from;
/// separate headers can be placed independently.
pub(super) struct BridgeHeaders {
    /// Headers in the order in which they precede the packet.
    pub(super) headers: Vec<HeaderId>,
    /// Variables of the program that became fields.
    pub(super) taken: Vec<VarId>,
    /// Name of the headers parameter.
    hdr: String,
}

impl BridgeHeaders {
    /// Returns an empty set of bridge headers.
    pub(super) fn new(hdr: &str) -> BridgeHeaders {
        BridgeHeaders { headers: Vec::new(), taken: Vec::new(), hdr: hdr.to_owned() }
    }

    /// Adds a new field.
    pub(super) fn add_field(&mut self, p: &mut Pipeline, name: &str, ty: Type) -> VarId {
        let var = p.vars.push(Var { name: name.to_owned(), ty, kind: VarKind::Meta, loc: SourceLoc::default() });
        self.append_header(p, var);
        var
    }

    /// Turns a variable into a field.
    pub(super) fn move_into_bridge(&mut self, p: &mut Pipeline, var: VarId) {
        self.taken.push(var);
        self.append_header(p, var);
    }

    /// Appends a bridge header with one field, and moves a variable into that field.
    fn append_header(&mut self, p: &mut Pipeline, var: VarId) {
        let short_name = crate::emit::names::to_identifier(p.vars[var].name.rsplit('.').next().unwrap_or_default());
        let header_name = free_name(&format!("bridge_{short_name}"), |name| {
            let full = format!("{}.{name}", self.hdr);
            p.headers.values().any(|h| h.name == full) || p.header_types.values().any(|t| t.name == format!("{name}_h"))
        });
        let ty = p.header_types.push(HeaderType { name: format!("{header_name}_h"), fields: Vec::new() });
        let name = format!("{}.{header_name}", self.hdr);
        let header = p.headers.push(Header { name: name.clone(), ty, fields: Vec::new(), union: None, local: false });
        self.headers.push(header);
        // The field is aligned to the end of its header; padding precedes it.
        let width = p.vars[var].ty.width();
        let padding_bits = width.next_multiple_of(8) - width;
        if padding_bits > 0 {
            let pad = if short_name == "pad" { "filler" } else { "pad" };
            let (kind, loc) = (VarKind::Meta, SourceLoc::default());
            let filler = p.vars.push(Var { name: format!("{name}.{pad}"), ty: Type::Bit(padding_bits), kind, loc });
            append_field(p, header, filler, pad);
        }
        p.vars[var].name = format!("{name}.{short_name}");
        append_field(p, header, var, &short_name);
    }

    /// Returns the total length in bytes.
    pub(super) fn len_bytes(&self, p: &Pipeline) -> u32 {
        let fields = self.headers.iter().flat_map(|h| &p.headers[*h].fields);
        fields.map(|v| p.vars[*v].ty.width()).sum::<u32>() / 8
    }

    /// Returns an instruction for each header.
    pub(super) fn header_insts(&self, of: fn(HeaderId) -> Inst, loc: SourceLoc) -> impl Iterator<Item = InstData> {
        self.headers.iter().map(move |h| InstData { inst: of(*h), results: Vec::new(), loc })
    }
}

/// Appends a variable to the fields of a header.
fn append_field(p: &mut Pipeline, header: HeaderId, var: VarId, name: &str) {
    let number = p.headers[header].fields.len();
    p.vars[var].kind = VarKind::Field(header, u32::try_from(number).unwrap_or(u32::MAX));
    p.headers[header].fields.push(var);
    let ty = p.headers[header].ty;
    p.header_types[ty].fields.push(HeaderField { name: name.to_owned(), ty: p.vars[var].ty });
}

fn free_name(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n| format!("{wanted}_{n}"));
    let found = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !taken(name));
    found.unwrap_or_else(|| wanted.to_owned())
}

/// Creates a header with the first `count` fields of another one.
pub(super) fn make_front_header(p: &mut Pipeline, header: HeaderId, count: usize) -> HeaderId {
    let Header { name, ty, fields, .. } = p.headers[header].clone();
    let HeaderType { name: ty_name, fields: type_fields } = p.header_types[ty].clone();
    let type_stem = ty_name.strip_suffix("_h").or(ty_name.strip_suffix("_t")).unwrap_or(&ty_name);
    let ty_name = free_name(&format!("{type_stem}_front_h"), |name| p.header_types.values().any(|t| t.name == name));
    let ty = p.header_types.push(HeaderType { name: ty_name, fields: type_fields[..count].to_vec() });
    let (root, short_name) = name.rsplit_once('.').unwrap_or(("hdr", &name));
    let short_name = crate::emit::names::to_identifier(short_name);
    let name = free_name(&format!("{short_name}_front"), |name| {
        p.headers.values().any(|h| h.name == format!("{root}.{name}"))
    });
    let name = format!("{root}.{name}");
    let front = p.headers.push(Header { name: name.clone(), ty, fields: Vec::new(), union: None, local: false });
    for (n, (var, field)) in fields[..count].iter().zip(&type_fields).enumerate() {
        let kind = VarKind::Field(front, u32::try_from(n).unwrap_or(u32::MAX));
        let var = Var { name: format!("{name}.{}", field.name), kind, ..p.vars[*var].clone() };
        let var = p.vars.push(var);
        p.headers[front].fields.push(var);
    }
    front
}

/// Adds the table that encodes the packet's valid headers as a number, and its action. The keys are
/// the validities of the headers that vary between packets; bit n of a pattern is the validity of
/// header n.
pub(super) fn header_set_table(
    p: &mut Pipeline,
    main: ControlId,
    egress_headers: &EgressHeaders,
) -> (TableId, ActionId) {
    let control = p.controls[main].name.clone();
    let preamble = |name: &str| Preamble { name: format!("{control}.{name}"), hidden: true, ..Preamble::default() };
    let loc = SourceLoc::default();
    let params = vec![Param::new("pattern", Type::Bit(8))];
    let action = p.actions.push(Action { preamble: preamble("bridge_with"), params, loc });
    let key =
        |header: &HeaderId| MatchKey::new(format!("{}.$valid", p.headers[*header].name), Type::Bool, MatchKind::Exact);
    let entry = |pattern: &u64| ConstEntry {
        keys: (0..egress_headers.varying.len()).map(|n| KeyMatch::Exact((pattern >> n & 1).into())).collect(),
        priority: 0,
        action: ActionCall { action, args: vec![(*pattern).into()] },
        is_const: true,
        loc,
    };
    let (keys, actions) = (egress_headers.varying.iter().map(key).collect(), vec![ActionRef::new(action)]);
    let no_pattern = ActionCall { action, args: vec![0u8.into()] };
    let table = Table {
        const_default: true,
        entries: egress_headers.patterns.iter().map(entry).collect(),
        const_entries: true,
        size: Some(egress_headers.patterns.len() as u64),
        ..Table::new(preamble("bridged_headers"), keys, actions, no_pattern)
    };
    (p.tables.push(table), action)
}

/// Builds the egress parser: the bridge headers, then the packet's headers. Each path corresponds
/// to a set of headers that a packet can have.
pub(super) fn egress_parser(p: &Pipeline, bridge: &BridgeHeaders, kept: &EgressHeaders, shape: Option<VarId>) -> Body {
    let mut body = Body::default();
    let end = body.push_block(Vec::new(), Vec::new(), Terminator::Return);
    let mut states = EgressStates { p, kept, shape, body, end, known: BTreeMap::new() };
    let next = states.states_from(0, &kept.patterns);
    let insts = bridge.header_insts(Inst::Extract, SourceLoc::default()).collect();
    let entry = states.add_block(insts, Terminator::Jump(BlockCall::to(next)));
    states.body.entry = Some(entry);
    states.body
}

struct EgressStates<'a> {
    p: &'a Pipeline,
    kept: &'a EgressHeaders,
    shape: Option<VarId>,
    body: Body,
    end: Block,
    /// States by next header and remaining presence patterns.
    known: BTreeMap<(usize, BTreeSet<u64>), Block>,
}

impl EgressStates<'_> {
    fn add_block(&mut self, insts: Vec<InstData>, term: Terminator) -> Block {
        self.body.push_block(Vec::new(), insts, term)
    }

    /// Returns the states for header `n` and the following ones, for packets with these patterns
    /// (bit: validity of a varying header). Equal remainders share their states.
    fn states_from(&mut self, n: usize, patterns: &BTreeSet<u64>) -> Block {
        let Some(header) = self.kept.parsed.get(n).copied() else { return self.end };
        // Later headers have higher bits.
        let first_later_bit =
            self.kept.parsed[n..].iter().filter_map(|h| self.kept.varying.iter().position(|v| v == h)).min();
        let remainders: BTreeSet<u64> = patterns.iter().map(|p| first_later_bit.map_or(0, |bit| p >> bit)).collect();
        if let Some(known) = self.known.get(&(n, remainders.clone())) {
            return *known;
        }
        let bit = self.kept.varying.iter().position(|h| *h == header);
        let patterns_with = |validity: u64| -> BTreeSet<u64> {
            let has_validity = |p: &&u64| bit.is_none_or(|bit| *p >> bit & 1 == validity);
            patterns.iter().filter(has_validity).copied().collect()
        };
        let block = match (bit.zip(self.shape), patterns_with(1), patterns_with(0)) {
            (Some((bit, shape)), with, without) if !with.is_empty() && !without.is_empty() => {
                let els = self.states_from(n + 1, &without);
                let then = self.extract_state(n, header, &with);
                self.branch_state(shape, bit, then, els)
            }
            (Some(_), with, without) if with.is_empty() => self.states_from(n + 1, &without),
            (_, with, _) => self.extract_state(n, header, &with),
        };
        self.known.insert((n, remainders), block);
        block
    }

    fn extract_state(&mut self, n: usize, header: HeaderId, patterns: &BTreeSet<u64>) -> Block {
        let next = self.states_from(n + 1, patterns);
        let block = self.add_block(
            vec![InstData::new(Inst::Extract(self.kept.egress_header(header)), Vec::new())],
            Terminator::Jump(BlockCall::to(next)),
        );
        let name = self.p.headers[header].name.rsplit('.').next().unwrap_or_default().to_owned();
        self.body.states.push(ParserStateBlock { name, block, loc: SourceLoc::default() });
        block
    }

    fn branch_state(&mut self, shape: VarId, bit: usize, then: Block, els: Block) -> Block {
        let [value, one, part] = [(); 3].map(|()| self.body.values.push(Type::Bit(8)));
        let is = self.body.values.push(Type::Bool);
        let insts = vec![
            InstData::new(Inst::Load(shape), vec![value]),
            InstData::new(Inst::Const(Const::new(Type::Bit(8), 1u32 << bit)), vec![one]),
            InstData::new(Inst::Binary(BinaryOp::And, value, one), vec![part]),
            InstData::new(Inst::Binary(BinaryOp::Eq, part, one), vec![is]),
        ];
        self.add_block(insts, Terminator::Branch { cond: is, then: BlockCall::to(then), els: BlockCall::to(els) })
    }
}

/// Builds the egress deparser.
pub(super) fn egress_deparser(kept: &EgressHeaders) -> Body {
    let mut body = Body::default();
    let insts = kept.needed.iter().map(|h| InstData::new(Inst::Emit(kept.egress_header(*h)), Vec::new())).collect();
    let term = Some(TerminatorData { term: Terminator::Return, loc: SourceLoc::default() });
    body.entry = Some(body.blocks.push(BlockData { params: Vec::new(), insts, term }));
    body
}
