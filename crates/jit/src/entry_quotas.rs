//! [`EntryQuotas`]: limits on the entries of owners, of an engine. All workers share them.

use crate::fallback_reason::FallbackReason;
use flowtable::Owners;
use interp::QuotaShare;
use ir::{ExternId, ExternKind, Pipeline};

/// One quota.
struct Quota {
    object: ExternId,
    /// Lease of the share of owner 0; each owner has one lease number for all of its shares.
    first_lease: u32,
    /// Number of owners.
    count: u32,
    /// Their entries. Owner 0 of the program is number 1 here.
    owners: Owners,
}

impl Quota {
    fn new(object: ExternId, first_lease: u32, count: u32) -> Result<Quota, FallbackReason> {
        let owners = Owners::new(count).map_err(|_| FallbackReason::TooLarge)?;
        Ok(Quota { object, first_lease, count, owners })
    }
}

/// The quotas of an engine.
#[derive(Default)]
pub struct EntryQuotas {
    /// By rising first lease.
    quotas: Vec<Quota>,
    /// Lease behind those of all shares.
    end_lease: u64,
}

impl EntryQuotas {
    /// Makes the quotas of a pipeline, with leases from `first_lease` on.
    ///
    /// # Errors
    /// More leases than 32 bits can number.
    pub fn new(pipeline: &Pipeline, mut first_lease: u64) -> Result<EntryQuotas, FallbackReason> {
        let mut quotas = Vec::new();
        for (object, declared) in pipeline.externs.iter() {
            let ExternKind::EntryQuota { owners } = declared.kind else { continue };
            let first = u32::try_from(first_lease).map_err(|_| FallbackReason::TooLarge)?;
            first_lease += u64::from(owners);
            quotas.push(Quota::new(object, first, owners)?);
        }
        if first_lease > 1 << 32 {
            return Err(FallbackReason::TooLarge);
        }
        Ok(EntryQuotas { quotas, end_lease: first_lease })
    }

    /// Returns the lease behind those of all shares.
    pub fn end_lease(&self) -> u64 {
        self.end_lease
    }

    /// Returns whether there is no quota.
    pub fn is_empty(&self) -> bool {
        self.quotas.is_empty()
    }

    /// Returns the quota, if it has this owner.
    fn quota(&self, object: ExternId, owner: u32) -> Option<&Quota> {
        self.quotas.iter().find(|quota| quota.object == object && owner < quota.count)
    }

    /// Executes `EntryQuota.take`. Returns the lease of the share that was taken.
    pub fn take(&self, object: ExternId, owner: u32, max_entries: u32) -> Option<u32> {
        let quota = self.quota(object, owner)?;
        quota.owners.take_up_to(owner + 1, max_entries).then(|| {
            quota.owners.note_high_water(owner + 1);
            quota.first_lease + owner
        })
    }

    /// Returns the share that a lease stands for; `None` for a lease of something else.
    pub fn share(&self, lease: u32) -> Option<QuotaShare> {
        let position = self.quotas.partition_point(|quota| quota.first_lease <= lease).checked_sub(1)?;
        let quota = &self.quotas[position];
        (u64::from(lease) < self.end_lease).then_some(())?;
        Some(QuotaShare { quota: quota.object, owner: lease - quota.first_lease })
    }

    /// Gives a share back.
    pub fn give_back(&self, share: QuotaShare) {
        if let Some(quota) = self.quota(share.quota, share.owner) {
            quota.owners.give(share.owner + 1);
        }
    }

    /// Returns the entries of an owner and their largest number at one time; `None` for another
    /// object, or no such owner.
    pub fn usage(&self, object: ExternId, owner: u32) -> Option<[u32; 2]> {
        let owners = &self.quota(object, owner)?.owners;
        Some([owners.entries(owner + 1), owners.high_water(owner + 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

    fn quotas(owners: u32) -> EntryQuotas {
        let quota = Quota::new(ExternId(3), 100, owners).expect("address space");
        EntryQuotas { quotas: vec![quota], end_lease: 100 + u64::from(owners) }
    }

    #[test]
    fn a_lease_stands_for_its_owner() {
        let quotas = quotas(5);
        let lease = quotas.take(ExternId(3), 4, 1).expect("a share");
        assert_eq!(quotas.share(lease), Some(QuotaShare { quota: ExternId(3), owner: 4 }));
        assert_eq!(quotas.share(99), None, "a lease of something else");
        assert_eq!(quotas.take(ExternId(3), 4, 1), None, "the limit");
        assert_eq!(quotas.take(ExternId(3), 5, 1), None, "no such owner");
        assert_eq!(quotas.take(ExternId(2), 0, 1), None, "no such quota");
        quotas.give_back(quotas.share(lease).expect("a share"));
        assert_eq!(quotas.usage(ExternId(3), 4), Some([0, 1]));
    }

    #[test]
    fn the_limit_is_exact_for_threads() {
        const LIMIT: u32 = 7;
        let (quotas, most, taken) = (quotas(1), AtomicU32::new(0), AtomicU64::new(0));
        let held = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let Some(lease) = quotas.take(ExternId(3), 0, LIMIT) else { continue };
                        most.fetch_max(held.fetch_add(1, SeqCst) + 1, SeqCst);
                        taken.fetch_add(1, Relaxed);
                        held.fetch_sub(1, SeqCst);
                        quotas.give_back(quotas.share(lease).expect("a share"));
                    }
                });
            }
        });
        assert!(most.load(SeqCst) <= LIMIT && taken.load(Relaxed) > 1000);
        assert_eq!(quotas.usage(ExternId(3), 0).map(|usage| usage[0]), Some(0));
    }
}
