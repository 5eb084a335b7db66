//! A chip, as data.
//!
//! A target is a TOML file; the shipped ones lie in `switch/asic/targets`. What is a number of the chip stands in the file; what is a rule of
//! its compiler (how entries are packed into words) is code in [`crate::memory`], which takes its numbers from here.

mod check;
mod load;

pub use load::TargetError;
use serde::{Deserialize, Serialize};

/// A kind of RAM blocks that each stage has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Blocks in a stage: rows times columns.
    pub per_stage: u32,
    /// Rows of blocks in a stage. Blocks that make one wide word of a TCAM lie in neighbouring rows.
    pub rows: u32,
    /// Blocks in a row.
    pub columns: u32,
    /// Words in a block.
    pub depth: u32,
    /// Bits in a word.
    pub width: u32,
}

/// How much of each resource of a stage something takes, or is left. Blocks, units, bytes and bits as each field says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
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

impl Usage {
    /// The fields with their names, in a fixed order.
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

    fn zip(self, other: Usage, f: impl Fn(u32, u32) -> u32) -> Usage {
        Usage {
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

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        self.zip(other, u32::saturating_add)
    }

    /// What is left of this when `other` is taken; 0 where there is not enough.
    #[must_use]
    pub fn minus(self, other: Usage) -> Usage {
        self.zip(other, u32::saturating_sub)
    }

    /// The first resource of which `free` has less than this.
    pub fn exceeds(&self, free: &Usage) -> Option<&'static str> {
        let mut pairs = self.fields().into_iter().zip(free.fields());
        pairs.find(|((_, want), (_, have))| want > have).map(|((name, _), _)| name)
    }

    /// Whether this is no more than `free` in each resource.
    pub fn fits(&self, free: &Usage) -> bool {
        self.exceeds(free).is_none()
    }
}

/// Containers of one width that carry what the packet has through the stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Containers {
    /// Width in bits of one.
    pub bits: u32,
    /// How many a pipe has, ingress and egress together.
    pub count: u32,
    /// Whether they only carry: no match, no action ("tagalong").
    #[serde(default)]
    pub carry_only: bool,
    /// How many of them must be of the same direction (ingress or egress).
    #[serde(default = "one")]
    pub group: u32,
}

fn one() -> u32 {
    1
}

/// What a pipe's parser can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParserLimits {
    /// Rows of its TCAM, for all states' cases together.
    pub rows: u32,
    /// Bits that one step matches.
    pub match_bits: u32,
    /// Bytes that one step extracts at most.
    pub extract_bytes: u32,
    /// Bytes of a packet that it can read in ingress.
    pub ingress_depth_bytes: u32,
    /// Bytes of a packet that it can read in egress.
    pub egress_depth_bytes: u32,
}

/// Memory behind the chip, for tables that are too large for it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Bytes that tables may take.
    pub bytes: u64,
    /// What the cache of one table takes of a stage's SRAM at most, in percent.
    pub cache_percent: u32,
    /// Lookups per second that the memory stands, all tables together.
    pub lookups_per_second: u64,
    /// Nanoseconds that a lookup waits.
    pub latency_ns: u32,
}

/// How the chip's memories are used: numbers of the hardware's formats.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Formats {
    /// Ways that a hash table has at least, unless it needs none.
    pub min_ways: u32,
    /// Most blocks that one entry's word is wide.
    pub max_words: u32,
    /// Version bits of an entry.
    pub version_bits: u32,
    /// Most entries in a row of words.
    pub max_pack: u32,
    /// Most entries in one word.
    pub max_per_word: u32,
    /// Most blocks that the entries of a partition lie in side by side: they are ranked along a row of blocks.
    pub max_ranked_blocks: u32,
    /// Rows of blocks over which state reaches its unit.
    pub state_rows: u32,
    /// Bits of hash that choose among the blocks of all ways behind one hash.
    pub select_bits: u32,
    /// Bits of one hash.
    pub hash_bits: u32,
    /// Widest action data in bits that an entry can hold itself.
    pub immediate_bits: u32,
    /// Most bits of overhead (action data, addresses, instruction, selection) in the overhead part of a word.
    pub overhead_bits: u32,
    /// Widest action data in bits that an action RAM gives for an entry.
    pub max_action_data_bits: u32,
}

/// A chip.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Its name: `tofino1`.
    pub name: String,
    /// What it is, in a few sentences, with what is modelled and what is not.
    pub description: String,
    /// Stages of a pipe. Ingress and egress share their resources.
    pub stages: u32,
    /// Pipes, alike, each with its own tables.
    pub pipes: u32,
    /// Packets that a pipe takes in a second at most: its clock in Hz.
    pub clock_hz: u64,
    /// Ports of the chip, all pipes together.
    pub ports: u32,
    /// Speed of a port in Gbit/s.
    pub port_gbps: u32,
    /// Time in nanoseconds that a packet takes through one pass of a pipe.
    pub pass_ns: u32,
    /// Power in watts, as the user gives it.
    #[serde(default)]
    pub power_w: Option<f64>,
    /// Price in the user's currency, as the user gives it.
    #[serde(default)]
    pub price: Option<f64>,
    /// All that a stage has.
    pub per_stage: Usage,
    /// Its SRAM.
    pub sram: Blocks,
    /// Its TCAM.
    pub tcam: Blocks,
    /// Its map RAM: one word for each word of an SRAM block that counts.
    pub map_ram: Blocks,
    /// Containers of a pipe.
    pub phv: Vec<Containers>,
    /// Parser of a pipe.
    pub parser: ParserLimits,
    /// How memories are used.
    pub formats: Formats,
    /// Memory behind the chip; none for most.
    #[serde(default)]
    pub dram: Option<Dram>,
}

impl Target {
    /// Names of the targets that Terrace ships.
    pub const SHIPPED: [&'static str; 3] = ["tofino1", "tofino2", "dpu8"];

    /// A shipped target by its name.
    pub fn shipped(name: &str) -> Option<Target> {
        load::shipped(name)
    }

    /// Bytes in a word of SRAM, which are compared one by one.
    pub(crate) fn word_bytes(&self) -> usize {
        (self.sram.width / 8) as usize
    }

    /// Reads a target file. `file` is its name for messages.
    ///
    /// # Errors
    /// [`TargetError`], with line and mend: the file is not TOML, lacks a field or has one that no target has, or contradicts itself.
    pub fn from_toml(text: &str, file: &str) -> Result<Target, TargetError> {
        load::from_toml(text, file)
    }
}
