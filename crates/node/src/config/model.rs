//! Data model of the configuration file.

use crate::engine::ChipSizing;
use crate::log::LogSettings;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Default of the port by which the switch's half of a program knows the lower tiers. v1model's
/// ports have nine bits, and the highest numbers are reserved.
pub const LOWER_PORT: u32 = 509;

/// Default key of bridge headers, suitable for tiers within one process and for tests.
pub const TIERS_KEY: u32 = 0x7e55_ace5;

/// Configuration of a node.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// Device id by which controllers address this node. Default: 1.
    #[serde(default = "default_device_id")]
    pub device_id: u64,
    /// P4Runtime server.
    #[serde(default)]
    pub p4runtime: P4RuntimeSetting,
    /// File that keeps tables and pipeline across restarts. Without it, a node starts empty.
    pub store: Option<PathBuf>,
    /// Unix socket on which the node waits for a new process with this configuration to take over
    /// (`terraced --takeover`). Without it, no take-over is possible.
    pub takeover_socket: Option<PathBuf>,
    /// Region file: the node runs the gateway with its entries, and controllers can only read
    /// (docs/reference/region.md). Without it, controllers write the tables.
    pub region: Option<PathBuf>,
    /// With `region`: another gateway program than the built-in one, as written by `terrace
    /// compile`.
    pub program: Option<PathBuf>,
    /// Engine of programs.
    #[serde(default)]
    pub engine: EngineSetting,
    /// Flow cache before the engine. Default: none.
    #[serde(default)]
    pub cache: CacheSetting,
    /// The chip for `engine = "asic"` and for tiers.
    #[serde(default)]
    pub switch: SwitchSetting,
    /// Partitions programs over tiers: the switch's half runs on the switch, and the rest in
    /// software, which is `engine` with `cache`.
    #[serde(default)]
    pub tiers: Option<TiersSetting>,
    /// Number of the port by which v1model programs know the controller (PNA defines its own).
    /// Default: 510.
    #[serde(default = "default_cpu_port")]
    pub cpu_port: u32,
    /// Behaviour of workers while no packet arrives.
    #[serde(default)]
    pub idle: IdleSetting,
    /// Processors of the workers, one worker each. Without it, one worker runs on any processor.
    #[serde(default)]
    pub cores: Vec<usize>,
    /// Control socket for tools on this machine.
    #[serde(default)]
    pub control: ControlSetting,
    /// Values of controllers' strings, for types that programs expose as strings
    /// (docs/reference/p4runtime.md, "Strings").
    #[serde(default, rename = "translation")]
    pub translations: Vec<TranslationSetting>,
    /// Metrics for Prometheus.
    #[serde(default)]
    pub metrics: MetricsSetting,
    /// The log.
    #[serde(default)]
    pub log: LogSettings,
    /// Links of the ports.
    #[serde(default)]
    pub links: LinksSetting,
    /// The ports.
    #[serde(default, rename = "port")]
    pub ports: Vec<PortSetting>,
}

/// Links of the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinksSetting {
    /// Milliseconds for which a link that was down must be up before groups use it again. The time
    /// doubles with each further loss, up to a minute. Default: 1000.
    #[serde(default = "default_hold_up_ms")]
    pub hold_up_ms: u64,
    /// Whether the node refuses to start if the interface of a port is missing. Without it, the port
    /// is opened as soon as there is one.
    #[serde(default)]
    pub strict: bool,
}

impl Default for LinksSetting {
    fn default() -> LinksSetting {
        LinksSetting { hold_up_ms: default_hold_up_ms(), strict: false }
    }
}

fn default_hold_up_ms() -> u64 {
    1000
}

/// P4Runtime server and its access control.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct P4RuntimeSetting {
    /// Listen addresses with ports. Default: `127.0.0.1:9559`.
    #[serde(default = "default_listen")]
    pub listen: Vec<String>,
    /// The server's certificate chain, its own certificate first: a PEM file. Required, with the
    /// next two keys, for addresses other than loopback.
    pub certificate: Option<PathBuf>,
    /// Private key of the first certificate: a PEM file that only this user can read.
    pub key: Option<PathBuf>,
    /// Certificates of the authorities that sign client certificates: a PEM file.
    pub client_authority: Option<PathBuf>,
    /// Whether clients on this machine must use TLS too.
    #[serde(default)]
    pub require_tls_on_loopback: bool,
    /// Tokens, by their SHA-256. Without any, each client that can connect has all permissions.
    #[serde(default, rename = "token")]
    pub tokens: Vec<TokenSetting>,
}

