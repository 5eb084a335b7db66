//! Parameters of generated programs: sizes, and frequencies of each feature.

use std::ops::Range;

/// Sizes, and frequencies in per cent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Programs for PNA; the others are for v1model.
    pub pna: u8,
    /// Number of header types.
    pub headers: Range<usize>,
    /// Number of parser states.
    pub states: Range<usize>,
    /// Number of tables of a control.
    pub tables: Range<usize>,
    /// Number of actions of a control, in addition to those of its tables.
    pub actions: Range<usize>,
    /// Number of statements of a control's body.
    pub statements: Range<usize>,
    /// Maximum depth of expressions.
    pub depth: u32,
    /// Fields wider than 64 bits, and expressions on such values.
    pub wide: u8,
    /// Signed fields.
    pub signed: u8,
    /// Programs with a header stack.
    pub stacks: u8,
    /// Programs with a union.
    pub unions: u8,
    /// Programs with a varbit field.
    pub varbits: u8,
    /// Headers with a size that is not a multiple of a byte.
    pub ragged: u8,
    /// Statements that use an extern object or function.
    pub externs: u8,
    /// Programs with loops in controls.
    pub loops: u8,
    /// Programs that use random numbers.
    pub random: u8,
    /// Programs that clone, resubmit, recirculate or mirror.
    pub passes: u8,
    /// Programs that send to multicast groups.
    pub multicast: u8,
    /// Tables with an action profile or selector.
    pub profiles: u8,
    /// PNA tables to which the data plane adds entries.
    pub add_on_miss: u8,
    /// Tables with `add_on_miss` that packets which miss apply a second time.
    pub applied_twice: u8,
    /// Parsers that leave headers as they extract them, and deparsers that only emit them all.
    pub plain_packets: bool,
    /// Pairs of entries, and ports of a pool, in tables with `add_on_miss`.
    pub sessions: u8,
    /// Tables with idle timeouts.
    pub idle: u8,
    /// Tables with entries in the program.
    pub entries: u8,
    /// Number of initial entries of a table.
    pub first_entries: Range<usize>,
    /// Number of packets of a case.
    pub packets: usize,
    /// Number of writes between packets.
    pub writes: Range<usize>,
}

impl Default for Config {
    /// Returns frequencies in percent, and sizes, with which most programs use several features.
    fn default() -> Config {
        Config {
            pna: 40,
            headers: 2..6,
            states: 2..8,
            tables: 1..5,
            actions: 1..4,
            statements: 4..14,
            depth: 3,
            wide: 15,
            signed: 12,
            stacks: 35,
            unions: 15,
            varbits: 20,
            ragged: 6,
            externs: 25,
            loops: 30,
            random: 5,
            passes: 25,
            multicast: 15,
            profiles: 12,
            add_on_miss: 25,
            applied_twice: 0,
            plain_packets: false,
            sessions: 0,
            idle: 12,
            entries: 20,
            first_entries: 0..24,
            packets: 400,
            writes: 2..6,
        }
    }
}

impl Config {
    /// Returns the configuration for programs that the JIT mostly runs as native code, without
    /// falling back to the interpreter.
    pub fn plain(self) -> Config {
        Config { varbits: 5, ragged: 0, loops: 3, random: 3, passes: 4, multicast: 4, add_on_miss: 4, idle: 1, ..self }
    }

    /// Returns a configuration with small programs and few packets, for the run within the ordinary
    /// tests.
    pub fn small() -> Config {
        Config {
            headers: 2..5,
            states: 2..6,
            tables: 1..4,
            statements: 3..9,
            packets: 160,
            writes: 2..4,
            first_entries: 0..16,
            ..Config::default()
        }
    }
}
