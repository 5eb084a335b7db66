//! `{a, b}`, `{x = a}` and the `...` in them.

use super::{Checker, unknown};
use crate::ast::{self, NamedExpr, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Order, StructId, Ty, TyKind, Types};
use crate::span::Span;
use std::collections::HashMap;
use std::sync::Arc;

impl Checker<'_> {
    /// `{a, b}` or `{a, ...}`
    pub(super) fn list(&mut self, elements: &[ast::Expr], hint: Option<Ty>, span: Span) -> Expr {
        if let Some(at) = elements.iter().position(|e| e.kind == ast::ExprKind::Dots)
            && at + 1 != elements.len()
        {
            self.fail("dots-last", elements[at].span, "`...` must be the last of the list");
            return unknown(span);
        }
        let hint = hint.map(|ty| self.resolve(ty));
        let types = hint.and_then(|ty| self.element_types(ty, elements.len()));
        let Some(types) = types else { return self.free_list(elements, span) };
        let Some(hint) = hint else { return self.free_list(elements, span) };
        let dots = elements.last().is_some_and(|e| e.kind == ast::ExprKind::Dots);
        let given = elements.len() - usize::from(dots);
        let fits = if dots { given <= types.len() } else { given == types.len() };
        if !fits {
            let shown = self.show(hint);
            let message = format!("a list of {given} values does not fit `{shown}`, which has {}", types.len());
            let mut diagnostic = Diagnostic::error("list-length", span, message);
            if given < types.len() {
                diagnostic = diagnostic.help("end the list with `...` to give the rest their default values");
            }
            self.error(diagnostic);
            return unknown(span);
        }
        let mut values: Vec<Expr> = elements[..given].iter().zip(&types).map(|(e, ty)| self.element(e, *ty)).collect();
        for ty in &types[given..] {
            let ty = self.resolve(*ty);
            values.push(self.default_value(ty, span));
        }
        let ty = self.resolve(hint);
        Expr { kind: ExprKind::Aggregate(values, Order::default()), ty, span }
    }

    /// An element whose type is known, at least in part.
    fn element(&mut self, expr: &ast::Expr, ty: Ty) -> Expr {
        let value = self.expr(expr, Some(ty));
        self.infer_from(ty, value.ty);
        if value.ty == Types::INT && self.has_infer(ty) {
            return value;
        }
        self.coerce(value, ty)
    }

    /// The types of the elements of a list of type `ty`, where `given` elements are written.
    fn element_types(&mut self, ty: Ty, given: usize) -> Option<Vec<Ty>> {
        match self.kind(ty).clone() {
            TyKind::Struct(id, args) if self.prog.structs[id.index()].kind != StructKind::HeaderUnion => {
                Some(self.fields_of(id, &args))
            }
            TyKind::Tuple(types) => Some(types),
            TyKind::Stack(element, n) => Some(vec![element; n as usize]),
            TyKind::List(element) => Some(vec![element; given]),
            _ => None,
        }
    }

    /// A list of which nothing is known but itself: a tuple.
    fn free_list(&mut self, elements: &[ast::Expr], span: Span) -> Expr {
        let values: Vec<Expr> = elements.iter().map(|e| self.expr(e, None)).collect();
        let ty = self.intern(TyKind::Tuple(values.iter().map(|v| v.ty).collect()));
        Expr { kind: ExprKind::Aggregate(values, Order::default()), ty, span }
    }

    /// `{x = a, y = b}` or `{x = a, ...}`
    pub(super) fn struct_literal(
        &mut self,
        fields: &[NamedExpr],
        rest: Option<Span>,
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        self.distinct(fields.iter().map(|f| &f.name));
        let hint = hint.map(|ty| self.resolve(ty));
        match hint.map(|ty| (ty, self.kind(ty).clone())) {
            Some((ty, TyKind::Struct(id, args))) => self.struct_of(id, &args, ty, fields, rest, span),
            Some((_, TyKind::Unknown)) => unknown(span),
            Some((ty, kind)) if !matches!(kind, TyKind::Infer(_)) => {
                let shown = self.show(ty);
                self.fail("type-mismatch", span, format!("`{shown}` is needed here, and this has named fields"));
                unknown(span)
            }
            _ => {
                self.error(
                    Diagnostic::error("infer-struct", span, "it is not known which struct this is")
                        .help("write the type in front, as in `(S){x = 1}`"),
                );
                unknown(span)
            }
        }
    }

    fn struct_of(
        &mut self,
        id: StructId,
        args: &[Ty],
        ty: Ty,
        fields: &[NamedExpr],
        rest: Option<Span>,
        span: Span,
    ) -> Expr {
        let types = self.fields_of(id, args);
        let decl = &self.prog.structs[id.index()];
        let (name, decl_span) = (decl.name.clone(), decl.span);
        let names: Vec<_> = decl.fields.iter().map(|f| f.name.clone()).collect();
        let mut values: HashMap<usize, Expr> = HashMap::new();
        for field in fields {
            match names.iter().position(|n| **n == *field.name.as_str()) {
                Some(at) => {
                    let value = self.element(&field.value, types[at]);
                    values.insert(at, value);
                }
                None => {
                    let what = format!("`{name}`");
                    self.unknown_member(&what, &field.name, names.iter().map(|n| &**n));
                    return unknown(span);
                }
            }
        }
        let missing: Vec<&str> = (0..names.len()).filter(|at| !values.contains_key(at)).map(|at| &*names[at]).collect();
        if !missing.is_empty() && rest.is_none() {
            let message = format!("fields of `{name}` are missing: {}", super::names::list(&missing));
            self.error(
                Diagnostic::error("missing-field", span, message)
                    .label(decl_span, "its declaration")
                    .help("give all fields, or end with `...` to give the rest their default values"),
            );
            return unknown(span);
        }
        let at = rest.unwrap_or(span);
        let mut elements = Vec::new();
        for (index, field_ty) in types.iter().enumerate() {
            let value = match values.remove(&index) {
                Some(value) => value,
                None => {
                    let field_ty = self.resolve(*field_ty);
                    self.default_value(field_ty, at)
                }
            };
            elements.push(value);
        }
        // Of constants no order shows.
        let order = if elements.iter().all(|e| self.is_known(e)) {
            Order::default()
        } else {
            let written = |name: &Arc<str>| fields.iter().position(|f| *f.name.as_str() == **name);
            Order::of_places(&names.iter().map(written).collect::<Vec<_>>())
        };
        let ty = self.resolve(ty);
        Expr { kind: ExprKind::Aggregate(elements, order), ty, span }
    }
}