impl Default for P4RuntimeSetting {
    fn default() -> P4RuntimeSetting {
        let (certificate, key, client_authority) = (None, None, None);
        P4RuntimeSetting {
            listen: default_listen(),
            certificate,
            key,
            client_authority,
            require_tls_on_loopback: false,
            tokens: Vec::new(),
        }
    }
}

/// Control socket for tools on this machine (`terrace show`, `terrace trace`).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlSetting {
    /// Unix socket, accessible only to the node's own user. Without it, the node has no control
    /// socket.
    pub socket: Option<PathBuf>,
}

/// Metrics for Prometheus.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricsSetting {
    /// Listen addresses with ports for `GET /metrics`. Default: none. For addresses other than
    /// loopback, clients need certificates as controllers do.
    #[serde(default)]
    pub listen: Vec<String>,
    /// Presentation of the program's indexed counters. Default: 16 elements of each.
    #[serde(default, rename = "counter")]
    pub counters: Vec<CounterSetting>,
}

/// Values of controllers' strings of one type.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TranslationSetting {
    /// URI of the type's `@p4runtime_translation`, or the type's name if the URI is empty.
    pub of: String,
    /// Strings and their values.
    #[serde(default)]
    pub values: BTreeMap<String, u64>,
    /// The strings are the devices of the ports (`eth0`) and `cpu`. Watch ports and ports of
    /// replicas also use these strings.
    #[serde(default)]
    pub ports: bool,
    /// Other strings get a value when they are first written. Without it, they are refused.
    #[serde(default)]
    pub allocate: bool,
}

/// Presentation of one of the program's indexed counters.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterSetting {
    /// Name of the counter, or a suffix of it after a dot.
    pub counter: String,
    /// Label of the index, for example `vpc`.
    #[serde(default = "default_label")]
    pub label: String,
    /// Number of elements with the most traffic that are shown separately; the others are summed.
    /// Default: 16, maximum: 1000.
    #[serde(default = "default_max_series")]
    pub max_series: usize,
}

/// An access token.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenSetting {
    /// SHA-256 of the token: `printf %s TOKEN | sha256sum`.
    pub sha256: String,
    /// `read-only`, `table-writer` or `pipeline-owner`.
    pub permission: String,
}

/// Engine of programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineSetting {
    /// Native code for batches of packets.
    #[default]
    Jit,
    /// The reference engine: slow, one packet at a time.
    Interp,
    /// An emulated switch: a program is placed on a chip (`[switch]`, `--target`) and emulated;
    /// slow, one packet at a time.
    Asic,
}

/// A tier of a partitioned program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// The upper half of a program.
    Switch,
    /// A flow cache (`[cache]`) before the lower half; default kind: `adaptive`.
    Dpu,
    /// The lower half of a program, with all tables: the flow cache's slow path, or `engine` alone
    /// without a DPU in this process.
    Cpu,
}

/// Engine of the upper half of a program.
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

