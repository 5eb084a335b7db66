//! The configuration file, as it is written.

use crate::engine::Room;
use crate::log::LogSettings;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The port by which the switch's half of a program knows the tiers below, unless something else is said. v1model's ports have nine bits,
/// and the last ones mean something.
pub const DOWN_PORT: u32 = 509;

/// The key of bridge headers, unless something else is said: good for tiers within one process, and for tests.
pub const TIERS_KEY: u32 = 0x7e55_ace5;

/// A node's configuration.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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
    /// The Unix socket on which the node waits to be taken over by a new process of this configuration (`terraced --takeover`). Without it, it cannot be.
    pub takeover: Option<PathBuf>,
    /// A region file: the node runs the gateway with its entries, and controllers can only read (docs/region.md). Without it, controllers write the tables.
    pub region: Option<PathBuf>,
    /// With `region`: another gateway program than the one that the node brings along, as `terrace compile` writes it.
    pub program: Option<PathBuf>,
    /// What runs programs.
    #[serde(default)]
    pub engine: Engine,
    /// The flow cache in front of it. None unless given.
    #[serde(default)]
    pub cache: CacheSetting,
    /// The chip of `engine = "asic"`, and of tiers.
    #[serde(default)]
    pub switch: SwitchSetting,
    /// With it, programs are divided among tiers: what the switch holds of a program runs there, and the rest in software, which is `engine` with `cache`.
    #[serde(default)]
    pub tiers: Option<TiersSetting>,
    /// The number of the port by which v1model programs know the controller (PNA programs have one of their own). 510 unless given.
    #[serde(default = "cpu_port")]
    pub cpu_port: u32,
    /// What workers do while no packet comes.
    #[serde(default)]
    pub idle: IdleSetting,
    /// The processors of the workers, one worker each. Without it there is one worker, wherever the system puts it.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// How tools on this machine ask the node about itself.
    #[serde(default)]
    pub control: Control,
    /// What strings of controllers stand for, of types that programs let them see as strings (docs/p4runtime.md, "Strings").
    #[serde(default, rename = "translation")]
    pub translations: Vec<TranslationSetting>,
    /// What the node tells Prometheus.
    #[serde(default)]
    pub metrics: MetricsSetting,
    /// What the node says while it runs.
    #[serde(default)]
    pub log: LogSettings,
    /// The ports.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortSetting>,
}

/// Where controllers reach the node, and who may.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
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

/// How tools on this machine (`terrace show`, `terrace trace`) ask the node about itself.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// A Unix socket, which only the node's own user may use. Without it nobody can ask.
    pub socket: Option<PathBuf>,
}

/// What the node tells Prometheus.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsSetting {
    /// Addresses with ports, for `GET /metrics`. None unless given. On any address but loopback, clients need certificates as controllers do.
    #[serde(default)]
    pub listen: Vec<String>,
    /// How indexed counters of the program are shown; 16 elements of each unless said otherwise.
    #[serde(default, rename = "counter")]
    pub counters: Vec<CounterSetting>,
}

/// What strings of controllers stand for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TranslationSetting {
    /// The URI of the type's `@p4runtime_translation`, or its name if the URI is empty.
    pub of: String,
    /// Strings and the values that they stand for.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
    /// The strings are the devices of the ports (`eth0`), and `cpu`; watch ports, and ports of copies, are written so, too.
    #[serde(default)]
    pub ports: bool,
    /// Other strings get a value when they are first written. Without it, they are refused.
    #[serde(default)]
    pub allocate: bool,
}

/// How an indexed counter of the program is shown.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterSetting {
    /// Its name, or the end of it after a dot.
    pub counter: String,
    /// What its index is: `vpc`, for example.
    #[serde(default = "index")]
    pub label: String,
    /// So many elements with most traffic are shown each by itself, the rest together. 16 unless given, 1000 at most.
    #[serde(default = "sixteen")]
    pub top: usize,
}

