//! Checks structs, headers and unions, and the types of their fields.

use super::Checker;
use super::scope::ScopeEntity;
use crate::ast::{self, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{Field, Struct, StructId, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks `struct`, `header` or `header_union` and declares the type. Returns it; the unknown
    /// type if it is generic, because such a type needs arguments, and after an error.
    pub(super) fn struct_decl(&mut self, decl: &ast::StructDecl) -> Ty {
        self.declare_unfinished(&decl.name, decl.kind.as_str());
        self.check_distinct_names(decl.fields.iter().map(|f| &f.name));
        let annotations = self.check_annotations(&decl.annotations);
        let (type_params, fields) = self.in_new_scope(|c| {
            let type_params = c.declare_type_params(&decl.type_params);
            let fields: Vec<Field> = decl.fields.iter().map(|f| c.check_field(decl, f)).collect();
            (type_params, fields)
        });
        if decl.kind == StructKind::Header {
            self.check_single_varbit(&fields);
        }
        self.prog.structs.push(Struct {
            kind: decl.kind,
            name: decl.name.name.clone(),
            annotations,
            type_params: type_params.clone(),
            fields,
            span: decl.span,
        });
        let id = StructId(self.prog.structs.len() as u32 - 1);
        self.scopes.set(&decl.name, ScopeEntity::Struct(id));
        if !type_params.is_empty() {
            return Types::UNKNOWN;
        }
        let ty = self.intern(TyKind::Struct(id, Vec::new()));
        if !self.check_type_size(ty, decl.name.span) {
            self.scopes.set(&decl.name, ScopeEntity::Unknown);
            return Types::UNKNOWN;
        }
        ty
    }

    fn check_field(&mut self, decl: &ast::StructDecl, field: &ast::FieldDecl) -> Field {
        let mut ty = self.resolve_type(&field.ty);
        let annotations = self.check_annotations(&field.annotations);
        if !self.is_field_type(decl.kind, ty, true) {
            let shown = self.type_text(ty);
            let kind = decl.kind.as_str().replace('_', " ");
            let message = format!("a field of a {kind} cannot be of type `{shown}`");
            self.error(
                Diagnostic::error("field-type", field.name.span, message)
                    .label(decl.name.span, format!("in this {kind}"))
                    .help(allowed_fields_help(decl.kind)),
            );
            ty = Types::UNKNOWN;
        }
        let field_lists = self.annotated_field_lists(&field.annotations);
        Field { name: field.name.name.clone(), ty, annotations, field_lists, span: field.span }
    }

    /// Returns whether a field of a `kind` can have the type `ty`. With `declared`, type parameters
    /// are allowed, because their types are not yet known.
    fn is_field_type(&self, kind: StructKind, ty: Ty, declared: bool) -> bool {
        let ty_kind = self.type_kind(ty);
        if matches!(ty_kind, TyKind::Unknown | TyKind::Infer(_)) || (declared && matches!(ty_kind, TyKind::Param(_))) {
            return true;
        }
        match kind {
            StructKind::Struct => !matches!(
                ty_kind,
                TyKind::Void
                    | TyKind::Str
                    | TyKind::InfInt
                    | TyKind::Extern(..)
                    | TyKind::Object(..)
                    | TyKind::MatchKind
                    | TyKind::Set(_)
            ),
            StructKind::Header => match ty_kind {
                TyKind::Bit(_) | TyKind::Int(_) | TyKind::Varbit(_) | TyKind::Bool | TyKind::Param(_) => true,
                TyKind::Enum(id) => self.prog.enums[id.index()].underlying.is_some(),
                TyKind::NewType(id) => self.is_field_type(kind, self.prog.newtypes[id.index()].of, declared),
                TyKind::Struct(id, _) => {
                    let nested = &self.prog.structs[id.index()];
                    nested.kind == StructKind::Struct
                        && nested.fields.iter().all(|f| self.is_field_type(kind, f.ty, true))
                }
                TyKind::Stack(element, _) => self.is_field_type(kind, *element, declared),
                _ => false,
            },
            StructKind::HeaderUnion => match ty_kind {
                TyKind::Param(_) => true,
                TyKind::Struct(id, _) => self.prog.structs[id.index()].kind == StructKind::Header,
                _ => false,
            },
        }
    }

    fn check_single_varbit(&mut self, fields: &[Field]) {
        let mut first: Option<&Field> = None;
        for field in fields {
            if !matches!(self.type_kind(field.ty), TyKind::Varbit(_)) {
                continue;
            }
            if let Some(first) = first {
                self.error(
                    Diagnostic::error("two-varbits", field.span, "a header can have only one `varbit` field")
                        .label(first.span, "the first is here")
                        .help("split the header in two, so that each has one `varbit`"),
                );
                return;
            }
            first = Some(field);
        }
    }

    /// Checks the fields of the generic struct `id` with the type arguments `args`. Reports a field
    /// of a wrong type at `span` and returns false.
    pub(super) fn check_specialized(&mut self, id: StructId, args: &[Ty], span: Span) -> bool {
        let decl = &self.prog.structs[id.index()];
        let (kind, name) = (decl.kind, decl.name.clone());
        let subst = decl.type_params.iter().copied().zip(args.iter().copied()).collect();
        let fields: Vec<_> = decl.fields.iter().map(|f| (f.name.clone(), f.ty, f.span)).collect();
        for (field, ty, field_span) in fields {
            let ty = self.substitute(ty, &subst);
            if !self.is_field_type(kind, ty, true) {
                let type_text = self.type_text(ty);
                let message =
                    format!("with these type arguments, field `{field}` of `{name}` would be of type `{type_text}`");
                self.error(
                    Diagnostic::error("field-type", span, message)
                        .label(field_span, "the field")
                        .help(allowed_fields_help(kind)),
                );
                return false;
            }
        }
        true
    }

    /// Returns the field types of a struct with type arguments substituted.
    pub(super) fn field_types(&mut self, id: StructId, args: &[Ty]) -> Vec<Ty> {
        let decl = &self.prog.structs[id.index()];
        let subst = decl.type_params.iter().copied().zip(args.iter().copied()).collect();
        let types: Vec<Ty> = decl.fields.iter().map(|f| f.ty).collect();
        types.into_iter().map(|ty| self.substitute(ty, &subst)).collect()
    }

    /// Returns whether the type is a struct, header or union; `None` for other types.
    pub(super) fn struct_kind(&self, ty: Ty) -> Option<StructKind> {
        match self.type_kind(ty) {
            TyKind::Struct(id, _) => Some(self.prog.structs[id.index()].kind),
            _ => None,
        }
    }
}

fn allowed_fields_help(kind: StructKind) -> &'static str {
    match kind {
        StructKind::Struct => "structs hold values: bits, bools, enums, errors, headers, stacks, structs and tuples",
        StructKind::Header => {
            "headers hold `bit`, `int`, `varbit`, `bool`, enums with an underlying type, and structs of these"
        }
        StructKind::HeaderUnion => "unions hold headers only",
    }
}
