//! Verification of instructions: operands, results, and the controls in which they are allowed.

use super::body::{ControlClass, VerifyCursor};
use super::{PipelineVerifier, ViolationKind};
use crate::body::*;
use crate::entity::{HeaderId, Value};
use crate::result_types::result_types;
use crate::types::{MAX_WIDTH, Type};

impl PipelineVerifier<'_> {
    /// Verifies an instruction at `cursor`: its results, the types of its operands, the existence
    /// of the entities that it names, and that the control may contain it. Violations are
    /// collected.
    pub(super) fn verify_inst(&mut self, cursor: &VerifyCursor<'_>, data: &InstData) {
        self.verify_results(cursor, data);
        let body = &cursor.control.body;
        match &data.inst {
            Inst::Const(value) => {
                if let Some(kind) = self.const_violation(value) {
                    self.report_at(cursor, kind);
                }
            }
            Inst::Load(var) => {
                if self.pipeline.vars.get(*var).is_none() {
                    self.report_at(cursor, ViolationKind::MissingEntity(var.to_string()));
                }
            }
            Inst::Store(var, value) => match self.pipeline.vars.get(*var) {
                None => self.report_at(cursor, ViolationKind::MissingEntity(var.to_string())),
                Some(var) => self.expect_type(cursor, *value, var.ty),
            },
            Inst::Unary(op, a) => self.verify_unary(cursor, *op, body.value_type(*a)),
            Inst::Binary(op, a, b) => self.verify_binary(cursor, *op, *a, *b),
            Inst::Cast(to, value) => self.verify_cast(cursor, body.value_type(*value), *to),
            Inst::Slice { value, hi, lo } => {
                let ty = body.value_type(*value);
                if !ty.is_numeric() || hi < lo || *hi >= ty.width() {
                    self.report_at(cursor, ViolationKind::BadSlice { hi: *hi, lo: *lo, ty });
                }
            }
            Inst::Concat(high, low) => {
                for operand in [high, low] {
                    self.expect_numeric(cursor, "concat", *operand);
                }
                let width = body.value_type(*high).width().saturating_add(body.value_type(*low).width());
                if width > MAX_WIDTH {
                    self.report_at(cursor, ViolationKind::TooWide(width));
                }
            }
            Inst::Select { cond, then, els } => {
                self.expect_type(cursor, *cond, Type::Bool);
                self.expect_type(cursor, *els, body.value_type(*then));
            }
            Inst::IsValid(header) | Inst::SetValid(header) | Inst::SetInvalid(header) => {
                self.verify_header_ref(cursor, *header)
            }
            Inst::CopyHeader { dst, src } => {
                self.verify_header_ref(cursor, *dst);
                self.verify_header_ref(cursor, *src);
                if let (Some(dst_header), Some(src_header)) =
                    (self.pipeline.headers.get(*dst), self.pipeline.headers.get(*src))
                    && dst_header.ty != src_header.ty
                {
                    let what = format!("header {}", src_header.name);
                    self.report_at(
                        cursor,
                        ViolationKind::ExternKind { what, expected: "of the type that it is copied to" },
                    );
                }
            }
            Inst::InValueSet(set, keys) => self.verify_in_value_set(cursor, *set, keys),
            Inst::Emit(header) => {
                self.verify_header_ref(cursor, *header);
                if cursor.class != ControlClass::Deparser {
                    self.report_at(cursor, ViolationKind::WrongPlace { what: "emit".into(), place: "deparsers" });
                }
            }
            Inst::Extern { object, func, args } => {
                for kind in self.call_violations(*func, *object, args, body) {
                    self.report_at(cursor, kind);
                }
            }
            inst => self.verify_parser_inst(cursor, inst),
        }
    }

    /// Verifies the number and types of an instruction's results.
    fn verify_results(&mut self, cursor: &VerifyCursor<'_>, data: &InstData) {
        let body = &cursor.control.body;
        if matches!(data.inst, Inst::Load(var) if self.pipeline.vars.get(var).is_none()) {
            return;
        }
        let types = result_types(&data.inst, body, self.pipeline);
        if types.len() != data.results.len() {
            let what = "results".to_string();
            self.report_at(cursor, ViolationKind::Count { what, expected: types.len(), found: data.results.len() });
        }
        for (value, ty) in data.results.iter().zip(types) {
            let found = body.value_type(*value);
            if !ty.allows(found) {
                let what = format!("result {value}");
                self.report_at(
                    cursor,
                    match ty.exact() {
                        Some(expected) => ViolationKind::Type { what, expected, found },
                        None => ViolationKind::TypeClass { what, expected: "a number", found },
                    },
                );
            }
        }
    }

    fn verify_header_ref(&mut self, cursor: &VerifyCursor<'_>, header: HeaderId) {
        if self.pipeline.headers.get(header).is_none() {
            self.report_at(cursor, ViolationKind::MissingEntity(header.to_string()));
        }
    }

    fn expect_numeric(&mut self, cursor: &VerifyCursor<'_>, op: &'static str, value: Value) {
        let ty = cursor.control.body.value_type(value);
        if !ty.is_numeric() {
            self.report_at(cursor, ViolationKind::BadOperand { op, ty });
        }
    }

    fn verify_unary(&mut self, cursor: &VerifyCursor<'_>, op: UnaryOp, ty: Type) {
        let (name, defined) = match op {
            UnaryOp::Neg => ("neg", ty.is_numeric()),
            UnaryOp::Not => ("not", ty.is_numeric()),
            UnaryOp::LogicalNot => ("logical_not", ty == Type::Bool),
        };
        if !defined {
            self.report_at(cursor, ViolationKind::BadOperand { op: name, ty });
        }
    }

    /// Verifies the operand types of a binary instruction: equal, except for a shift amount, which
    /// is unsigned.
    fn verify_binary(&mut self, cursor: &VerifyCursor<'_>, op: BinaryOp, a: Value, b: Value) {
        use BinaryOp::*;
        let (left_ty, right_ty) = (cursor.control.body.value_type(a), cursor.control.body.value_type(b));
        let is_defined = match op {
            Eq | Ne => true,
            And | Or | Xor => left_ty.is_numeric() || left_ty == Type::Bool,
            Add | Sub | Mul | Div | Mod | AddSat | SubSat | Shl | Shr | Lt | Le | Gt | Ge => left_ty.is_numeric(),
        };
        if !is_defined {
            self.report_at(cursor, ViolationKind::BadOperand { op: "the operation", ty: left_ty });
        }
        if matches!(op, Shl | Shr) {
            if !matches!(right_ty, Type::Bit(_)) {
                let what = format!("the shift amount {b}");
                self.report_at(cursor, ViolationKind::TypeClass { what, expected: "bit<N>", found: right_ty });
            }
        } else {
            self.expect_type(cursor, b, left_ty);
        }
    }

    fn verify_cast(&mut self, cursor: &VerifyCursor<'_>, from: Type, to: Type) {
        if let Some(kind) = self.type_violation(to) {
            self.report_at(cursor, kind);
        }
        if let (Type::Varbit(_), _) | (_, Type::Varbit(_)) = (from, to) {
            self.report_at(cursor, ViolationKind::BadCast { from, to });
        }
    }

    fn verify_in_value_set(&mut self, cursor: &VerifyCursor<'_>, set: crate::ValueSetId, keys: &[Value]) {
        self.expect_in_parser(cursor, "in_value_set");
        let Some(set) = self.pipeline.value_sets.get(set) else {
            self.report_at(cursor, ViolationKind::MissingEntity(set.to_string()));
            return;
        };
        if set.keys.len() != keys.len() {
            let what = "keys".to_string();
            self.report_at(cursor, ViolationKind::Count { what, expected: set.keys.len(), found: keys.len() });
        }
        for (key, value) in set.keys.iter().zip(keys) {
            self.expect_type(cursor, *value, key.ty);
        }
    }

    fn expect_in_parser(&mut self, cursor: &VerifyCursor<'_>, what: &str) {
        if cursor.class != ControlClass::Parser {
            self.report_at(cursor, ViolationKind::WrongPlace { what: what.to_string(), place: "parsers" });
        }
    }

    /// Verifies an instruction that only parsers contain; others pass.
    fn verify_parser_inst(&mut self, cursor: &VerifyCursor<'_>, inst: &Inst) {
        match inst {
            Inst::Extract(header) => {
                self.expect_in_parser(cursor, "extract");
                self.verify_header_ref(cursor, *header);
                if self.varbit_count(*header) != 0 {
                    self.report_at(cursor, ViolationKind::Varbits("a varbit field and needs a length"));
                }
            }
            Inst::ExtractVarbit(header, bits) => {
                self.expect_in_parser(cursor, "extract_varbit");
                self.verify_header_ref(cursor, *header);
                self.expect_type(cursor, *bits, Type::Bit(32));
                if self.pipeline.headers.get(*header).is_some() && self.varbit_count(*header) != 1 {
                    self.report_at(cursor, ViolationKind::Varbits("no varbit field for the given length"));
                }
            }
            Inst::Advance(bits) => {
                self.expect_in_parser(cursor, "advance");
                self.expect_type(cursor, *bits, Type::Bit(32));
            }
            Inst::Lookahead(ty) => {
                self.expect_in_parser(cursor, "lookahead");
                if let Type::Varbit(_) | Type::Error | Type::Enum(_) = ty {
                    let what = "the lookahead".to_string();
                    let expected = "a type of fixed width that packets contain";
                    self.report_at(cursor, ViolationKind::TypeClass { what, expected, found: *ty });
                }
                if let Some(kind) = self.type_violation(*ty) {
                    self.report_at(cursor, kind);
                }
            }
            Inst::Verify(cond, error) => {
                self.expect_in_parser(cursor, "verify");
                self.expect_type(cursor, *cond, Type::Bool);
                self.expect_type(cursor, *error, Type::Error);
            }
            Inst::PacketLength => self.expect_in_parser(cursor, "packet_length"),
            _ => {}
        }
    }

    fn varbit_count(&self, header: HeaderId) -> usize {
        let ty = self.pipeline.headers.get(header).and_then(|h| self.pipeline.header_types.get(h.ty));
        ty.map_or(0, |t| t.fields.iter().filter(|f| matches!(f.ty, Type::Varbit(_))).count())
    }
}
