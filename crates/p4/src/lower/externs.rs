//! Extern objects and calls, whatever the architecture.

use super::extern_names::{EXTERN_WITHOUT_IMPLEMENTATION, PNA_OBJECTS, V1MODEL_OBJECTS};
use super::known::{Known, Naming};
use super::lowering::{Lower, Refused, Res, TableContext};
use super::names;
use super::shape::Shape;
use super::value::{Access, Val};
use super::walk::is_pure;
use crate::diag::Diagnostic;
use crate::hir::{self, Call, CallArg, Construct, Expr, ObjectRef, Ty};
use crate::span::Span;
use ir::{Arch, Arg, ExternInst, ExternKind, Type, Value};
use std::sync::Arc;

/// An out argument: where it goes, and its type.
pub(super) type OutArg = Option<(Access, Ty)>;

impl<'a> Lower<'a> {
    /// Instantiates an extern object.
    pub(super) fn make_extern(
        &mut self,
        id: hir::ExternId,
        construct: &Construct,
        naming: &Naming,
    ) -> Res<ir::ExternId> {
        let decl = &self.hir.externs[id.index()];
        let kind = match self.p.arch {
            Arch::V1Model => self.v1model_object(&decl.name, construct)?,
            Arch::Pna => self.pna_object(&decl.name, construct)?,
        };
        let Some(kind) = kind else {
            return self.unknown_extern(&decl.name, construct.span);
        };
        let path = match naming.path.is_empty() {
            true => naming.scope.clone(),
            false => naming.path.clone(),
        };
        let preamble = names::preamble(path, &naming.annotations);
        self.take_identity(decl_kind(&kind), &preamble, construct.span)?;
        let loc = self.loc(construct.span);
        Ok(self.p.externs.push(ExternInst { preamble, kind, loc }))
    }

    /// Whether the architecture gives an extern type a meaning.
    pub(super) fn is_known_extern(&self, id: hir::ExternId) -> bool {
        let name: &str = &self.hir.externs[id.index()].name;
        match self.p.arch {
            Arch::V1Model => V1MODEL_OBJECTS.contains(&name),
            Arch::Pna => PNA_OBJECTS.contains(&name),
        }
    }

    /// A method of an extern object.
    pub(super) fn method(&mut self, object: &ObjectRef, id: hir::ExternId, n: usize, call: &Call, ty: Ty) -> Res<Val> {
        let decl: &'a hir::Extern = &self.hir.externs[id.index()];
        let Some(method) = decl.methods.get(n) else { return Ok(Val::Void) };
        self.with_prepared(call, &method.params, |lower| match &*decl.name {
            "packet_in" => lower.packet_in(&method.name, call, ty),
            "packet_out" => lower.packet_out(&method.name, call),
            _ => {
                let Known::Extern(object) = lower.object_ref(object, call.span)? else {
                    return lower.unsupported(call.span, format_args!("calling `{}` on this", method.name));
                };
                match lower.p.arch {
                    Arch::V1Model => lower.v1model_method(object, &decl.name, &method.name, call),
                    Arch::Pna => lower.pna_method(object, &decl.name, method, call, ty),
                }
            }
        })
    }

    /// An extern function.
    pub(super) fn extern_function(&mut self, id: hir::ExternFnId, call: &Call, ty: Ty) -> Res<Val> {
        let decl: &'a hir::Method = &self.hir.extern_functions[id.index()];
        self.with_prepared(call, &decl.params, |lower| match (&*decl.name, lower.p.arch) {
            ("verify", _) => lower.verify_call(call),
            ("static_assert", _) => Ok(Val::Scalar(lower.b.bool(true))),
            (name, Arch::V1Model) => lower.v1model_function(name, call, ty),
            (name, Arch::Pna) => lower.pna_function(name, call, ty),
        })
    }

