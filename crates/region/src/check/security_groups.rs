//! Checks security groups and the machines in them.

use super::match_fields::MatchFields;
use super::vpcs::check_limit;
use super::{NameIndex, names, usable};
use crate::entries::policy_rows;
use crate::model::{RegionFile, Vpc};
use crate::problem::ProblemCollector;
use crate::security_groups::{GroupDirection, GroupRule, SecurityGroup};
use crate::spanned::{SourcePos, WithPos};
use crate::vpc::FLOW_TABLE_SIZE;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Maximum number of security groups of a VPC.
pub(crate) const MAX_GROUPS: usize = 256;
/// Maximum number of rules of a security group.
pub(crate) const MAX_GROUP_RULES: usize = 256;
/// Maximum number of security groups of a machine.
pub(crate) const MAX_VM_GROUPS: usize = 8;
/// Maximum number of rules that the groups of a VPC's machines combine to: a sixteenth of the table.
pub(crate) const MAX_POLICY_ROWS: usize = 1 << 14;

/// Checks all groups, and that machines name groups of their VPC.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile, vpcs: &NameIndex) {
    let groups: Vec<NameIndex> = file.vpcs.iter().map(|vpc| check_groups(report, vpc)).collect();
    for vpc in &file.vpcs {
        let is_tracked = !vpc.security_groups.is_empty() || vpc.takes_only_answers();
        let missing = "security groups: its flows are not tracked";
        let limit = ("max_flows", vpc.max_flows, FLOW_TABLE_SIZE);
        check_limit(report, vpc, limit, (is_tracked, missing, "`security_groups`"));
    }
    // The sets of groups that machines are in, by VPC.
    let mut sets: BTreeMap<usize, BTreeSet<Vec<&str>>> = BTreeMap::new();
    for vm in file.vms.iter().filter(|vm| !vm.groups.is_empty()) {
        // An unknown VPC is reported with the machine.
        let Some(vpc) = vpcs.get(&**vm.vpc) else { continue };
        let mut lines: HashMap<&str, u32> = HashMap::new();
        for group in &vm.groups {
            if let Some(line) = lines.insert(group, group.at.line) {
                let message =
                    format!("VM `{}` is in the group `{}` twice, first in line {line}", vm.name.value, group.value);
                report.add(group.at, message, "name each group once");
            }
            names::resolve(report, "security group", group, &groups[*vpc]);
        }
        if let Some(group) = vm.groups.get(MAX_VM_GROUPS) {
            let message = format!("VM `{}` is in more than {MAX_VM_GROUPS} security groups", vm.name.value);
            report.add(group.at, message, "put rules that belong together into one group");
        }
        let mut set: Vec<&str> = vm.groups.iter().map(|group| &***group).collect();
        set.sort_unstable();
        sets.entry(*vpc).or_default().insert(set);
    }
    for (vpc, sets) in sets {
        check_rows(report, &file.vpcs[vpc], &sets);
    }
}

fn check_rows(report: &mut ProblemCollector, vpc: &Vpc, sets: &BTreeSet<Vec<&str>>) {
    let Some(first) = vpc.security_groups.first() else { return };
    let rows = policy_rows(vpc, sets);
    if rows > MAX_POLICY_ROWS {
        let message = format!(
            "the groups of VPC `{}` are combined in {} ways, with {rows} rules together: {MAX_POLICY_ROWS} are possible",
            vpc.name.value,
            sets.len()
        );
        report.add(first.name.at, message, "use fewer combinations of groups, or shorter groups");
    }
}

/// Checks the groups of a VPC. Returns their names.
fn check_groups<'a>(report: &mut ProblemCollector, vpc: &'a Vpc) -> NameIndex<'a> {
    let groups = &vpc.security_groups;
    let index = names::index_names(report, "security group", groups.iter().map(|group| &group.name));
    if let Some(group) = groups.get(MAX_GROUPS) {
        let message = format!("VPC `{}` has more than {MAX_GROUPS} security groups, up to here", vpc.name.value);
        report.add(group.name.at, message, "split the VPC, or combine groups");
    }
    for group in groups {
        check_rules(report, group, &index);
    }
    index
}

fn check_rules(report: &mut ProblemCollector, group: &SecurityGroup, groups: &NameIndex) {
    if let Some(rule) = group.rules.get(MAX_GROUP_RULES) {
        let message = format!("the group `{}` has more than {MAX_GROUP_RULES} rules, up to here", group.name.value);
        report.add(rule.at, message, "combine rules into larger prefixes or ranges of ports");
    }
    for rule in &group.rules {
        check_other_side(report, rule, groups);
        let matched = MatchFields::of_group(rule);
        matched.check_ports(report);
        check_port_0(report, rule);
        matched.check_icmp(report);
    }
}

/// Checks that a rule names the other side by the keys of its direction, and once.
fn check_other_side(report: &mut ProblemCollector, rule: &GroupRule, groups: &NameIndex) {
    let position = |prefix: &Option<WithPos<_>>, group: &Option<WithPos<_>>| -> Option<SourcePos> {
        prefix
            .as_ref()
            .map(|prefix: &WithPos<crate::values::Prefix>| prefix.at)
            .or(group.as_ref().map(|group: &crate::model::Name| group.at))
    };
    let from = position(&rule.from, &rule.from_group);
    let to = position(&rule.to, &rule.to_group);
    let (wrong, [own, other], direction) = match rule.direction {
        GroupDirection::Ingress => (to, ["from", "to"], "ingress"),
        GroupDirection::Egress => (from, ["to", "from"], "egress"),
    };
    if let Some(at) = wrong {
        let message = format!("a rule with `direction: {direction}` has `{other}`: that side is the machine itself");
        report.add(at, message, format!("write `{own}` or `{own}_group`, or the other direction"));
    }
    if let (Some(prefix), Some(group)) = (rule.peer_prefix(), rule.peer_group()) {
        let message = format!("a rule names the other side twice: {} and the group `{}`", prefix.value, group.value);
        report.add(group.at, message, "write one rule for each");
    }
    if let Some(prefix) = rule.peer_prefix() {
        usable::check_match(report, prefix, "a rule about");
    }
    if let Some(group) = rule.peer_group() {
        names::resolve(report, "security group", group, groups);
    }
}

/// Checks that the ports of a rule are not port 0 alone.
fn check_port_0(report: &mut ProblemCollector, rule: &GroupRule) {
    let has_ports = rule.protocol.as_ref().is_some_and(|protocol| protocol.value.has_ports());
    if let Some(ports) = rule.ports.as_ref().filter(|ports| has_ports && ports.lo == 0 && ports.hi == 0) {
        report.add(ports.at, "port 0 is given, and such packets are dropped", "name the port, or remove `ports`");
    }
}
