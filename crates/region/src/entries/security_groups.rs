//! Entries for security groups: the policy of each machine, and the rules of policies.
//!
//! A policy is what the groups of a machine permit together. Its number is that of the VPC with a hash
//! of the rules, so it changes with the rules and with nothing else, whatever version of the file came
//! before. A flow notes the policies by which it began; the gateway asks again when they differ.

use super::EntryBuilder;
use super::gateway_tables::{exact, family, number};
use crate::check::ResolvedRegion;
use crate::model::{Vm, Vpc};
use crate::security_groups::{GroupDirection, GroupRule, SecurityGroup};
use crate::spanned::SourcePos;
use crate::values::{Ports, Protocol};
use ipnet::IpNet;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Bits of a policy's number that are a hash. The VNI is above them.
const HASH_BITS: u32 = 40;

/// Idle times of flows by expire time profile, in seconds: the profiles of
/// programs/gateway/groups_track.p4 (RFC 4787, REQ-5; RFC 5508, REQ-2; RFC 5382, REQ-5).
const FLOW_SECONDS: [(u8, u64); 4] = [(4, 300), (5, 60), (6, 240), (7, 7440)];

/// Returns the idle times of flows by expire time profile, in nanoseconds.
pub(super) fn expire_times() -> impl Iterator<Item = (u8, u64)> {
    FLOW_SECONDS.into_iter().map(|(profile, seconds)| (profile, seconds * 1_000_000_000))
}

/// Returns the VNI of the VPC that has a policy.
pub(super) fn vni_of_policy(policy: u64) -> u32 {
    (policy >> HASH_BITS) as u32
}

/// Returns the VPCs whose packets can reach a machine in a security group, by index: those with groups,
/// and those that peerings connect with one.
pub(super) fn vpcs_that_meet_groups(region: &ResolvedRegion) -> BTreeSet<usize> {
    connected_with(region, |vpc| !vpc.security_groups.is_empty())
}

/// Returns the selected VPCs and those that peerings connect with one of them, by index.
pub(super) fn connected_with(region: &ResolvedRegion, is_selected: impl Fn(&Vpc) -> bool) -> BTreeSet<usize> {
    let selected = region.file.vpcs.iter().enumerate().filter(|(_, vpc)| is_selected(vpc));
    let mut open: Vec<usize> = selected.map(|(index, _)| index).collect();
    let mut reached: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(vpc) = open.pop() {
        open.extend(region.peers[vpc].iter().copied().filter(|peer| reached.insert(*peer)));
    }
    reached
}

/// The other side of a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Peer<'a> {
    Any,
    Prefix(IpNet),
    Group(&'a str),
}

/// What a rule permits, without its position. Equal matches of several groups are one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct RuleMatch<'a> {
    is_egress: bool,
    peer: Peer<'a>,
    /// The protocol over IPv4 and over IPv6; `None`: any.
    protocols: Option<[u8; 2]>,
    /// Ports, or ICMP type and code as one number.
    service: [u16; 2],
    /// The only IP version that can match: of an ICMP type.
    version: Option<usize>,
}

impl<'a> RuleMatch<'a> {
    fn of(rule: &'a GroupRule) -> RuleMatch<'a> {
        let protocol = rule.protocol.as_ref().map_or(Protocol::Any, |protocol| protocol.value);
        let Ports { lo, hi } = rule.ports.as_ref().map_or(Ports::ANY, |ports| ports.value);
        let mut service = [lo, hi];
        if let Some(icmp_type) = &rule.icmp_type {
            let codes = rule.icmp_code.as_ref().map_or([0, u8::MAX], |code| [code.value; 2]);
            service = codes.map(|code| u16::from_be_bytes([icmp_type.value, code]));
        }
        RuleMatch {
            is_egress: rule.direction == GroupDirection::Egress,
            peer: match (rule.peer_group(), rule.peer_prefix()) {
                (Some(group), _) => Peer::Group(group),
                (None, Some(prefix)) => Peer::Prefix(prefix.network()),
                (None, None) => Peer::Any,
            },
            protocols: protocol.numbers(),
            service,
            version: rule.icmp_type.as_ref().and(protocol.icmp_types()).map(usize::from),
        }
    }

    fn prefix(&self) -> Option<IpNet> {
        match self.peer {
            Peer::Prefix(prefix) => Some(prefix),
            Peer::Any | Peer::Group(_) => None,
        }
    }

    fn permits_all(&self) -> bool {
        self.peer == Peer::Any && self.protocols.is_none()
    }

    /// Returns whether the rule can match packets over IPv4 (0) or IPv6 (1).
    fn is_about(&self, v6: usize) -> bool {
        let of_peer = self.prefix().is_none_or(|prefix| usize::from(prefix.addr().is_ipv6()) == v6);
        of_peer && self.version.is_none_or(|version| version == v6)
    }
}

/// The rules of one set of groups.
struct Policy<'a> {
    number: u64,
    /// The groups, in order of their names.
    groups: Vec<&'a str>,
    /// The rules, with the position and the group of the first one that has this match.
    rules: BTreeMap<RuleMatch<'a>, (SourcePos, &'a str)>,
}