    /// An extern that the program declares and the architecture does not have: refused once, where the program first uses it.
    pub(super) fn unknown_extern<T>(&mut self, what: &str, span: Span) -> Res<T> {
        if !self.unknown_externs.insert(what.to_owned()) {
            return Err(Refused);
        }
        let arch = match self.p.arch {
            Arch::V1Model => "v1model",
            Arch::Pna => "PNA",
        };
        let message = format!("not supported: extern `{what}`, which is none of {arch}'s");
        let help = format!("{} lists the externs that Terrace implements", crate::architectures::DOCS);
        let mut error = Diagnostic::error(EXTERN_WITHOUT_IMPLEMENTATION, span, message).help(help);
        let name = what.split('.').next().unwrap_or(what);
        let object = self.hir.externs.iter().find(|decl| &*decl.name == name).map(|decl| decl.span);
        let function = || self.hir.extern_functions.iter().find(|decl| &*decl.name == name).map(|decl| decl.span);
        if let Some(declared) = object.or_else(function) {
            error = error.label(declared, "declared here");
        }
        self.report(error)
    }

    /// The scalars of an argument.
    pub(super) fn data_arg(&mut self, call: &Call, n: usize) -> Res<Arg> {
        let mut values = Vec::new();
        if let Some(CallArg::Expr(data)) = call.args.get(n) {
            let val = self.arg_value(n, data)?;
            self.flatten(&val, data.ty, data.span, &mut values)?;
        }
        Ok(Arg::Values(values))
    }

    /// An out or inout argument.
    pub(super) fn out_arg(&mut self, call: &Call, n: usize) -> Res<OutArg> {
        match call.args.get(n) {
            Some(CallArg::Expr(place)) => Ok(Some((self.arg_access(n, place)?, place.ty))),
            _ => Ok(None),
        }
    }

    /// The scalar type of an out argument; of one that isn't cared for `bit<32>`.
    pub(super) fn out_type(&mut self, out: &OutArg, span: Span) -> Res<Type> {
        match out {
            Some((_, ty)) => self.scalar(*ty, span),
            None => Ok(Type::Bit(32)),
        }
    }

    /// Writes a scalar to an out argument.
    pub(super) fn set_out(&mut self, out: OutArg, value: Value, span: Span) -> Res<Val> {
        if let Some((access, ty)) = out {
            self.write_access(&access, Val::Scalar(value), ty, span)?;
        }
        Ok(Val::Void)
    }

    /// An argument known at compile time.
    pub(super) fn known_arg(&mut self, call: &Call, n: usize) -> Res<Known> {
        match call.args.get(n) {
            Some(CallArg::Expr(arg)) => match self.try_known(arg) {
                Some(known) => Ok(known),
                None => self.error("not-constant", arg.span, "this argument must be known at compile time"),
            },
            _ => self.missing_argument(call.span, n),
        }
    }

    /// A string argument.
    pub(super) fn text_arg(&mut self, call: &Call, n: usize) -> Res<Arc<str>> {
        match self.known_arg(call, n)? {
            Known::Text(text) => Ok(text),
            _ => self.unsupported(call.span, "a text that is not a literal"),
        }
    }

    /// Name of a member of an enumeration that an argument is.
    pub(super) fn member_arg(&mut self, call: &Call, n: usize) -> Res<String> {
        let known = self.known_arg(call, n)?;
        self.member_name(&known, call.span)
    }

    /// Name of a member of an enumeration.
    pub(super) fn member_name(&mut self, known: &Known, span: Span) -> Res<String> {
        if let Known::Enum(id, n) = known
            && let Some((name, _)) = self.hir.enums[id.index()].members.get(*n)
        {
            return Ok(name.to_string());
        }
        self.unsupported(span, "an enumeration whose member is not known at compile time")
    }

    /// Name of a member of an enumeration that a constructor's argument is.
    pub(super) fn member_constructor_arg(&mut self, construct: &Construct, n: usize) -> Res<String> {
        let arg = self.constructor_arg(construct, n)?;
        match self.try_known(arg) {
            Some(known) => self.member_name(&known, arg.span),
            None => self.error("not-constant", arg.span, "this value is not known at compile time"),
        }
    }