/// Partition of a program over tiers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TiersSetting {
    /// Tiers in this process: `switch`, `dpu`, `cpu`. Default: all. Other tiers are reached through
    /// ports with `tier_link = "lower"` or `"upper"`.
    #[serde(default = "all_tiers")]
    pub local: Vec<Tier>,
    /// Engine of the switch's half: `asic`, `jit` or `interp`. Default: `asic`.
    #[serde(default)]
    pub switch_engine: SwitchEngine,
    /// Tables of which the switch holds only the entries with the most hits, and their maximum
    /// number. A packet that misses them goes to the lower tiers. Of a table to which packets add
    /// entries, the switch holds those in use.
    #[serde(default)]
    pub hot: BTreeMap<String, u64>,
    /// Tables that are not on the switch. Tables that packets write to are not, unless they are hot;
    /// all others that are not hot are completely on the switch.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Secret number in bridge headers, by which they are distinguished from other frames. Must be
    /// equal in all processes of a switch. Default: a number for tests.
    #[serde(default = "default_bridge_key")]
    pub bridge_key: u32,
    /// Port number by which the switch's half knows the lower tiers. No port can have this number.
    /// Default: 509.
    #[serde(default = "default_lower_port")]
    pub lower_port: u32,
    /// With several ports to lower tiers: the meter or register whose index selects the port, so
    /// that flows that share an element reach the same tier. Default: selection by addresses and
    /// ports.
    #[serde(default)]
    pub affinity_object: Option<String>,
    /// Milliseconds without a response after which a tier in another process counts as down.
    /// Default: 350.
    #[serde(default = "default_probe_timeout_ms")]
    pub probe_timeout_ms: u64,
    /// Interval for choosing the hot entries, in milliseconds. Default: 1000.
    #[serde(default = "default_hot_interval_ms")]
    pub hot_interval_ms: u64,
}

impl Default for TiersSetting {
    fn default() -> TiersSetting {
        TiersSetting {
            local: all_tiers(),
            switch_engine: SwitchEngine::default(),
            hot: BTreeMap::new(),
            absent: Vec::new(),
            bridge_key: default_bridge_key(),
            lower_port: default_lower_port(),
            affinity_object: None,
            probe_timeout_ms: default_probe_timeout_ms(),
            hot_interval_ms: default_hot_interval_ms(),
        }
    }
}

fn all_tiers() -> Vec<Tier> {
    vec![Tier::Switch, Tier::Dpu, Tier::Cpu]
}

fn default_bridge_key() -> u32 {
    TIERS_KEY
}

fn default_lower_port() -> u32 {
    LOWER_PORT
}

fn default_probe_timeout_ms() -> u64 {
    350
}

fn default_hot_interval_ms() -> u64 {
    1_000
}

/// Kind of flow cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// No cache.
    #[default]
    None,
    /// Effects of native code on whole flows, cached as rewrites of bytes that need no program.
    /// Requires `jit`.
    Rewrites,
    /// Rewrites in the kernel, attached to the ports. Requires `jit`.
    Xdp,
    /// Model of a SmartNIC's cache: whole traversals, matched on all fields that were read.
    /// Requires `interp`, as the next three kinds.
    Exact,
    /// Whole traversals, matched on the bits that decided.
    Megaflow,
    /// Sub-traversals, in a chain of tables.
    SubTraversal,
    /// Sub-traversals or whole traversals, whichever gains more.
    Adaptive,
}

/// A flow cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSetting {
    /// `none`, `rewrites`, `xdp`, or a model of a SmartNIC's cache: `exact`, `megaflow`,
    /// `sub-traversal`, `adaptive`. Default: `none`.
    #[serde(default)]
    pub kind: CacheKind,
    /// Tables in the chain of `sub-traversal` and `adaptive`, 1 to 8. Default: 4.
    #[schemars(range(min = 1, max = 8))]
    pub tables: Option<usize>,
    /// Maximum entries per table; for `xdp`, up to 4194304. Default: 8000, for `xdp` 16384.
    #[schemars(range(min = 1))]
    pub max_entries: Option<usize>,
    /// Milliseconds without a hit after which entries are removed. Without it, entries stay.
    pub idle_timeout_ms: Option<u64>,
    /// Maximum rate of the slow path in packets per second. Without it, unlimited.
    pub slow_path_max_pps: Option<u64>,
    /// Limits the slow path to the time that cache hits leave, but at least this percentage of a
    /// core's time, 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub slow_path_min_cpu_percent: Option<u8>,
    /// Variable of the program that identifies a packet's tenant (`hdr.vxlan.vni`), for fair shares
    /// of the slow path. Without it, all packets belong to one tenant.
    pub tenant_field: Option<String>,
    /// Attachment at XDP: `native`, in the driver if it supports XDP, or `generic`, after the
    /// driver.
    #[serde(default)]
    pub attach: XdpAttachMode,
    /// Hook of `xdp` in the kernel: `xdp`, `tc`, or `auto`: tc at veth, TAP and virtio interfaces
    /// and where XDP would be generic, XDP elsewhere. TCP with offloads needs tc. Default: `auto`.
    #[serde(default)]
    pub hook: KernelHook,
}

