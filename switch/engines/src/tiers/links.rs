//! [`TierLinks`]: ports to lower tiers in other processes, with their liveness and the assignment
//! of flows.
//!
//! A flow goes to the link of its bucket; there are [`BUCKETS`]. Initially buckets are spread
//! evenly. When a link has clearly more load than the others, some of its buckets move to the link
//! with the least load. As a result, a flow that fills a link ends up alone on it. A link that does
//! not answer gets no packets; the links that do answer take over its buckets until it is back.

use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of buckets that flows are hashed to.
pub const BUCKETS: usize = 1024;
/// Load of a link in percent of the mean at which buckets move.
const IMBALANCE_PERCENT: u64 = 125;
/// Minimum number of packets on a link since the last balancing for buckets to move.
const MIN_BALANCE_PACKETS: u64 = 1_000;
/// Maximum number of buckets that move at a time.
const MAX_MOVED_BUCKETS: usize = 64;

/// State of a link for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Port number.
    pub port: u32,
    /// Whether the link answered recently.
    pub alive: bool,
    /// Number of packets sent.
    pub packets: u64,
    /// Number of times that the link fell silent.
    pub losses: u64,
}

struct TierLink {
    port: u32,
    /// Time of the last frame from the link in ns.
    last_heard_ns: AtomicU64,
    packets: AtomicU64,
    is_silent: AtomicU8,
    losses: AtomicU64,
}

/// Links of a switch.
pub struct TierLinks {
    links: Vec<TierLink>,
    timeout_ns: u64,
    seed: RandomState,
    bucket_owner: Vec<AtomicU8>,
    bucket_packets: Vec<AtomicU32>,
    last_probe_ns: AtomicU64,
    last_balance_ns: Mutex<u64>,
    /// Whether buckets move to less loaded links.
    is_rebalanced: bool,
}

impl TierLinks {
    /// Creates links for these ports, all alive at `now` (ns). `is_rebalanced`: buckets move to
    /// less loaded links, and lower tiers keep no state for them.
    pub fn new(ports: &[u32], silence: Duration, now: u64, is_rebalanced: bool) -> TierLinks {
        let link = |port: &u32| TierLink {
            port: *port,
            last_heard_ns: AtomicU64::new(now),
            packets: AtomicU64::new(0),
            is_silent: AtomicU8::new(0),
            losses: AtomicU64::new(0),
        };
        let links: Vec<TierLink> = ports.iter().take(usize::from(u8::MAX)).map(link).collect();
        let owner = (0..BUCKETS).map(|bucket| AtomicU8::new((bucket % links.len().max(1)) as u8)).collect();
        let counts = (0..BUCKETS).map(|_| AtomicU32::new(0)).collect();
        let silence = u64::try_from(silence.as_nanos()).unwrap_or(u64::MAX);
        let (last_probe, last_balance) = (AtomicU64::new(0), Mutex::new(now));
        TierLinks {
            links,
            timeout_ns: silence,
            seed: RandomState::new(),
            bucket_owner: owner,
            bucket_packets: counts,
            last_probe_ns: last_probe,
            last_balance_ns: last_balance,
            is_rebalanced,
        }
    }

    /// Returns whether there are no links.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns the seed of the flow hash.
    pub fn seed(&self) -> &RandomState {
        &self.seed
    }

    /// Returns whether a port is connected to a lower tier.
    pub fn contains_port(&self, port: u32) -> bool {
        self.links.iter().any(|link| link.port == port)
    }

    /// Records that a frame came from a port.
    pub fn record_heard(&self, port: u32, now: u64) {
        if let Some(link) = self.links.iter().find(|link| link.port == port) {
            link.last_heard_ns.fetch_max(now, Relaxed);
            link.is_silent.store(0, Relaxed);
        }
    }

    fn alive(&self, link: &TierLink, now: u64) -> bool {
        now.saturating_sub(link.last_heard_ns.load(Relaxed)) <= self.timeout_ns
    }

    /// Returns the port for a packet of a flow and counts the packet; `None` if no link is alive.
    pub fn choose_link(&self, flow: u64, now: u64) -> Option<u32> {
        let (bucket, link) = self.find_link(flow, now)?;
        self.bucket_packets[bucket].fetch_add(1, Relaxed);
        link.packets.fetch_add(1, Relaxed);
        Some(link.port)
    }

    /// Returns the port for a flow without counting a packet.
    pub fn link_for_flow(&self, flow: u64, now: u64) -> Option<u32> {
        self.find_link(flow, now).map(|(_, link)| link.port)
    }

    fn find_link(&self, flow: u64, now: u64) -> Option<(usize, &TierLink)> {
        let bucket = (flow % BUCKETS as u64) as usize;
        let own = self.links.get(usize::from(self.bucket_owner[bucket].load(Relaxed)));
        let link = match own.filter(|link| self.alive(link, now)) {
            Some(link) => link,
            None => {
                // Rendezvous hashing among alive links: when a link falls silent, only its buckets
                // move.
                let alive = self.links.iter().filter(|link| self.alive(link, now));
                alive.max_by_key(|link| self.seed.hash_one((bucket, link.port)))?
            }
        };
        Some((bucket, link))
    }

    /// Returns whether a liveness probe is due. The caller that gets `true` must send it.
    pub fn is_probe_due(&self, now: u64) -> bool {
        let last = self.last_probe_ns.load(Relaxed);
        now.saturating_sub(last) >= self.timeout_ns / 5
            && self.last_probe_ns.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }

