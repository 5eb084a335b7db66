//! The configuration file, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// A node's configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// The number by which controllers call this device. 1 unless given.
    #[serde(default = "one")]
    pub device_id: u64,
    /// Where controllers reach the node.
    #[serde(default)]
    pub p4runtime: Service,
    /// Where tables and pipeline are kept over a restart: a file. Without it, a node begins with nothing.
    pub store: Option<PathBuf>,
    /// What runs programs.
    #[serde(default)]
    pub engine: Engine,
    /// The number of the port by which v1model programs know the controller (PNA programs have one of their own). 510 unless given.
    #[serde(default = "cpu_port")]
    pub cpu_port: u32,
    /// What workers do while no packet comes.
    #[serde(default)]
    pub idle: IdleSetting,
    /// The processors of the workers, one worker each. Without it there is one worker, wherever the system puts it.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// The ports.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortSetting>,
}

/// Where controllers reach the node, and who may.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Addresses with ports. `127.0.0.1:9559` unless given.
    #[serde(default = "listen")]
    pub listen: Vec<String>,
    /// The server's certificates, its own first: a PEM file. Needed, with the next two, for any address but loopback.
    pub certificate: Option<PathBuf>,
    /// The key of the first certificate: a PEM file that only this user may read.
    pub key: Option<PathBuf>,
    /// Certificates that clients' are signed with: a PEM file.
    pub client_authority: Option<PathBuf>,
    /// Also clients on this machine have to use TLS.
    #[serde(default)]
    pub tls_on_loopback: bool,
    /// Tokens, by their SHA-256. Without any, each client that can connect has all power.
    #[serde(default, rename = "token")]
    pub tokens: Vec<TokenSetting>,
}

impl Default for Service {
    fn default() -> Service {
        let (certificate, key, client_authority) = (None, None, None);
        Service { listen: listen(), certificate, key, client_authority, tls_on_loopback: false, tokens: Vec::new() }
    }
}

/// A token.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSetting {
    /// The SHA-256 of the token: `printf %s TOKEN | sha256sum`.
    pub sha256: String,
    /// `read-only`, `table-writer` or `pipeline-owner`.
    pub power: String,
}

/// What runs programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Native code for batches of packets.
    #[default]
    Jit,
    /// The reference engine: slow, one packet at a time.
    Interp,
}

/// What workers do while no packet comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleSetting {
    /// They go on asking for a moment, then sleep.
    #[default]
    Sleep,
    /// They go on asking: least latency, a whole processor each.
    Busy,
}

/// A port.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSetting {
    /// The number by which the program knows it.
    pub number: u32,
    /// A network interface, or a DPDK device: a PCI address, or a virtual one such as `net_memif0,role=client,socket=/run/x.sock,socket-abstract=no`.
    pub device: String,
    /// By which means a network interface is a port.
    #[serde(default)]
    pub by: Means,
    /// The network namespace that has the interface.
    pub netns: Option<String>,
}

/// By which means a network interface is a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// DPDK's AF_PACKET driver if there is DPDK, else a raw socket.
    #[default]
    Auto,
    /// DPDK's AF_PACKET driver.
    AfPacket,
    /// DPDK's AF_XDP driver.
    AfXdp,
    /// A raw socket.
    Raw,
}

fn one() -> u64 {
    1
}

fn cpu_port() -> u32 {
    510
}

fn listen() -> Vec<String> {
    vec!["127.0.0.1:9559".to_owned()]
}
