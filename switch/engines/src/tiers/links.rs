//! [`Links`]: ports to tiers below in other processes: which flow goes where, and who is there.
//!
//! A flow goes to the link of its bucket, of which there are [`BUCKETS`]. At first buckets are spread evenly; when a link has a good deal more to do than the others,
//! buckets of it move to the one with the least to do. So a flow that is too much for one link with others beside it ends up with a link of its own. A link
//! that has not answered for a while gets nothing; its buckets are spread over those that do answer, and are its own again when it is back.

use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Into so many parts flows are divided.
pub const BUCKETS: usize = 1024;
/// A link may have so much more to do than the mean of all, in percent, before buckets move.
const UNEVEN: u64 = 125;
/// Fewer packets than so many in the time between two looks are no reason to move anything.
const FEW: u64 = 1_000;
/// So many buckets move at a time.
const MOVES: usize = 64;

/// A link as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Its port.
    pub port: u32,
    /// Whether it has answered lately.
    pub alive: bool,
    /// Packets that it was given.
    pub packets: u64,
    /// How often it fell silent.
    pub losses: u64,
}

struct Link {
    port: u32,
    /// When it last said something, in nanoseconds.
    heard: AtomicU64,
    packets: AtomicU64,
    silent: AtomicU8,
    losses: AtomicU64,
}

/// The links of a switch.
pub struct Links {
    links: Vec<Link>,
    silence: u64,
    seed: RandomState,
    owner: Vec<AtomicU8>,
    counts: Vec<AtomicU32>,
    asked: AtomicU64,
    balanced: Mutex<u64>,
    /// Whether buckets move to where less is to do.
    even: bool,
}

impl Links {
    /// These ports, all of which are thought to be there at `now` nanoseconds; `even`: buckets move to where less is to do, and what is behind the link does not
    /// keep anything for them.
    pub fn new(ports: &[u32], silence: Duration, now: u64, even: bool) -> Links {
        let link = |port: &u32| Link {
            port: *port,
            heard: AtomicU64::new(now),
            packets: AtomicU64::new(0),
            silent: AtomicU8::new(0),
            losses: AtomicU64::new(0),
        };
        let links: Vec<Link> = ports.iter().take(usize::from(u8::MAX)).map(link).collect();
        let owner = (0..BUCKETS).map(|bucket| AtomicU8::new((bucket % links.len().max(1)) as u8)).collect();
        let counts = (0..BUCKETS).map(|_| AtomicU32::new(0)).collect();
        let silence = u64::try_from(silence.as_nanos()).unwrap_or(u64::MAX);
        let (asked, balanced) = (AtomicU64::new(0), Mutex::new(now));
        Links { links, silence, seed: RandomState::new(), owner, counts, asked, balanced, even }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// How flows are told apart.
    pub fn seed(&self) -> &RandomState {
        &self.seed
    }

    /// Whether a port leads to a tier below.
    pub fn has(&self, port: u32) -> bool {
        self.links.iter().any(|link| link.port == port)
    }

    /// Something came from there.
    pub fn heard(&self, port: u32, now: u64) {
        if let Some(link) = self.links.iter().find(|link| link.port == port) {
            link.heard.fetch_max(now, Relaxed);
            link.silent.store(0, Relaxed);
        }
    }

    fn alive(&self, link: &Link, now: u64) -> bool {
        now.saturating_sub(link.heard.load(Relaxed)) <= self.silence
    }

    /// The port for a flow's packet; `None` if nobody answers.
    pub fn choose(&self, flow: u64, now: u64) -> Option<u32> {
        let (bucket, link) = self.find(flow, now)?;
        self.counts[bucket].fetch_add(1, Relaxed);
        link.packets.fetch_add(1, Relaxed);
        Some(link.port)
    }

    /// The same for a packet that does not come.
    pub fn would(&self, flow: u64, now: u64) -> Option<u32> {
        self.find(flow, now).map(|(_, link)| link.port)
    }

    fn find(&self, flow: u64, now: u64) -> Option<(usize, &Link)> {
        let bucket = (flow % BUCKETS as u64) as usize;
        let own = self.links.get(usize::from(self.owner[bucket].load(Relaxed)));
        let link = match own.filter(|link| self.alive(link, now)) {
            Some(link) => link,
            None => {
                // Of those that are there, the one that likes the bucket best: when another one falls silent, only its buckets move.
                let alive = self.links.iter().filter(|link| self.alive(link, now));
                alive.max_by_key(|link| self.seed.hash_one((bucket, link.port)))?
            }
        };
        Some((bucket, link))
    }

    /// Whether it is time to ask who is there; whoever is told so asks.
    pub fn must_ask(&self, now: u64) -> bool {
        let last = self.asked.load(Relaxed);
        now.saturating_sub(last) >= self.silence / 5 && self.asked.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }

    /// The ports to ask.
    pub fn ports(&self) -> impl Iterator<Item = u32> + '_ {
        self.links.iter().map(|link| link.port)
    }

