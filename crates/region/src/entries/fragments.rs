//! Entries for fragments: which VPCs track datagrams, and how many each may have.

use super::EntryBuilder;
use super::gateway_tables::exact;
use super::security_groups::connected_with;
use num_bigint::BigUint;

/// Times for which datagrams are noted, by expire time profile, in seconds: the profiles of
/// programs/gateway/fragments.p4, from the first fragment on and from the last one on.
const DATAGRAM_SECONDS: [(u8, u64); 2] = [(8, 30), (9, 2)];

/// Returns the times for which datagrams are noted by expire time profile, in nanoseconds.
pub(super) fn expire_times() -> impl Iterator<Item = (u8, u64)> {
    DATAGRAM_SECONDS.into_iter().map(|(profile, seconds)| (profile, seconds * 1_000_000_000))
}

impl EntryBuilder<'_> {
    /// Adds the limits of datagrams of VPCs that judge or translate packets by their flow: those with
    /// security groups or services, and those that peerings connect with one; those with a NAT or port
    /// forwards; those that take only answers over IPv6; and those with a limit of their own.
    pub(super) fn add_datagram_limits(&mut self) {
        let (region, part) = (self.region, self.part);
        let judged = connected_with(region, |vpc| !vpc.security_groups.is_empty() || !vpc.services.is_empty());
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let is_translated = vpc.nat.is_some() || region.forward_vpcs.contains(&v);
            if is_translated || vpc.takes_only_answers() || vpc.max_datagrams.is_some() || judged.contains(&v) {
                let key = vec![exact(self.numbers.vpcs[&*vpc.name.value])];
                let limit = BigUint::from(vpc.datagram_limit());
                let entry = self.api.internet.datagram_limits.entry(key, 0, vec![limit]);
                let at = vpc.max_datagrams.map_or(vpc.name.at, |limit| limit.at);
                self.add_entry(entry, at, format_args!("VPC {}: datagrams in fragments", vpc.name.value));
            }
        }
    }
}
