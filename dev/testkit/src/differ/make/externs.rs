//! Generates extern objects and functions of both architectures, and statements that use them.

use super::super::tree::*;
use super::expr::binary;
use super::{BlockRole, ExternObject, ProgramGenerator, ScopeNames};
use ir::Arch;

const ALGORITHMS: [&str; 7] = ["crc32", "crc32_custom", "crc16", "crc16_custom", "identity", "csum16", "xor16"];
const PNA_ALGORITHMS: [&str; 7] =
    ["TARGET_DEFAULT", "IDENTITY", "CRC32", "CRC32_CUSTOM", "CRC16", "CRC16_CUSTOM", "ONES_COMPLEMENT16"];

impl ProgramGenerator<'_> {
    /// Declares some objects in a control.
    pub(super) fn declare_objects(&mut self, role: BlockRole, control: &mut Control) {
        for _ in 0..self.rng.usize(..5) {
            let object = match self.arch() {
                Arch::V1Model => self.v1model_object(role, control),
                Arch::Pna => self.pna_object(control),
            };
            self.objects.extend(object);
        }
    }

    /// Declares an object of v1model with a random type and size. `None`: the choice is an object
    /// that the block cannot have.
    fn v1model_object(&mut self, role: BlockRole, control: &mut Control) -> Option<ExternObject> {
        let size = self.rng.u64(1..17);
        let (object, declaration) = match self.rng.u8(..8) {
            0 | 1 => {
                let name = self.fresh_name("ctr");
                let unit = ["packets", "bytes", "packets_and_bytes"][self.rng.usize(..3)];
                let declaration = format!("counter({size}, CounterType.{unit}) {name}");
                (ExternObject::Counter { name, size, index: 32 }, declaration)
            }
            2 => {
                let name = self.fresh_name("mtr");
                let unit = ["packets", "bytes"][self.rng.usize(..2)];
                let declaration = format!("meter({size}, MeterType.{unit}) {name}");
                (ExternObject::Meter { name, size, index: 32 }, declaration)
            }
            3 | 4 => {
                let (name, ty) = (self.fresh_name("reg"), self.random_type());
                let declaration = format!("register<{ty}>({size}) {name}");
                (ExternObject::Register { name, size, index: 32, ty }, declaration)
            }
            5 => {
                let (name, ty, struct_name) = self.declare_pair_struct();
                let declaration = format!("register<{struct_name}>({size}) {name}");
                (ExternObject::PairRegister { name, size, index: 32, ty }, declaration)
            }
            6 if role == BlockRole::Ingress => {
                let (name, types) = self.declare_message_struct();
                return Some(ExternObject::Digest { name, types });
            }
            _ => return None,
        };
        control.declarations.push(declaration);
        Some(object)
    }

    /// Declares an object of PNA with a random type and size.
    fn pna_object(&mut self, control: &mut Control) -> Option<ExternObject> {
        let size = self.rng.u64(1..17);
        let index = [8, 16, 32, 64][self.rng.usize(..4)];
        let algorithm = PNA_ALGORITHMS[self.rng.usize(..7)];
        let (object, declaration) = match self.rng.u8(..12) {
            0 | 1 => {
                let name = self.fresh_name("ctr");
                let unit = ["PACKETS", "BYTES", "PACKETS_AND_BYTES"][self.rng.usize(..3)];
                let declaration = format!("Counter<bit<64>, bit<{index}>>({size}, PNA_CounterType_t.{unit}) {name}");
                (ExternObject::Counter { name, size, index }, declaration)
            }
            2 => {
                let name = self.fresh_name("mtr");
                let unit = ["PACKETS", "BYTES"][self.rng.usize(..2)];
                let declaration = format!("Meter<bit<{index}>>({size}, PNA_MeterType_t.{unit}) {name}");
                (ExternObject::Meter { name, size, index }, declaration)
            }
            3 | 4 => {
                let (name, ty) = (self.fresh_name("reg"), self.random_type());
                let initial = match self.true_with_percent(40) {
                    true => format!(", {}", Expr::lit(ty, self.random_constant())),
                    false => String::new(),
                };
                let declaration = format!("Register<{ty}, bit<{index}>>({size}{initial}) {name}");
                (ExternObject::Register { name, size, index, ty }, declaration)
            }
            5 => {
                let (name, ty, struct_name) = self.declare_pair_struct();
                let declaration = format!("Register<{struct_name}, bit<{index}>>({size}) {name}");
                (ExternObject::PairRegister { name, size, index, ty }, declaration)
            }
            6 if self.random => {
                let (name, width) = (self.fresh_name("rnd"), self.rng.u32(4..33));
                let (low, high) = (self.rng.u32(..8), self.rng.u32(5..16));
                let declaration = format!("Random<bit<{width}>>({width}w{low}, {width}w{high}) {name}");
                (ExternObject::Random { name, ty: Ty::Bit(width) }, declaration)
            }
            7 => {
                let (name, width) = (self.fresh_name("hash"), [8, 16, 32, 48][self.rng.usize(..4)]);
                let declaration = format!("Hash<bit<{width}>>(PNA_HashAlgorithm_t.{algorithm}) {name}");
                (ExternObject::Hash { name, ty: Ty::Bit(width) }, declaration)
            }
            8 => {
                let (name, width) = (self.fresh_name("sum"), [16, 32][self.rng.usize(..2)]);
                let declaration = format!("Checksum<bit<{width}>>(PNA_HashAlgorithm_t.{algorithm}) {name}");
                (ExternObject::Checksum { name, ty: Ty::Bit(width) }, declaration)
            }
            9 | 10 => {
                let name = self.fresh_name("inet");
                let declaration = format!("InternetChecksum() {name}");
                (ExternObject::InternetChecksum { name }, declaration)
            }
            _ => {
                let (ty, types) = self.declare_message_struct();
                let name = self.fresh_name("dig");
                let declaration = format!("Digest<{ty}>() {name}");
                (ExternObject::Digest { name, types }, declaration)
            }
        };
        control.declarations.push(declaration);
        Some(object)
    }

    /// Declares a struct of two values for a register. Returns the name of the register, the types,
    /// and the name of the struct.
    fn declare_pair_struct(&mut self) -> (String, [Ty; 2], String) {
        let (name, ty) = (self.fresh_name("reg"), [self.random_type(), self.random_type()]);
        let of = format!("pair_{name}_t");
        self.program.types.push(format!("struct {of} {{ {} a; {} b; }}", ty[0], ty[1]));
        (name, ty, of)
    }

    /// Declares a struct for a digest. Returns its name and the types of its fields.
    fn declare_message_struct(&mut self) -> (String, Vec<Ty>) {
        let name = self.fresh_name("message");
        let types: Vec<Ty> = (0..self.rng.usize(1..4)).map(|_| self.random_type()).collect();
        let fields: Vec<String> = types.iter().enumerate().map(|(i, ty)| format!("{ty} f{i};")).collect();
        self.program.types.push(format!("struct {name}_t {{ {} }}", fields.join(" ")));
        (format!("{name}_t"), types)
    }

    /// Generates `{ e, e, ... }` of these types.
    fn list(&mut self, types: &[Ty], scope: &ScopeNames) -> Vec<TextPart> {
        let mut parts = vec![text("{ ")];
        for (index, ty) in types.iter().enumerate() {
            parts.push(text(if index == 0 { "" } else { ", " }));
            parts.push(TextPart::Expr(self.random_expr(*ty, 1, scope)));
        }
        parts.push(text(" }"));
        parts
    }

    /// Generates `{ ... }` of fields with a total width that is a multiple of `unit` bits.
    pub(super) fn list_of_bits(&mut self, unit: u32, scope: &ScopeNames) -> Vec<TextPart> {
        let mut types: Vec<Ty> = Vec::new();
        for _ in 0..self.rng.usize(1..4) {
            types.push(match self.random_element(&scope.reads) {
                Some((_, ty)) if *ty != Ty::Bool => *ty,
                _ => Ty::Bit(16),
            });
        }
        let bits: u32 = types.iter().map(|ty| ty.width()).sum();
        let rest = (unit - bits % unit) % unit;
        if rest != 0 {
            types.push(Ty::Bit(rest));
        }
        self.list(&types, scope)
    }

    fn index_expr(&mut self, size: u64, width: u32, scope: &ScopeNames) -> Expr {
        let index = self.random_read(Ty::Bit(width), scope);
        // Sometimes out of range.
        let mask = if self.true_with_percent(85) { size.next_power_of_two() - 1 } else { 0xff };
        binary(Ty::Bit(width), "&", index, Expr::lit(Ty::Bit(width), u128::from(mask)))
    }

    /// Generates a statement that uses an extern.
    pub(super) fn use_object(&mut self, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let is_digest = |object: &ExternObject| matches!(object, ExternObject::Digest { .. });
        let object =
            self.random_element(&self.objects.clone()).cloned().filter(|object| !(scope.in_loop && is_digest(object)));
        let target = self.random_element(&scope.writes).cloned();
        let (Some(object), Some((place, ty)), true) = (object, target, self.true_with_percent(80)) else {
            return self.call_extern_function(scope, out);
        };
        match object {
            ExternObject::Counter { name, size, index } => {
                let index = self.index_expr(size, index, scope);
                let mut line = vec![text(format!("{name}.count(")), TextPart::Expr(index)];
                if self.arch() == Arch::Pna && self.true_with_percent(40) {
                    line.extend([text(", "), TextPart::Expr(self.random_expr(Ty::Bit(32), 1, scope))]);
                }
                line.push(text(")"));
                out.push(Stmt::Line(line));
            }
            ExternObject::Meter { name, size, index } => {
                let index = TextPart::Expr(self.index_expr(size, index, scope));
                self.use_meter(&name, index, &place, ty, scope, out);
            }
            ExternObject::Register { name, size, index, ty: elem_ty } => {
                let index = TextPart::Expr(self.index_expr(size, index, scope));
                self.use_register(&name, index, elem_ty, (&place, ty), scope, out);
            }
            ExternObject::PairRegister { name, size, index, ty: elem_ty } => {
                let index = TextPart::Expr(self.index_expr(size, index, scope));
                self.use_pair(&name, index, elem_ty, (&place, ty), scope, out);
            }
            ExternObject::Digest { name, types } => {
                let call = match self.arch() {
                    Arch::V1Model => format!("digest<{name}>(1, "),
                    Arch::Pna => format!("{name}.pack("),
                };
                let mut line = vec![text(call)];
                line.extend(self.list(&types, scope));
                line.push(text(")"));
                let cond = self.rare_condition(scope);
                out.push(Stmt::If { cond, then: vec![Stmt::Line(line)], els: Vec::new() });
            }
            other => self.use_pna_object(other, &place, ty, scope, out),
        }
    }

    fn use_meter(&mut self, name: &str, index: TextPart, place: &str, ty: Ty, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let local = self.fresh_name("c");
        if self.arch() == Arch::V1Model {
            out.push(Stmt::plain(format!("bit<2> {local} = 0")));
            out.push(Stmt::Line(vec![text(format!("{name}.execute_meter(")), index, text(format!(", {local})"))]));
            out.push(Stmt::assign(place, Expr::place(Ty::Bit(2), local).to(ty)));
            return;
        }
        let colour = ["RED", "GREEN", "YELLOW"][self.rng.usize(..3)];
        let aware = match self.true_with_percent(30) {
            true => format!(", PNA_MeterColor_t.{}", ["RED", "GREEN", "YELLOW"][self.rng.usize(..3)]),
            false => String::new(),
        };
        let line = vec![text(format!("PNA_MeterColor_t {local} = {name}.execute(")), index, text(format!("{aware})"))];
        out.push(Stmt::Line(line));
        let cond = Expr::place(Ty::Bool, format!("({local} == PNA_MeterColor_t.{colour})"));
        let value = self.random_expr(ty, 1, scope);
        out.push(Stmt::If { cond, then: vec![Stmt::assign(place, value)], els: Vec::new() });
    }

    /// Generates a read of a register into `place`, often followed by a write of the value read, or
    /// only a write. `elem_ty` is the type of the register, `ty` that of the place.
    fn use_register(
        &mut self,
        name: &str,
        index: TextPart,
        elem_ty: Ty,
        (place, ty): (&str, Ty),
        scope: &ScopeNames,
        out: &mut Vec<Stmt>,
    ) {
        let local = self.fresh_name("r");
        match (self.arch(), self.true_with_percent(60)) {
            (Arch::V1Model, true) => {
                out.push(Stmt::assign(&format!("{elem_ty} {local}"), Expr::lit(elem_ty, 0)));
                out.push(Stmt::Line(vec![text(format!("{name}.read({local}, ")), index.clone(), text(")")]));
            }
            (Arch::Pna, true) => {
                out.push(Stmt::Line(vec![text(format!("{elem_ty} {local} = {name}.read(")), index.clone(), text(")")]));
            }
            (_, false) => {
                let value = self.random_expr(elem_ty, 2, scope);
                out.push(Stmt::Line(vec![
                    text(format!("{name}.write(")),
                    index,
                    text(", "),
                    TextPart::Expr(value),
                    text(")"),
                ]));
                return;
            }
        }
        out.push(Stmt::assign(place, Expr::place(elem_ty, local.clone()).to(ty)));
        if self.true_with_percent(60) {
            // Makes packets depend on each other through the register.
            let mut inner = scope.clone();
            inner.reads = vec![(local.clone(), elem_ty)];
            inner.reads.extend(scope.reads.iter().take(3).cloned());
            let value = self.random_expr(elem_ty, 2, &inner);
            let line = vec![text(format!("{name}.write(")), index, text(", "), TextPart::Expr(value), text(")")];
            out.push(Stmt::Line(line));
        }
    }

    /// Generates a read of a register of pairs, an update of both fields, and the write of the
    /// pair.
    fn use_pair(
        &mut self,
        name: &str,
        index: TextPart,
        elem_types: [Ty; 2],
        (place, ty): (&str, Ty),
        scope: &ScopeNames,
        out: &mut Vec<Stmt>,
    ) {
        let local = self.fresh_name("r");
        let pair = format!("pair_{name}_t {local}");
        match self.arch() {
            Arch::V1Model => {
                out.push(Stmt::plain(pair));
                out.push(Stmt::Line(vec![text(format!("{name}.read({local}, ")), index.clone(), text(")")]));
            }
            Arch::Pna => {
                out.push(Stmt::Line(vec![text(format!("{pair} = {name}.read(")), index.clone(), text(")")]));
            }
        }
        out.push(Stmt::assign(place, Expr::place(elem_types[0], format!("{local}.a")).to(ty)));
        let value = self.random_expr(elem_types[0], 1, scope);
        out.push(Stmt::assign(&format!("{local}.a"), value));
        let swapped = Expr::place(elem_types[0], format!("{local}.a")).to(elem_types[1]);
        out.push(
            Stmt::assign(&format!("{local}.b"), binary(elem_types[1], "^", swapped, self.lit_of(elem_types[1])))
                .guard(elem_types[1]),
        );
        out.push(Stmt::Line(vec![text(format!("{name}.write(")), index, text(format!(", {local})"))]));
    }

    fn lit_of(&mut self, ty: Ty) -> Expr {
        Expr::lit(ty, self.random_constant())
    }

    /// Generates a call of an extern function.
    fn call_extern_function(&mut self, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let bits: Vec<(String, Ty)> = scope.writes.iter().filter(|(_, ty)| matches!(ty, Ty::Bit(_))).cloned().collect();
        let Some((place, ty)) = self.random_element(&bits).cloned() else { return };
        if self.arch() == Arch::Pna {
            let port = Expr { ..self.random_read(Ty::Bit(32), scope) };
            let call = ["is_host_port", "is_net_port"][self.rng.usize(..2)];
            let kind = ExprKind::Mixed(vec![text(format!("{call}((PortId_t) ")), TextPart::Expr(port), text(")")]);
            out.push(Stmt::assign(&place, Expr { ty: Ty::Bool, kind }.to(ty)));
            return;
        }
        match self.rng.u8(..10) {
            0 if self.random => {
                let (lo, hi) = (self.lit_of(ty), self.random_expr(ty, 0, scope));
                let line = vec![
                    text(format!("random({place}, ")),
                    TextPart::Expr(lo),
                    text(", "),
                    TextPart::Expr(hi),
                    text(")"),
                ];
                out.push(Stmt::Line(line));
            }
            1 => out.push(Stmt::plain(format!("log_msg(\"reached {place}\")"))),
            2 if scope.role != BlockRole::Parser => {
                let cond =
                    binary(Ty::Bool, "||", self.random_expr(Ty::Bool, 1, scope), self.random_read(Ty::Bool, scope));
                // A rare condition, because a failed assertion ends the packet.
                let call = ["assert(", "assume("][self.rng.usize(..2)];
                let rare_cond = self.rare_condition(scope);
                let line = Stmt::Line(vec![text(call), TextPart::Expr(cond), text(")")]);
                out.push(Stmt::If { cond: rare_cond, then: vec![line], els: Vec::new() });
            }
            _ => {
                let algorithm = ALGORITHMS[self.rng.usize(..7)];
                let base = Ty::Bit([8, 16, 32][self.rng.usize(..3)]);
                let base = self.random_expr(base, 0, scope);
                let max = Expr::lit(Ty::Bit(32), [0, 1, 7, 16, 1000, 0xffff_ffff][self.rng.usize(..6)]);
                let mut line =
                    vec![text(format!("hash({place}, HashAlgorithm.{algorithm}, ")), TextPart::Expr(base), text(", ")];
                line.extend(self.list_of_bits(8, scope));
                line.extend([text(", "), TextPart::Expr(max), text(")")]);
                out.push(Stmt::Line(line));
            }
        }
    }
}

impl Stmt {
    /// Booleans use `!=`, because P4 has no exclusive or for them.
    fn guard(self, ty: Ty) -> Stmt {
        let Stmt::Line(parts) = &self else { return self };
        match (ty, parts.as_slice()) {
            (Ty::Bool, [place, TextPart::Expr(Expr { kind: ExprKind::Binary(_, a, b), .. })]) => {
                let (a, b) = (a.clone(), b.clone());
                Stmt::Line(vec![place.clone(), TextPart::Expr(Expr { ty, kind: ExprKind::Binary("!=", a, b) })])
            }
            _ => self,
        }
    }
}
