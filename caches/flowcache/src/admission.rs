//! [`SlowPathAdmission`]: shares the slow path between tenants.
//!
//! Time is divided into windows, with a number of slow-path packets each. A tenant that was active
//! in the previous window has an equal share. The unused remainder of the shares is given in order
//! of arrival. So a flooding tenant gets only the packets that others do not use, and a tenant with
//! an occasional new flow is always admitted. Refused packets are counted by tenant.

use crate::pacer::{MinSlowPathShare, SlowPathPacer};
use std::collections::HashMap;

type HashState = foldhash::fast::RandomState;

/// Maximum number of distinguished tenants in a window. All others share one bucket.
pub const MAX_TENANTS: usize = 1 << 16;

/// Budget of the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowPathBudget {
    /// Packets per second, of all tenants together.
    pub packets_per_second: u64,
    /// Length of a window, in nanoseconds.
    pub window_ns: u64,
}

impl SlowPathBudget {
    /// Returns a budget of `packets` per second, in windows of 10 ms.
    pub fn per_second(packets: u64) -> SlowPathBudget {
        SlowPathBudget { packets_per_second: packets, window_ns: 10_000_000 }
    }

    /// Returns the packets of a window, at least one.
    fn packets(&self) -> u64 {
        let product = u128::from(self.packets_per_second) * u128::from(self.window_ns) / 1_000_000_000;
        u64::try_from(product).unwrap_or(u64::MAX).max(1)
    }
}

/// Packets of a tenant in a window: requested and admitted.
#[derive(Clone, Copy, Debug, Default)]
struct TenantUsage {
    requested: u64,
    admitted: u64,
}

/// Admission of packets to the slow path, by tenant.
#[derive(Clone, Debug)]
pub struct SlowPathAdmission {
    budget: SlowPathBudget,
    /// Number of the current window.
    window: u64,
    /// Packets of each tenant in the current window.
    usage: HashMap<u64, TenantUsage, HashState>,
    /// Reserved packets of each tenant.
    share: u64,
    /// Packets outside of the shares: still available, and at the start of the window.
    unreserved: u64,
    unreserved_of_window: u64,
    /// Packets of the current window: the budget, or fewer if the pacer has less time.
    packets: u64,
    pacer: Option<SlowPathPacer>,
    /// Packets admitted in the current window.
    admitted: u64,
    /// Refused packets by tenant, of up to [`MAX_TENANTS`] tenants, and of all others together.
    refused: HashMap<u64, u64, HashState>,
    refused_others: u64,
}

/// Returns how many of `packets` may be used after `elapsed` of a window's length: a sixteenth at
/// once, the others evenly, because a burst would crowd out others at the start of the window.
fn released_by_now(packets: u64, elapsed: u64, window: u64) -> u64 {
    let released = u128::from(packets) * u128::from(elapsed) / u128::from(window.max(1));
    (released as u64 + packets.div_ceil(16)).min(packets)
}

/// Bucket of all tenants beyond [`MAX_TENANTS`].
const OTHERS: u64 = u64::MAX;

impl SlowPathAdmission {
    /// Creates the admission state without any requests.
    pub fn new(budget: SlowPathBudget) -> SlowPathAdmission {
        let packets = budget.packets();
        SlowPathAdmission {
            budget,
            window: 0,
            usage: HashMap::default(),
            share: packets,
            unreserved: 0,
            unreserved_of_window: 0,
            packets,
            pacer: None,
            admitted: 0,
            refused: HashMap::default(),
            refused_others: 0,
        }
    }

    /// Limits the slow path by time in addition to the budget.
    pub fn enable_pacing(&mut self, min_share: MinSlowPathShare) {
        self.pacer = Some(SlowPathPacer::new(min_share));
    }

    /// Returns the pacer, if time is limited.
    pub fn pacer_mut(&mut self) -> Option<&mut SlowPathPacer> {
        self.pacer.as_mut()
    }

    /// Returns the packets of the current window.
    pub fn window_packets(&self) -> u64 {
        self.packets
    }

