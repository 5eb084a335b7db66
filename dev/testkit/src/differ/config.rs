//! What made programs are like: sizes, and how often each feature appears.

use std::ops::Range;

/// Sizes, and percentages.
#[derive(Clone, Debug)]
pub struct Config {
    /// Programs for PNA; the others are for v1model.
    pub pna: u8,
    /// Header types.
    pub headers: Range<usize>,
    /// Parser states.
    pub states: Range<usize>,
    /// Tables of a control.
    pub tables: Range<usize>,
    /// Actions of a control, besides those that tables bring along.
    pub actions: Range<usize>,
    /// Statements of a control's body.
    pub statements: Range<usize>,
    /// Depth of expressions.
    pub depth: u32,
    /// Fields wider than 64 bits, and expressions on such values.
    pub wide: u8,
    /// Fields that are signed.
    pub signed: u8,
    /// Programs with a header stack.
    pub stacks: u8,
    /// Programs with a union.
    pub unions: u8,
    /// Programs with a varbit field.
    pub varbits: u8,
    /// Headers that are no whole number of bytes.
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
    /// Tables with idle timeouts.
    pub idle: u8,
    /// Tables with entries in the program.
    pub entries: u8,
    /// Entries that a table gets at first.
    pub first_entries: Range<usize>,
    /// Packets of a case.
    pub packets: usize,
    /// Writes between packets.
    pub writes: Range<usize>,
}

impl Default for Config {
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
            idle: 12,
            entries: 20,
            first_entries: 0..24,
            packets: 400,
            writes: 2..6,
        }
    }
}

impl Config {
    /// Programs that an engine of native code is likely to run itself, rather than to hand them to the interpreter.
    pub fn plain(self) -> Config {
        Config { varbits: 5, ragged: 0, loops: 3, random: 3, passes: 4, multicast: 4, add_on_miss: 4, idle: 1, ..self }
    }

    /// Small programs and few packets: for the run that is part of the ordinary tests.
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