impl<'a> Policy<'a> {
    /// Returns the policy of these groups, in order of their names, without a number.
    fn of(vpc: &'a Vpc, groups: &[&'a str]) -> Policy<'a> {
        let mut rules = BTreeMap::new();
        let is_in = |group: &&SecurityGroup| groups.binary_search(&&**group.name).is_ok();
        for group in vpc.security_groups.iter().filter(is_in) {
            for rule in &group.rules {
                rules.entry(RuleMatch::of(rule)).or_insert((rule.at, &**group.name));
            }
        }
        Policy { number: 0, groups: groups.to_vec(), rules }
    }

    /// Returns the number without regard to the VPC's other policies. The names of the groups count,
    /// because rules of others name them.
    fn hash(&self, vni: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.groups.hash(&mut hasher);
        for rule in self.rules.keys() {
            rule.hash(&mut hasher);
        }
        u64::from(vni) << HASH_BITS | hasher.finish() >> (64 - HASH_BITS)
    }

    fn permits_all(&self, is_egress: bool) -> bool {
        self.rules.keys().any(|rule| rule.is_egress == is_egress && rule.permits_all())
    }

    /// Returns the rules of a direction that are looked up: none if one permits all.
    fn looked_up(&self, is_egress: bool) -> impl Iterator<Item = (&RuleMatch<'a>, &(SourcePos, &'a str))> {
        let all = self.permits_all(is_egress);
        self.rules.iter().filter(move |(rule, _)| rule.is_egress == is_egress && !all)
    }
}

/// Returns the policies of sets of groups, each in order of the names, by set. Two policies of a VPC never
/// have the same number.
fn policies<'a>(vpc: &'a Vpc, sets: &BTreeSet<Vec<&'a str>>) -> BTreeMap<Vec<&'a str>, Policy<'a>> {
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    let mut policies = BTreeMap::new();
    for set in sets {
        let mut policy = Policy::of(vpc, set);
        let hash_mask = (1 << HASH_BITS) - 1;
        policy.number = policy.hash(vpc.vni.value);
        while !taken.insert(policy.number) {
            policy.number = policy.number & !hash_mask | (policy.number + 1) & hash_mask;
        }
        policies.insert(set.clone(), policy);
    }
    policies
}

/// Returns the numbers of the policies that a rule's other side can have; `None` stands for all.
fn peers_of(rule: &RuleMatch<'_>, policies: &BTreeMap<Vec<&str>, Policy<'_>>) -> Vec<Option<u64>> {
    match rule.peer {
        Peer::Group(name) => policies
            .values()
            .filter(|policy| policy.groups.binary_search(&name).is_ok())
            .map(|policy| Some(policy.number))
            .collect(),
        Peer::Any | Peer::Prefix(_) => vec![None],
    }
}

/// Returns the number of rules in the tables of both IP versions for these sets of groups, at most.
pub(crate) fn policy_rows(vpc: &Vpc, sets: &BTreeSet<Vec<&str>>) -> usize {
    let policies = policies(vpc, sets);
    let rules = policies.values().flat_map(|policy| [true, false].into_iter().flat_map(|out| policy.looked_up(out)));
    rules
        .map(|(rule, _)| peers_of(rule, &policies).len() * [0, 1].iter().filter(|v6| rule.is_about(**v6)).count())
        .sum()
}

/// Returns the groups of a machine, in order of their names.
fn groups_of(vm: &Vm) -> Vec<&str> {
    let mut groups: Vec<&str> = vm.groups.iter().map(|group| &***group).collect();
    groups.sort_unstable();
    groups
}

