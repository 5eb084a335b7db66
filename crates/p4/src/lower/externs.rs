//! Lowers extern objects and calls of all architectures.

use super::const_value::{ConstValue, InstanceName};
use super::effects::is_pure;
use super::extern_names::{EXTERN_WITHOUT_IMPLEMENTATION, PNA_OBJECTS, V1MODEL_OBJECTS};
use super::lowering::{LowerResult, Lowering, LoweringErrorReported, TableContext};
use super::names;
use super::type_layout::TypeLayout;
use super::value::{LValue, RValue};
use crate::diag::Diagnostic;
use crate::hir::{self, Call, CallArg, Construct, Expr, ObjectRef, Ty};
use crate::span::Span;
use ir::{Arch, ExternArg, ExternInst, ExternKind, Type, Value};
use std::sync::Arc;

/// An out argument: its l-value and type.
pub(super) type OutArg = Option<(LValue, Ty)>;

impl<'a> Lowering<'a> {
    /// Instantiates an extern object of the type `id`; `naming` has its name for the control plane.
    /// An extern that the architecture does not define is an error.
    pub(super) fn create_extern(
        &mut self,
        id: hir::ExternId,
        construct: &Construct,
        naming: &InstanceName,
    ) -> LowerResult<ir::ExternId> {
        let decl = &self.hir.externs[id.index()];
        let kind = match self.pipeline.arch {
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
        let preamble = names::build_preamble(path, &naming.annotations);
        self.take_identity(decl_kind(&kind), &preamble, construct.span)?;
        let loc = self.source_loc(construct.span);
        Ok(self.pipeline.externs.push(ExternInst { preamble, kind, loc }))
    }

    /// Returns whether the architecture defines an extern type.
    pub(super) fn is_known_extern(&self, id: hir::ExternId) -> bool {
        let name: &str = &self.hir.externs[id.index()].name;
        match self.pipeline.arch {
            Arch::V1Model => V1MODEL_OBJECTS.contains(&name),
            Arch::Pna => PNA_OBJECTS.contains(&name),
        }
    }

    /// Lowers a call of method `method_index` (an index) of the extern type `id` on `object`. `ty`
    /// is the P4 type of the call's value. Arguments are evaluated first, in the order of the
    /// source.
    pub(super) fn lower_method_call(
        &mut self,
        object: &ObjectRef,
        id: hir::ExternId,
        method_index: usize,
        call: &Call,
        ty: Ty,
    ) -> LowerResult<RValue> {
        let decl: &'a hir::Extern = &self.hir.externs[id.index()];
        let Some(method) = decl.methods.get(method_index) else { return Ok(RValue::Void) };
        self.with_prepared(call, &method.params, |lower| match &*decl.name {
            "packet_in" => lower.packet_in(&method.name, call, ty),
            "packet_out" => lower.packet_out(&method.name, call),
            _ => {
                let ConstValue::Extern(object) = lower.object_ref(object, call.span)? else {
                    return lower.unsupported(call.span, format_args!("calling `{}` on this", method.name));
                };
                match lower.pipeline.arch {
                    Arch::V1Model => lower.v1model_method(object, &decl.name, &method.name, call),
                    Arch::Pna => lower.pna_method(object, &decl.name, method, call, ty),
                }
            }
        })
    }

    /// Lowers a call of an extern function.
    pub(super) fn lower_extern_call(&mut self, id: hir::ExternFnId, call: &Call, ty: Ty) -> LowerResult<RValue> {
        let decl: &'a hir::Method = &self.hir.extern_functions[id.index()];
        self.with_prepared(call, &decl.params, |lower| match (&*decl.name, lower.pipeline.arch) {
            ("verify", _) => lower.verify_call(call),
            ("static_assert", _) => Ok(RValue::Scalar(lower.builder.bool(true))),
            (name, Arch::V1Model) => lower.v1model_function(name, call, ty),
            (name, Arch::Pna) => lower.pna_function(name, call, ty),
        })
    }

    /// Rejects an extern that the program declares but the architecture does not define. The error
    /// is reported only at the first use.
    pub(super) fn unknown_extern<T>(&mut self, what: &str, span: Span) -> LowerResult<T> {
        if !self.unknown_externs.insert(what.to_owned()) {
            return Err(LoweringErrorReported);
        }
        let arch = match self.pipeline.arch {
            Arch::V1Model => "v1model",
            Arch::Pna => "PNA",
        };
        let message = format!("not supported: extern `{what}`, which {arch} does not define");
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

    /// Returns the scalars of an argument.
    pub(super) fn data_arg(&mut self, call: &Call, n: usize) -> LowerResult<ExternArg> {
        let mut values = Vec::new();
        if let Some(CallArg::Expr(data)) = call.args.get(n) {
            let val = self.arg_value(n, data)?;
            self.append_scalars(&val, data.ty, data.span, &mut values)?;
        }
        Ok(ExternArg::Values(values))
    }

    /// Resolves an out or inout argument.
    pub(super) fn out_arg(&mut self, call: &Call, n: usize) -> LowerResult<OutArg> {
        match call.args.get(n) {
            Some(CallArg::Expr(place)) => Ok(Some((self.arg_access(n, place)?, place.ty))),
            _ => Ok(None),
        }
    }

    /// Returns the scalar type of an out argument; `bit<32>` for an ignored one.
    pub(super) fn out_type(&mut self, out: &OutArg, span: Span) -> LowerResult<Type> {
        match out {
            Some((_, ty)) => self.scalar_type(*ty, span),
            None => Ok(Type::Bit(32)),
        }
    }

    /// Writes a scalar to an out argument.
    pub(super) fn set_out(&mut self, out: OutArg, value: Value, span: Span) -> LowerResult<RValue> {
        if let Some((access, ty)) = out {
            self.write_lvalue(&access, RValue::Scalar(value), ty, span)?;
        }
        Ok(RValue::Void)
    }

    /// Returns a compile-time known argument.
    pub(super) fn known_arg(&mut self, call: &Call, n: usize) -> LowerResult<ConstValue> {
        match call.args.get(n) {
            Some(CallArg::Expr(arg)) => match self.try_eval_const(arg) {
                Some(known) => Ok(known),
                None => self.error("not-constant", arg.span, "this argument must be known at compile time"),
            },
            _ => self.missing_argument(call.span, n),
        }
    }

    /// Returns a string argument.
    pub(super) fn text_arg(&mut self, call: &Call, n: usize) -> LowerResult<Arc<str>> {
        match self.known_arg(call, n)? {
            ConstValue::Text(text) => Ok(text),
            _ => self.unsupported(call.span, "a text that is not a literal"),
        }
    }

    /// Returns the name of the enumeration member given as argument.
    pub(super) fn member_arg(&mut self, call: &Call, n: usize) -> LowerResult<String> {
        let known = self.known_arg(call, n)?;
        self.member_name(&known, call.span)
    }

    /// Returns the name of an enumeration member.
    pub(super) fn member_name(&mut self, known: &ConstValue, span: Span) -> LowerResult<String> {
        if let ConstValue::Enum(id, n) = known
            && let Some((name, _)) = self.hir.enums[id.index()].members.get(*n)
        {
            return Ok(name.to_string());
        }
        self.unsupported(span, "an enumeration whose member is not known at compile time")
    }

    /// Returns the name of the enumeration member given as constructor argument.
    pub(super) fn member_constructor_arg(&mut self, construct: &Construct, n: usize) -> LowerResult<String> {
        let arg = self.constructor_arg(construct, n)?;
        match self.try_eval_const(arg) {
            Some(known) => self.member_name(&known, arg.span),
            None => self.error("not-constant", arg.span, "this value is not known at compile time"),
        }
    }

    /// Returns a number given as constructor argument.
    pub(super) fn number_constructor_arg(&mut self, construct: &Construct, n: usize) -> LowerResult<u64> {
        let arg = self.constructor_arg(construct, n)?;
        self.eval_u64(arg)
    }

    /// Returns the name of an index type if it is a named type.
    pub(super) fn index_type(&mut self, construct: &Construct, n: usize) -> Option<String> {
        let ty = construct.type_args.get(n).copied()?;
        self.record_named_type_of(ty);
        self.type_name(ty)
    }

    /// Builds a register with the element type of the constructor.
    pub(super) fn build_register(&mut self, construct: &Construct, initial: Vec<ir::Const>) -> LowerResult<ExternKind> {
        let size = self.number_constructor_arg(construct, 0)?;
        let Some(ty) = construct.type_args.first().copied() else {
            return self.unsupported(construct.span, "a register without element type");
        };
        let mut elem = Vec::new();
        self.append_scalar_types(ty, &mut elem);
        let data_type = self.data_type(ty);
        let index_type = self.index_type(construct, 1);
        Ok(ExternKind::Register { size, elem, initial, data_type, index_type })
    }

    /// Returns the types of the scalars in a register element.
    pub(super) fn register_elem(&self, object: ir::ExternId) -> Vec<Type> {
        match self.pipeline.externs.get(object).map(|o| &o.kind) {
            Some(ExternKind::Register { elem, .. }) => elem.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the table that runs the action with this call.
    pub(super) fn calling_table(&mut self, what: &str, span: Span) -> LowerResult<TableContext> {
        match self.table {
            Some(table) => Ok(table),
            None => {
                let message = format!("`{what}` is allowed only in actions that a table runs");
                self.error("outside-table", span, message)
            }
        }
    }

    /// Appends the variables that an expression names: those of a variable, field or element, or of
    /// each item in a list.
    pub(super) fn named_vars(&mut self, expr: &Expr, out: &mut Vec<ir::VarId>) -> LowerResult<()> {
        match &expr.kind {
            hir::ExprKind::Aggregate(items, _) => {
                for item in items {
                    self.named_vars(item, out)?;
                }
                Ok(())
            }
            hir::ExprKind::Cast(inner) => self.named_vars(inner, out),
            // An index with side effects names no variable and is already evaluated.
            hir::ExprKind::Local(_) | hir::ExprKind::Field(..) | hir::ExprKind::Index(..) if is_pure(expr) => {
                if let LValue::Storage(storage) = self.resolve_lvalue(expr)? {
                    out.extend(storage.vars());
                }
                Ok(())
            }
            // Constants and results name no variable.
            _ => Ok(()),
        }
    }

    /// Returns a known value of a scalar type as a constant.
    pub(super) fn known_const(&mut self, expr: &Expr) -> LowerResult<ir::Const> {
        let ty = self.scalar_type(expr.ty, expr.span)?;
        let bits = self.eval_bits(expr, ty)?;
        Ok(ir::Const::new(ty, bits))
    }

    /// Returns the scalar type given as type argument.
    pub(super) fn type_arg(&mut self, construct: &Construct, n: usize) -> LowerResult<Type> {
        match construct.type_args.get(n) {
            Some(ty) => self.scalar_type(*ty, construct.span),
            None => self.unsupported(construct.span, "this extern without type argument"),
        }
    }

    /// Returns whether a type is a scalar.
    pub(super) fn is_scalar(&mut self, ty: Ty) -> bool {
        matches!(self.layout(ty), TypeLayout::Scalar(_))
    }
}

/// Returns the kind of object within which control-plane names are unique.
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
