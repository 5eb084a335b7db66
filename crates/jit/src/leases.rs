//! [`Leases`]: what entries hold of the pools of ports and the quotas of an engine. A record has room for
//! one lease, a number; it can stand for several.

use crate::entry_quotas::EntryQuotas;
use crate::fallback_reason::FallbackReason;
use crate::port_pools::PortPools;
use interp::SessionState;
use ir::Pipeline;
use parking_lot::Mutex;
use slab::Slab;

/// What a packet has taken and no entry holds yet.
#[derive(Clone, Copy, Debug)]
pub struct HeldLease {
    /// Number of the port or share among those of all pools and quotas, from 1 on.
    pub lease: u32,
    /// Time at which it was taken, in nanoseconds.
    pub taken_ns: u64,
    /// Whether a port can be taken again at once, because another worker has added the packet's
    /// session: no entry has its key.
    pub is_fresh: bool,
}

/// The pools and quotas of an engine.
#[derive(Default)]
pub struct Leases {
    /// Pools of ports.
    pub ports: PortPools,
    /// Limits on entries.
    pub quotas: EntryQuotas,
    /// Leases of each entry that holds several. The number of such a group counts on from
    /// `first_group`, and is the lease that the entry has.
    groups: Mutex<Slab<Box<[u32]>>>,
    /// Lease behind those of all ports and shares.
    first_group: u64,
}

impl Leases {
    /// Makes the pools and quotas of a pipeline.
    ///
    /// # Errors
    /// More leases than 32 bits can number.
    pub fn new(pipeline: &Pipeline) -> Result<Leases, FallbackReason> {
        let ports = PortPools::new(pipeline)?;
        let quotas = EntryQuotas::new(pipeline, ports.end_lease())?;
        let first_group = quotas.end_lease();
        Ok(Leases { ports, quotas, groups: Mutex::default(), first_group })
    }

