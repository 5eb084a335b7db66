//! Key sets, of select cases and table entries.

use super::Checker;
use super::scope::Entity;
use crate::ast::{self, BinaryOp, Keyset};
use crate::diag::Diagnostic;
use crate::hir::{Expr, KeysetItem, StructId, Ty, TyKind, Types, ValueSetId};

impl Checker<'_> {
    /// The columns of a key set against the expressions that they match; `None` after a diagnostic.
    pub(super) fn keyset(&mut self, keyset: &Keyset, columns: &[Expr], what: &str) -> Option<Vec<KeysetItem>> {
        let mut elements: Vec<&ast::Expr> = Vec::new();
        for element in &keyset.elements {
            flatten(element, &mut elements, columns.len() > 1 || keyset.tuple);
        }
        if let [only] = elements.as_slice() {
            if matches!(only.kind, ast::ExprKind::Default | ast::ExprKind::DontCare) && !keyset.tuple {
                return Some(vec![KeysetItem::Any]);
            }
            if let Some(set) = self.value_set_named(only) {
                return self.value_set_fits(set, columns, only).then(|| vec![KeysetItem::ValueSet(set)]);
            }
        }
        if elements.len() != columns.len() {
            let message = format!("{} columns are given, and this {what} has {}", elements.len(), columns.len());
            self.fail("keyset-length", keyset.span, message);
            return None;
        }
        let items: Vec<_> =
            elements.into_iter().zip(columns).map(|(e, column)| self.keyset_item(e, column.ty)).collect();
        items.into_iter().collect()
    }

    fn value_set_named(&self, element: &ast::Expr) -> Option<ValueSetId> {
        match &element.kind {
            ast::ExprKind::Name(path) => match self.scopes.lookup(path) {
                Some(Entity::ValueSet(id)) => Some(*id),
                _ => None,
            },
            _ => None,
        }
    }

    fn value_set_fits(&mut self, set: ValueSetId, columns: &[Expr], at: &ast::Expr) -> bool {
        let ty = self.prog.value_sets[set.index()].ty;
        let mut types = Vec::new();
        self.column_types(ty, &mut types);
        let fits = types.len() == columns.len()
            && types.iter().zip(columns).all(|(ty, column)| {
                let (ty, column) = (self.base_type(*ty), self.base_type(column.ty));
                self.unify(ty, column)
            });
        if !fits {
            let shown = self.show(ty);
            let message = format!("the value set has elements of type `{shown}`, which is not what is selected on");
            let declared = self.prog.value_sets[set.index()].span;
            self.error(Diagnostic::error("type-mismatch", at.span, message).label(declared, "declared here"));
        }
        fits
    }

    /// An enum's underlying type; else the type itself.
    fn base_type(&self, ty: Ty) -> Ty {
        match self.kind(ty) {
            TyKind::Enum(id) => self.prog.enums[id.index()].underlying.unwrap_or(ty),
            _ => ty,
        }
    }

    fn column_types(&mut self, ty: Ty, types: &mut Vec<Ty>) {
        match self.kind(ty).clone() {
            TyKind::Struct(id, args) => self.field_columns(id, &args, types),
            TyKind::Tuple(elements) => elements.into_iter().for_each(|t| self.column_types(t, types)),
            _ => types.push(ty),
        }
    }

    fn field_columns(&mut self, id: StructId, args: &[Ty], types: &mut Vec<Ty>) {
        for field in self.fields_of(id, args) {
            self.column_types(field, types);
        }
    }

    /// One column.
    fn keyset_item(&mut self, element: &ast::Expr, ty: Ty) -> Option<KeysetItem> {
        match &element.kind {
            ast::ExprKind::Default | ast::ExprKind::DontCare => Some(KeysetItem::Any),
            ast::ExprKind::Binary { op: op @ (BinaryOp::Mask | BinaryOp::Range), left, right, .. } => {
                let (left, right) = (self.expr(left, Some(ty)), self.expr(right, Some(ty)));
                if left.ty == Types::UNKNOWN || right.ty == Types::UNKNOWN {
                    return None;
                }
                let (left, right) = self.same_width(left, right);
                let (lt, rt) = (self.base_type(left.ty), self.base_type(right.ty));
                if lt != rt {
                    let (l, r) = (self.show(left.ty), self.show(right.ty));
                    let message = format!("the sides of `{}` are of types `{l}` and `{r}`", op.as_str());
                    self.fail("operand", element.span, message);
                    return None;
                }
                let (left, right) = (self.key_value(left, ty)?, self.key_value(right, ty)?);
                Some(match op {
                    BinaryOp::Mask => KeysetItem::Mask(left, right),
                    _ => KeysetItem::Range(left, right),
                })
            }
            _ => {
                if let Some(set) = self.value_set_named(element) {
                    let column = Expr { kind: crate::hir::ExprKind::Default, ty, span: element.span };
                    return self
                        .value_set_fits(set, std::slice::from_ref(&column), element)
                        .then_some(KeysetItem::ValueSet(set));
                }
                let value = self.expr(element, Some(ty));
                self.key_value(value, ty).map(KeysetItem::Value)
            }
        }
    }

    /// A value that is compared to a key of type `ty`: enums and their underlying types go together.
    fn key_value(&mut self, value: Expr, ty: Ty) -> Option<Expr> {
        if value.ty == Types::UNKNOWN || ty == Types::UNKNOWN {
            return None;
        }
        let value = match (self.kind(ty), self.base_type(ty) == value.ty) {
            (TyKind::Enum(_), true) => self.retype(value, ty),
            _ => value,
        };
        let value = self.coerce(value, ty);
        (value.ty != Types::UNKNOWN).then_some(value)
    }
}

/// The elements of nested lists, one after the other.
fn flatten<'e>(element: &'e ast::Expr, flat: &mut Vec<&'e ast::Expr>, open: bool) {
    match &element.kind {
        ast::ExprKind::List(elements) if open => elements.iter().for_each(|e| flatten(e, flat, true)),
        _ => flat.push(element),
    }
}
