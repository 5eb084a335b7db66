//! Determines which values are known at compile time.

use super::{CheckContext, Checker};
use crate::ast::Direction;
use crate::hir::{Callee, Expr, ExprKind, LocalKind, TyKind};

impl Checker<'_> {
    /// Returns whether the value is known at compile time: it consists of literals, constructor
    /// parameters, instances and parameters without direction.
    pub(super) fn is_known(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Error(_)
            | ExprKind::MatchKind(_)
            | ExprKind::EnumMember(..)
            | ExprKind::Instance(_)
            | ExprKind::Construct(_)
            | ExprKind::InvalidHeader
            | ExprKind::Default => true,
            ExprKind::Local(id) => {
                let kind = &self.local_decl(*id).kind;
                matches!(kind, LocalKind::ConstructorParam(..) | LocalKind::Param(Direction::None, ..))
            }
            ExprKind::Field(base, _) | ExprKind::Cast(base) | ExprKind::Unary(_, base) => self.is_known(base),
            ExprKind::Slice { base, .. } => self.is_known(base),
            ExprKind::DynSlice { base, lo, .. } => self.is_known(base) && self.is_known(lo),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => self.is_known(a) && self.is_known(b),
            ExprKind::Mux(a, b, c) => self.is_known(a) && self.is_known(b) && self.is_known(c),
            ExprKind::Aggregate(elements, _) => elements.iter().all(|e| self.is_known(e)),
            ExprKind::Call(call) => match call.callee {
                Callee::SizeOf(..) => true,
                // An extern function that returns an extern object acts as a constructor.
                Callee::ExternFunction(_) => matches!(self.type_kind(expr.ty), TyKind::Extern(..)),
                _ => false,
            },
            ExprKind::StackNext(_)
            | ExprKind::StackLast(_)
            | ExprKind::StackLastIndex(_)
            | ExprKind::ApplyHit(_)
            | ExprKind::ApplyMiss(_) => false,
        }
    }

    /// Returns whether the checked code belongs to a parser.
    pub(super) fn in_parser(&self) -> bool {
        matches!(self.body.context, CheckContext::ParserLocals | CheckContext::ParserState)
    }
}
