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
    /// Checks the elements of a key set against the columns, which are the selected expressions or
    /// the keys of a table. Returns one item for each scalar column, or a single item for `_`,
    /// `default` or a value set; `None` after an error. `owner_name` names the columns' owner in
    /// messages.
    pub(super) fn check_keyset(
        &mut self,
        keyset: &Keyset,
        columns: &[KeysetColumn],
        owner_name: &str,
    ) -> Option<Vec<KeysetItem>> {
        let mut elements = keyset.elements.as_slice();
        if let [single] = elements {
            if matches_anything(single) && !keyset.is_tuple {
                return Some(vec![KeysetItem::Any]);
            }
            if let Some(set) = self.value_set_named(single) {
                return self.value_set_fits(set, columns, single).then(|| vec![KeysetItem::ValueSet(set)]);
            }
            if let (ast::ExprKind::List(listed), false) = (&single.kind, columns.len() == 1 && is_group(&columns[0])) {
                elements = listed;
            }
        }
        if elements.len() != columns.len() {
            let message = match elements.len() {
                1 => format!("one column is given, and this {owner_name} has {}", columns.len()),
                count => format!("{count} columns are given, and this {owner_name} has {}", columns.len()),
            };
            self.fail("keyset-length", keyset.span, message);
            return None;
        }
        let mut items = Vec::new();
        let mut all_fit = true;
        for (element, column) in elements.iter().zip(columns) {
            all_fit &= self.append_column_items(element, column, &mut items).is_some();
        }
        all_fit.then_some(items)
    }

    /// Appends the items of a key set element: one for each scalar in the column, which is a group
    /// if the selected expression is a list. Returns `None` after an error.
    fn append_column_items(
        &mut self,
        element: &ast::Expr,
        column: &KeysetColumn,
        items: &mut Vec<KeysetItem>,
    ) -> Option<()> {
        match (column, &element.kind) {
            (KeysetColumn::One(_), ast::ExprKind::List(listed)) if listed.len() == 1 => {
                self.append_column_items(&listed[0], column, items)
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
            (KeysetColumn::Group(columns), ast::ExprKind::List(listed)) if listed.len() == columns.len() => {
                listed.iter().zip(columns).try_for_each(|(e, c)| self.append_column_items(e, c, items))
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

    /// Checks that the elements of a value set have the types of the columns; enums and new types
    /// count as their underlying types. Reports a difference at `use_site` and returns false.
    fn value_set_fits(&mut self, set: ValueSetId, columns: &[KeysetColumn], use_site: &ast::Expr) -> bool {
        let ty = self.prog.value_sets[set.index()].ty;
        let (mut types, mut column_types) = (Vec::new(), Vec::new());
        self.column_types(ty, &mut types);
        columns.iter().for_each(|c| c.types(&mut column_types));
        let fits = types.len() == column_types.len()
            && types.iter().zip(&column_types).all(|(ty, column)| {
                let (ty, column) = (self.underlying_type(*ty), self.underlying_type(*column));
                self.unify(ty, column)
            });
        if !fits {
            let type_text = self.type_text(ty);
            let message = format!(
                "the value set has elements of type `{type_text}`, which differs from the type of the selected values"
            );
            let declared = self.prog.value_sets[set.index()].span;
            self.error(Diagnostic::error("type-mismatch", use_site.span, message).label(declared, "declared here"));
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

    /// Checks the element for one column of type `ty`; returns `None` after an error.
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

    /// Checks `left &&& right` or `left .. right`. `ty` is the type of the column, and `element`
    /// the element. Returns `None` after an error.
    fn check_mask_or_range(
        &mut self,
        op: BinaryOp,
        left: &ast::Expr,
        right: &ast::Expr,
        ty: Ty,
        element: &ast::Expr,
    ) -> Option<KeysetItem> {
        let (left, right) = (self.check_expr(left, Some(ty)), self.check_expr(right, Some(ty)));
        if left.ty == Types::UNKNOWN || right.ty == Types::UNKNOWN {
            return None;
        }
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        let (left, right) = self.unify_widths(left, right);
        if left.ty != right.ty || matches!(self.type_kind(left.ty), TyKind::Error | TyKind::Str | TyKind::Bool) {
            let (left_text, right_text) = (self.type_text(left.ty), self.type_text(right.ty));
            let message = format!("`{}` does not apply to `{left_text}` and `{right_text}`", op.as_str());
            self.fail("operand", element.span, message);
            return None;
        }
        // A mask or range of numbers can match an enum with that underlying type.
        let underlying = self.underlying_type(ty);
        let to_underlying = |c: &mut Self, value: Expr| match value.ty == Types::INT && underlying != ty {
            true => c.coerce(value, underlying),
            false => value,
        };
        let (left, right) = (to_underlying(self, left), to_underlying(self, right));
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
