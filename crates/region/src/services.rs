//! Services: addresses for which the machines of a VPC answer in turn.

use crate::fields::{NameText, non_null, optional_list};
use crate::internet::ForwardProtocol;
use crate::spanned::{NumberWithPos, WithPos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};

/// Number of backends for which a service has slots, without `max_backends`.
const DEFAULT_MAX_BACKENDS: u16 = 8;

/// Numbers of slots, with the number of backends up to which each is used: primes, so large that a
/// change of one backend moves at most its share and a hundredth of the slots (`entries/maglev.rs`).
const SLOT_COUNTS: [(u16, u32); 3] = [(2, 1_009), (DEFAULT_MAX_BACKENDS, 16_411), (MAX_BACKENDS, 65_537)];

/// Maximum number of backends of a service.
pub(crate) const MAX_BACKENDS: u16 = 100;

/// A service: an address and port for which backends answer. Each connection has one of them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name, unique in the VPC.
    pub name: WithPos<NameText>,
    /// Address in the VPC, over IPv4: in one of its subnets, and of no machine. Default: none.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<IpAddr>")]
    pub address: Option<WithPos<IpAddr>>,
    /// Public address, over IPv4. It can be one of a NAT; then the port is below 1024. Default: none, the
    /// Internet does not reach the service.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<IpAddr>")]
    pub public: Option<WithPos<IpAddr>>,
    /// The protocol.
    pub protocol: ForwardProtocol,
    /// The port, of both addresses.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: NumberWithPos<u16>,
    /// Unit that has one backend. Default: a connection.
    #[serde(default)]
    pub affinity: Affinity,
    /// Number of backends that the service may have. It decides about the number of slots, so a change
    /// gives many new connections another backend. Default 8.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u16>")]
    #[schemars(range(min = 1, max = 100))]
    pub max_backends: Option<NumberWithPos<u16>>,
    /// The machines that answer, with their states. Default: none.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Backend>>")]
    pub backends: Vec<Backend>,
}

/// Unit that has one backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// A connection: addresses and ports of both sides.
    #[default]
    Connection,
    /// A client: all connections of its address.
    Client,
}

/// A port of a machine that answers for a service.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// The machine: its address in the VPC.
    pub vm: WithPos<IpAddr>,
    /// Its port. Default: that of the service.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u16>")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<NumberWithPos<u16>>,
    /// Its share of new connections, in proportion to those of the others. Default 1.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u16>")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<NumberWithPos<u16>>,
    /// Which connections it has. Default: `up`.
    #[serde(default)]
    pub state: BackendState,
}

impl Backend {
    /// Returns the share of the backend.
    pub fn weight(&self) -> u16 {
        self.weight.map_or(1, |weight| weight.value)
    }
}

/// Which connections a backend has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// New and old ones.
    #[default]
    Up,
    /// Only old ones, until they end.
    Draining,
    /// None: the packets of its old ones go to other backends.
    Down,
}

impl Service {
    /// Returns the number of backends that the service may have.
    pub fn max_backends(&self) -> u16 {
        self.max_backends.map_or(DEFAULT_MAX_BACKENDS, |most| most.value)
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> u32 {
        let fits = SLOT_COUNTS.iter().find(|(backends, _)| *backends >= self.max_backends());
        fits.unwrap_or(&SLOT_COUNTS[SLOT_COUNTS.len() - 1]).1
    }

    /// Returns the port of a backend, with its position.
    pub fn port_of(&self, backend: &Backend) -> NumberWithPos<u16> {
        backend.port.unwrap_or(self.port)
    }

    /// Returns the address in the VPC, and the public one.
    pub(crate) fn addresses(&self) -> [Option<Ipv4Addr>; 2] {
        [&self.address, &self.public].map(|address| match address.as_ref()?.value {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }

    /// Returns the address that names the service in the gateway's tables.
    pub(crate) fn main_address(&self) -> Ipv4Addr {
        let [own, public] = self.addresses();
        own.or(public).unwrap_or(Ipv4Addr::UNSPECIFIED)
    }
}
