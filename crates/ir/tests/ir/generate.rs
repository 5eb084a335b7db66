//! Generator of random valid pipelines. Each choice takes a byte of the input, so that proptest's
//! shrinking makes pipelines smaller.

use crate::generate_body::body;
use ir::*;
use num_bigint::BigUint;

/// Stream of choices; zeros after its end.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Choices { bytes }
    }
    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }
    pub fn below(&mut self, n: usize) -> usize {
        if n <= 1 { 0 } else { usize::from(self.byte()) % n }
    }
    pub fn chance(&mut self, of_256: u8) -> bool {
        self.byte() > 255 - of_256
    }
    pub fn pick<'t, T>(&mut self, list: &'t [T]) -> Option<&'t T> {
        if list.is_empty() { None } else { list.get(self.below(list.len())) }
    }
    fn bits(&mut self, width: u32) -> BigUint {
        let bytes: Vec<u8> = (0..width.div_ceil(8)).map(|_| self.byte()).collect();
        ir::eval::wrap(width, &BigUint::from_bytes_be(&bytes))
    }
    pub fn text(&mut self) -> String {
        const PARTS: [&str; 8] = ["a", "quote \"", "back\\slash", "line\nend", "tab\t", "\u{1}", "é✓", "@x(1)"];
        (0..self.below(3)).map(|_| PARTS[self.below(8)]).collect()
    }
    pub fn loc(&mut self) -> SourceLoc {
        if self.chance(128) {
            return SourceLoc::default();
        }
        SourceLoc { file: u16::from(self.byte()), line: u32::from(self.byte()) + 1, column: u16::from(self.byte()) }
    }
    pub fn scalar(&mut self, enums: usize) -> Type {
        const WIDTHS: [u32; 10] = [8, 1, 3, 16, 32, 48, 64, 128, 200, 0];
        let width = WIDTHS[self.below(10)];
        match self.below(8) {
            0 => Type::Bool,
            1 | 2 => Type::Int(width),
            3 => Type::Error,
            4 if enums > 0 => Type::Enum(EnumId(self.below(enums) as u32)),
            _ => Type::Bit(width),
        }
    }
    fn annotations(&mut self) -> Vec<String> {
        (0..self.below(2)).map(|_| self.text()).collect()
    }
    fn preamble(&mut self, name: String) -> Preamble {
        Preamble {
            name,
            id: if self.chance(40) { u32::from(self.byte()) } else { 0 },
            annotations: self.annotations(),
            brief: self.text(),
            description: self.text(),
            hidden: self.chance(30),
        }
    }
    pub fn constant(&mut self, p: &Pipeline, ty: Type) -> Const {
        let bits = match ty {
            Type::Varbit(_) => BigUint::default(),
            Type::Error => BigUint::from(self.below(p.errors.len())),
            Type::Enum(e) => BigUint::from(self.below(p.enums[e].members.len())),
            ty => self.bits(ty.width()),
        };
        Const { ty, bits }
    }
}

/// Generates a pipeline that passes the verifier.
pub fn pipeline(bytes: &[u8]) -> Pipeline {
    let c = &mut Choices::new(bytes);
    let mut p = Pipeline::new(format!("p{}", c.text()), Arch::V1Model);
    p.annotations = c.annotations();
    p.files = (0..c.below(3)).map(|_| c.text()).collect();
    p.add_error("Mine");
    for n in 0..c.below(3) {
        let members = (0..c.below(3) + 1).map(|m| format!("M{m}")).collect();
        p.enums.push(Enum { name: format!("E{n}"), members });
    }
    headers(c, &mut p);
    let enums = p.enums.len();
    for n in 0..c.below(6) + 1 {
        let kind = [VarKind::Local, VarKind::Meta, VarKind::Local, VarKind::Intrinsic][c.below(4)];
        let (ty, loc) = (c.scalar(enums), c.loc());
        let odd = if c.chance(20) { " \"odd\"" } else { "" };
        let var = p.add_var(format!("meta.x{n}{odd}"), ty, kind, loc);
        if kind == VarKind::Intrinsic {
            p.intrinsics.insert(format!("standard_metadata.x{n}"), var);
        }
    }
    if c.chance(80) {
        p.field_lists.insert(u32::from(c.byte()), p.vars.keys().take(c.below(3)).collect());
    }
    named_types(c, &mut p);
    externs(c, &mut p);
    for n in 0..c.below(3) {
        tables(c, &mut p, n);
    }
    for kind in [ControlKind::Parser, ControlKind::Ingress, ControlKind::Deparser] {
        let body = body(c, &p, kind);
        p.controls.push(Control { name: format!("{kind:?}"), kind, body });
    }
    p
}