/// A token.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSetting {
    /// The SHA-256 of the token: `printf %s TOKEN | sha256sum`.
    pub sha256: String,
    /// `read-only`, `table-writer` or `pipeline-owner`.
    pub power: String,
}

/// What runs programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Native code for batches of packets.
    #[default]
    Jit,
    /// The reference engine: slow, one packet at a time.
    Interp,
    /// An emulated switch: a program is placed on a chip (`[switch]`, `--target`), and runs as that would run it; slow, one packet at a time.
    Asic,
}

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The upper half of a program.
    Switch,
    /// A flow cache (`[cache]`) in front of the lower half; `adaptive` unless `kind` says otherwise.
    Dpu,
    /// The lower half of a program, with all tables: what the flow cache's slow path is, or `engine` alone if there is no DPU here.
    Cpu,
}

/// What runs the upper half of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchEngine {
    /// The emulated switch of `[switch]`.
    #[default]
    Asic,
    /// Native code.
    Jit,
    /// The reference engine.
    Interp,
}

/// How a program is divided among tiers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TiersSetting {
    /// The tiers that are in this process: `switch`, `dpu`, `cpu`. All unless given. Those that are not are reached by ports with `leads = "down"` or `"up"`.
    #[serde(default = "all_tiers")]
    pub here: Vec<Tier>,
    /// What runs the switch's half: `asic`, `jit` or `interp`. `asic` unless given.
    #[serde(default)]
    pub switch: SwitchEngine,
    /// Tables of which the switch has the entries that are hit most, with how many it has room for. A packet that finds none of them goes down.
    #[serde(default)]
    pub hot: BTreeMap<String, u64>,
    /// Tables that are not on the switch. Those that packets write to never are; all others that are not hot are there as a whole.
    #[serde(default)]
    pub absent: Vec<String>,
    /// The number that bridge headers have, and frames of others do not: the same in all processes of a switch, and a secret. A number for tests unless given.
    #[serde(default = "tiers_key")]
    pub key: u32,
    /// The number by which the switch's half knows what is below. No port may have it. 509 unless given.
    #[serde(default = "down_port")]
    pub down_port: u32,
    /// With several ports that lead down: the meter or register by whose index flows are spread over them, so that what shares one of its elements goes to one tier. By
    /// addresses and ports unless given.
    #[serde(default)]
    pub spread: Option<String>,
    /// A tier in another process that has not answered for so many milliseconds is not there. 350 unless given.
    #[serde(default = "silence_ms")]
    pub silence_ms: u64,
    /// How often hot entries are chosen anew, in milliseconds. 1000 unless given.
    #[serde(default = "choose_ms")]
    pub choose_ms: u64,
}

impl Default for TiersSetting {
    fn default() -> TiersSetting {
        TiersSetting {
            here: all_tiers(),
            switch: SwitchEngine::default(),
            hot: BTreeMap::new(),
            absent: Vec::new(),
            key: tiers_key(),
            down_port: down_port(),
            spread: None,
            silence_ms: silence_ms(),
            choose_ms: choose_ms(),
        }
    }
}

fn all_tiers() -> Vec<Tier> {
    vec![Tier::Switch, Tier::Dpu, Tier::Cpu]
}

fn tiers_key() -> u32 {
    TIERS_KEY
}

fn down_port() -> u32 {
    DOWN_PORT
}

fn silence_ms() -> u64 {
    350
}

fn choose_ms() -> u64 {
    1_000
}

/// Which flow cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// None.
    #[default]
    None,
    /// What native code did with whole flows, as rewrites of bytes that take no program. In front of `jit`.
    Rewrites,
    /// The same in the kernel, attached to the ports. In front of `jit`.
    Xdp,
    /// The model of a SmartNIC's cache: whole traversals, by all fields that were looked at. In front of `interp`, as the next three.
    Exact,
    /// Whole traversals, by the bits that decided.
    Megaflow,
    /// Pieces of traversals, in a chain of tables.
    SubTraversal,
    /// Pieces or whole traversals, whatever gains more.
    Adaptive,
}

