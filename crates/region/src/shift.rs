//! Positions of a model that moves in its file: lines in front of it were added or taken away.

use crate::position::{At, Number, Position};

/// Something with positions in the file.
pub(crate) trait Shift {
    /// Has each position be the one that `to` gives for it.
    fn relocate(&mut self, to: &impl Fn(Position) -> Position);

    /// Adds `by` to all lines.
    fn shift(&mut self, by: i64) {
        self.relocate(&|at| at.shifted(by));
    }
}

impl Shift for Position {
    fn relocate(&mut self, to: &impl Fn(Position) -> Position) {
        *self = to(*self);
    }
}

impl<T> Shift for Number<T> {
    fn relocate(&mut self, to: &impl Fn(Position) -> Position) {
        self.at.relocate(to);
        self.digits.relocate(to);
    }
}

impl<T: Shift> Shift for Vec<T> {
    fn relocate(&mut self, to: &impl Fn(Position) -> Position) {
        self.iter_mut().for_each(|item| item.relocate(to));
    }
}

impl<T: Shift> Shift for Option<T> {
    fn relocate(&mut self, to: &impl Fn(Position) -> Position) {
        self.iter_mut().for_each(|item| item.relocate(to));
    }
}

impl<T: ShiftInside> Shift for At<T> {
    fn relocate(&mut self, to: &impl Fn(Position) -> Position) {
        self.at.relocate(to);
        self.value.relocate_inside(to);
    }
}

/// A value that has a position around it, and may have more inside.
pub(crate) trait ShiftInside {
    fn relocate_inside(&mut self, _to: &impl Fn(Position) -> Position) {}
}