fn headers(c: &mut Choices, p: &mut Pipeline) {
    for t in 0..c.below(3) + 1 {
        let mut fields: Vec<HeaderField> = (0..c.below(3) + 1)
            .map(|n| {
                let ty = match c.scalar(0) {
                    Type::Error => Type::Bit(7),
                    ty => ty,
                };
                HeaderField { name: format!("f{n}"), ty }
            })
            .collect();
        if c.chance(60) {
            fields.push(HeaderField { name: "options".into(), ty: Type::Varbit(64) });
        }
        let ty = p.header_types.push(HeaderType { name: format!("h{t}_t"), fields });
        let single = p.add_header(format!("hdr.h{t}"), ty, false, SourceLoc::default());
        p.add_header(format!("tmp.h{t}"), ty, true, SourceLoc::default());
        if c.chance(100) {
            let elements =
                (0..2).map(|n| p.add_header(format!("hdr.s{t}[{n}]"), ty, false, SourceLoc::default())).collect();
            let loc = c.loc();
            p.add_stack(format!("hdr.s{t}"), elements, loc);
        }
        if c.chance(100) {
            let other = p.add_header(format!("hdr.u{t}.b"), ty, false, SourceLoc::default());
            p.add_union(format!("hdr.u{t}"), vec![single, other]);
        }
    }
}

fn data_type(c: &mut Choices, depth: u32) -> DataType {
    match c.below(if depth > 3 { 6 } else { 8 }) {
        0 => DataType::Bit(8),
        1 => DataType::Int(9),
        2 => DataType::Varbit(16),
        3 => DataType::Bool,
        4 => DataType::Error,
        5 => DataType::Named(c.text()),
        6 => DataType::Stack(c.text(), u32::from(c.byte())),
        _ => DataType::Tuple((0..c.below(3)).map(|_| data_type(c, depth + 1)).collect()),
    }
}

fn named_types(c: &mut Choices, p: &mut Pipeline) {
    for n in 0..c.below(3) {
        let members = |c: &mut Choices| (0..c.below(3)).map(|_| (c.text(), data_type(c, 0))).collect();
        let ty = match c.below(6) {
            0 => NamedType::Struct(members(c)),
            1 => NamedType::Header(members(c)),
            2 => NamedType::Union(vec![(c.text(), c.text())]),
            3 => NamedType::Enum(vec![c.text(), c.text()]),
            4 => NamedType::SerializableEnum(200, vec![(c.text(), c.bits(200))]),
            _ => {
                let width = c.chance(128).then_some(32);
                NamedType::NewType(data_type(c, 0), c.chance(128).then(|| (c.text(), width)))
            }
        };
        if c.chance(100) {
            p.type_annotations.insert(format!("T{n}"), vec![c.text()]);
        }
        if let (NamedType::NewType(_, Some((_, None))), true) = (&ty, c.chance(128)) {
            p.mappings.insert(format!("T{n}"), vec![(c.text(), c.bits(20))]);
        }
        p.named_types.push((format!("T{n}"), ty));
    }
    if c.chance(50) {
        let fields = params(c, p.enums.len());
        let preamble = c.preamble("packet_in".into());
        p.controller_headers.push(ControllerHeader { preamble, header: HeaderTypeId(0), fields });
    }
}

fn params(c: &mut Choices, enums: usize) -> Vec<Param> {
    (0..c.below(3))
        .map(|n| Param {
            name: format!("p{n}"),
            ty: c.scalar(enums),
            annotations: c.annotations(),
            id: u32::from(c.byte()),
            type_name: c.chance(60).then(|| c.text()),
        })
        .collect()
}

fn externs(c: &mut Choices, p: &mut Pipeline) {
    for n in 0..c.below(4) {
        let size = u64::from(c.byte());
        let index_type = c.chance(60).then(|| c.text());
        let algorithm = [HashAlgorithm::Crc16, HashAlgorithm::TargetDefault][c.below(2)];
        let kind = match c.below(11) {
            0 => ExternKind::Counter { size, unit: CounterUnit::Both, index_type },
            1 => ExternKind::Meter { size, unit: MeterUnit::Bytes, index_type },
            2 => {
                let elem: Vec<Type> = (0..c.below(3)).map(|_| c.scalar(p.enums.len())).collect();
                let initial = elem.iter().map(|t| c.constant(p, *t)).collect();
                ExternKind::Register { size, elem, initial, data_type: data_type(c, 0), index_type }
            }
            3 => ExternKind::Hash { algorithm, output: Type::Bit(16) },
            4 => ExternKind::Checksum { algorithm, output: Type::Bit(16) },
            5 => ExternKind::InternetChecksum,
            6 => ExternKind::Checksum16,
            7 => {
                let ty = Type::Bit(16);
                ExternKind::Random { min: c.constant(p, ty), max: c.constant(p, ty) }
            }
            8 => {
                let [addresses, subscribers, spaces, rest_seconds] = [(); 4].map(|()| u32::from(c.byte()));
                ExternKind::PortPool { addresses, subscribers, spaces, rest_seconds }
            }
            9 => ExternKind::EntryQuota { owners: u32::from(c.byte()) },
            _ => ExternKind::Digest { data_type: data_type(c, 0), fields: vec![Type::Bit(8), Type::Bool] },
        };
        let (preamble, loc) = (c.preamble(format!("x{n}")), c.loc());
        p.externs.push(ExternInst { preamble, kind, loc });
    }
}

