//! Description of a chip.
//!
//! A target is a TOML file; the shipped ones are in `switch/asic/targets`. The file has the numbers
//! of the chip. The rules of its compiler, such as the packing of entries into words, are code in
//! [`crate::memory`] that takes its numbers from here.

mod check;
mod load;

pub use load::TargetError;
use serde::{Deserialize, Serialize};

/// Geometry of one type of RAM block in a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockGeometry {
    /// Blocks in a stage (rows times columns).
    pub per_stage: u32,
    /// Rows of blocks in a stage. Blocks that form one wide TCAM word are in neighbouring rows.
    pub rows: u32,
    /// Blocks in a row.
    pub columns: u32,
    /// Words in a block.
    pub depth: u32,
    /// Bits in a word.
    pub width: u32,
}

/// Amount of each resource of a stage, used or free. Units: blocks, ALUs, bytes or bits, as each
/// field documents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StageResources {
    /// SRAM blocks.
    pub sram: u32,
    /// Map RAM blocks (counters, meters, idle times).
    pub map_ram: u32,
    /// TCAM blocks.
    pub tcam: u32,
    /// Logical tables.
    pub tables: u32,
    /// Ternary logical tables.
    pub ternary_tables: u32,
    /// Bits of hash.
    pub hash_bits: u32,
    /// Bytes of the exact match crossbar.
    pub exact_crossbar: u32,
    /// Bytes of the ternary match crossbar.
    pub ternary_crossbar: u32,
    /// Bytes of the action bus.
    pub action_bus: u32,
    /// Gateways.
    pub gateways: u32,
    /// Meter and stateful ALUs.
    pub meter_alus: u32,
    /// Statistics ALUs.
    pub statistics_alus: u32,
    /// Instructions of actions.
    pub instructions: u32,
}

impl StageResources {
    /// Returns the fields with their names, in a fixed order.
    pub fn fields(&self) -> [(&'static str, u32); 13] {
        [
            ("sram", self.sram),
            ("map_ram", self.map_ram),
            ("tcam", self.tcam),
            ("tables", self.tables),
            ("ternary_tables", self.ternary_tables),
            ("hash_bits", self.hash_bits),
            ("exact_crossbar", self.exact_crossbar),
            ("ternary_crossbar", self.ternary_crossbar),
            ("action_bus", self.action_bus),
            ("gateways", self.gateways),
            ("meter_alus", self.meter_alus),
            ("statistics_alus", self.statistics_alus),
            ("instructions", self.instructions),
        ]
    }

    fn zip(self, other: StageResources, f: impl Fn(u32, u32) -> u32) -> StageResources {
        StageResources {
            sram: f(self.sram, other.sram),
            map_ram: f(self.map_ram, other.map_ram),
            tcam: f(self.tcam, other.tcam),
            tables: f(self.tables, other.tables),
            ternary_tables: f(self.ternary_tables, other.ternary_tables),
            hash_bits: f(self.hash_bits, other.hash_bits),
            exact_crossbar: f(self.exact_crossbar, other.exact_crossbar),
            ternary_crossbar: f(self.ternary_crossbar, other.ternary_crossbar),
            action_bus: f(self.action_bus, other.action_bus),
            gateways: f(self.gateways, other.gateways),
            meter_alus: f(self.meter_alus, other.meter_alus),
            statistics_alus: f(self.statistics_alus, other.statistics_alus),
            instructions: f(self.instructions, other.instructions),
        }
    }

    /// Returns the sum of both, resource by resource.
    #[must_use]
    pub fn plus(self, other: StageResources) -> StageResources {
        self.zip(other, u32::saturating_add)
    }

    /// Returns the amount that remains after `other` is taken, at least 0 for each resource.
    #[must_use]
    pub fn minus(self, other: StageResources) -> StageResources {
        self.zip(other, u32::saturating_sub)
    }

    /// Returns the name of the first resource of which `free` has less than `self` needs.
    pub fn first_exceeded(&self, free: &StageResources) -> Option<&'static str> {
        let mut pairs = self.fields().into_iter().zip(free.fields());
        pairs.find(|((_, want), (_, have))| want > have).map(|((name, _), _)| name)
    }

    /// Returns whether no resource exceeds `free`.
    pub fn fits(&self, free: &StageResources) -> bool {
        self.first_exceeded(free).is_none()
    }
}

/// PHV containers of one width.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhvContainers {
    /// Width of a container in bits.
    pub bits: u32,
    /// Containers in a pipe, ingress and egress together.
    pub count: u32,
    /// Whether they are carry-only ("tagalong"): no table can match on them and no action can write
    /// them.
    #[serde(default)]
    pub carry_only: bool,
    /// Size of a group. All containers of a group belong to the same gress (ingress or egress).
    #[serde(default = "one")]
    pub group: u32,
}