    /// Returns whether there is neither a pool nor a quota.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.quotas.is_empty()
    }

    /// Returns one lease that stands for all that a packet holds; 0: it holds nothing. `None` if the
    /// numbers of groups are used up.
    pub fn join(&self, held: &[HeldLease]) -> Option<u32> {
        match held {
            [] => Some(0),
            [one] => Some(one.lease),
            several => {
                let mut groups = self.groups.lock();
                let slot = groups.vacant_entry();
                let lease = u32::try_from(self.first_group + slot.key() as u64).ok()?;
                slot.insert(several.iter().map(|held| held.lease).collect());
                Some(lease)
            }
        }
    }

    /// Ends the group that a lease is, if it is one. Returns its leases.
    pub fn end_group(&self, lease: u32) -> Option<Box<[u32]>> {
        let index = u64::from(lease).checked_sub(self.first_group)?;
        self.groups.lock().try_remove(index as usize)
    }

    /// Releases what entries held that ended at the time `now_ns`.
    pub fn release(&self, leases: &[u32], now_ns: u64) {
        for lease in leases {
            match self.end_group(*lease) {
                Some(group) => group.iter().for_each(|lease| self.release_one(*lease, now_ns)),
                None => self.release_one(*lease, now_ns),
            }
        }
    }

    fn release_one(&self, lease: u32, now_ns: u64) {
        match self.quotas.share(lease) {
            Some(share) => self.quotas.give_back(share),
            None => self.ports.release(lease, now_ns),
        }
    }

    /// Releases what a packet took that added no entry.
    pub fn release_unused(&self, held: &[HeldLease]) {
        for HeldLease { lease, taken_ns, is_fresh } in held {
            match self.quotas.share(*lease) {
                Some(share) => self.quotas.give_back(share),
                None => self.ports.release_unused(*lease, *taken_ns, *is_fresh),
            }
        }
    }

    /// Returns the ports and shares that a lease stands for, as parts of a session without a twin.
    pub fn describe(&self, lease: u32) -> SessionState {
        let index = u64::from(lease).checked_sub(self.first_group);
        let group = index.and_then(|index| self.groups.lock().get(index as usize).cloned());
        let mut session = SessionState::default();
        for lease in group.as_deref().unwrap_or(&[lease]) {
            session.shares.extend(self.quotas.share(*lease));
            session.ports.extend(self.ports.owned_port(*lease));
        }
        session
    }

    /// Takes the ports and shares of a session, all or none. Returns the lease that stands for them
    /// (0: there are none); `None` if one of them is not to be had. Limits were checked when the
    /// shares were taken.
    pub fn restore(&self, session: &SessionState) -> Option<u32> {
        let ports = session.ports.iter().map(|port| self.ports.restore(port));
        let shares = session.shares.iter().map(|share| self.quotas.take(share.quota, share.owner, u32::MAX));
        let mut held = Vec::new();
        for lease in ports.chain(shares) {
            let Some(lease) = lease else {
                self.release_unused(&held);
                return None;
            };
            held.push(HeldLease { lease, taken_ns: 0, is_fresh: true });
        }
        let joined = self.join(&held);
        if joined.is_none() {
            self.release_unused(&held);
        }
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interp::QuotaShare;
    use ir::{Entity, ExternId, ExternInst, ExternKind};

    /// Returns the leases of a pipeline with a pool and two quotas.
    fn leases() -> Leases {
        let mut pipeline = Pipeline::new("leases", ir::Arch::Pna);
        for kind in [
            ExternKind::EntryQuota { owners: 3 },
            ExternKind::PortPool { addresses: 1, subscribers: 2, spaces: 1, rest_seconds: 0 },
            ExternKind::EntryQuota { owners: 2 },
        ] {
            pipeline.externs.push(ExternInst { preamble: Default::default(), kind, loc: Default::default() });
        }
        Leases::new(&pipeline).expect("leases have numbers")
    }

    fn held(lease: u32) -> HeldLease {
        HeldLease { lease, taken_ns: 0, is_fresh: false }
    }

    #[test]
    fn entries_with_the_same_owner_have_different_groups() {
        let leases = leases();
        let [first, pool, second] = [0, 1, 2].map(ExternId::from_index);
        let share = |quota, owner| held(leases.quotas.take(quota, owner, 9).expect("a share"));
        let (_, port) = leases.ports.take(pool, [0, 1, 1, 1, 0, 0], 0);
        let one = leases.join(&[share(first, 2), share(second, 0)]).expect("a group");
        let other = leases.join(&[share(first, 2), share(second, 1), held(port.expect("a port"))]).expect("a group");
        let alone = leases.join(&[share(first, 2)]).expect("a lease");
        assert!(one != other && one != alone && other != alone);
        let owners = |lease| leases.describe(lease).shares.iter().map(|share| share.owner).collect::<Vec<_>>();
        assert_eq!((owners(one), owners(other), owners(alone)), (vec![2, 0], vec![2, 1], vec![2]));
        assert_eq!(leases.describe(other).ports.len(), 1);
        leases.release(&[other, alone], 0);
        assert_eq!(leases.quotas.usage(first, 2), Some([1, 3]));
        assert_eq!(leases.quotas.usage(second, 1), Some([0, 1]));
        assert_eq!(leases.ports.usage(pool).map(|usage| usage.ports), Some(0));
        leases.release(&[one], 0);
        assert_eq!(leases.quotas.usage(first, 2), Some([0, 3]));
    }

    #[test]
    fn a_session_is_restored_whole_or_not() {
        let leases = leases();
        let [first, _, second] = [0, 1, 2].map(ExternId::from_index);
        let session = |owner| SessionState {
            shares: vec![QuotaShare { quota: first, owner: 1 }, QuotaShare { quota: second, owner }],
            ..SessionState::default()
        };
        let lease = leases.restore(&session(1)).expect("both owners");
        assert_eq!(leases.describe(lease), session(1));
        assert_eq!(leases.restore(&session(2)), None, "the second quota has two owners");
        assert_eq!(leases.quotas.usage(first, 1).map(|usage| usage[0]), Some(1), "nothing is left taken");
    }
}
