//! Key sets, of select cases and table entries.

use super::scope::Entity;
use super::{Checker, Place};
use crate::ast::{self, BinaryOp, Keyset};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, KeysetItem, StructId, Ty, TyKind, Types, ValueSetId};

/// What a column of a key set is matched against.
#[derive(Clone, Debug)]
pub(super) enum Column {
    /// A value.
    One(Expr),
    /// A list of them, which a list in the key set goes with.
    Group(Vec<Column>),
}

impl Column {
    /// The values, one after the other.
    pub fn leaves(self, into: &mut Vec<Expr>) {
        match self {
            Column::One(expr) => into.push(expr),
            Column::Group(columns) => columns.into_iter().for_each(|c| c.leaves(into)),
        }
    }

    fn types(&self, into: &mut Vec<Ty>) {
        match self {
            Column::One(expr) => into.push(expr.ty),
            Column::Group(columns) => columns.iter().for_each(|c| c.types(into)),
        }
    }
}

fn is_any(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ast::ExprKind::Default | ast::ExprKind::DontCare)
}

impl Checker<'_> {
    /// The columns of a key set against what they match; `None` after a diagnostic.
    pub(super) fn keyset(&mut self, keyset: &Keyset, columns: &[Column], what: &str) -> Option<Vec<KeysetItem>> {
        let mut elements = keyset.elements.as_slice();
        if let [only] = elements {
            if is_any(only) && !keyset.tuple {
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
            ok &= self.column_items(element, column, &mut items).is_some();
        }
        ok.then_some(items)
    }

    /// The items of an element of a key set.
    fn column_items(&mut self, element: &ast::Expr, column: &Column, items: &mut Vec<KeysetItem>) -> Option<()> {
        match (column, &element.kind) {
            (Column::One(_), ast::ExprKind::List(inner)) if inner.len() == 1 => {
                self.column_items(&inner[0], column, items)
            }
            (Column::One(expr), _) => {
                let item = self.keyset_item(element, expr.ty)?;
                items.push(item);
                Some(())
            }
            (Column::Group(_), _) if is_any(element) => {
                let mut types = Vec::new();
                column.types(&mut types);
                items.extend(types.iter().map(|_| KeysetItem::Any));
                Some(())
            }
            (Column::Group(columns), ast::ExprKind::List(inner)) if inner.len() == columns.len() => {
                inner.iter().zip(columns).try_for_each(|(e, c)| self.column_items(e, c, items))
            }
            (Column::Group(columns), _) => {
                let message = format!("a list of {} values is needed here", columns.len());
                self.fail("keyset-length", element.span, message);
                None
            }
        }
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

    fn value_set_fits(&mut self, set: ValueSetId, columns: &[Column], at: &ast::Expr) -> bool {
        let ty = self.prog.value_sets[set.index()].ty;
        let (mut types, mut wanted) = (Vec::new(), Vec::new());
        self.column_types(ty, &mut types);
        columns.iter().for_each(|c| c.types(&mut wanted));
        let fits = types.len() == wanted.len()
            && types.iter().zip(&wanted).all(|(ty, column)| {
                let (ty, column) = (self.base_type(*ty), self.base_type(*column));
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
    pub(super) fn base_type(&self, ty: Ty) -> Ty {
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
                self.pair(*op, left, right, ty, element)
            }
            _ => {
                if let Some(set) = self.value_set_named(element) {
                    let column = Column::One(Expr { kind: ExprKind::Default, ty, span: element.span });
                    return self
                        .value_set_fits(set, std::slice::from_ref(&column), element)
                        .then_some(KeysetItem::ValueSet(set));
                }
                let value = self.expr(element, Some(ty));
                if let (ExprKind::Call(_), true) = (&value.kind, self.body.place == Place::ParserState) {
                    self.fail("misplaced", element.span, "nothing can be called in a key set");
                    return None;
                }
                self.key_value(value, ty).map(KeysetItem::Value)
            }
        }
    }

    /// `left &&& right`, `left .. right`
    fn pair(
        &mut self,
        op: BinaryOp,
        left: &ast::Expr,
        right: &ast::Expr,
        ty: Ty,
        whole: &ast::Expr,
    ) -> Option<KeysetItem> {
        let (left, right) = (self.expr(left, Some(ty)), self.expr(right, Some(ty)));
        if left.ty == Types::UNKNOWN || right.ty == Types::UNKNOWN {
            return None;
        }
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        let (left, right) = self.same_width(left, right);
        if left.ty != right.ty || matches!(self.kind(left.ty), TyKind::Error | TyKind::Str | TyKind::Bool) {
            let (l, r) = (self.show(left.ty), self.show(right.ty));
            let message = format!("`{}` does not apply to `{l}` and `{r}`", op.as_str());
            self.fail("operand", whole.span, message);
            return None;
        }
        // A mask or range of numbers goes with an enum of them.
        let base = self.base_type(ty);
        let in_base = |c: &mut Self, value: Expr| match value.ty == Types::INT && base != ty {
            true => c.coerce(value, base),
            false => value,
        };
        let (left, right) = (in_base(self, left), in_base(self, right));
        let (left, right) = (self.key_value(left, ty)?, self.key_value(right, ty)?);
        Some(match op {
            BinaryOp::Mask => KeysetItem::Mask(left, right),
            _ => KeysetItem::Range(left, right),
        })
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

fn is_group(column: &Column) -> bool {
    matches!(column, Column::Group(_))
}