    /// Time passes: who fell silent is counted, and buckets move about once a second.
    pub fn tick(&self, now: u64) {
        for link in &self.links {
            if !self.alive(link, now) && link.silent.swap(1, Relaxed) == 0 {
                link.losses.fetch_add(1, Relaxed);
            }
        }
        let Some(mut last) = self.balanced.try_lock() else { return };
        if self.even && now.saturating_sub(*last) >= 1_000_000_000 {
            *last = now;
            self.balance(now);
        }
    }

    fn balance(&self, now: u64) {
        let counts: Vec<u64> = self.counts.iter().map(|count| u64::from(count.swap(0, Relaxed))).collect();
        let alive: Vec<usize> = (0..self.links.len()).filter(|at| self.alive(&self.links[*at], now)).collect();
        let mut loads = vec![0u64; self.links.len()];
        for (owner, count) in self.owner.iter().zip(&counts) {
            if let Some(load) = loads.get_mut(usize::from(owner.load(Relaxed))) {
                *load += count;
            }
        }
        let mean = alive.iter().map(|at| loads[*at]).sum::<u64>() / alive.len().max(1) as u64;
        for _ in 0..MOVES {
            let Some(most) = alive.iter().copied().max_by_key(|at| loads[*at]) else { return };
            let Some(least) = alive.iter().copied().min_by_key(|at| loads[*at]) else { return };
            if loads[most] < FEW || loads[most] * 100 <= mean * UNEVEN {
                return;
            }
            let fits = |bucket: &usize| {
                let of_most = usize::from(self.owner[*bucket].load(Relaxed)) == most;
                of_most && counts[*bucket] > 0 && loads[least] + counts[*bucket] < loads[most]
            };
            let Some(bucket) = (0..BUCKETS).filter(fits).max_by_key(|bucket| counts[*bucket]) else { return };
            self.owner[bucket].store(least as u8, Relaxed);
            loads[most] -= counts[bucket];
            loads[least] += counts[bucket];
        }
    }

    /// All of them.
    pub fn states(&self, now: u64) -> Vec<LinkState> {
        let state = |link: &Link| LinkState {
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

    fn links() -> Links {
        Links::new(&[7, 8, 9], Duration::from_millis(100), 0, true)
    }

    fn port(links: &Links, flow: u64, now: u64) -> u32 {
        links.choose(flow, now).expect("somebody is there")
    }

    #[test]
    fn who_is_silent_gets_nothing_and_others_keep_theirs() {
        let links = links();
        let before: Vec<u32> = (0..3_000).map(|flow| port(&links, flow, 0)).collect();
        links.heard(7, 200 * MS);
        links.heard(9, 200 * MS);
        links.tick(210 * MS);
        let after: Vec<u32> = (0..3_000).map(|flow| port(&links, flow, 210 * MS)).collect();
        assert!(!after.contains(&8) && before.contains(&8));
        assert!(before.iter().zip(&after).all(|(old, new)| old == new || *old == 8));
        assert!(after.iter().zip(&before).any(|(new, old)| *old == 8 && *new == 7));
        assert_eq!(links.states(210 * MS)[1], LinkState { port: 8, alive: false, packets: 999, losses: 1 });
        assert_eq!(links.choose(1, 500 * MS), None);
        links.heard(8, 500 * MS);
        assert_eq!(links.choose(1, 500 * MS), Some(8));
    }

    #[test]
    fn a_flow_that_is_too_much_gets_a_link_of_its_own() {
        let links = links();
        let heavy = port(&links, 0, 0);
        for second in 1..6u64 {
            let now = second * 1_000 * MS;
            [7, 8, 9].into_iter().for_each(|port| links.heard(port, now));
            // Half of all packets are of one flow, the rest of some hundred.
            for n in 0..6_000u64 {
                links.choose(if n % 2 == 0 { 0 } else { n % 301 + 1 }, now);
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
        assert!(links.must_ask(1_000 * MS) && !links.must_ask(1_001 * MS) && links.must_ask(1_020 * MS));
    }
}
