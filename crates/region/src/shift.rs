//! Updates the positions of a model after lines before it were inserted or removed.

use crate::spanned::{NumberWithPos, SourcePos, WithPos};

/// A value that contains positions in the file.
pub(crate) trait Shift {
    /// Replaces each position by the result of `to`.
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos);

    /// Adds `by` to all line numbers.
    fn shift(&mut self, by: i64) {
        self.relocate(&|at| at.shifted(by));
    }
}

impl Shift for SourcePos {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        *self = to(*self);
    }
}

impl<T> Shift for NumberWithPos<T> {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.at.relocate(to);
        self.digits.relocate(to);
    }
}

impl<T: Shift> Shift for Vec<T> {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.iter_mut().for_each(|item| item.relocate(to));
    }
}

impl<T: Shift> Shift for Option<T> {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.iter_mut().for_each(|item| item.relocate(to));
    }
}

impl<T: ShiftInside> Shift for WithPos<T> {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.at.relocate(to);
        self.value.relocate_inside(to);
    }
}

/// A value inside [`WithPos`] that can contain further positions.
pub(crate) trait ShiftInside {
    fn relocate_inside(&mut self, _to: &impl Fn(SourcePos) -> SourcePos) {}
}