fn key_match(c: &mut Choices, p: &Pipeline, key: &MatchKey) -> KeyMatch {
    let value = c.constant(p, key.ty).bits;
    match key.kind {
        MatchKind::Ternary => {
            let mask = c.bits(key.ty.width());
            KeyMatch::Ternary { value: value & &mask, mask }
        }
        MatchKind::Lpm => {
            let prefix_len = c.below(key.ty.width() as usize + 1) as u32;
            let host = key.ty.width() - prefix_len;
            KeyMatch::Lpm { value: (value >> host) << host, prefix_len }
        }
        MatchKind::Range => KeyMatch::Range { lo: value.clone(), hi: value },
        MatchKind::Optional => KeyMatch::Optional(c.chance(128).then_some(value)),
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(value),
    }
}

fn tables(c: &mut Choices, p: &mut Pipeline, number: usize) {
    let enums = p.enums.len();
    let mut actions = Vec::new();
    for n in 0..c.below(2) + 1 {
        let params = params(c, enums);
        let (preamble, loc) = (c.preamble(format!("ingress.a{number}_{n}")), c.loc());
        let action = p.actions.push(Action { preamble, params, loc });
        actions.push(ActionRef { action, table_only: false, default_only: false, annotations: c.annotations() });
    }
    let mut lpm = false;
    let mut keys = Vec::new();
    for n in 0..c.below(4) {
        const KINDS: [MatchKind; 5] =
            [MatchKind::Exact, MatchKind::Ternary, MatchKind::Lpm, MatchKind::Range, MatchKind::Optional];
        let mut kind = KINDS[c.below(5)];
        if kind == MatchKind::Lpm && lpm {
            kind = MatchKind::Exact;
        }
        lpm |= kind == MatchKind::Lpm;
        let (ty, annotations) = (c.scalar(enums), c.annotations());
        let type_name = c.chance(40).then(|| c.text());
        keys.push(MatchKey { name: format!("k{n}"), ty, kind, annotations, id: u32::from(c.byte()), type_name });
    }
    let call = |c: &mut Choices, p: &Pipeline, action: ActionId| {
        let args = p.actions[action].params.iter().map(|q| c.constant(p, q.ty).bits).collect();
        ActionCall { action, args }
    };
    let default_action = call(c, p, actions[0].action);
    let priority = keys.iter().any(|k| matches!(k.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional));
    let entries = (0..c.below(3))
        .map(|_| ConstEntry {
            keys: keys.iter().map(|k| key_match(c, p, k)).collect(),
            priority: if priority { i32::from(c.byte()) - 100 } else { 0 },
            action: {
                let action = actions[c.below(actions.len())].action;
                call(c, p, action)
            },
            is_const: c.chance(128),
            loc: c.loc(),
        })
        .collect();
    let preamble = c.preamble(format!("ingress.t{number}"));
    let properties = (0..c.below(2)).map(|_| (c.text(), c.text())).collect();
    let direct = c.chance(80).then(|| {
        let preamble = Preamble { name: format!("direct{number}"), ..Preamble::default() };
        let kind = ExternKind::DirectCounter { unit: CounterUnit::Packets };
        p.externs.push(ExternInst { preamble, kind, loc: SourceLoc::default() })
    });
    p.tables.push(Table {
        preamble,
        keys,
        actions,
        default_action,
        const_default: c.chance(60),
        entries,
        const_entries: c.chance(60),
        size: c.chance(128).then(|| u64::from(c.byte())),
        implementation: None,
        direct_counter: direct,
        direct_meter: None,
        meter_result: None,
        add_on_miss: c.chance(40),
        idle_timeout: c.chance(40),
        properties,
        loc: c.loc(),
    });
}