fn one() -> u32 {
    1
}

/// Limits of a pipe's parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParserLimits {
    /// Rows of its TCAM, for the cases of all states together.
    pub rows: u32,
    /// Bits that one parser step matches.
    pub match_bits: u32,
    /// Maximum number of bytes that one parser step extracts.
    pub extract_bytes: u32,
    /// Bytes of a packet that the ingress parser can read.
    pub ingress_depth_bytes: u32,
    /// Bytes of a packet that the egress parser can read.
    pub egress_depth_bytes: u32,
}

/// Off-chip memory for tables that exceed the chip's own.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffChipDram {
    /// Bytes that tables can use.
    pub bytes: u64,
    /// Maximum share of a stage's SRAM for the cache of one table, in percent.
    pub cache_percent: u32,
    /// Lookups per second that the memory sustains, all tables together.
    pub lookups_per_second: u64,
    /// Latency of a lookup in nanoseconds.
    pub latency_ns: u32,
}

/// Numbers of the hardware's memory formats.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFormats {
    /// Minimum number of ways of a hash table with several ways.
    pub min_ways: u32,
    /// Maximum width of an entry, in blocks.
    pub max_words: u32,
    /// Version bits of an entry.
    pub version_bits: u32,
    /// Maximum number of entries in a row of words.
    pub max_pack: u32,
    /// Maximum number of entries in one word.
    pub max_per_word: u32,
    /// Maximum number of blocks side by side that hold the entries of a partition, because entries
    /// are ranked along a row of blocks.
    pub max_ranked_blocks: u32,
    /// Rows of blocks from which state reaches its ALU.
    pub state_rows: u32,
    /// Hash bits that select among the blocks of all ways of one hash.
    pub select_bits: u32,
    /// Bits of one hash.
    pub hash_bits: u32,
    /// Maximum width in bits of immediate action data, which is stored in the entry.
    pub immediate_bits: u32,
    /// Maximum number of bits in the overhead part of a word (action data, addresses, instruction,
    /// selection).
    pub overhead_bits: u32,
    /// Maximum width in bits of the action data that an action RAM returns for an entry.
    pub max_action_data_bits: u32,
}

/// Description of a chip.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChipTarget {
    /// Name, such as `tofino1`.
    pub name: String,
    /// Description in a few sentences, with the limits of the model.
    pub description: String,
    /// Stages of a pipe. Ingress and egress share their resources.
    pub stages: u32,
    /// Identical pipes, each with its own tables.
    pub pipes: u32,
    /// Maximum packets per second of a pipe, which is its clock in Hz.
    pub clock_hz: u64,
    /// Ports of the chip, all pipes together.
    pub ports: u32,
    /// Speed of a port in Gbit/s.
    pub port_gbps: u32,
    /// Time of one pass through a pipe, in nanoseconds.
    pub pass_ns: u32,
    /// Power in watts, given by the user.
    #[serde(default)]
    pub power_w: Option<f64>,
    /// Price in the user's currency, given by the user.
    #[serde(default)]
    pub price: Option<f64>,
    /// Resources of a stage.
    pub per_stage: StageResources,
    /// SRAM of a stage.
    pub sram: BlockGeometry,
    /// TCAM of a stage.
    pub tcam: BlockGeometry,
    /// Map RAM of a stage: one word for each word of an SRAM block with counters.
    pub map_ram: BlockGeometry,
    /// PHV containers of a pipe.
    pub phv: Vec<PhvContainers>,
    /// Parser of a pipe.
    pub parser: ParserLimits,
    /// Formats of the memories.
    pub formats: MemoryFormats,
    /// Off-chip memory. `None` for most chips.
    #[serde(default)]
    pub dram: Option<OffChipDram>,
}

impl ChipTarget {
    /// Names of the targets that Terrace ships.
    pub const SHIPPED: [&'static str; 3] = ["tofino1", "tofino2", "dpu8"];

    /// Returns a shipped target by its name.
    pub fn shipped(name: &str) -> Option<ChipTarget> {
        load::load_shipped(name)
    }

    /// Returns the bytes of an SRAM word, which are compared individually.
    pub(crate) fn word_bytes(&self) -> usize {
        (self.sram.width / 8) as usize
    }

    /// Parses a target file. `file` is its name for messages.
    ///
    /// # Errors
    /// [`TargetError`], with line and help: the file is not TOML, lacks a field, has an unknown
    /// field, or contradicts itself.
    pub fn from_toml(text: &str, file: &str) -> Result<ChipTarget, TargetError> {
        load::from_toml(text, file)
    }
}
