//! Bounds on what a program can make the checker build.
//!
//! A short program can name values and types of exponential size (`struct B { A x; A y; }`, `struct C { B x; B y; }`, ...
//! and the same with constants). Everything else in the checker walks values and types as trees, so their size and
//! depth are bounded where they are made. No bound is near what programs need.

use super::Checker;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind};
use crate::span::Span;
use num_bigint::BigInt;

/// How many scalars a value of a type may consist of.
const MAX_SCALARS: u64 = 1 << 17;
/// How deep types and constants may be nested.
const MAX_NESTING: u32 = 128;
/// How many parts a constant may have.
const MAX_CONSTANT: u64 = 1 << 14;
/// How many parts of constants may be put in for their names, in all.
const MAX_COPIES: u64 = 1 << 22;
/// Bits of an arbitrary-precision integer.
const MAX_INT_BITS: u64 = 1 << 17;
/// Bytes of a string.
const MAX_STRING: usize = 1 << 16;
/// Diagnostics; what is found after that is not reported.
const MAX_DIAGNOSTICS: usize = 1000;

/// Number of scalars, and depth.
pub(super) type Extent = (u64, u32);

impl Checker<'_> {
    /// Adds a diagnostic, unless there are very many already.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diags.len() < MAX_DIAGNOSTICS {
            self.diags.push(diagnostic);
        }
    }

    /// Whether values of the type are of a size that can be dealt with; reports it if not.
    pub(super) fn type_fits(&mut self, ty: Ty, span: Span) -> bool {
        let (scalars, depth) = self.extent(ty, 0);
        if scalars <= MAX_SCALARS && depth <= MAX_NESTING {
            return true;
        }
        let message = match depth > MAX_NESTING {
            true => format!("types are nested more than {MAX_NESTING} levels deep here, which is the limit"),
            false => format!("a value of this type consists of more than {MAX_SCALARS} parts, which is the limit"),
        };
        self.fail("too-large", span, message);
        false
    }

    /// How large values of the type are; computed once for each type.
    fn extent(&mut self, ty: Ty, depth: u32) -> Extent {
        if depth > MAX_NESTING {
            return (u64::MAX, u32::MAX);
        }
        if let Some(known) = self.extents.get(&ty) {
            return *known;
        }
        let (times, parts) = match self.kind(ty).clone() {
            TyKind::Struct(id, args) => {
                let mut parts = self.fields_of(id, &args);
                parts.extend(args);
                (1, parts)
            }
            TyKind::Extern(_, args) | TyKind::Object(_, args) | TyKind::Tuple(args) => (1, args),
            TyKind::Stack(element, n) => (u64::from(n), vec![element]),
            TyKind::List(element) | TyKind::Set(element) => (1, vec![element]),
            TyKind::NewType(id) => (1, vec![self.prog.newtypes[id.index()].of]),
            // What a variable stands for may change.
            TyKind::Infer(_) => return (1, 1),
            _ => return (1, 1),
        };
        let mut whole = (1u64, 1u32);
        for part in parts {
            let (scalars, nesting) = self.extent(part, depth + 1);
            whole.0 = whole.0.saturating_add(scalars);
            whole.1 = whole.1.max(nesting.saturating_add(1));
        }
        whole.0 = whole.0.saturating_mul(times.max(1));
        if !self.mentions_var(ty, &whole) {
            self.extents.insert(ty, whole);
        }
        whole
    }

    /// Whether a variable is in the type; not looked at in types that are too large anyway.
    fn mentions_var(&self, ty: Ty, extent: &Extent) -> bool {
        extent.0 <= MAX_SCALARS && extent.1 <= MAX_NESTING && self.mentions(ty, &|k| matches!(k, TyKind::Infer(_)))
    }

    /// Whether a constant is of a size that can be dealt with; reports it if not.
    pub(super) fn constant_fits(&mut self, value: &Expr) -> bool {
        let fits = parts(value, MAX_NESTING).is_some_and(|n| n <= MAX_CONSTANT);
        if !fits {
            let message = format!("a constant has at most {MAX_CONSTANT} parts, nested {MAX_NESTING} levels deep");
            self.fail("too-large", value.span, message);
        }
        fits
    }

    /// Whether a constant can be put in for its name once more; reports it if not.
    pub(super) fn may_copy(&mut self, value: &Expr, span: Span) -> bool {
        let before = self.copies;
        self.copies = before.saturating_add(parts(value, MAX_NESTING).unwrap_or(MAX_COPIES));
        if self.copies <= MAX_COPIES {
            return true;
        }
        if before <= MAX_COPIES {
            self.fail("too-large", span, "large constants are used too often in this program");
        }
        false
    }

    /// Whether an integer is of a size that can be dealt with; reports it if not.
    pub(super) fn int_fits(&mut self, value: &BigInt, span: Span) -> bool {
        let fits = value.bits() <= MAX_INT_BITS;
        if !fits {
            self.fail("too-large", span, format!("integers of more than {MAX_INT_BITS} bits are not supported"));
        }
        fits
    }

    /// Whether a string is of a size that can be dealt with; reports it if not.
    pub(super) fn string_fits(&mut self, bytes: usize, span: Span) -> bool {
        if bytes > MAX_STRING {
            self.fail("too-large", span, format!("strings of more than {MAX_STRING} bytes are not supported"));
        }
        bytes <= MAX_STRING
    }
}

/// The number of parts of an expression; `None` if it is nested too deep.
fn parts(expr: &Expr, depth: u32) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    let inner: Vec<&Expr> = match &expr.kind {
        ExprKind::Field(a, _) | ExprKind::Cast(a) | ExprKind::Unary(_, a) | ExprKind::Slice { base: a, .. } => vec![a],
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::DynSlice { base: a, lo: b, .. } => vec![a, b],
        ExprKind::Mux(a, b, c) => vec![a, b, c],
        ExprKind::Aggregate(elements, _) => elements.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().try_fold(1u64, |sum, e| Some(sum.saturating_add(parts(e, depth)?)))
}
