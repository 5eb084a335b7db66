//! Checks key sets of select cases and table entries.

use super::scope::ScopeEntity;
use super::{CheckContext, Checker};
use crate::ast::{self, BinaryOp, Keyset};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, KeysetItem, StructId, Ty, TyKind, Types, ValueSetId};

/// Type of a key set column.
#[derive(Clone, Debug)]
pub(super) enum KeysetColumn {
    /// A single value.
    One(Expr),
    /// A group of columns, matched by a list in the key set.
    Group(Vec<KeysetColumn>),
}

impl KeysetColumn {
    /// Appends the values of the column in order.
    pub fn leaves(self, into: &mut Vec<Expr>) {
        match self {
            KeysetColumn::One(expr) => into.push(expr),
            KeysetColumn::Group(columns) => columns.into_iter().for_each(|c| c.leaves(into)),
        }
    }

    fn types(&self, into: &mut Vec<Ty>) {
        match self {
            KeysetColumn::One(expr) => into.push(expr.ty),
            KeysetColumn::Group(columns) => columns.iter().for_each(|c| c.types(into)),
        }
    }
}

fn matches_anything(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ast::ExprKind::Default | ast::ExprKind::DontCare)
}

impl Checker<'_> {
    /// Checks the elements of a key set against the columns; `None` after an error.
    pub(super) fn check_keyset(
        &mut self,
        keyset: &Keyset,
        columns: &[KeysetColumn],
        what: &str,
    ) -> Option<Vec<KeysetItem>> {
        let mut elements = keyset.elements.as_slice();
        if let [only] = elements {
            if matches_anything(only) && !keyset.is_tuple {
                return Some(vec![KeysetItem::Any]);
            }
            if let Some(set) = self.value_set_named(only) {
                return self.value_set_fits(set, columns, only).then(|| vec![KeysetItem::ValueSet(set)]);
            }
            if let (ast::ExprKind::List(inner), false) = (&only.kind, columns.len() == 1 && is_group(&columns[0])) {
                elements = inner;
            }
        }
        if elements.len() != columns.len() {
            let message = match elements.len() {
                1 => format!("one column is given, and this {what} has {}", columns.len()),
                given => format!("{given} columns are given, and this {what} has {}", columns.len()),
            };
            self.fail("keyset-length", keyset.span, message);
            return None;
        }
        let mut items = Vec::new();
        let mut ok = true;
        for (element, column) in elements.iter().zip(columns) {
            ok &= self.append_column_items(element, column, &mut items).is_some();
        }
        ok.then_some(items)
    }

    /// Appends the items of a key set element.
    fn append_column_items(
        &mut self,
        element: &ast::Expr,
        column: &KeysetColumn,
        items: &mut Vec<KeysetItem>,
    ) -> Option<()> {
        match (column, &element.kind) {
            (KeysetColumn::One(_), ast::ExprKind::List(inner)) if inner.len() == 1 => {
                self.append_column_items(&inner[0], column, items)
            }
            (KeysetColumn::One(expr), _) => {
                let item = self.check_keyset_item(element, expr.ty)?;
                items.push(item);
                Some(())
            }
            (KeysetColumn::Group(_), _) if matches_anything(element) => {
                let mut types = Vec::new();
                column.types(&mut types);
                items.extend(types.iter().map(|_| KeysetItem::Any));
                Some(())
            }
            (KeysetColumn::Group(columns), ast::ExprKind::List(inner)) if inner.len() == columns.len() => {
                inner.iter().zip(columns).try_for_each(|(e, c)| self.append_column_items(e, c, items))
            }
            (KeysetColumn::Group(columns), _) => {
                let message = format!("a list of {} values is needed here", columns.len());
                self.fail("keyset-length", element.span, message);
                None
            }
        }
    }

    fn value_set_named(&self, element: &ast::Expr) -> Option<ValueSetId> {
        match &element.kind {
            ast::ExprKind::Name(path) => match self.scopes.lookup(path) {
                Some(ScopeEntity::ValueSet(id)) => Some(*id),
                _ => None,
            },
            _ => None,
        }
    }

    fn value_set_fits(&mut self, set: ValueSetId, columns: &[KeysetColumn], at: &ast::Expr) -> bool {
        let ty = self.prog.value_sets[set.index()].ty;
        let (mut types, mut wanted) = (Vec::new(), Vec::new());
        self.column_types(ty, &mut types);
        columns.iter().for_each(|c| c.types(&mut wanted));
        let fits = types.len() == wanted.len()
            && types.iter().zip(&wanted).all(|(ty, column)| {
                let (ty, column) = (self.underlying_type(*ty), self.underlying_type(*column));
                self.unify(ty, column)
            });
        if !fits {
            let shown = self.type_text(ty);
            let message = format!(
                "the value set has elements of type `{shown}`, which differs from the type of the selected values"
            );
            let declared = self.prog.value_sets[set.index()].span;
            self.error(Diagnostic::error("type-mismatch", at.span, message).label(declared, "declared here"));
        }
        fits
    }

    /// Returns the underlying type of an enum, or the type itself.
    pub(super) fn underlying_type(&self, ty: Ty) -> Ty {
        match self.type_kind(ty) {
            TyKind::Enum(id) => self.prog.enums[id.index()].underlying.unwrap_or(ty),
            _ => ty,
        }
    }

    fn column_types(&mut self, ty: Ty, types: &mut Vec<Ty>) {
        match self.type_kind(ty).clone() {
            TyKind::Struct(id, args) => self.field_columns(id, &args, types),
            TyKind::Tuple(elements) => elements.into_iter().for_each(|t| self.column_types(t, types)),
            _ => types.push(ty),
        }
    }

    fn field_columns(&mut self, id: StructId, args: &[Ty], types: &mut Vec<Ty>) {
        for field in self.field_types(id, args) {
            self.column_types(field, types);
        }
    }

    /// Checks the element of one column.
    fn check_keyset_item(&mut self, element: &ast::Expr, ty: Ty) -> Option<KeysetItem> {
        match &element.kind {
            ast::ExprKind::Default | ast::ExprKind::DontCare => Some(KeysetItem::Any),
            ast::ExprKind::Binary { op: op @ (BinaryOp::Mask | BinaryOp::Range), left, right, .. } => {
                self.check_mask_or_range(*op, left, right, ty, element)
            }
            _ => {
                if let Some(set) = self.value_set_named(element) {
                    let column = KeysetColumn::One(Expr { kind: ExprKind::Default, ty, span: element.span });
                    return self
                        .value_set_fits(set, std::slice::from_ref(&column), element)
                        .then_some(KeysetItem::ValueSet(set));
                }
                let value = self.check_expr(element, Some(ty));
                if let (ExprKind::Call(_), true) = (&value.kind, self.body.context == CheckContext::ParserState) {
                    self.fail("misplaced", element.span, "a key set cannot contain calls");
                    return None;
                }
                self.convert_key_value(value, ty).map(KeysetItem::Value)
            }
        }
    }

    /// Checks `left &&& right` or `left .. right`.
    fn check_mask_or_range(
        &mut self,
        op: BinaryOp,
        left: &ast::Expr,
        right: &ast::Expr,
        ty: Ty,
        whole: &ast::Expr,
    ) -> Option<KeysetItem> {
        let (left, right) = (self.check_expr(left, Some(ty)), self.check_expr(right, Some(ty)));
        if left.ty == Types::UNKNOWN || right.ty == Types::UNKNOWN {
            return None;
        }
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        let (left, right) = self.unify_widths(left, right);
        if left.ty != right.ty || matches!(self.type_kind(left.ty), TyKind::Error | TyKind::Str | TyKind::Bool) {
            let (l, r) = (self.type_text(left.ty), self.type_text(right.ty));
            let message = format!("`{}` does not apply to `{l}` and `{r}`", op.as_str());
            self.fail("operand", whole.span, message);
            return None;
        }
        // A mask or range of numbers can match an enum with that underlying type.
        let base = self.underlying_type(ty);
        let in_base = |c: &mut Self, value: Expr| match value.ty == Types::INT && base != ty {
            true => c.coerce(value, base),
            false => value,
        };
        let (left, right) = (in_base(self, left), in_base(self, right));
        let (left, right) = (self.convert_key_value(left, ty)?, self.convert_key_value(right, ty)?);
        Some(match op {
            BinaryOp::Mask => KeysetItem::Mask(left, right),
            _ => KeysetItem::Range(left, right),
        })
    }

    /// Converts a value to be compared to a key of type `ty`. Enums and their underlying types are
    /// compatible.
    fn convert_key_value(&mut self, value: Expr, ty: Ty) -> Option<Expr> {
        if value.ty == Types::UNKNOWN || ty == Types::UNKNOWN {
            return None;
        }
        let value = match (self.type_kind(ty), self.underlying_type(ty) == value.ty) {
            (TyKind::Enum(_), true) => self.retype(value, ty),
            _ => value,
        };
        let value = self.coerce(value, ty);
        (value.ty != Types::UNKNOWN).then_some(value)
    }
}

fn is_group(column: &KeysetColumn) -> bool {
    matches!(column, KeysetColumn::Group(_))
}
