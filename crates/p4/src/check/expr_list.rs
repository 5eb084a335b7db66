//! Checks `{a, b}`, `{x = a}` and the `...` in them.

use super::{Checker, unknown_expr};
use crate::ast::{self, NamedExpr, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{EvalOrder, Expr, ExprKind, StructId, Ty, TyKind, Types};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

impl Checker<'_> {
    /// Checks `{a, b}` or `{a, ...}`. `hint` is the type that the context expects, which gives the
    /// types of the elements; `...` stands for default values of all further ones.
    pub(super) fn check_list(&mut self, elements: &[ast::Expr], hint: Option<Ty>, span: Span) -> Expr {
        if let Some(dots_index) = elements.iter().position(|e| e.kind == ast::ExprKind::Dots)
            && dots_index + 1 != elements.len()
        {
            self.fail("dots-last", elements[dots_index].span, "`...` must be the last of the list");
            return unknown_expr(span);
        }
        let hint = hint.map(|ty| self.resolve(ty));
        let types = hint.and_then(|ty| self.element_types(ty, elements.len()));
        let Some(types) = types else { return self.check_untyped_list(elements, span) };
        let Some(hint) = hint else { return self.check_untyped_list(elements, span) };
        let has_dots = elements.last().is_some_and(|e| e.kind == ast::ExprKind::Dots);
        let written = elements.len() - usize::from(has_dots);
        let fits = if has_dots { written <= types.len() } else { written == types.len() };
        if !fits {
            let type_text = self.type_text(hint);
            let message = format!("a list of {written} values does not fit `{type_text}`, which has {}", types.len());
            let mut diagnostic = Diagnostic::error("list-length", span, message);
            if written < types.len() {
                diagnostic = diagnostic.help("end the list with `...` to give the rest their default values");
            }
            self.error(diagnostic);
            return unknown_expr(span);
        }
        let mut values: Vec<Expr> =
            elements[..written].iter().zip(&types).map(|(e, ty)| self.check_element(e, *ty)).collect();
        for ty in &types[written..] {
            let ty = self.resolve(*ty);
            values.push(self.default_value(ty, span));
        }
        let ty = self.resolve(hint);
        Expr { kind: ExprKind::Aggregate(values, EvalOrder::default()), ty, span }
    }

    /// Checks an element of a type that is at least partly known.
    fn check_element(&mut self, expr: &ast::Expr, ty: Ty) -> Expr {
        let value = self.check_expr(expr, Some(ty));
        self.infer_from(ty, value.ty);
        if value.ty == Types::INT && self.has_infer(ty) {
            return value;
        }
        self.coerce(value, ty)
    }

    /// Returns the element types of a list of type `ty` with `given` written elements.
    fn element_types(&mut self, ty: Ty, given: usize) -> Option<Vec<Ty>> {
        match self.type_kind(ty).clone() {
            TyKind::Struct(id, args) if self.prog.structs[id.index()].kind != StructKind::HeaderUnion => {
                Some(self.field_types(id, &args))
            }
            TyKind::Tuple(types) => Some(types),
            TyKind::Stack(element, n) => Some(vec![element; n as usize]),
            TyKind::List(element) => Some(vec![element; given]),
            _ => None,
        }
    }

    /// Checks a list without expected type: it is a tuple.
    fn check_untyped_list(&mut self, elements: &[ast::Expr], span: Span) -> Expr {
        let values: Vec<Expr> = elements.iter().map(|e| self.check_expr(e, None)).collect();
        let ty = self.intern(TyKind::Tuple(values.iter().map(|v| v.ty).collect()));
        Expr { kind: ExprKind::Aggregate(values, EvalOrder::default()), ty, span }
    }

    /// Checks `{x = a, y = b}` or `{x = a, ...}`; `rest` is the span of the `...`. The context must
    /// expect a struct type (`hint`), because the literal does not name one.
    pub(super) fn check_struct_literal(
        &mut self,
        fields: &[NamedExpr],
        rest: Option<Span>,
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        self.check_distinct_names(fields.iter().map(|f| &f.name));
        let hint = hint.map(|ty| self.resolve(ty));
        match hint.map(|ty| (ty, self.type_kind(ty).clone())) {
            Some((ty, TyKind::Struct(id, args))) => self.check_struct_fields(id, &args, ty, fields, rest, span),
            Some((_, TyKind::Unknown)) => unknown_expr(span),
            Some((ty, kind)) if !matches!(kind, TyKind::Infer(_)) => {
                let type_text = self.type_text(ty);
                self.fail("type-mismatch", span, format!("`{type_text}` is needed here, and this has named fields"));
                unknown_expr(span)
            }
            _ => {
                self.error(
                    Diagnostic::error("infer-struct", span, "it is not known which struct this is")
                        .help("write the type in front, as in `(S){x = 1}`"),
                );
                unknown_expr(span)
            }
        }
    }

    /// Checks a literal of the struct type `ty`, an instance of `id` with type arguments `args`.
    /// `rest` is the span of `...`, which gives the fields that are not written their default
    /// values.
    fn check_struct_fields(
        &mut self,
        id: StructId,
        args: &[Ty],
        ty: Ty,
        fields: &[NamedExpr],
        rest: Option<Span>,
        span: Span,
    ) -> Expr {
        let types = self.field_types(id, args);
        let decl = &self.prog.structs[id.index()];
        let (name, decl_span) = (decl.name.clone(), decl.span);
        let names: Vec<_> = decl.fields.iter().map(|f| f.name.clone()).collect();
        let mut values: HashMap<usize, Expr> = HashMap::new();
        for field in fields {
            match names.iter().position(|n| **n == *field.name.as_str()) {
                Some(field_index) => {
                    let value = self.check_element(&field.value, types[field_index]);
                    values.insert(field_index, value);
                }
                None => {
                    let type_name = format!("`{name}`");
                    self.report_unknown_member(&type_name, &field.name, names.iter().map(|n| &**n));
                    return unknown_expr(span);
                }
            }
        }
        let missing: Vec<&str> = (0..names.len())
            .filter(|field_index| !values.contains_key(field_index))
            .map(|field_index| &*names[field_index])
            .collect();
        if !missing.is_empty() && rest.is_none() {
            let message = format!("fields of `{name}` are missing: {}", super::names::join_names(&missing));
            self.error(
                Diagnostic::error("missing-field", span, message)
                    .label(decl_span, "its declaration")
                    .help("give all fields, or end with `...` to give the rest their default values"),
            );
            return unknown_expr(span);
        }
        let default_span = rest.unwrap_or(span);
        let mut elements = Vec::new();
        for (index, field_ty) in types.iter().enumerate() {
            let value = match values.remove(&index) {
                Some(value) => value,
                None => {
                    let field_ty = self.resolve(*field_ty);
                    self.default_value(field_ty, default_span)
                }
            };
            elements.push(value);
        }
        // The evaluation order of constants is not observable.
        let order = if elements.iter().all(|e| self.is_known(e)) {
            EvalOrder::default()
        } else {
            // Values are evaluated in the order of the source, but stored in the order of the
            // fields.
            let written = |name: &Arc<str>| fields.iter().position(|f| *f.name.as_str() == **name);
            EvalOrder::of_places(&names.iter().map(written).collect::<Vec<_>>())
        };
        let ty = self.resolve(ty);
        Expr { kind: ExprKind::Aggregate(elements, order), ty, span }
    }
}