/// Hook of the kernel's flow cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum KernelHook {
    /// tc at veth, TAP and virtio interfaces and where XDP would be generic, XDP elsewhere.
    #[default]
    Auto,
    /// XDP: fastest on network cards; does not see what a kernel left to the hardware.
    Xdp,
    /// tc (Linux 6.6): forwards super-frames and open checksums as they are.
    Tc,
}

/// Attachment of the kernel's flow cache to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum XdpAttachMode {
    /// In the driver, or after it if the driver does not support XDP.
    #[default]
    Native,
    /// After the driver, before the kernel's own network stack.
    Generic,
}

/// The chip that is emulated, and its table sizes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSetting {
    /// A built-in chip (`tofino1`, `tofino2`, `dpu8`), or a target file (docs/reference/plan.md).
    /// Default: `tofino1`.
    #[serde(default = "default_target")]
    pub target: String,
    /// Number of pipes that are folded into one longer pipe: 1, 2 or 4. Without it, the smallest
    /// number that fits the program.
    pub fold: Option<u32>,
    /// Compression of tables: `none`, `auto` for the cheapest combination, or steps as for `terrace
    /// plan --compress`. Default: `none`.
    #[serde(default = "default_compress")]
    pub compress: String,
    /// Sizing file (docs/reference/plan.md) with the capacity of each table.
    pub sizing_file: Option<PathBuf>,
    /// Capacity in entries of tables that the sizing file does not name; the size in the program is
    /// used if it is smaller. Default: 1024.
    #[serde(default = "default_table_entries")]
    pub default_table_entries: u64,
}

impl Default for SwitchSetting {
    fn default() -> SwitchSetting {
        SwitchSetting {
            target: default_target(),
            fold: None,
            compress: default_compress(),
            sizing_file: None,
            default_table_entries: default_table_entries(),
        }
    }
}

/// Behaviour of workers while no packet arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IdleSetting {
    /// Poll for a short time, then sleep.
    #[default]
    Sleep,
    /// Poll continuously: lowest latency, but a whole processor each.
    Poll,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortSetting {
    /// Number by which the program knows the port.
    pub number: u32,
    /// A network interface; a memif, such as `memif:socket=/run/x.sock,role=server`; or a DPDK
    /// device: a PCI address, or a virtual one such as `net_vhost0,iface=/run/x.sock`.
    pub device: String,
    /// Driver of a network interface.
    #[serde(default)]
    pub driver: PortDriver,
    /// Network namespace of the interface.
    pub netns: Option<String>,
    /// With `[tiers]`: the tier that the port is connected to. Without it, the port is a front
    /// port.
    pub tier_link: Option<TierLink>,
}

/// The tier that a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TierLink {
    /// A process with the tiers below the switch.
    Lower,
    /// The process with the switch.
    Upper,
}

/// Driver of a network interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PortDriver {
    /// A raw socket on virtual interfaces and on cards with GRO or LRO. On other cards DPDK's
    /// AF_PACKET driver if DPDK is available, else a raw socket.
    #[default]
    Auto,
    /// DPDK's AF_PACKET driver.
    AfPacket,
    /// DPDK's AF_XDP driver.
    AfXdp,
    /// A raw socket.
    Raw,
}

fn default_target() -> String {
    "tofino1".to_owned()
}

fn default_compress() -> String {
    "none".to_owned()
}

fn default_table_entries() -> u64 {
    ChipSizing::DEFAULT_ENTRIES
}

fn default_label() -> String {
    "index".to_owned()
}

fn default_max_series() -> usize {
    16
}

fn default_device_id() -> u64 {
    1
}

fn default_cpu_port() -> u32 {
    510
}

fn default_listen() -> Vec<String> {
    vec!["127.0.0.1:9559".to_owned()]
}
