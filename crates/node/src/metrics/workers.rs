//! What workers did, and with what their time went.

use super::samples::{Times, Values};
use super::seen::Seen;
use crate::counts::Counts;

fn of_each<T>(seen: &Seen<'_>, value: impl Fn(&Counts) -> T) -> Vec<(Vec<String>, T)> {
    let workers = seen.now.workers.iter().enumerate();
    workers.map(|(number, counts)| (vec![number.to_string()], value(counts))).collect()
}

pub(super) fn packets(seen: &Seen<'_>) -> Values {
    of_each(seen, |counts| counts.received.packets as f64)
}

pub(super) fn batches(seen: &Seen<'_>) -> Values {
    of_each(seen, |counts| counts.batches as f64)
}

pub(super) fn run_time(seen: &Seen<'_>) -> Values {
    of_each(seen, |counts| counts.run_time.as_secs_f64())
}

pub(super) fn busy_time(seen: &Seen<'_>) -> Values {
    of_each(seen, |counts| counts.busy_time.as_secs_f64())
}

pub(super) fn engine_time(seen: &Seen<'_>) -> Values {
    of_each(seen, |counts| counts.engine_time.as_secs_f64())
}

pub(super) fn behind(seen: &Seen<'_>) -> Values {
    seen.behind.iter().enumerate().map(|(number, versions)| (vec![number.to_string()], *versions as f64)).collect()
}

pub(super) fn residence(seen: &Seen<'_>) -> Times {
    of_each(seen, |counts| counts.residence.clone())
}
