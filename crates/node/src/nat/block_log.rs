//! A log line for each block of ports that a machine gets, and one when it gives it back
//! (RFC 6888, REQ-12 and REQ-14; RFC 7422, section 1, has the reason for blocks: a line for each session
//! would be terabytes a year).
//!
//! The pool of ports notes changes when they happen, under the lock that a packet holds anyway to take a port.
//! So a line has the time of the packet itself, and no block is missed, however short a machine had it. The
//! node's clock takes the changes and writes them at a limited rate; others wait in the pool, and when it
//! has no room any more, they are lost, counted, and told with the times between which lines are missing.

use super::block_log_state::BlockLogCounts;
use super::{PROTOCOLS, with_pool_of};
use crate::Node;
use crate::engine::EngineControl;
use crate::log::{BLOCK_LOG_TARGET, format_time};
use interp::{BlockChange, BlockChanges, LostChanges};

/// Lines of the changes that still wait when the process ends.
const LAST_LINES: usize = 2048;

fn take_changes(engine: &dyn EngineControl, limit: usize) -> BlockChanges {
    let mut taken = BlockChanges::default();
    with_pool_of(engine.pipeline(), engine, &mut |pool| taken = pool.take_changes(limit));
    taken
}

impl Node {
    /// Logs blocks of ports that machines get and give back, at most `per_second` lines a second on average;
    /// `None`: does not. Blocks that machines have already get no line.
    pub fn set_block_log(&self, per_second: Option<u32>) {
        self.block_log.set_rate(per_second);
        self.with_nat_pool(|pool| pool.report_changes(per_second.is_some()));
    }

    /// Returns how many changes of blocks have a line, and how many have none.
    pub fn block_log_counts(&self) -> BlockLogCounts {
        self.block_log.counts()
    }

    /// Writes lines for changes of blocks, as many as the rate permits.
    pub(crate) fn write_block_log(&self) {
        let limit = self.block_log.available_lines();
        if limit == 0 {
            return;
        }
        let taken = self.with_engine(|engine, _| take_changes(engine, limit)).unwrap_or_default();
        self.block_log.spend_lines(taken.changes.len());
        self.write_block_lines(&taken);
    }

    /// Writes the changes that an engine still has, before it ends.
    pub(crate) fn write_last_blocks(&self, engine: &dyn EngineControl) {
        if !self.block_log.has_rate() {
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
            self.block_log.count_written(taken.changes.len());
        }
        if taken.lost.count > 0 {
            self.report_lost(taken.lost);
        }
    }

    fn report_lost(&self, lost: LostChanges) {
        self.block_log.count_lost(lost.count);
        tracing::warn!(
            target: BLOCK_LOG_TARGET,
            count = lost.count,
            from = format_time(lost.first_ns),
            to = format_time(lost.last_ns),
            "blocks of ports changed hands without a line; raise `nat_blocks_per_second` under [log]"
        );
    }
}