    /// A number that a constructor's argument is.
    pub(super) fn number_constructor_arg(&mut self, construct: &Construct, n: usize) -> Res<u64> {
        let arg = self.constructor_arg(construct, n)?;
        self.known_u64(arg)
    }

    /// Name of the type of an index, if it has a name of its own.
    pub(super) fn index_type(&mut self, construct: &Construct, n: usize) -> Option<String> {
        let ty = construct.type_args.get(n).copied()?;
        self.note_type(ty);
        self.type_name(ty)
    }

    /// A register of that element type.
    pub(super) fn register(&mut self, construct: &Construct, initial: Vec<ir::Const>) -> Res<ExternKind> {
        let size = self.number_constructor_arg(construct, 0)?;
        let Some(ty) = construct.type_args.first().copied() else {
            return self.unsupported(construct.span, "a register without element type");
        };
        let mut elem = Vec::new();
        self.leaves(ty, &mut elem);
        let data_type = self.data_type(ty);
        let index_type = self.index_type(construct, 1);
        Ok(ExternKind::Register { size, elem, initial, data_type, index_type })
    }

    /// The type of a register's elements.
    pub(super) fn register_elem(&self, object: ir::ExternId) -> Vec<Type> {
        match self.p.externs.get(object).map(|o| &o.kind) {
            Some(ExternKind::Register { elem, .. }) => elem.clone(),
            _ => Vec::new(),
        }
    }

    /// The table whose action makes this call.
    pub(super) fn calling_table(&mut self, what: &str, span: Span) -> Res<TableContext> {
        match self.table {
            Some(table) => Ok(table),
            None => {
                let message = format!("`{what}` has a meaning in actions that a table runs only");
                self.error("outside-table", span, message)
            }
        }
    }

    /// Appends the variables that an expression names.
    pub(super) fn named_vars(&mut self, expr: &Expr, out: &mut Vec<ir::VarId>) -> Res<()> {
        match &expr.kind {
            hir::ExprKind::Aggregate(items, _) => {
                for item in items {
                    self.named_vars(item, out)?;
                }
                Ok(())
            }
            hir::ExprKind::Cast(inner) => self.named_vars(inner, out),
            // An index with side effects names no variable, and has been evaluated.
            hir::ExprKind::Local(_) | hir::ExprKind::Field(..) | hir::ExprKind::Index(..) if is_pure(expr) => {
                if let Access::Place(place) = self.access(expr)? {
                    out.extend(place.vars());
                }
                Ok(())
            }
            // Constants and results have no name: nothing to keep.
            _ => Ok(()),
        }
    }

    /// A value of a scalar type as a known constant.
    pub(super) fn known_const(&mut self, expr: &Expr) -> Res<ir::Const> {
        let ty = self.scalar(expr.ty, expr.span)?;
        let bits = self.known_bits(expr, ty)?;
        Ok(ir::Const::new(ty, bits))
    }

    /// The scalar type of a type argument.
    pub(super) fn type_arg(&mut self, construct: &Construct, n: usize) -> Res<Type> {
        match construct.type_args.get(n) {
            Some(ty) => self.scalar(*ty, construct.span),
            None => self.unsupported(construct.span, "this extern without type argument"),
        }
    }

    /// Whether a type is a scalar.
    pub(super) fn is_scalar(&mut self, ty: Ty) -> bool {
        matches!(self.shape(ty), Shape::Scalar(_))
    }
}

/// What objects are called whose names must differ from each other.
fn decl_kind(kind: &ExternKind) -> &'static str {
    match kind {
        ExternKind::Counter { .. } => "counter",
        ExternKind::DirectCounter { .. } => "direct counter",
        ExternKind::Meter { .. } => "meter",
        ExternKind::DirectMeter { .. } => "direct meter",
        ExternKind::Register { .. } => "register",
        ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => "action profile",
        ExternKind::Digest { .. } => "digest",
        ExternKind::Hash { .. } => "hash",
        ExternKind::Random { .. } => "random number generator",
        _ => "extern object",
    }
}
