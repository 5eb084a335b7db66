//! Solver for linear and integer programs, with a time limit and progress ticks.

use good_lp::solvers::highs::HighsProblem;
use highs::HighsModelStatus;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Interval between progress ticks.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// Result of a solver run.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum SolveResult {
    /// The program is infeasible.
    Impossible,
    /// A solution was found. No other one is better than the bound.
    Found {
        /// Values of the columns.
        columns: Vec<f64>,
        /// Bound of the objective.
        bound: f64,
    },
    /// Time ran out without a solution, or the solver gave up.
    Unknown {
        /// Current bound of the objective, if any.
        bound: Option<f64>,
    },
}

/// Solves within a time limit. Calls `tick` several times a second.
pub(super) fn solve_with_limit(problem: HighsProblem, limit: Duration, tick: &mut dyn FnMut()) -> SolveResult {
    if limit.is_zero() {
        return SolveResult::Unknown { bound: None };
    }
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver outlives the thread, so the send succeeds.
            let _ = sender.send(run_solver(problem, limit));
        });
        loop {
            match receiver.recv_timeout(TICK_INTERVAL) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => tick(),
                Err(RecvTimeoutError::Disconnected) => return SolveResult::Unknown { bound: None },
            }
        }
    })
}

/// Runs the solver on the calling thread. The result is unknown if the solver rejects the problem
/// or runs out of time without a solution.
fn run_solver(problem: HighsProblem, limit: Duration) -> SolveResult {
    let unknown = SolveResult::Unknown { bound: None };
    let Ok(mut model) = problem.try_into_inner() else { return unknown };
    model.make_quiet();
    let options_set = [
        model.try_set_option("time_limit", limit.as_secs_f64()).is_ok(),
        model.try_set_option("mip_rel_gap", 1e-4).is_ok(),
        model.try_set_option("random_seed", 1).is_ok(),
    ];
    if options_set.contains(&false) {
        return unknown;
    }
    let Ok(solved) = model.try_solve() else { return unknown };
    let bound = solved.double_info_value(c"mip_dual_bound").ok().filter(|b| b.is_finite());
    match solved.status() {
        HighsModelStatus::Infeasible | HighsModelStatus::UnboundedOrInfeasible => SolveResult::Impossible,
        _ if solved.primal_solution_status() == highs::HighsSolutionStatus::Feasible => {
            let columns = solved.get_solution().columns().to_vec();
            let bound = bound.unwrap_or(columns.first().copied().unwrap_or(0.0));
            SolveResult::Found { columns, bound }
        }
        _ => SolveResult::Unknown { bound },
    }
}
