//! `terrace plan`: does a program with given table sizes fit on a chip, after which steps, and with
//! which performance?

mod planner;
mod report;
mod step;
mod steps;
mod sweeping;

pub use planner::{PipeFolding, PlanError, PlanProgress, PlanRequest, ProgramPlan, make_plan};
pub use report::*;
pub use step::{PlacementAttempt, heat_map, performance, table_rows, utilization};
pub use steps::{Compression, PlanTransform, compressions, split_concatenated_keys};
pub use sweeping::{SweepModel, SweepRequest, parse_number, run_sweep};
