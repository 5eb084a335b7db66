//! [`BlockLog`]: a log line for each block of ports that a machine gets, and one when it gives it back
//! (RFC 6888, REQ-12 and REQ-14; RFC 7422, section 1, has the reason for blocks: a line for each session
//! would be terabytes a year).
//!
//! The pool of ports notes changes when they happen, under the lock that a packet holds anyway to take a port.
//! So a line has the time of the packet itself, and no block is missed, however short a machine had it. The
//! node's clock takes the changes and writes them, at most so many a second; others wait in the pool, and when it
//! has no room any more, they are lost, counted, and told with the times between which lines are missing.

use super::{PROTOCOLS, with_pool_of};
use crate::Node;
use crate::engine::EngineControl;
use crate::log::format_time;
use interp::{BlockChange, BlockChanges, LostChanges};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Target of the lines. The log does not limit their rate, because this module does.
pub const BLOCK_LOG_TARGET: &str = "node::nat::blocks";
/// Lines that are written at once, if none were written for a while.
const BURST_LINES: f64 = 1000.0;
/// Lines of the changes that still wait when the process ends.
const LAST_LINES: usize = 2048;

/// Counts of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLogCounts {
    /// Lines that were written.
    pub written: u64,
    /// Changes that have no line.
    pub lost: u64,
}

/// Lines that may be written.
struct LineBudget {
    per_second: u32,
    lines: f64,
    at: Instant,
}

impl LineBudget {
    fn new(per_second: u32) -> LineBudget {
        LineBudget { per_second, lines: f64::from(per_second).min(BURST_LINES), at: Instant::now() }
    }

    /// Returns how many lines may be written now.
    fn available(&mut self, passed: Duration) -> usize {
        let rate = f64::from(self.per_second);
        self.lines = (self.lines + passed.as_secs_f64() * rate).min(rate.min(BURST_LINES));
        self.lines as usize
    }
}

/// The log of blocks of a node. Without a rate, no line is written.
#[derive(Default)]
pub(crate) struct BlockLog {
    /// Whether engines note changes.
    is_on: AtomicBool,
    budget: Mutex<Option<LineBudget>>,
    written: AtomicU64,
    lost: AtomicU64,
}

impl BlockLog {
    /// Creates a log without a rate. Engines note changes already if `is_on`.
    pub fn new(is_on: bool) -> BlockLog {
        BlockLog { is_on: is_on.into(), ..BlockLog::default() }
    }

    /// Returns whether engines note changes.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub fn counts(&self) -> BlockLogCounts {
        BlockLogCounts { written: self.written.load(Relaxed), lost: self.lost.load(Relaxed) }
    }
}

fn take_changes(engine: &dyn EngineControl, limit: usize) -> BlockChanges {
    let mut taken = BlockChanges::default();
    with_pool_of(engine.pipeline(), engine, &mut |pool| taken = pool.take_changes(limit));
    taken
}

impl Node {
    /// Logs blocks of ports that machines get and give back, at most `per_second` lines a second on average;
    /// `None`: does not. Blocks that machines have already get no line.
    pub fn set_block_log(&self, per_second: Option<u32>) {
        self.block_log.is_on.store(per_second.is_some(), Relaxed);
        let mut budget = self.block_log.budget.lock();
        if per_second != budget.as_ref().map(|budget| budget.per_second) {
            *budget = per_second.map(LineBudget::new);
        }
        drop(budget);
        self.with_nat_pool(|pool| pool.report_changes(per_second.is_some()));
    }

    /// Returns how many changes of blocks have a line, and how many have none.
    pub fn block_log_counts(&self) -> BlockLogCounts {
        self.block_log.counts()
    }

    /// Writes lines for changes of blocks, as many as the rate permits.
    pub(crate) fn write_block_log(&self) {
        // The budget is not locked while the engine is, because the end of an engine locks both the other way.
        let limit = self.block_log.budget.lock().as_mut().map_or(0, |budget| {
            let passed = budget.at.elapsed();
            budget.at += passed;
            budget.available(passed)
        });
        if limit == 0 {
            return;
        }
        let taken = self.with_engine(|engine, _| take_changes(engine, limit)).unwrap_or_default();
        if let Some(budget) = self.block_log.budget.lock().as_mut() {
            budget.lines -= taken.changes.len() as f64;
        }
        self.write_block_lines(&taken);
    }

    /// Writes the changes that an engine still has, before it ends.
    pub(crate) fn write_last_blocks(&self, engine: &dyn EngineControl) {
        if self.block_log.budget.lock().is_none() {
            return;
        }
        self.write_block_lines(&take_changes(engine, LAST_LINES));
        let BlockChanges { changes, lost } = take_changes(engine, usize::MAX);
        if let (Some(first), Some(last)) = (changes.first(), changes.last()) {
            let count = changes.len() as u64 + lost.count;
            self.report_lost(LostChanges { count, first_ns: first.at_ns, last_ns: last.at_ns.max(lost.last_ns) });
        }
    }

    /// Writes the changes that still wait, at the end of the process.
    pub fn end_block_log(&self) {
        let _ = self.with_engine(|engine, _| self.write_last_blocks(engine));
    }

    fn write_block_lines(&self, taken: &BlockChanges) {
        if !taken.changes.is_empty() {
            let names = self.region.nat_names().unwrap_or_default();
            for change in &taken.changes {
                let BlockChange { at_ns, address, first_port, subscriber, is_given } = *change;
                let machine = names.subscriber(subscriber);
                let public = names.public_address(address).map(|(_, address)| address.to_string());
                let vpc = machine.as_ref().map(|machine| &*machine.vpc);
                let address = machine.as_ref().map(|machine| machine.address.to_string());
                let last_port = u32::from(first_port) + region::BLOCK_PORTS - 1;
                let (protocols, at) = (PROTOCOLS.join(","), format_time(at_ns));
                let event = if is_given { "ports given" } else { "ports given back" };
                tracing::info!(
                    target: BLOCK_LOG_TARGET,
                    vpc,
                    machine = address.as_deref(),
                    public = public.as_deref(),
                    first_port,
                    last_port,
                    protocols,
                    at,
                    subscriber = machine.is_none().then_some(subscriber),
                    "{event}"
                );
            }
            self.block_log.written.fetch_add(taken.changes.len() as u64, Relaxed);
        }
        if taken.lost.count > 0 {
            self.report_lost(taken.lost);
        }
    }

    fn report_lost(&self, lost: LostChanges) {
        self.block_log.lost.fetch_add(lost.count, Relaxed);
        tracing::warn!(
            target: BLOCK_LOG_TARGET,
            count = lost.count,
            from = format_time(lost.first_ns),
            to = format_time(lost.last_ns),
            "blocks of ports changed hands without a line; raise `nat_blocks_per_second` under [log]"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_their_rate_with_a_bounded_burst() {
        let mut budget = LineBudget::new(100);
        assert_eq!(budget.available(Duration::ZERO), 100);
        budget.lines = 0.0;
        assert_eq!(budget.available(Duration::from_millis(55)), 5);
        assert_eq!(budget.available(Duration::from_secs(1000)), 100, "one second's lines at most");
        assert_eq!(LineBudget::new(10_000).available(Duration::from_secs(1)), 1000, "less than the log's queue");
    }
}
