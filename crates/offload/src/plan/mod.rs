//! `terrace plan`: does a program with so many entries fit on a chip, after which steps, and what comes of it.

mod make;
mod report;
mod step;
mod steps;
mod sweeping;

pub use make::{Compression, Doing, Fold, Plan, PlanError, Question, Rewrite, make};
pub use report::*;
pub use step::{Attempt, heat, performance, shares, tables};
pub use steps::{compressions, for_a_chip};
pub use sweeping::{SweepAsk, Try, number, sweep};
