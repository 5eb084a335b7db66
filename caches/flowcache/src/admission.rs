//! [`Admission`]: how much of the slow path each tenant gets when there is more to do than it can.
//!
//! Time is cut into windows. In each, the slow path takes so many packets; a tenant that was active in the window before is sure of an equal share, and what
//! those who ask for less leave over goes to whoever comes first. So a tenant that floods gets what nobody else wants, and one that begins a new flow
//! now and then is always let in. What is refused is counted by tenant.

use crate::pace::{Pace, Spare};
use std::collections::HashMap;

type Fast = foldhash::fast::RandomState;

/// The most tenants that are told apart in a window; all others share one bucket.
pub const MAX_TENANTS: usize = 1 << 16;

/// How much the slow path takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Packets a second, of all tenants together.
    pub packets_per_second: u64,
    /// Length of a window, in nanoseconds.
    pub window_ns: u64,
}

impl Budget {
    /// So many packets a second, in windows of 10 ms.
    pub fn per_second(packets: u64) -> Budget {
        Budget { packets_per_second: packets, window_ns: 10_000_000 }
    }

    /// Packets of a window, at least one.
    fn packets(&self) -> u64 {
        let product = u128::from(self.packets_per_second) * u128::from(self.window_ns) / 1_000_000_000;
        u64::try_from(product).unwrap_or(u64::MAX).max(1)
    }
}

/// Packets of a tenant in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    asked: u64,
    got: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Admission {
    budget: Budget,
    /// The number of the window that runs.
    window: u64,
    /// What each tenant asked for in it, and got.
    asked: HashMap<u64, Asked, Fast>,
    /// What each tenant is sure of.
    share: u64,
    /// What is left for all, now and when the window began.
    spare: u64,
    spare_of_window: u64,
    /// Packets that the window takes: those of the budget, or fewer, as there is no time for more.
    packets: u64,
    pace: Option<Pace>,
    /// Packets that were let in.
    taken: u64,
    /// Packets that were refused, by tenant: of [`MAX_TENANTS`], and of all others together.
    refused: HashMap<u64, u64, Fast>,
    refused_others: u64,
}

/// What of a window's packets may go when so much of it has passed: a sixteenth at once, the rest evenly, so that they do not crowd out others at its beginning.
fn by_now(packets: u64, passed: u64, window: u64) -> u64 {
    let evenly = u128::from(packets) * u128::from(passed) / u128::from(window.max(1));
    (evenly as u64 + packets.div_ceil(16)).min(packets)
}

/// Stands for all tenants beyond [`MAX_TENANTS`].
const OTHERS: u64 = u64::MAX;

impl Admission {
    /// Nobody has asked yet.
    pub fn new(budget: Budget) -> Admission {
        let packets = budget.packets();
        Admission {
            budget,
            window: 0,
            asked: HashMap::default(),
            share: packets,
            spare: 0,
            spare_of_window: 0,
            packets,
            pace: None,
            taken: 0,
            refused: HashMap::default(),
            refused_others: 0,
        }
    }

    /// From now on the slow path takes no more than there is time for, and no more than the budget.
    pub fn keep_pace(&mut self, spare: Spare) {
        self.pace = Some(Pace::new(spare));
    }

    /// What measures how long the engine is busy, if that counts.
    pub fn pace(&mut self) -> Option<&mut Pace> {
        self.pace.as_mut()
    }

    /// Packets that the slow path takes in this window.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Whether a packet of a tenant may take the slow path at `now` nanoseconds.
    pub fn admit(&mut self, tenant: u64, now: u64) -> bool {
        let window = now / self.budget.window_ns.max(1);
        if window > self.window {
            self.next(window);
        }
        let known = self.asked.contains_key(&tenant) || self.asked.len() < MAX_TENANTS;
        let by_now = |packets: u64| match &self.pace {
            Some(_) => by_now(packets, now % self.budget.window_ns.max(1), self.budget.window_ns),
            None => packets,
        };
        let (share, kept_back) = (by_now(self.share), self.spare_of_window - by_now(self.spare_of_window));
        let asked = self.asked.entry(if known { tenant } else { OTHERS }).or_default();
        asked.asked += 1;
        // Tenants that were not there in the window before can make it more than was planned: at most twice as much.
        let room = self.taken < self.packets.saturating_mul(2);
        let sure = asked.got < share;
        let admitted = room && (sure || self.spare > kept_back);
        asked.got += u64::from(admitted);
        if admitted {
            self.taken += 1;
            self.spare -= u64::from(!sure);
        } else {
            self.refuse(tenant);
        }
        admitted
    }

    fn refuse(&mut self, tenant: u64) {
        match self.refused.len() < MAX_TENANTS || self.refused.contains_key(&tenant) {
            true => *self.refused.entry(tenant).or_default() += 1,
            false => self.refused_others += 1,
        }
    }

