//! Limits of the values and types that a program can make the checker build.
//!
//! A short program can define values and types of exponential size (`struct B { A x; A y; }`,
//! `struct C { B x; B y; }`, ..., and similar constants). Size and depth are limited at
//! construction, because the checker walks values and types as trees. The limits are far above the
//! needs of real programs.

use super::Checker;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind};
use crate::span::Span;
use num_bigint::BigInt;

/// Maximum number of scalars in a value of a type.
const MAX_SCALARS: u64 = 1 << 17;
/// Maximum nesting of types and constants.
const MAX_NESTING: u32 = 128;
/// Maximum number of parts of a constant.
const MAX_CONSTANT: u64 = 1 << 14;
/// Maximum total number of constant parts substituted for names.
const MAX_COPIES: u64 = 1 << 22;
/// Maximum size of an arbitrary-precision integer in bits.
const MAX_INT_BITS: u64 = 1 << 17;
/// Maximum length of a string in bytes.
const MAX_STRING: usize = 1 << 16;
/// Maximum number of diagnostics; further ones are dropped.
const MAX_DIAGNOSTICS: usize = 1000;

/// Number of scalars, and nesting depth.
pub(super) type TypeExtent = (u64, u32);

impl Checker<'_> {
    /// Adds a diagnostic, up to [`MAX_DIAGNOSTICS`].
    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.diags.len() < MAX_DIAGNOSTICS {
            self.diags.push(diagnostic);
        }
    }

    /// Returns whether values of the type are within the limits; reports an error if not.
    pub(super) fn check_type_size(&mut self, ty: Ty, span: Span) -> bool {
        let (scalars, depth) = self.type_extent(ty, 0);
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

    /// Returns the number of scalars in a value of type `ty`, and its nesting depth; both are
    /// saturated beyond the limits. The result is cached, unless an inference variable in the type
    /// can change it. `depth` is the nesting around the type.
    fn type_extent(&mut self, ty: Ty, depth: u32) -> TypeExtent {
        if depth > MAX_NESTING {
            return (u64::MAX, u32::MAX);
        }
        if let Some(known) = self.extents.get(&ty) {
            return *known;
        }
        let (repetitions, parts) = match self.type_kind(ty).clone() {
            TyKind::Struct(id, args) => {
                let mut parts = self.field_types(id, &args);
                parts.extend(args);
                (1, parts)
            }
            TyKind::Extern(_, args) | TyKind::Object(_, args) | TyKind::Tuple(args) => (1, args),
            TyKind::Stack(element, n) => (u64::from(n), vec![element]),
            TyKind::List(element) | TyKind::Set(element) => (1, vec![element]),
            TyKind::NewType(id) => (1, vec![self.prog.newtypes[id.index()].of]),
            // The solution of a variable can change.
            TyKind::Infer(_) => return (1, 1),
            _ => return (1, 1),
        };
        let mut extent = (1u64, 1u32);
        for part in parts {
            let (scalars, nesting) = self.type_extent(part, depth + 1);
            extent.0 = extent.0.saturating_add(scalars);
            extent.1 = extent.1.max(nesting.saturating_add(1));
        }
        extent.0 = extent.0.saturating_mul(repetitions.max(1));
        if !self.mentions_var(ty, &extent) {
            self.extents.insert(ty, extent);
        }
        extent
    }

    /// Returns whether the type contains an inference variable. Types beyond the limits are not
    /// searched.
    fn mentions_var(&self, ty: Ty, extent: &TypeExtent) -> bool {
        extent.0 <= MAX_SCALARS && extent.1 <= MAX_NESTING && self.mentions(ty, &|k| matches!(k, TyKind::Infer(_)))
    }

    /// Returns whether a constant is within the limits; reports an error if not.
    pub(super) fn check_constant_size(&mut self, value: &Expr) -> bool {
        let fits = count_parts(value, MAX_NESTING).is_some_and(|n| n <= MAX_CONSTANT);
        if !fits {
            let message = format!("a constant has at most {MAX_CONSTANT} parts, nested {MAX_NESTING} levels deep");
            self.fail("too-large", value.span, message);
        }
        fits
    }

    /// Returns whether another copy of a constant can be substituted for its name; reports an error
    /// if not.
    pub(super) fn check_copy_limit(&mut self, value: &Expr, span: Span) -> bool {
        let before = self.copied_parts;
        self.copied_parts = before.saturating_add(count_parts(value, MAX_NESTING).unwrap_or(MAX_COPIES));
        if self.copied_parts <= MAX_COPIES {
            return true;
        }
        if before <= MAX_COPIES {
            self.fail("too-large", span, "large constants are used too often in this program");
        }
        false
    }

    /// Returns whether an integer is within the limit; reports an error if not.
    pub(super) fn check_int_size(&mut self, value: &BigInt, span: Span) -> bool {
        let fits = value.bits() <= MAX_INT_BITS;
        if !fits {
            self.fail("too-large", span, format!("integers of more than {MAX_INT_BITS} bits are not supported"));
        }
        fits
    }

    /// Returns whether a string is within the limit; reports an error if not.
    pub(super) fn check_string_size(&mut self, bytes: usize, span: Span) -> bool {
        if bytes > MAX_STRING {
            self.fail("too-large", span, format!("strings of more than {MAX_STRING} bytes are not supported"));
        }
        bytes <= MAX_STRING
    }
}

/// Returns the number of parts of an expression; `None` if it is nested too deep.
fn count_parts(expr: &Expr, depth: u32) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    let inner: Vec<&Expr> = match &expr.kind {
        ExprKind::Field(a, _) | ExprKind::Cast(a) | ExprKind::Unary(_, a) | ExprKind::Slice { base: a, .. } => vec![a],
        ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) | ExprKind::DynSlice { base: a, lo: b, .. } => vec![a, b],
        ExprKind::Mux(a, b, c) => vec![a, b, c],
        ExprKind::Aggregate(elements, _) => elements.iter().collect(),
        _ => Vec::new(),
    };
    inner.into_iter().try_fold(1u64, |sum, e| Some(sum.saturating_add(count_parts(e, depth)?)))
}
