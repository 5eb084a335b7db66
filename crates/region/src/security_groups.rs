//! Security groups: stateful rules of machines.

use crate::fields::{NameText, non_null, optional_list};
use crate::spanned::{NumberWithPos, WithPos};
use crate::values::{Ports, Prefix, Protocol};
use schemars::JsonSchema;
use serde::Deserialize;

/// A security group. Its rules restrict the machines that name it: what no rule of their groups
/// permits is dropped. Answers pass.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecurityGroup {
    /// Name, unique in the VPC.
    pub name: WithPos<NameText>,
    /// What is permitted. Default: nothing.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<GroupRule>>>")]
    pub rules: Vec<WithPos<GroupRule>>,
}

/// Direction of the first packet of a flow, seen from the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GroupDirection {
    /// Flows to the machine.
    Ingress,
    /// Flows that the machine begins.
    Egress,
}

/// A rule of a security group: flows that it permits.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupRule {
    /// Direction of the flow.
    pub direction: GroupDirection,
    /// IP protocol; default any.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Protocol>")]
    pub protocol: Option<WithPos<Protocol>>,
    /// With `ingress`: addresses of the other side; default any.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Prefix>")]
    pub from: Option<WithPos<Prefix>>,
    /// With `ingress`: security group of the other side, which is a machine of this VPC.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<NameText>")]
    pub from_group: Option<WithPos<NameText>>,
    /// With `egress`: addresses of the other side; default any.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Prefix>")]
    pub to: Option<WithPos<Prefix>>,
    /// With `egress`: security group of the other side, which is a machine of this VPC.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<NameText>")]
    pub to_group: Option<WithPos<NameText>>,
    /// Destination ports of the first packet; default any. Only with tcp, udp, sctp, udplite or dccp.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Ports>")]
    pub ports: Option<WithPos<Ports>>,
    /// ICMP type; default any. Only with icmp (types of IPv4) or icmpv6.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u8>")]
    pub icmp_type: Option<NumberWithPos<u8>>,
    /// ICMP code; default any. Only with `icmp_type`.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u8>")]
    pub icmp_code: Option<NumberWithPos<u8>>,
}

impl GroupRule {
    /// Returns the addresses of the other side.
    pub fn peer_prefix(&self) -> Option<&WithPos<Prefix>> {
        self.from.as_ref().or(self.to.as_ref())
    }

    /// Returns the security group of the other side.
    pub fn peer_group(&self) -> Option<&WithPos<NameText>> {
        self.from_group.as_ref().or(self.to_group.as_ref())
    }
}
