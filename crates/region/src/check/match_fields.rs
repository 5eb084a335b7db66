//! Checks what access rules and rules of security groups have in common: protocol, ports, ICMP.

use crate::model::AclRule;
use crate::problem::ProblemCollector;
use crate::security_groups::GroupRule;
use crate::spanned::{NumberWithPos, WithPos};
use crate::values::{Ports, Prefix, Protocol};

/// What a rule matches besides addresses of both sides.
pub(super) struct MatchFields<'a> {
    protocol: Protocol,
    /// One of the rule's prefixes. They are of one IP version.
    prefix: Option<&'a WithPos<Prefix>>,
    ports: Option<&'a WithPos<Ports>>,
    icmp_type: Option<&'a NumberWithPos<u8>>,
    icmp_code: Option<&'a NumberWithPos<u8>>,
}

impl<'a> MatchFields<'a> {
    pub(super) fn of_acl(rule: &'a AclRule) -> MatchFields<'a> {
        MatchFields {
            protocol: rule.protocol.as_ref().map_or(Protocol::Any, |protocol| protocol.value),
            prefix: rule.from.as_ref().or(rule.to.as_ref()),
            ports: rule.source_ports.as_ref().or(rule.ports.as_ref()),
            icmp_type: rule.icmp_type.as_ref(),
            icmp_code: rule.icmp_code.as_ref(),
        }
    }

    pub(super) fn of_group(rule: &'a GroupRule) -> MatchFields<'a> {
        MatchFields {
            protocol: rule.protocol.as_ref().map_or(Protocol::Any, |protocol| protocol.value),
            prefix: rule.peer_prefix(),
            ports: rule.ports.as_ref(),
            icmp_type: rule.icmp_type.as_ref(),
            icmp_code: rule.icmp_code.as_ref(),
        }
    }

    /// Checks that a rule with ports has a protocol with ports.
    pub(super) fn check_ports(&self, report: &mut ProblemCollector) {
        if let (false, Some(ports)) = (self.protocol.has_ports(), self.ports) {
            report.add(
                ports.at,
                "ports are given, but the protocol has none",
                "add `protocol: tcp`, `udp`, `sctp`, `udplite` or `dccp`, or remove the ports; ICMP has `icmp_type`",
            );
        }
    }

    /// Checks ICMP types and codes. A type belongs to one IP version, because the other one assigns the
    /// same number differently.
    pub(super) fn check_icmp(&self, report: &mut ProblemCollector) {
        if let (Some(code), None) = (self.icmp_code, self.icmp_type) {
            let message = "an ICMP code is given without a type, whose code it would be";
            report.add(code.at, message, "add `icmp_type`, or remove `icmp_code`");
        }
        let Some(icmp_type) = self.icmp_type else { return };
        let Some(v6) = self.protocol.icmp_types() else {
            let message = "an ICMP type is given, but the protocol is not ICMP";
            return report.add(icmp_type.at, message, "add `protocol: icmp` or `icmpv6`, or remove `icmp_type`");
        };
        if self.prefix.is_some_and(|prefix| prefix.0.addr().is_ipv6() != v6) {
            let [own, other] = if v6 { ["icmpv6", "icmp"] } else { ["icmp", "icmpv6"] };
            let message = format!("types of {own} are not those of these addresses: no packet can match");
            report.add(icmp_type.at, message, format!("write `protocol: {other}` and its type, or other addresses"));
        }
    }
}
