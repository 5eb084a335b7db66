//! Limits of owners (tenants): how many entries each may have. The limits are exact: an owner never has
//! more entries, and is refused only if it had them all at some moment of the call.
#![allow(unsafe_code)]

use crate::ShapeError;
use crate::area::Area;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Counts and limits of owners 1 to `count`. Owner 0 is no owner and has no limit. Memory is used only
/// for owners that have had entries.
pub struct Owners {
    count: u32,
    accounts: Area,
}

/// The account of one owner. Zeros are an account without limit.
#[repr(C)]
struct Account {
    entries: AtomicU32,
    /// The limit, inverted.
    inverted_limit: AtomicU32,
    high_water: AtomicU32,
    refused: AtomicU32,
}

impl Owners {
    /// Creates the owners, without entries and limits.
    ///
    /// # Errors
    /// The count is beyond the address space.
    pub fn new(count: u32) -> Result<Owners, ShapeError> {
        Ok(Owners { count, accounts: Area::new((count as usize + 1) * size_of::<Account>())? })
    }

    fn account(&self, owner: u32) -> Option<&Account> {
        // SAFETY: in the area; all parts are atomics, and zeros are valid.
        (owner != 0 && owner <= self.count).then(|| unsafe { &*self.accounts.at(owner as usize * 16).cast() })
    }

    /// Returns whether entries may have this owner.
    pub fn is_valid(&self, owner: u32) -> bool {
        owner <= self.count
    }

    /// Counts an entry. Returns false if the owner has as many as its limit allows.
    pub fn take(&self, owner: u32) -> bool {
        self.take_up_to(owner, self.limit(owner))
    }

    /// Counts an entry. Returns false if the owner has `limit` entries.
    pub fn take_up_to(&self, owner: u32, limit: u32) -> bool {
        let Some(account) = self.account(owner) else { return true };
        match account.entries.fetch_update(AcqRel, Acquire, |n| (n < limit).then_some(n + 1)) {
            Ok(_) => true,
            Err(_) => {
                account.refused.fetch_add(1, Relaxed);
                false
            }
        }
    }

    /// Notes the number of entries after an addition.
    pub fn note_high_water(&self, owner: u32) {
        if let Some(account) = self.account(owner) {
            let entries = account.entries.load(Relaxed);
            if entries > account.high_water.load(Relaxed) {
                account.high_water.fetch_max(entries, Relaxed);
            }
        }
    }

    /// Takes an entry out of the count.
    pub fn give(&self, owner: u32) {
        if let Some(account) = self.account(owner) {
            account.entries.fetch_sub(1, AcqRel);
        }
    }

    /// Sets the limit for [`Owners::take`].
    pub fn set_limit(&self, owner: u32, limit: u32) {
        if let Some(account) = self.account(owner) {
            account.inverted_limit.store(!limit, Relaxed);
        }
    }

    /// Returns the limit; `u32::MAX`: none.
    pub fn limit(&self, owner: u32) -> u32 {
        self.account(owner).map_or(u32::MAX, |it| !it.inverted_limit.load(Relaxed))
    }

    /// Returns the number of entries of an owner.
    pub fn entries(&self, owner: u32) -> u32 {
        self.account(owner).map_or(0, |it| it.entries.load(Acquire))
    }

    /// Returns the largest number of entries of an owner at one time.
    pub fn high_water(&self, owner: u32) -> u32 {
        self.account(owner).map_or(0, |it| it.high_water.load(Relaxed))
    }

    /// Returns how many additions the limit has refused, modulo 2^32.
    pub fn refused(&self, owner: u32) -> u32 {
        self.account(owner).map_or(0, |it| it.refused.load(Relaxed))
    }
}
