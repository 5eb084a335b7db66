//! Answers to questions about a VPC that its keys decide.

use crate::internet::ipv4_network;
use crate::ipv6_internet::{Inbound, InternetSubnet, PrefixTranslation, ipv6_network};
use crate::model::{AclAction, Answer, Vpc};
use crate::services::Service;
use crate::spanned::{SourcePos, WithPos};
use crate::values::Prefix;
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::Ipv4Addr;

/// Entries of each table of flows in programs/gateway/groups_track.p4.
pub(crate) const FLOW_TABLE_SIZE: u32 = 4_194_304;
/// Connections to services for which programs/gateway/nat_session.p4 has room, with an entry for each
/// direction.
pub(crate) const MAX_CONNECTIONS: u32 = 2_097_152;
/// Entries of each table of datagrams in programs/gateway/fragments.p4.
pub(crate) const DATAGRAM_TABLE_SIZE: u32 = 262_144;
/// Most datagrams in fragments of a VPC, without `max_datagrams`.
const DEFAULT_MAX_DATAGRAMS: u32 = DATAGRAM_TABLE_SIZE / 4;
/// Most connections to services of a VPC, without `max_connections`.
const DEFAULT_MAX_CONNECTIONS: u32 = MAX_CONNECTIONS / 4;
/// Most flows of a VPC, without `max_flows`.
const DEFAULT_MAX_FLOWS: u32 = FLOW_TABLE_SIZE / 4;

impl Vpc {
    /// Returns whether the gateway answers these requests.
    pub fn answers(&self, requests: Answer) -> bool {
        self.answer.iter().any(|answer| answer.value == requests)
    }

    /// Returns how many flows of security groups the VPC may have.
    pub(crate) fn flow_limit(&self) -> u32 {
        self.max_flows.map_or(DEFAULT_MAX_FLOWS, |flows| flows.value)
    }

    /// Returns how many connections to services the VPC may have.
    pub(crate) fn connection_limit(&self) -> u32 {
        self.max_connections.map_or(DEFAULT_MAX_CONNECTIONS, |connections| connections.value)
    }

    /// Returns how many datagrams in fragments the VPC may have at one time.
    pub(crate) fn datagram_limit(&self) -> u32 {
        self.max_datagrams.map_or(DEFAULT_MAX_DATAGRAMS, |datagrams| datagrams.value)
    }

    /// Iterates over the subnets of IPv4, with their positions.
    pub(crate) fn ipv4_subnets(&self) -> impl Iterator<Item = (Ipv4Net, SourcePos)> {
        self.subnets.iter().filter_map(|subnet| Some((ipv4_network(subnet.network())?, subnet.at)))
    }

    /// Returns a VPC with the name and VNI of `of` and nothing else.
    pub(crate) fn name_and_vni_only(of: &Vpc) -> Vpc {
        Vpc {
            name: of.name.clone(),
            vni: of.vni,
            subnets: Vec::new(),
            gateways: Vec::new(),
            answer: Vec::new(),
            tcp_mss: None,
            nat: None,
            ipv6_internet: None,
            nat64: None,
            services: Vec::new(),
            routes: Vec::new(),
            route_tables: Vec::new(),
            policy: Vec::new(),
            acl: Vec::new(),
            acl_default: AclAction::default(),
            security_groups: Vec::new(),
            keep_established: false,
            tcp_pick_up: false,
            max_flows: None,
            max_connections: None,
            max_datagrams: None,
            strict_sources: false,
            drop: Vec::new(),
        }
    }

    /// Iterates over the services with an address in the VPC, with the position of that address.
    pub(crate) fn service_addresses(&self) -> impl Iterator<Item = (Ipv4Addr, SourcePos)> {
        self.services.iter().filter_map(|service| Some((service.addresses()[0]?, service.address.as_ref()?.at)))
    }

    /// Iterates over the services with a public address, with the position of that address.
    pub(crate) fn public_services(&self) -> impl Iterator<Item = (&Service, Ipv4Addr, SourcePos)> {
        self.services.iter().filter_map(|service| Some((service, service.addresses()[1]?, service.public.as_ref()?.at)))
    }

    /// Returns whether a service has a public address, a wrong one, too.
    pub(crate) fn has_public_services(&self) -> bool {
        self.services.iter().any(|service| service.public.is_some())
    }

    /// Returns the bits of the extensions that the VPC drops.
    pub fn dropped_extensions(&self) -> u8 {
        self.drop.iter().fold(0, |bits, kind| bits | kind.bit())
    }

    /// Returns whether only answers come in from the Internet over IPv6.
    pub(crate) fn takes_only_answers(&self) -> bool {
        self.ipv6_internet.as_ref().is_some_and(|internet| internet.inbound == Inbound::Answers)
    }

    /// Returns the prefixes that the VPC has on the Internet over IPv6.
    pub fn ipv6_prefixes(&self) -> Vec<Ipv6Net> {
        let own = self.internet_subnets().filter(|subnet| subnet.translation.is_none()).map(|subnet| subnet.network);
        let translated = self.ipv6_internet.iter().flat_map(|internet| &internet.translate);
        own.chain(translated.filter_map(|one| Some(one.networks()?[1]))).collect()
    }

    /// Iterates over the subnets that use the Internet over IPv6.
    pub(crate) fn internet_subnets(&self) -> impl Iterator<Item = InternetSubnet<'_>> {
        let of_internet = self.ipv6_internet.iter().flat_map(|internet| {
            let is_used = |prefix: &WithPos<Prefix>| {
                internet.subnets.as_ref().is_none_or(|used| used.iter().any(|one| one.value == prefix.value))
            };
            self.subnets.iter().filter(move |prefix| is_used(prefix)).map(move |prefix| (internet, prefix))
        });
        of_internet.filter_map(|(internet, prefix)| {
            let network = ipv6_network(prefix.network())?;
            let has = |one: &&PrefixTranslation| one.networks().is_some_and(|[inside, _]| inside.contains(&network));
            Some(InternetSubnet { network, at: prefix.at, translation: internet.translate.iter().find(has) })
        })
    }
}
