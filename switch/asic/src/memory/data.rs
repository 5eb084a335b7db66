//! Action data and what is attached to entries.

use crate::demand::{Action, Attached, AttachedKind, Table};
use crate::target::{Target, Usage};

/// Where an entry's action data is: in blocks of its own, and beside the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct DataFormat {
    /// Bytes of an entry in action RAM.
    pub bytes: u32,
    /// Bits beside the key.
    pub immediate: u32,
}

/// Whether an entry has more action data than a chip's action RAM gives.
pub(super) fn too_wide(target: &Target, table: &Table) -> bool {
    let widest = table.actions.iter().map(|a| a.params.iter().map(|p| u64::from(*p)).sum::<u64>()).max();
    widest.is_some_and(|bits| bits > u64::from(target.formats.max_action_data_bits))
}

/// Slots of action data, (width, bits used): the containers that it is written to. A wide field lies in 32-bit containers, and its rest in the
/// narrowest one that holds it.
fn slots(action: &Action) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    for width in &action.params {
        out.extend(std::iter::repeat_n((32, 32), (width / 32) as usize));
        match width % 32 {
            0 => {}
            rest @ 1..=8 => out.push((8, rest)),
            rest @ 9..=16 => out.push((16, rest)),
            rest => out.push((32, rest)),
        }
    }
    out
}

/// Bits that data takes in action RAM: a power of two below 128, then so many words (`action_format.cpp`).
fn in_ram(bits: u32) -> u32 {
    if bits < 128 { if bits == 0 { 0 } else { bits.next_power_of_two() } } else { bits.next_multiple_of(128) }
}

/// Ways to split the actions' data between action RAM and the entries, the first all in RAM. Each next one halves what is in RAM (or takes a
/// word away), as long as what moves fits beside the key (`action_format.cpp`, next immediate bytes).
pub(super) fn formats(target: &Target, table: &Table) -> Vec<DataFormat> {
    let actions: Vec<Vec<(u32, u32)>> = table.actions.iter().filter(|a| !a.default_only).map(slots).collect();
    let total = |slots: &[(u32, u32)]| slots.iter().map(|s| s.0).sum::<u32>();
    let mut bytes = actions.iter().map(|a| in_ram(total(a)).div_ceil(8)).max().unwrap_or(0);
    let mut out = vec![DataFormat { bytes, immediate: 0 }];
    while bytes > 0 {
        let next = if bytes > 16 { bytes - 16 } else { bytes / 2 };
        let mut format = DataFormat::default();
        for slots in &actions {
            let needed = total(slots).saturating_sub(next * 8);
            let Some((moved, bits)) = move_out(slots, needed, target.formats.immediate_bits) else { return out };
            format.immediate = format.immediate.max(bits);
            format.bytes = format.bytes.max(in_ram(total(slots) - moved) / 8);
        }
        bytes = format.bytes;
        out.push(format);
    }
    out
}

/// The least that can be moved of `slots` so that `needed` bits or more go: (bits of slots, bits that they use). None above `limit`.
fn move_out(slots: &[(u32, u32)], needed: u32, limit: u32) -> Option<(u32, u32)> {
    if needed == 0 {
        return Some((0, 0));
    }
    // Slots are few and their sums are multiples of 8 up to 32.
    let mut reach: Vec<Option<u32>> = vec![None; (limit / 8) as usize + 1];
    reach[0] = Some(0);
    for (slot, width) in slots {
        let step = (slot / 8) as usize;
        for at in (step..reach.len()).rev() {
            if let Some(spare) = reach[at - step] {
                reach[at] = Some(reach[at].unwrap_or(0).max(spare.max(slot - width)));
            }
        }
    }
    let first = needed.div_ceil(8) as usize;
    let at = (first..reach.len()).find(|at| reach[*at].is_some())?;
    let bits = at as u32 * 8;
    Some((bits, bits - reach[at].unwrap_or(0)))
}

/// Bits that say which action an entry has: an index among up to eight, else the instruction's whole address (`table_layout.cpp`).
pub(super) fn action_bits(table: &Table) -> u32 {
    match table.actions.iter().filter(|a| !a.default_only).count() {
        0 | 1 => 0,
        n @ 2..=8 => n.next_power_of_two().ilog2(),
        _ => 6,
    }
}

/// Bits that an entry has for its state: the address of state that is not one for each entry, at least 10 bits, and whether the entry's
/// action uses it at all, a bit, as soon as entries have several actions (`attached_info.cpp`).
pub(super) fn pointer_bits(table: &Table) -> u32 {
    pointers(table, |a| a.size.map_or(0, address_bits))
}