    fn next(&mut self, window: u64) {
        let passed = window - self.window;
        let time = self.pace.as_mut().map(|pace| pace.next(self.budget.window_ns, passed));
        self.packets = self.budget.packets().min(time.unwrap_or(u64::MAX)).max(1);
        let packets = self.packets;
        // After a pause nobody is known to be active.
        if passed > 1 {
            self.asked.clear();
        }
        self.share = (packets / (self.asked.len() as u64).max(1)).max(1);
        let wanted: u64 = self.asked.values().map(|asked| asked.asked.min(self.share)).sum();
        // If nobody is known, whoever comes first has a share of everything already.
        self.spare = if self.asked.is_empty() { 0 } else { packets.saturating_sub(wanted) };
        self.spare_of_window = self.spare;
        self.asked.clear();
        self.taken = 0;
        self.window = window;
    }

    /// Packets that were refused, by tenant; and those of tenants that are not told apart.
    pub fn refused(&self) -> (impl Iterator<Item = (u64, u64)> + '_, u64) {
        (self.refused.iter().map(|(tenant, count)| (*tenant, *count)), self.refused_others)
    }

    /// Packets of a tenant that were refused.
    pub fn refused_of(&self, tenant: u64) -> u64 {
        self.refused.get(&tenant).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, Budget};

    /// A window of 1 ms that takes 100 packets.
    fn admission() -> Admission {
        Admission::new(Budget { packets_per_second: 100_000, window_ns: 1_000_000 })
    }

    /// Lets tenants ask in turn through `windows`; what each got in the last of them.
    fn last(admission: &mut Admission, windows: u64, wants: &[(u64, u64)]) -> Vec<u64> {
        let mut got = vec![0; wants.len()];
        for window in 0..windows {
            got.fill(0);
            let most = wants.iter().map(|(_, want)| *want).max().unwrap_or(0);
            for round in 0..most {
                for (at, (tenant, want)) in wants.iter().enumerate() {
                    // Whoever wants less asks now and then, over the whole window.
                    if round * want / most != (round + 1) * want / most {
                        let now = window * 1_000_000 + round * 999_999 / most;
                        got[at] += u64::from(admission.admit(*tenant, now));
                    }
                }
            }
        }
        got
    }

    #[test]
    fn one_tenant_alone_gets_all() {
        assert_eq!(last(&mut admission(), 3, &[(7, 1_000)]), [100]);
    }

    #[test]
    fn a_flood_takes_nothing_from_others() {
        let mut admission = admission();
        let got = last(&mut admission, 5, &[(1, 10_000), (2, 20), (3, 10)]);
        assert_eq!(got[1..], [20, 10]);
        assert!((60..=100).contains(&got[0]), "{got:?}");
        assert_eq!((admission.refused_of(2), admission.refused_of(3)), (0, 0));
        assert!(admission.refused_of(1) > 40_000);
    }

    #[test]
    fn floods_share_alike() {
        let got = last(&mut admission(), 5, &[(1, 10_000), (2, 5_000), (3, 10_000), (4, 10_000)]);
        assert_eq!(got, [25, 25, 25, 25]);
    }

    /// With a pace, a window's packets do not all go at its beginning; whoever asks late gets its share all the same.
    #[test]
    fn a_pace_spreads_packets_over_the_window() {
        let mut admission = admission();
        admission.keep_pace(crate::pace::Spare::default());
        let mut window = |number: u64, wants: &[(u64, u64, u64)]| {
            let pace = admission.pace().expect("it keeps one");
            // Half of the time is others'; a packet takes 5 us.
            pace.note(1_000_000, 500_000, 100);
            let asks = wants.iter().map(|(tenant, at, count)| {
                (0..*count).filter(|_| admission.admit(*tenant, number * 1_000_000 + at)).count()
            });
            asks.collect::<Vec<_>>()
        };
        window(1, &[(1, 0, 1_000)]);
        // 90 packets: what is left but for 5 % of the time.
        assert_eq!(window(2, &[(1, 0, 1_000), (1, 500_000, 1_000), (1, 999_999, 1_000)]), [6, 45, 39]);
        window(3, &[(1, 0, 1_000), (2, 0, 1)]);
        let got = window(4, &[(1, 0, 1_000), (1, 900_000, 1_000), (2, 900_000, 1)]);
        assert_eq!(got[2], 1, "{got:?}");
    }

    #[test]
    fn who_comes_anew_is_let_in_beside_a_flood() {
        let mut admission = admission();
        last(&mut admission, 4, &[(1, 10_000)]);
        let now = 3_999_999;
        assert!((0..10).all(|_| admission.admit(9, now)), "its share is free though the flood has used up all else");
    }

    #[test]
    fn a_flood_after_a_pause_leaves_others_theirs() {
        let mut admission = admission();
        last(&mut admission, 4, &[(1, 10_000)]);
        let now = 100_000_000;
        let flood = (0..10_000).filter(|_| admission.admit(1, now)).count();
        assert_eq!((flood, (0..10).filter(|_| admission.admit(2, now)).count()), (100, 10));
    }

    #[test]
    fn tenants_without_number_are_bounded() {
        let mut admission = admission();
        for tenant in 0..3 * super::MAX_TENANTS as u64 {
            admission.admit(tenant, 5);
        }
        assert!(admission.asked.len() <= super::MAX_TENANTS + 1);
        let (refused, others) = admission.refused();
        assert!(refused.count() <= super::MAX_TENANTS && others > 0);
    }
}