impl EntryBuilder<'_> {
    /// Adds the policies of machines and their rules.
    pub(super) fn add_security_groups(&mut self) {
        let (region, part) = (self.region, self.part);
        let has_groups = |vpc: usize| part.has_vpc(vpc) && !region.file.vpcs[vpc].security_groups.is_empty();
        if !(0..region.file.vpcs.len()).any(has_groups) {
            return;
        }
        let mut machines: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for machine in region.machines_of(has_groups) {
            if !region.file.vms[machine].groups.is_empty() {
                machines.entry(region.vm_locations[machine].0).or_default().push(machine);
            }
        }
        for (v, machines) in machines {
            let vpc = &region.file.vpcs[v];
            let sets = machines.iter().map(|machine| groups_of(&region.file.vms[*machine])).collect();
            let policies = policies(vpc, &sets);
            for policy in policies.values() {
                self.add_policy_rules(vpc, policy, &policies);
            }
            for machine in machines {
                self.add_member(vpc, machine, &policies);
            }
        }
    }

    fn add_member(&mut self, vpc: &Vpc, machine: usize, policies: &BTreeMap<Vec<&str>, Policy<'_>>) {
        let region = self.region;
        let (vm, lines) = region.file.vms.with_line_shift(machine);
        let Some(policy) = policies.get(&groups_of(vm)) else { return };
        let flags = [policy.permits_all(true), policy.permits_all(false), vpc.keep_established, vpc.tcp_pick_up];
        for address in &vm.addresses {
            for tables in &self.api.members {
                let keys = vec![exact(vpc.vni.value), exact(number(address.value))];
                let flags = flags.map(|flag| BigUint::from(u8::from(flag)));
                let limit = [self.numbers.vpcs[&*vpc.name.value], vpc.flow_limit()].map(BigUint::from);
                let args = std::iter::once(BigUint::from(policy.number)).chain(flags).chain(limit).collect();
                let entry = tables[family(address.value)].entry(keys, 0, args);
                let at = vm.groups.first().map_or(vm.name.at, |group| group.at).shifted(lines);
                let what = format_args!("VM {}: groups {}", vm.name.value, policy.groups.join(", "));
                (self.visitor)(entry, super::EntrySource { at, what });
            }
        }
    }

    fn add_policy_rules(&mut self, vpc: &Vpc, policy: &Policy<'_>, policies: &BTreeMap<Vec<&str>, Policy<'_>>) {
        for (is_egress, tables) in [true, false].into_iter().zip(&self.api.group_rules) {
            // Rules that name two groups are one for a machine that is in both.
            let mut seen = BTreeSet::new();
            for (rule, (at, group)) in policy.looked_up(is_egress) {
                for v6 in [0, 1].into_iter().filter(|v6| rule.is_about(*v6)) {
                    for peer in peers_of(rule, policies) {
                        if !seen.insert((v6, peer, rule.prefix(), rule.protocols.map(|of| of[v6]), rule.service)) {
                            continue;
                        }
                        let keys = rule_keys(policy.number, peer, rule, v6);
                        let entry = tables[v6].entry(keys, 0, vec![]).with_priority(1);
                        let direction = if is_egress { "egress" } else { "ingress" };
                        let what = format_args!("VPC {}: group {group}, {direction}", vpc.name.value);
                        (self.visitor)(entry, super::EntrySource { at: *at, what });
                    }
                }
            }
        }
    }
}

fn rule_keys(policy: u64, peer: Option<u64>, rule: &RuleMatch<'_>, v6: usize) -> Vec<KeyMatch> {
    let ternary = |value: BigUint, mask: BigUint| KeyMatch::Ternary { value, mask };
    let open = || ternary(BigUint::default(), BigUint::default());
    let address = rule.prefix().map(|prefix| ternary(number(prefix.network()), number(prefix.netmask())));
    let protocol = rule.protocols.map(|protocols| BigUint::from(protocols[v6]));
    vec![
        exact(policy),
        peer.map_or_else(open, |peer| ternary(peer.into(), u64::MAX.into())),
        address.unwrap_or_else(open),
        protocol.map_or_else(open, |protocol| ternary(protocol, 0xffu8.into())),
        KeyMatch::Range { lo: rule.service[0].into(), hi: rule.service[1].into() },
    ]
}
