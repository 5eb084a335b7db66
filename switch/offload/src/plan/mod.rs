//! `terrace plan`: does a program with so many entries fit on a chip, after which steps, and what comes of it.

mod make;
mod report;
mod step;
mod steps;
mod sweeping;

pub use make::{Doing, Fold, Plan, PlanError, Question, make};
pub use report::*;
pub use step::{Attempt, heat, performance, shares, tables};
pub use steps::{Compression, Rewrite, compressions, for_a_chip};
pub use sweeping::{SweepAsk, Try, number, sweep};