/// A flow cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSetting {
    /// `none`, `rewrites`, `xdp`, or a model of a SmartNIC's: `exact`, `megaflow`, `sub-traversal`, `adaptive`. `none` unless given.
    #[serde(default)]
    pub kind: CacheKind,
    /// Tables of the chain of `sub-traversal` and `adaptive`, 1 to 8. 4 unless given.
    #[schemars(range(min = 1, max = 8))]
    pub tables: Option<usize>,
    /// The most entries in each of them; of `xdp`, up to 4194304. 8000 unless given, 16384 of `xdp`.
    #[schemars(range(min = 1))]
    pub entries: Option<usize>,
    /// Entries that were not hit for so many milliseconds go. Without it they stay.
    pub idle_ms: Option<u64>,
    /// Packets a second for which the slow path has time. Without it, any number.
    pub slow_path_pps: Option<u64>,
    /// With it, the slow path takes no more time than packets that hit leave, and in any case so many percent of a core's time, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub slow_path_least_percent: Option<u8>,
    /// The variable of the program that says whose packet it is (`hdr.vxlan.vni`): tenants share the slow path. Without it all packets are one tenant's.
    pub tenant: Option<String>,
    /// Where `xdp` is attached: `native`, in the driver if that can do it, or `generic`, behind the driver.
    #[serde(default)]
    pub attach: Attach,
}

/// Where the flow cache in the kernel is attached to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// In the driver; behind it if the driver cannot.
    #[default]
    Native,
    /// Behind the driver, before the kernel's own network stack.
    Generic,
}

/// The chip that an emulated switch is, and the room on it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSetting {
    /// One that is shipped (`tofino1`, `tofino2`, `dpu8`), or a target file (docs/plan.md). `tofino1` unless given.
    #[serde(default = "tofino1")]
    pub target: String,
    /// Pipes that are one behind the other: 1, 2 or 4. Without it, the fewest with which a program fits.
    pub fold: Option<u32>,
    /// How tables are made smaller: `none`, `auto` for the cheapest combination, or steps as `terrace plan --compress` takes them. `none` unless given.
    #[serde(default = "none")]
    pub compress: String,
    /// A sizing file (docs/plan.md): how many entries each table has room for.
    pub sizes: Option<PathBuf>,
    /// Entries that tables have room for which the sizing file does not name, or as many as the program says if that is less. 1024 unless given.
    #[serde(default = "room")]
    pub room: u64,
}

impl Default for SwitchSetting {
    fn default() -> SwitchSetting {
        SwitchSetting { target: tofino1(), fold: None, compress: none(), sizes: None, room: room() }
    }
}

/// What workers do while no packet comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleSetting {
    /// They go on asking for a moment, then sleep.
    #[default]
    Sleep,
    /// They go on asking: least latency, a whole processor each.
    Busy,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSetting {
    /// The number by which the program knows it.
    pub number: u32,
    /// A network interface; a memif, such as `memif:socket=/run/x.sock,role=server`; or a DPDK device: a PCI address, or a virtual one such as `net_vhost0,iface=/run/x.sock`.
    pub device: String,
    /// By which means a network interface is a port.
    #[serde(default)]
    pub by: Means,
    /// The network namespace that has the interface.
    pub netns: Option<String>,
    /// With `[tiers]`: to which other tier the port leads. Without it, it is a front port.
    pub leads: Option<Leads>,
}

/// To which tier a port leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Leads {
    /// To a process with the tiers below the switch.
    Down,
    /// To the process with the switch.
    Up,
}

/// By which means a network interface is a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
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

fn tofino1() -> String {
    "tofino1".to_owned()
}

fn none() -> String {
    "none".to_owned()
}

fn room() -> u64 {
    Room::DEFAULT
}

fn index() -> String {
    "index".to_owned()
}

fn sixteen() -> usize {
    16
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
