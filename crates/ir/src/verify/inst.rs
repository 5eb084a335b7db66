//! Instructions: operands, results, and the controls that they may be in.

use super::body::{Place, Role};
use super::{Problem, Verifier};
use crate::body::*;
use crate::entity::{HeaderId, Value};
use crate::results::result_types;
use crate::types::{MAX_WIDTH, Type};

impl Verifier<'_> {
    pub(super) fn inst(&mut self, place: &Place<'_>, data: &InstData) {
        self.results(place, data);
        let body = &place.control.body;
        match &data.inst {
            Inst::Const(value) => {
                if let Some(problem) = self.const_problem(value) {
                    self.at(place, problem);
                }
            }
            Inst::Load(var) => {
                if self.p.vars.get(*var).is_none() {
                    self.at(place, Problem::NoSuch(var.to_string()));
                }
            }
            Inst::Store(var, value) => match self.p.vars.get(*var) {
                None => self.at(place, Problem::NoSuch(var.to_string())),
                Some(var) => self.expect_type(place, *value, var.ty),
            },
            Inst::Unary(op, a) => self.unary(place, *op, body.value_type(*a)),
            Inst::Binary(op, a, b) => self.binary(place, *op, *a, *b),
            Inst::Cast(to, value) => self.cast(place, body.value_type(*value), *to),
            Inst::Slice { value, hi, lo } => {
                let ty = body.value_type(*value);
                if !ty.is_numeric() || hi < lo || *hi >= ty.width() {
                    self.at(place, Problem::BadSlice { hi: *hi, lo: *lo, ty });
                }
            }
            Inst::Concat(high, low) => {
                for operand in [high, low] {
                    self.numeric(place, "concat", *operand);
                }
                let width = body.value_type(*high).width().saturating_add(body.value_type(*low).width());
                if width > MAX_WIDTH {
                    self.at(place, Problem::TooWide(width));
                }
            }
            Inst::Select { cond, then, els } => {
                self.expect_type(place, *cond, Type::Bool);
                self.expect_type(place, *els, body.value_type(*then));
            }
            Inst::IsValid(h) | Inst::SetValid(h) | Inst::SetInvalid(h) => self.header_ref(place, *h),
            Inst::CopyHeader { dst, src } => {
                self.header_ref(place, *dst);
                self.header_ref(place, *src);
                if let (Some(d), Some(s)) = (self.p.headers.get(*dst), self.p.headers.get(*src))
                    && d.ty != s.ty
                {
                    let what = format!("header {}", s.name);
                    self.at(place, Problem::ExternKind { what, expected: "of the type that it is copied to" });
                }
            }
            Inst::InValueSet(set, keys) => self.in_value_set(place, *set, keys),
            Inst::Emit(header) => {
                self.header_ref(place, *header);
                if place.role != Role::Deparser {
                    self.at(place, Problem::WrongPlace { what: "emit".into(), place: "deparsers" });
                }
            }
            Inst::Extern { object, func, args } => {
                for problem in self.call_problems(*func, *object, args, body) {
                    self.at(place, problem);
                }
            }
            inst => self.parser_inst(place, inst),
        }
    }

    fn results(&mut self, place: &Place<'_>, data: &InstData) {
        let body = &place.control.body;
        if matches!(data.inst, Inst::Load(var) if self.p.vars.get(var).is_none()) {
            return;
        }
        let types = result_types(&data.inst, body, self.p);
        if types.len() != data.results.len() {
            let what = "results".to_string();
            self.at(place, Problem::Count { what, expected: types.len(), found: data.results.len() });
        }
        for (value, ty) in data.results.iter().zip(types) {
            let found = body.value_type(*value);
            if !ty.admits(found) {
                let what = format!("result {value}");
                self.at(
                    place,
                    match ty.exact() {
                        Some(expected) => Problem::Type { what, expected, found },
                        None => Problem::TypeClass { what, expected: "a number", found },
                    },
                );
            }
        }
    }

    fn header_ref(&mut self, place: &Place<'_>, header: HeaderId) {
        if self.p.headers.get(header).is_none() {
            self.at(place, Problem::NoSuch(header.to_string()));
        }
    }

    fn numeric(&mut self, place: &Place<'_>, op: &'static str, value: Value) {
        let ty = place.control.body.value_type(value);
        if !ty.is_numeric() {
            self.at(place, Problem::BadOperand { op, ty });
        }
    }

    fn unary(&mut self, place: &Place<'_>, op: UnaryOp, ty: Type) {
        let (name, defined) = match op {
            UnaryOp::Neg => ("neg", ty.is_numeric()),
            UnaryOp::Not => ("not", ty.is_numeric()),
            UnaryOp::LogicalNot => ("logical_not", ty == Type::Bool),
        };
        if !defined {
            self.at(place, Problem::BadOperand { op: name, ty });
        }
    }

    fn binary(&mut self, place: &Place<'_>, op: BinaryOp, a: Value, b: Value) {
        use BinaryOp::*;
        let (left, right) = (place.control.body.value_type(a), place.control.body.value_type(b));
        let defined = match op {
            Eq | Ne => true,
            And | Or | Xor => left.is_numeric() || left == Type::Bool,
            Add | Sub | Mul | Div | Mod | AddSat | SubSat | Shl | Shr | Lt | Le | Gt | Ge => left.is_numeric(),
        };
        if !defined {
            self.at(place, Problem::BadOperand { op: "the operation", ty: left });
        }
        if matches!(op, Shl | Shr) {
            if !matches!(right, Type::Bit(_)) {
                let what = format!("the shift amount {b}");
                self.at(place, Problem::TypeClass { what, expected: "bit<N>", found: right });
            }
        } else {
            self.expect_type(place, b, left);
        }
    }

    fn cast(&mut self, place: &Place<'_>, from: Type, to: Type) {
        if let Some(problem) = self.type_problem(to) {
            self.at(place, problem);
        }
        if let (Type::Varbit(_), _) | (_, Type::Varbit(_)) = (from, to) {
            self.at(place, Problem::BadCast { from, to });
        }
    }

    fn in_value_set(&mut self, place: &Place<'_>, set: crate::ValueSetId, keys: &[Value]) {
        self.only_in_parsers(place, "in_value_set");
        let Some(set) = self.p.value_sets.get(set) else {
            self.at(place, Problem::NoSuch(set.to_string()));
            return;
        };
        if set.keys.len() != keys.len() {
            let what = "keys".to_string();
            self.at(place, Problem::Count { what, expected: set.keys.len(), found: keys.len() });
        }
        for (key, value) in set.keys.iter().zip(keys) {
            self.expect_type(place, *value, key.ty);
        }
    }

    fn only_in_parsers(&mut self, place: &Place<'_>, what: &str) {
        if place.role != Role::Parser {
            self.at(place, Problem::WrongPlace { what: what.to_string(), place: "parsers" });
        }
    }

    fn parser_inst(&mut self, place: &Place<'_>, inst: &Inst) {
        match inst {
            Inst::Extract(header) => {
                self.only_in_parsers(place, "extract");
                self.header_ref(place, *header);
                if self.varbits(*header) != 0 {
                    self.at(place, Problem::Varbits("a varbit, whose length is not given"));
                }
            }
            Inst::ExtractVarbit(header, bits) => {
                self.only_in_parsers(place, "extract_varbit");
                self.header_ref(place, *header);
                self.expect_type(place, *bits, Type::Bit(32));
                if self.p.headers.get(*header).is_some() && self.varbits(*header) != 1 {
                    self.at(place, Problem::Varbits("no varbit to give a length to"));
                }
            }
            Inst::Advance(bits) => {
                self.only_in_parsers(place, "advance");
                self.expect_type(place, *bits, Type::Bit(32));
            }
            Inst::Lookahead(ty) => {
                self.only_in_parsers(place, "lookahead");
                if let Type::Varbit(_) | Type::Error | Type::Enum(_) = ty {
                    let what = "what is looked ahead".to_string();
                    let expected = "something that packets carry in a fixed width";
                    self.at(place, Problem::TypeClass { what, expected, found: *ty });
                }
                if let Some(problem) = self.type_problem(*ty) {
                    self.at(place, problem);
                }
            }
            Inst::Verify(cond, error) => {
                self.only_in_parsers(place, "verify");
                self.expect_type(place, *cond, Type::Bool);
                self.expect_type(place, *error, Type::Error);
            }
            Inst::PacketLength => self.only_in_parsers(place, "packet_length"),
            _ => {}
        }
    }

    fn varbits(&self, header: HeaderId) -> usize {
        let ty = self.p.headers.get(header).and_then(|h| self.p.header_types.get(h.ty));
        ty.map_or(0, |t| t.fields.iter().filter(|f| matches!(f.ty, Type::Varbit(_))).count())
    }
}
