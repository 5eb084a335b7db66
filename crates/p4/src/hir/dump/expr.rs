//! Expressions and calls as text.

use super::Dump;
use crate::hir::{
    Call, CallArg, Callee, Construct, Constructor, Expr, ExprKind, KeysetItem, ObjectRef, Order, SizeOf, Ty, TyKind,
};
use num_bigint::BigInt;

impl Dump<'_> {
    pub(super) fn expr(&self, expr: &Expr) -> String {
        let p = self.program;
        match &expr.kind {
            ExprKind::Int(value) => self.int(value, expr.ty),
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Str(text) => format!("{text:?}"),
            ExprKind::Error(at) => format!("error.{}", p.errors.get(*at).map_or("?", |n| n)),
            ExprKind::MatchKind(at) => format!("match_kind.{}", p.match_kinds.get(*at).map_or("?", |n| n)),
            ExprKind::EnumMember(id, at) => {
                let decl = &p.enums[id.index()];
                format!("{}.{}", decl.name, decl.members.get(*at).map_or("?", |(n, _)| n))
            }
            ExprKind::Local(id) => self.local(*id).to_owned(),
            ExprKind::Instance(id) => p.instances[id.index()].name.to_string(),
            ExprKind::Construct(construct) => self.construct(construct),
            ExprKind::Field(base, at) => self.field(base, *at),
            ExprKind::Index(base, index) => format!("{}[{}]", self.expr(base), self.expr(index)),
            ExprKind::StackNext(base) => format!("{}.next", self.expr(base)),
            ExprKind::StackLast(base) => format!("{}.last", self.expr(base)),
            ExprKind::StackLastIndex(base) => format!("{}.lastIndex", self.expr(base)),
            ExprKind::Slice { base, hi, lo } => format!("{}[{hi}:{lo}]", self.expr(base)),
            ExprKind::DynSlice { base, lo, width } => format!("{}[{}+:{width}]", self.expr(base), self.expr(lo)),
            ExprKind::Unary(op, operand) => format!("{}({})", op.as_str(), self.expr(operand)),
            ExprKind::Binary(op, a, b) => format!("({} {} {})", self.expr(a), op.as_str(), self.expr(b)),
            ExprKind::Mux(c, a, b) => format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b)),
            ExprKind::Cast(operand) => format!("({}){}", self.ty(expr.ty), self.expr(operand)),
            ExprKind::Aggregate(elements, order) => {
                format!("({}){{{}{}}}", self.ty(expr.ty), self.exprs(elements), Self::order(order))
            }
            ExprKind::InvalidHeader => format!("({}){{#}}", self.ty(expr.ty)),
            ExprKind::Default => format!("({}){{...}}", self.ty(expr.ty)),
            ExprKind::Call(call) => self.call(call),
            ExprKind::ApplyHit(table) => format!("{}.apply().hit", p.tables[table.index()].name),
            ExprKind::ApplyMiss(table) => format!("{}.apply().miss", p.tables[table.index()].name),
        }
    }

    pub(super) fn exprs(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    fn int(&self, value: &BigInt, ty: Ty) -> String {
        match self.program.types.kind(ty) {
            TyKind::Bit(w) => format!("{w}w{value}"),
            TyKind::Int(w) => format!("{w}s{value}"),
            TyKind::InfInt => value.to_string(),
            _ => format!("({}){value}", self.ty(ty)),
        }
    }

    fn field(&self, base: &Expr, at: usize) -> String {
        let name = match self.program.types.kind(base.ty) {
            TyKind::Struct(id, _) => self.program.structs[id.index()].fields.get(at).map(|f| f.name.to_string()),
            _ => None,
        };
        match name {
            Some(name) => format!("{}.{name}", self.expr(base)),
            None => format!("{}[{at}]", self.expr(base)),
        }
    }

    pub(super) fn construct(&self, construct: &Construct) -> String {
        let name = match construct.what {
            Constructor::Extern(id, _) => &self.program.externs[id.index()].name,
            Constructor::Object(id) => &self.program.objects[id.index()].name,
        };
        let args: Vec<String> =
            construct.args.iter().map(|a| a.as_ref().map_or("<none>".to_owned(), |a| self.expr(a))).collect();
        format!("{name}{}({})", self.types(&construct.type_args), args.join(", "))
    }

    pub(super) fn call(&self, call: &Call) -> String {
        let p = self.program;
        let name = match &call.callee {
            Callee::Function(id) => p.functions[id.index()].name.to_string(),
            Callee::ExternFunction(id) => p.extern_functions[id.index()].name.to_string(),
            Callee::Action(id) => p.actions[id.index()].name.to_string(),
            Callee::Method(object, id, at) => {
                format!("{}.{}", self.object_ref(object), Self::method(&p.externs[id.index()].methods, *at))
            }
            Callee::Apply(object) => format!("{}.apply", self.object_ref(object)),
            Callee::ApplyTable(table) => format!("{}.apply", p.tables[table.index()].name),
            Callee::IsValid(base) => format!("{}.isValid", self.expr(base)),
            Callee::SetValid(base) => format!("{}.setValid", self.expr(base)),
            Callee::SetInvalid(base) => format!("{}.setInvalid", self.expr(base)),
            Callee::PushFront(base, count) => return format!("{}.push_front({count})", self.expr(base)),
            Callee::PopFront(base, count) => return format!("{}.pop_front({count})", self.expr(base)),
            Callee::SizeOf(which, ty) => format!("{}.{}", self.ty(*ty), size_name(*which)),
            Callee::This(at) => format!("this.#{at}"),
        };
        format!("{name}{}({}{})", self.types(&call.type_args), self.call_args(&call.args), Self::order(&call.order))
    }

    /// The order of evaluation, unless it is that of the positions.
    pub(super) fn order(order: &Order) -> String {
        if order.is_by_position() { String::new() } else { format!("; order {:?}", order.positions(0)) }
    }

    pub(super) fn call_args(&self, args: &[CallArg]) -> String {
        let args = args.iter().map(|arg| match arg {
            CallArg::Expr(e) => self.expr(e),
            CallArg::DontCare => "_".to_owned(),
            CallArg::Missing => "<none>".to_owned(),
        });
        args.collect::<Vec<_>>().join(", ")
    }

    fn object_ref(&self, object: &ObjectRef) -> String {
        match object {
            ObjectRef::Instance(id) => self.program.instances[id.index()].name.to_string(),
            ObjectRef::Local(id) => self.local(*id).to_owned(),
            ObjectRef::Construct(construct) => self.construct(construct),
        }
    }

    pub(super) fn keyset(&self, items: &[KeysetItem]) -> String {
        let items = items.iter().map(|item| match item {
            KeysetItem::Value(v) => self.expr(v),
            KeysetItem::Mask(v, m) => format!("{} &&& {}", self.expr(v), self.expr(m)),
            KeysetItem::Range(lo, hi) => format!("{} .. {}", self.expr(lo), self.expr(hi)),
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