/// As [`pointer_bits`], as the compiler first reckons it to choose a packing: with an address also for state that needs none, because it is one for
/// each entry. So tables with counters get wider rows than their bits ask for.
pub(super) fn reckoned_pointer_bits(table: &Table) -> u32 {
    pointers(table, |a| a.size.map_or(10, address_bits))
}

fn address_bits(size: u64) -> u32 {
    (64 - size.saturating_sub(1).leading_zeros()).max(10)
}

fn pointers(table: &Table, address: impl Fn(&Attached) -> u32) -> u32 {
    let enable = u32::from(action_bits(table) > 0);
    table.attached.iter().filter(|a| a.kind != AttachedKind::Idle).map(|a| enable + address(a)).sum()
}

/// One kind of blocks that grow with the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Beside {
    /// Entries of a word.
    pub per_word: u32,
    /// Words of an entry.
    pub words: u32,
    /// Whether it takes SRAM.
    pub sram: bool,
    /// Whether it takes map RAM: state that the chip reads and writes.
    pub map_ram: bool,
}

impl Beside {
    /// Blocks for so many entries, without the spare one of state.
    pub fn blocks(&self, target: &Target, entries: u64) -> u32 {
        let per_block = u64::from(target.sram.depth) * u64::from(self.per_word);
        u32::try_from(entries.div_ceil(per_block)).unwrap_or(u32::MAX).saturating_mul(self.words)
    }
}

/// Action RAM for so many bytes of an entry (`resource_estimate.cpp`, action data per word).
pub(super) fn action_ram(target: &Target, bytes: u32) -> Option<Beside> {
    let word = target.word_bytes() as u32;
    let beside = |per_word, words| Beside { per_word, words, sram: true, map_ram: false };
    match bytes {
        0 => None,
        b if b <= word => Some(beside(word / b.next_power_of_two(), 1)),
        b => Some(beside(1, b.div_ceil(word))),
    }
}

/// Blocks of attached state (`resource_estimate.cpp`: counters, registers, meters and idle times per word).
pub(super) fn state(target: &Target, attached: &Attached) -> Beside {
    let per_word = match attached.kind {
        AttachedKind::Counter | AttachedKind::Register => {
            target.sram.width / attached.bits.clamp(1, target.sram.width).next_power_of_two()
        }
        AttachedKind::Meter => 1,
        AttachedKind::Idle => match attached.bits {
            0 | 1 => 8,
            2 => 4,
            3 => 2,
            _ => 1,
        },
    };
    Beside { per_word, words: 1, sram: attached.kind != AttachedKind::Idle, map_ram: true }
}

/// Whether a table has state that cannot be in two stages.
pub(super) fn in_one_place(table: &Table) -> bool {
    table.attached.iter().any(|a| a.size.is_some() && matches!(a.kind, AttachedKind::Register | AttachedKind::Meter))
}

/// Blocks of all state of a part with so many entries: (SRAM, map RAM, the largest one's SRAM), each with a spare block that a packet's update
/// is written to while another one reads.
pub(super) fn state_blocks(target: &Target, table: &Table, entries: u64) -> (u32, u32, u32) {
    let (mut sram, mut map_ram, mut largest) = (0u32, 0u32, 0);
    for attached in &table.attached {
        let beside = state(target, attached);
        let blocks = beside.blocks(target, attached.size.unwrap_or(entries));
        let blocks = if beside.sram { blocks.saturating_add(1) } else { blocks };
        if beside.sram {
            sram = sram.saturating_add(blocks);
            largest = largest.max(blocks);
        }
        // A meter's colours are kept apart, four to a word of map RAM.
        let colours = Beside { per_word: 4, words: 1, sram: false, map_ram: true };
        let meter = attached.kind == AttachedKind::Meter;
        let colours = if meter { colours.blocks(target, attached.size.unwrap_or(entries)) } else { 0 };
        map_ram = map_ram.saturating_add(blocks).saturating_add(colours);
    }
    (sram, map_ram, largest)
}

/// What actions and state take beside blocks: bytes of the action bus, ALUs, instructions.
pub(super) fn units(table: &Table, format: DataFormat) -> Usage {
    let count = |kinds: &[AttachedKind]| table.attached.iter().filter(|a| kinds.contains(&a.kind)).count() as u32;
    Usage {
        action_bus: format.bytes + format.immediate.div_ceil(8),
        statistics_alus: count(&[AttachedKind::Counter]),
        meter_alus: count(&[AttachedKind::Meter, AttachedKind::Register]),
        instructions: table.actions.len() as u32,
        ..Usage::default()
    }
}
