//! Longest-prefix match over prefixes of both IP versions, for the checks.

use ipnet::IpNet;
use std::collections::{BTreeSet, HashMap};

/// A map from prefixes without host bits to `T`.
#[derive(Clone, Debug)]
pub(crate) struct PrefixMap<T> {
    items: HashMap<IpNet, T>,
    /// Prefix lengths in use, for IPv4 and IPv6.
    lengths: [BTreeSet<u8>; 2],
}

impl<T> Default for PrefixMap<T> {
    fn default() -> Self {
        PrefixMap { items: HashMap::new(), lengths: Default::default() }
    }
}

impl<T> PrefixMap<T> {
    /// Adds a prefix. If the map has this prefix already, keeps its value and returns it as the
    /// error.
    pub(crate) fn insert(&mut self, prefix: IpNet, value: T) -> Result<(), &T> {
        let prefix = prefix.trunc();
        self.lengths[family(&prefix)].insert(prefix.prefix_len());
        match self.items.entry(prefix) {
            std::collections::hash_map::Entry::Occupied(e) => Err(e.into_mut()),
            std::collections::hash_map::Entry::Vacant(e) => {
                e.insert(value);
                Ok(())
            }
        }
    }

    /// Returns the longest prefix that contains all of `prefix`; this can be `prefix` itself.
    pub(crate) fn covering(&self, prefix: &IpNet) -> Option<(IpNet, &T)> {
        let lengths = &self.lengths[family(prefix)];
        lengths.range(..=prefix.prefix_len()).rev().find_map(|len| {
            let shorter = IpNet::new(prefix.addr(), *len).ok()?.trunc();
            self.items.get(&shorter).map(|value| (shorter, value))
        })
    }
}

fn family(prefix: &IpNet) -> usize {
    usize::from(matches!(prefix, IpNet::V6(_)))
}
