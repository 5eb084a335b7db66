//! Dumps of expressions and calls.

use super::HirDump;
use crate::hir::{
    Call, CallArg, Callee, Construct, Constructor, EvalOrder, Expr, ExprKind, KeysetItem, ObjectRef, SizeOf, Ty, TyKind,
};
use num_bigint::BigInt;

impl HirDump<'_> {
    /// Returns the text of an expression, fully parenthesized. A `?` stands for an index that the
    /// program does not have.
    pub(super) fn expr_text(&self, expr: &Expr) -> String {
        let program = self.program;
        match &expr.kind {
            ExprKind::Int(value) => self.int_text(value, expr.ty),
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Str(text) => format!("{text:?}"),
            ExprKind::Error(index) => format!("error.{}", program.errors.get(*index).map_or("?", |n| n)),
            ExprKind::MatchKind(index) => format!("match_kind.{}", program.match_kinds.get(*index).map_or("?", |n| n)),
            ExprKind::EnumMember(id, index) => {
                let decl = &program.enums[id.index()];
                format!("{}.{}", decl.name, decl.members.get(*index).map_or("?", |(n, _)| n))
            }
            ExprKind::Local(id) => self.local_name(*id).to_owned(),
            ExprKind::Instance(id) => program.instances[id.index()].name.to_string(),
            ExprKind::Construct(construct) => self.construct_text(construct),
            ExprKind::Field(base, index) => self.field_text(base, *index),
            ExprKind::Index(base, index) => format!("{}[{}]", self.expr_text(base), self.expr_text(index)),
            ExprKind::StackNext(base) => format!("{}.next", self.expr_text(base)),
            ExprKind::StackLast(base) => format!("{}.last", self.expr_text(base)),
            ExprKind::StackLastIndex(base) => format!("{}.lastIndex", self.expr_text(base)),
            ExprKind::Slice { base, hi, lo } => format!("{}[{hi}:{lo}]", self.expr_text(base)),
            ExprKind::DynSlice { base, lo, width } => {
                format!("{}[{}+:{width}]", self.expr_text(base), self.expr_text(lo))
            }
            ExprKind::Unary(op, operand) => format!("{}({})", op.as_str(), self.expr_text(operand)),
            ExprKind::Binary(op, a, b) => format!("({} {} {})", self.expr_text(a), op.as_str(), self.expr_text(b)),
            ExprKind::Mux(c, a, b) => {
                format!("({} ? {} : {})", self.expr_text(c), self.expr_text(a), self.expr_text(b))
            }
            ExprKind::Cast(operand) => format!("({}){}", self.type_text(expr.ty), self.expr_text(operand)),
            ExprKind::Aggregate(elements, order) => {
                format!(
                    "({}){{{}{}}}",
                    self.type_text(expr.ty),
                    self.expr_list_text(elements),
                    Self::eval_order_text(order)
                )
            }
            ExprKind::InvalidHeader => format!("({}){{#}}", self.type_text(expr.ty)),
            ExprKind::Default => format!("({}){{...}}", self.type_text(expr.ty)),
            ExprKind::Call(call) => self.call_text(call),
            ExprKind::ApplyHit(table) => format!("{}.apply().hit", program.tables[table.index()].name),
            ExprKind::ApplyMiss(table) => format!("{}.apply().miss", program.tables[table.index()].name),
        }
    }

    pub(super) fn expr_list_text(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|e| self.expr_text(e)).collect::<Vec<_>>().join(", ")
    }

    fn int_text(&self, value: &BigInt, ty: Ty) -> String {
        match self.program.types.kind(ty) {
            TyKind::Bit(w) => format!("{w}w{value}"),
            TyKind::Int(w) => format!("{w}s{value}"),
            TyKind::InfInt => value.to_string(),
            _ => format!("({}){value}", self.type_text(ty)),
        }
    }

    fn field_text(&self, base: &Expr, at: usize) -> String {
        let name = match self.program.types.kind(base.ty) {
            TyKind::Struct(id, _) => self.program.structs[id.index()].fields.get(at).map(|f| f.name.to_string()),
            _ => None,
        };
        match name {
            Some(name) => format!("{}.{name}", self.expr_text(base)),
            None => format!("{}[{at}]", self.expr_text(base)),
        }
    }

    pub(super) fn construct_text(&self, construct: &Construct) -> String {
        let name = match construct.what {
            Constructor::Extern(id, _) => &self.program.externs[id.index()].name,
            Constructor::Object(id) => &self.program.objects[id.index()].name,
        };
        let args: Vec<String> =
            construct.args.iter().map(|a| a.as_ref().map_or("<none>".to_owned(), |a| self.expr_text(a))).collect();
        format!("{name}{}({})", self.type_args_text(&construct.type_args), args.join(", "))
    }

    /// Returns the text of a call: callee, type arguments, arguments, and their evaluation order if
    /// it is not that of the parameters.
    pub(super) fn call_text(&self, call: &Call) -> String {
        let program = self.program;
        let name = match &call.callee {
            Callee::Function(id) => program.functions[id.index()].name.to_string(),
            Callee::ExternFunction(id) => program.extern_functions[id.index()].name.to_string(),
            Callee::Action(id) => program.actions[id.index()].name.to_string(),
            Callee::Method(object, id, method_index) => {
                format!(
                    "{}.{}",
                    self.object_ref_text(object),
                    Self::method_name(&program.externs[id.index()].methods, *method_index)
                )
            }
            Callee::Apply(object) => format!("{}.apply", self.object_ref_text(object)),
            Callee::ApplyTable(table) => format!("{}.apply", program.tables[table.index()].name),
            Callee::IsValid(base) => format!("{}.isValid", self.expr_text(base)),
            Callee::SetValid(base) => format!("{}.setValid", self.expr_text(base)),
            Callee::SetInvalid(base) => format!("{}.setInvalid", self.expr_text(base)),
            Callee::PushFront(base, count) => return format!("{}.push_front({count})", self.expr_text(base)),
            Callee::PopFront(base, count) => return format!("{}.pop_front({count})", self.expr_text(base)),
            Callee::SizeOf(measure, ty) => format!("{}.{}", self.type_text(*ty), size_name(*measure)),
            Callee::This(method_index) => format!("this.#{method_index}"),
        };
        format!(
            "{name}{}({}{})",
            self.type_args_text(&call.type_args),
            self.call_args_text(&call.args),
            Self::eval_order_text(&call.order)
        )
    }

    /// Returns the evaluation order as text; empty if it is from first to last.
    pub(super) fn eval_order_text(order: &EvalOrder) -> String {
        if order.is_by_position() { String::new() } else { format!("; order {:?}", order.positions(0)) }
    }

    pub(super) fn call_args_text(&self, args: &[CallArg]) -> String {
        let args = args.iter().map(|arg| match arg {
            CallArg::Expr(e) => self.expr_text(e),
            CallArg::DontCare => "_".to_owned(),
            CallArg::Missing => "<none>".to_owned(),
        });
        args.collect::<Vec<_>>().join(", ")
    }

    fn object_ref_text(&self, object: &ObjectRef) -> String {
        match object {
            ObjectRef::Instance(id) => self.program.instances[id.index()].name.to_string(),
            ObjectRef::Local(id) => self.local_name(*id).to_owned(),
            ObjectRef::Construct(construct) => self.construct_text(construct),
        }
    }

    pub(super) fn keyset_text(&self, items: &[KeysetItem]) -> String {
        let items = items.iter().map(|item| match item {
            KeysetItem::Value(v) => self.expr_text(v),
            KeysetItem::Mask(v, m) => format!("{} &&& {}", self.expr_text(v), self.expr_text(m)),
            KeysetItem::Range(lo, hi) => format!("{} .. {}", self.expr_text(lo), self.expr_text(hi)),
            KeysetItem::Any => "_".to_owned(),
            KeysetItem::ValueSet(id) => self.program.value_sets[id.index()].name.to_string(),
        });
        format!("({})", items.collect::<Vec<_>>().join(", "))
    }
}

fn size_name(which: SizeOf) -> &'static str {
    match which {
        SizeOf::MinBits => "minSizeInBits",
        SizeOf::MaxBits => "maxSizeInBits",
        SizeOf::MinBytes => "minSizeInBytes",
        SizeOf::MaxBytes => "maxSizeInBytes",
    }
}
