//! Resolves written types.

use super::Checker;
use super::scope::ScopeEntity;
use crate::ast::{self, Path, TypeKind};
use crate::diag::Diagnostic;
use crate::hir::{ExprKind, ObjectKind, Ty, TyKind, TypeParamId, Types};
use crate::span::Span;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};
use std::sync::Arc;

/// Maximum width of a bit string in bits.
pub(super) const MAX_WIDTH: u32 = 65_535;
/// Maximum number of elements of a stack.
const MAX_STACK: u32 = 65_536;

impl Checker<'_> {
    /// Resolves a written type; [`Types::UNKNOWN`] after an error.
    pub(super) fn resolve_type(&mut self, ty: &ast::Type) -> Ty {
        self.resolve_bounded_type(ty, false)
    }

    /// Resolves the type of an instance; type arguments can be omitted and are then inferred.
    pub(super) fn constructed_ty(&mut self, ty: &ast::Type) -> Ty {
        self.resolve_bounded_type(ty, true)
    }

    fn resolve_bounded_type(&mut self, ty: &ast::Type, infer_args: bool) -> Ty {
        let found = self.with_depth(ty.span, |c| c.resolve_type_kind(ty, infer_args)).unwrap_or(Types::UNKNOWN);
        match found == Types::UNKNOWN || self.check_type_size(found, ty.span) {
            true => found,
            false => Types::UNKNOWN,
        }
    }

    /// Resolves a written type; an error is reported and gives the unknown type. `infer_args` says
    /// that missing type arguments become inference variables, as in a constructor call.
    fn resolve_type_kind(&mut self, ty: &ast::Type, infer_args: bool) -> Ty {
        match &ty.kind {
            TypeKind::Bool => Types::BOOL,
            TypeKind::Error => Types::ERROR,
            TypeKind::MatchKind => Types::MATCH_KIND,
            TypeKind::String => Types::STR,
            TypeKind::Void => Types::VOID,
            TypeKind::DontCare => self.fresh_var(),
            TypeKind::InfInt => Types::INT,
            TypeKind::Bit(None) => self.intern(TyKind::Bit(1)),
            TypeKind::Bit(Some(width)) => self.sized_type(width, ty.span, 0, TyKind::Bit),
            TypeKind::Int(width) => self.sized_type(width, ty.span, 1, TyKind::Int),
            TypeKind::Varbit(width) => self.sized_type(width, ty.span, 0, TyKind::Varbit),
            TypeKind::Name(path) => self.named_type(path, infer_args),
            TypeKind::Specialized { base, args } => self.specialized_type(base, args, ty.span),
            TypeKind::Stack { element, size } => self.stack_type(element, size),
            TypeKind::Tuple(elements) => self.tuple_type(elements),
            TypeKind::List(element) => {
                let element = self.resolve_type(element);
                self.intern(TyKind::List(element))
            }
        }
    }

    fn tuple_type(&mut self, elements: &[ast::Type]) -> Ty {
        let mut types = Vec::new();
        for element in elements {
            let ty = self.resolve_type(element);
            let fits = !matches!(self.type_kind(ty), TyKind::Void | TyKind::Object(..) | TyKind::Extern(..));
            if !fits {
                let shown = self.type_text(ty);
                self.fail("tuple-type", element.span, format!("a tuple cannot hold values of type `{shown}`"));
            }
            types.push(if fits { ty } else { Types::UNKNOWN });
        }
        self.intern(TyKind::Tuple(types))
    }

    /// Returns the type `kind` with `width` bits, which must be a constant of at least `min_bits`;
    /// the unknown type after an error.
    fn sized_type(&mut self, width: &ast::Expr, span: Span, min_bits: u32, kind: fn(u32) -> TyKind) -> Ty {
        let Some(value) = self.eval_const_int(width, "the width of a type") else { return Types::UNKNOWN };
        match value.to_u32() {
            Some(width) if (min_bits..=MAX_WIDTH).contains(&width) => self.intern(kind(width)),
            _ if value < BigInt::from(min_bits) => {
                let help = format!("the smallest width here is {min_bits}");
                self.error(
                    Diagnostic::error("width", span, format!("a width of {value} bits is not possible")).help(help),
                );
                Types::UNKNOWN
            }
            _ => {
                let help = format!("the limit is {MAX_WIDTH} bits");
                self.error(
                    Diagnostic::error("width", span, format!("a width of {value} bits is not supported")).help(help),
                );
                Types::UNKNOWN
            }
        }
    }

    /// Returns the type of a header stack with `size` elements, a constant; the unknown type after
    /// an error.
    fn stack_type(&mut self, element: &ast::Type, size: &ast::Expr) -> Ty {
        let ty = self.resolve_type(element);
        let Some(value) = self.eval_const_int(size, "the size of a stack") else { return Types::UNKNOWN };
        if self.no_stack_of(ty) {
            let type_text = self.type_text(ty);
            self.error(
                Diagnostic::error(
                    "stack-type",
                    element.span,
                    format!("a stack cannot have elements of type `{type_text}`"),
                )
                .help("stacks are made of headers or header unions"),
            );
            return Types::UNKNOWN;
        }
        match value.to_u32() {
            Some(n) if (1..=MAX_STACK).contains(&n) => self.intern(TyKind::Stack(ty, n)),
            _ => {
                let verdict = if value.is_positive() { "supported" } else { "possible" };
                let message = format!("a stack of {value} elements is not {verdict}");
                self.error(
                    Diagnostic::error("stack-size", size.span, message)
                        .help(format!("a stack has from 1 to {MAX_STACK} elements")),
                );
                Types::UNKNOWN
            }
        }
    }

    fn no_stack_of(&self, ty: Ty) -> bool {
        matches!(
            self.type_kind(ty),
            TyKind::Void
                | TyKind::Str
                | TyKind::InfInt
                | TyKind::Extern(..)
                | TyKind::Object(..)
                | TyKind::MatchKind
                | TyKind::Varbit(_)
                | TyKind::List(_)
        )
    }

    /// Evaluates a compile-time known integer.
    pub(super) fn eval_const_int(&mut self, expr: &ast::Expr, what: &str) -> Option<BigInt> {
        let value = self.check_expr(expr, None);
        match value.kind {
            ExprKind::Int(value) => Some(value),
            _ if value.ty == Types::UNKNOWN => None,
            _ => {
                self.error(
                    Diagnostic::error("not-constant", expr.span, format!("{what} must be a constant integer"))
                        .help("use a literal, or a `const` of an integer type"),
                );
                None
            }
        }
    }

    /// Resolves a type name without type arguments.
    fn named_type(&mut self, path: &Path, infer_args: bool) -> Ty {
        let Some(entity) = self.type_entity(path) else { return Types::UNKNOWN };
        let params = self.type_params_of(&entity);
        if !params.is_empty() && !infer_args {
            let count = params.len();
            let message = format!("`{path}` needs type arguments");
            self.error(
                Diagnostic::error("type-arguments", path.span, message).help(format!(
                    "write `{path}<...>` with {count} type argument{}",
                    if count == 1 { "" } else { "s" }
                )),
            );
            return Types::UNKNOWN;
        }
        let args = params.iter().map(|_| self.fresh_var()).collect();
        self.apply_type(&entity, args, path.span)
    }

    fn type_entity(&mut self, path: &Path) -> Option<ScopeEntity> {
        if self.scopes.lookup(path).is_none() {
            self.report_unknown_name(path, true);
            return None;
        }
        let entity = self.lookup(path)?;
        match entity {
            ScopeEntity::Type(_) | ScopeEntity::Struct(_) | ScopeEntity::Extern(_) | ScopeEntity::Object(_) => {
                Some(entity)
            }
            other => {
                let message = format!("`{path}` is {}, and a type is needed here", other.what());
                self.fail("not-a-type", path.span, message);
                None
            }
        }
    }

    fn type_params_of(&self, entity: &ScopeEntity) -> Vec<TypeParamId> {
        match entity {
            ScopeEntity::Struct(id) => self.prog.structs[id.index()].type_params.clone(),
            ScopeEntity::Extern(id) => self.prog.externs[id.index()].type_params.clone(),
            ScopeEntity::Object(id) => self.prog.objects[id.index()].type_params.clone(),
            _ => Vec::new(),
        }
    }

    fn apply_type(&mut self, entity: &ScopeEntity, args: Vec<Ty>, span: Span) -> Ty {
        match entity {
            ScopeEntity::Type(ty) => *ty,
            ScopeEntity::Struct(id) => {
                let ty = self.intern(TyKind::Struct(*id, args.clone()));
                if !args.is_empty() && (!self.check_type_size(ty, span) || !self.check_specialized(*id, &args, span)) {
                    return Types::UNKNOWN;
                }
                ty
            }
            ScopeEntity::Extern(id) => self.intern(TyKind::Extern(*id, args)),
            ScopeEntity::Object(id) => self.intern(TyKind::Object(*id, args)),
            _ => Types::UNKNOWN,
        }
    }

    /// Resolves `base<args>`; the unknown type after an error.
    fn specialized_type(&mut self, base: &Path, args: &[ast::Type], span: Span) -> Ty {
        let Some(entity) = self.type_entity(base) else { return Types::UNKNOWN };
        let count = self.type_params_of(&entity).len();
        if count != args.len() {
            let message = match count {
                0 => format!("`{base}` takes no type arguments"),
                _ => format!("`{base}` takes {count} type arguments, and {} are given", args.len()),
            };
            self.fail("type-arguments", span, message);
            return Types::UNKNOWN;
        }
        let mut types = Vec::new();
        for arg in args {
            let ty = self.resolve_type(arg);
            let has_body = match self.type_kind(ty) {
                TyKind::Object(id, _) => {
                    !matches!(self.prog.objects[id.index()].kind, ObjectKind::ParserType | ObjectKind::ControlType)
                }
                _ => false,
            };
            if has_body {
                let type_text = self.type_text(ty);
                self.fail("type-arguments", arg.span, format!("`{type_text}` cannot be a type argument"));
                return Types::UNKNOWN;
            }
            types.push(ty);
        }
        // A type that contains itself would grow without end when it is instantiated.
        let is_base = |k: &TyKind| match (k, &entity) {
            (TyKind::Extern(inner, _), ScopeEntity::Extern(id)) => inner == id,
            (TyKind::Struct(inner, _), ScopeEntity::Struct(id)) => inner == id,
            _ => false,
        };
        if types.iter().any(|t| self.mentions(*t, &is_base)) {
            self.fail("type-arguments", span, format!("`{base}` cannot be a type argument of itself"));
            return Types::UNKNOWN;
        }
        self.apply_type(&entity, types, span)
    }

    /// Declares type parameters in the innermost scope.
    pub(super) fn declare_type_params(&mut self, params: &[ast::TypeParam]) -> Vec<TypeParamId> {
        self.check_distinct_names(params.iter());
        params
            .iter()
            .map(|param| {
                self.prog.type_params.push(Arc::clone(&param.name));
                let id = TypeParamId(self.prog.type_params.len() as u32 - 1);
                let ty = self.intern(TyKind::Param(id));
                self.scopes.set(param, ScopeEntity::Type(ty));
                id
            })
            .collect()
    }
}