    /// Returns the ports to probe.
    pub fn probed_ports(&self) -> impl Iterator<Item = u32> + '_ {
        self.links.iter().map(|link| link.port)
    }

    /// Counts links that fell silent, and moves buckets about once per second.
    pub fn tick(&self, now: u64) {
        for link in &self.links {
            if !self.alive(link, now) && link.is_silent.swap(1, Relaxed) == 0 {
                link.losses.fetch_add(1, Relaxed);
            }
        }
        let Some(mut last) = self.last_balance_ns.try_lock() else { return };
        if self.is_rebalanced && now.saturating_sub(*last) >= 1_000_000_000 {
            *last = now;
            self.balance_buckets(now);
        }
    }

    /// Moves flow buckets from the most to the least loaded live link, while the former is clearly
    /// above the mean, and resets the buckets' packet counts.
    fn balance_buckets(&self, now: u64) {
        let counts: Vec<u64> = self.bucket_packets.iter().map(|count| u64::from(count.swap(0, Relaxed))).collect();
        let alive: Vec<usize> = (0..self.links.len()).filter(|link| self.alive(&self.links[*link], now)).collect();
        let mut loads = vec![0u64; self.links.len()];
        for (owner, count) in self.bucket_owner.iter().zip(&counts) {
            if let Some(load) = loads.get_mut(usize::from(owner.load(Relaxed))) {
                *load += count;
            }
        }
        let mean = alive.iter().map(|link| loads[*link]).sum::<u64>() / alive.len().max(1) as u64;
        for _ in 0..MAX_MOVED_BUCKETS {
            let Some(busiest) = alive.iter().copied().max_by_key(|link| loads[*link]) else { return };
            let Some(idlest) = alive.iter().copied().min_by_key(|link| loads[*link]) else { return };
            if loads[busiest] < MIN_BALANCE_PACKETS || loads[busiest] * 100 <= mean * IMBALANCE_PERCENT {
                return;
            }
            let is_movable = |bucket: &usize| {
                let is_of_busiest = usize::from(self.bucket_owner[*bucket].load(Relaxed)) == busiest;
                is_of_busiest && counts[*bucket] > 0 && loads[idlest] + counts[*bucket] < loads[busiest]
            };
            let Some(bucket) = (0..BUCKETS).filter(is_movable).max_by_key(|bucket| counts[*bucket]) else { return };
            self.bucket_owner[bucket].store(idlest as u8, Relaxed);
            loads[busiest] -= counts[bucket];
            loads[idlest] += counts[bucket];
        }
    }

    /// Returns the states of all links.
    pub fn link_states(&self, now: u64) -> Vec<LinkState> {
        let state = |link: &TierLink| LinkState {
            port: link.port,
            alive: self.alive(link, now),
            packets: link.packets.load(Relaxed),
            losses: link.losses.load(Relaxed),
        };
        self.links.iter().map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn links() -> TierLinks {
        TierLinks::new(&[7, 8, 9], Duration::from_millis(100), 0, true)
    }

    fn port(links: &TierLinks, flow: u64, now: u64) -> u32 {
        links.choose_link(flow, now).expect("somebody is there")
    }

    #[test]
    fn who_is_silent_gets_nothing_and_others_keep_theirs() {
        let links = links();
        let before: Vec<u32> = (0..3_000).map(|flow| port(&links, flow, 0)).collect();
        links.record_heard(7, 200 * MS);
        links.record_heard(9, 200 * MS);
        links.tick(210 * MS);
        let after: Vec<u32> = (0..3_000).map(|flow| port(&links, flow, 210 * MS)).collect();
        assert!(!after.contains(&8) && before.contains(&8));
        assert!(before.iter().zip(&after).all(|(old, new)| old == new || *old == 8));
        assert!(after.iter().zip(&before).any(|(new, old)| *old == 8 && *new == 7));
        assert_eq!(links.link_states(210 * MS)[1], LinkState { port: 8, alive: false, packets: 999, losses: 1 });
        assert_eq!(links.choose_link(1, 500 * MS), None);
        links.record_heard(8, 500 * MS);
        assert_eq!(links.choose_link(1, 500 * MS), Some(8));
    }

    #[test]
    fn a_flow_that_is_too_much_gets_a_link_of_its_own() {
        let links = links();
        let heavy = port(&links, 0, 0);
        for second in 1..6u64 {
            let now = second * 1_000 * MS;
            [7, 8, 9].into_iter().for_each(|port| links.record_heard(port, now));
            // Half of all packets belong to one flow, the rest to some hundred.
            for n in 0..6_000u64 {
                links.choose_link(if n % 2 == 0 { 0 } else { n % 301 + 1 }, now);
            }
            links.tick(now);
        }
        let now = 5_000 * MS;
        let with_it = (1..302).filter(|flow| port(&links, *flow, now) == port(&links, 0, now)).count();
        assert!(with_it < 15, "{with_it} other flows share its link");
        assert_eq!(port(&links, 0, now), heavy, "it need not move itself");
    }

    #[test]
    fn one_asks_at_a_time() {
        let links = links();
        assert!(links.is_probe_due(1_000 * MS) && !links.is_probe_due(1_001 * MS) && links.is_probe_due(1_020 * MS));
    }
}
