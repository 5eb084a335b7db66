//! Solving an integer program, or a linear one, beside a clock.

use good_lp::solvers::highs::HighsProblem;
use highs::HighsModelStatus;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the clock is told.
const TICK: Duration = Duration::from_millis(200);

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Answer {
    /// There is no solution.
    Impossible,
    /// A solution; no other is better than the bound.
    Found {
        /// Values of the columns.
        columns: Vec<f64>,
        /// The bound of the objective.
        bound: f64,
    },
    /// Time was over before there was one, or the solver gave up.
    Nothing {
        /// What is known of the objective by then.
        bound: Option<f64>,
    },
}

/// Solves within a time; `tick` is called several times a second.
pub(super) fn solve(problem: HighsProblem, limit: Duration, tick: &mut dyn FnMut()) -> Answer {
    if limit.is_zero() {
        return Answer::Nothing { bound: None };
    }
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver waits for as long as the thread lives.
            let _ = sender.send(run(problem, limit));
        });
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => tick(),
                Err(RecvTimeoutError::Disconnected) => return Answer::Nothing { bound: None },
            }
        }
    })
}

fn run(problem: HighsProblem, limit: Duration) -> Answer {
    let nothing = Answer::Nothing { bound: None };
    let Ok(mut model) = problem.try_into_inner() else { return nothing };
    model.make_quiet();
    let set = [
        model.try_set_option("time_limit", limit.as_secs_f64()).is_ok(),
        model.try_set_option("mip_rel_gap", 1e-4).is_ok(),
        model.try_set_option("random_seed", 1).is_ok(),
    ];
    if set.contains(&false) {
        return nothing;
    }
    let Ok(solved) = model.try_solve() else { return nothing };
    let bound = solved.double_info_value(c"mip_dual_bound").ok().filter(|b| b.is_finite());
    match solved.status() {
        HighsModelStatus::Infeasible | HighsModelStatus::UnboundedOrInfeasible => Answer::Impossible,
        _ if solved.primal_solution_status() == highs::HighsSolutionStatus::Feasible => {
            let columns = solved.get_solution().columns().to_vec();
            let bound = bound.unwrap_or(columns.first().copied().unwrap_or(0.0));
            Answer::Found { columns, bound }
        }
        _ => Answer::Nothing { bound },
    }
}
