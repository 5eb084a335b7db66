//! [`EntryQuotas`]: limits on the entries of owners, of an engine. All workers share them. A limit is
//! exact: an owner never has more entries than it, and is refused only if it had them all at some
//! moment of the call.
#![allow(unsafe_code)]

use crate::fallback_reason::FallbackReason;
use interp::QuotaShare;
use ir::{ExternId, ExternKind, Pipeline};
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Entries of one owner.
struct Account {
    entries: AtomicU32,
    /// Largest number of entries at one time.
    peak: AtomicU32,
}

/// One quota.
struct Quota {
    object: ExternId,
    /// Lease of the share of owner 0; each owner has one lease number for all of its shares.
    first_lease: u32,
    accounts: Box<[Account]>,
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
            // SAFETY: an account consists of atomic integers, of which zeros are valid. So memory is
            // used only for owners that have had entries.
            let accounts = unsafe { Box::<[Account]>::new_zeroed_slice(owners as usize).assume_init() };
            quotas.push(Quota { object, first_lease: first, accounts });
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

    fn quota(&self, object: ExternId) -> Option<&Quota> {
        self.quotas.iter().find(|quota| quota.object == object)
    }

    /// Executes `EntryQuota.take`. Returns the lease of the share that was taken.
    pub fn take(&self, object: ExternId, owner: u32, max_entries: u32) -> Option<u32> {
        let quota = self.quota(object)?;
        let account = quota.accounts.get(owner as usize)?;
        let before = account.entries.fetch_update(AcqRel, Acquire, |n| (n < max_entries).then_some(n + 1)).ok()?;
        if before >= account.peak.load(Relaxed) {
            account.peak.fetch_max(before + 1, Relaxed);
        }
        Some(quota.first_lease + owner)
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
        if let Some(account) = self.quota(share.quota).and_then(|quota| quota.accounts.get(share.owner as usize)) {
            account.entries.fetch_sub(1, AcqRel);
        }
    }

    /// Returns the entries of an owner and their largest number at one time; `None` for another
    /// object, or no such owner.
    pub fn usage(&self, object: ExternId, owner: u32) -> Option<[u32; 2]> {
        let account = self.quota(object)?.accounts.get(owner as usize)?;
        Some([&account.entries, &account.peak].map(|count| count.load(Acquire)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn quotas(owners: u32) -> EntryQuotas {
        let accounts = (0..owners).map(|_| Account { entries: AtomicU32::new(0), peak: AtomicU32::new(0) });
        let quota = Quota { object: ExternId(3), first_lease: 100, accounts: accounts.collect() };
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