    /// Returns whether a tenant's packet is admitted to the slow path at `now` (ns).
    pub fn admit(&mut self, tenant: u64, now: u64) -> bool {
        let window = now / self.budget.window_ns.max(1);
        if window > self.window {
            self.start_window(window);
        }
        let is_distinguished = self.usage.contains_key(&tenant) || self.usage.len() < MAX_TENANTS;
        let released = |packets: u64| match &self.pacer {
            Some(_) => released_by_now(packets, now % self.budget.window_ns.max(1), self.budget.window_ns),
            None => packets,
        };
        let (share, kept_back) =
            (released(self.share), self.unreserved_of_window - released(self.unreserved_of_window));
        let usage = self.usage.entry(if is_distinguished { tenant } else { OTHERS }).or_default();
        usage.requested += 1;
        // Tenants that were inactive in the previous window add their shares to the planned total,
        // which may at most double.
        let is_below_limit = self.admitted < self.packets.saturating_mul(2);
        let is_within_share = usage.admitted < share;
        let admitted = is_below_limit && (is_within_share || self.unreserved > kept_back);
        usage.admitted += u64::from(admitted);
        if admitted {
            self.admitted += 1;
            self.unreserved -= u64::from(!is_within_share);
        } else {
            self.count_refusal(tenant);
        }
        admitted
    }

    fn count_refusal(&mut self, tenant: u64) {
        match self.refused.len() < MAX_TENANTS || self.refused.contains_key(&tenant) {
            true => *self.refused.entry(tenant).or_default() += 1,
            false => self.refused_others += 1,
        }
    }

    /// Starts a window: divides its packets into equal shares for the tenants that were active in
    /// the previous window. The part of the shares that they probably do not use is unreserved.
    fn start_window(&mut self, window: u64) {
        let windows_passed = window - self.window;
        let paced_packets =
            self.pacer.as_mut().map(|pacer| pacer.next_window_packets(self.budget.window_ns, windows_passed));
        self.packets = self.budget.packets().min(paced_packets.unwrap_or(u64::MAX)).max(1);
        let packets = self.packets;
        // After a pause no tenant counts as active.
        if windows_passed > 1 {
            self.usage.clear();
        }
        self.share = (packets / (self.usage.len() as u64).max(1)).max(1);
        let reserved: u64 = self.usage.values().map(|usage| usage.requested.min(self.share)).sum();
        // Without active tenants the first tenant's share is the whole budget.
        self.unreserved = if self.usage.is_empty() { 0 } else { packets.saturating_sub(reserved) };
        self.unreserved_of_window = self.unreserved;
        self.usage.clear();
        self.admitted = 0;
        self.window = window;
    }

    /// Returns the refused packets by tenant, and of all tenants that are not distinguished.
    pub fn refused(&self) -> (impl Iterator<Item = (u64, u64)> + '_, u64) {
        (self.refused.iter().map(|(tenant, count)| (*tenant, *count)), self.refused_others)
    }

    /// Returns the refused packets of a tenant.
    pub fn refused_of(&self, tenant: u64) -> u64 {
        self.refused.get(&tenant).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{SlowPathAdmission, SlowPathBudget};

    /// Creates admission with windows of 1 ms and 100 packets.
    fn admission() -> SlowPathAdmission {
        SlowPathAdmission::new(SlowPathBudget { packets_per_second: 100_000, window_ns: 1_000_000 })
    }

    /// Sends packets of tenants in turn through `windows`. Returns the admitted packets of each in
    /// the last window.
    fn last(admission: &mut SlowPathAdmission, windows: u64, wants: &[(u64, u64)]) -> Vec<u64> {
        let mut got = vec![0; wants.len()];
        for window in 0..windows {
            got.fill(0);
            let most = wants.iter().map(|(_, want)| *want).max().unwrap_or(0);
            for round in 0..most {
                for (at, (tenant, want)) in wants.iter().enumerate() {
                    // A tenant with fewer packets spreads them over the whole window.
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

    /// With a pacer, the packets of a window spread over it, and a late tenant still gets its
    /// share.
    #[test]
    fn a_pace_spreads_packets_over_the_window() {
        let mut admission = admission();
        admission.enable_pacing(crate::pacer::MinSlowPathShare::default());
        let mut window = |number: u64, wants: &[(u64, u64, u64)]| {
            let pace = admission.pacer_mut().expect("it keeps one");
            // Half of the time is other work; a packet takes 5 us.
            pace.record_time(1_000_000, 500_000, 100);
            let asks = wants.iter().map(|(tenant, at, count)| {
                (0..*count).filter(|_| admission.admit(*tenant, number * 1_000_000 + at)).count()
            });
            asks.collect::<Vec<_>>()
        };
        window(1, &[(1, 0, 1_000)]);
        // 90 packets: the remaining time less the reserve of 5 %.
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
        assert!(admission.usage.len() <= super::MAX_TENANTS + 1);
        let (refused, others) = admission.refused();
        assert!(refused.count() <= super::MAX_TENANTS && others > 0);
    }
}
