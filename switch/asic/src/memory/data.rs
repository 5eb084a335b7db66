//! Memory of action data and of state attached to entries.

use crate::demand::{ActionDemand, AttachedKind, AttachedState, TableDemand};
use crate::target::{ChipTarget, StageResources};

/// Split of an entry's action data between action RAM and immediate data next to the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ActionDataFormat {
    /// Bytes of an entry in action RAM.
    pub bytes: u32,
    /// Bits of immediate data.
    pub immediate: u32,
}

/// Returns whether an action has more data than a chip's action RAM can return.
pub(super) fn has_too_wide_action(target: &ChipTarget, table: &TableDemand) -> bool {
    let widest = table.actions.iter().map(|a| a.params.iter().map(|p| u64::from(*p)).sum::<u64>()).max();
    widest.is_some_and(|bits| bits > u64::from(target.formats.max_action_data_bits))
}

/// Returns the slots of action data as (width, used bits), one slot for each destination container.
/// A wide field uses 32-bit containers, and the narrowest sufficient one for its remaining bits.
fn action_data_slots(action: &ActionDemand) -> Vec<(u32, u32)> {
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

/// Returns the bits that data takes in action RAM: a power of two below 128, then whole words
/// (`action_format.cpp`).
fn action_ram_bits(bits: u32) -> u32 {
    if bits < 128 { if bits == 0 { 0 } else { bits.next_power_of_two() } } else { bits.next_multiple_of(128) }
}

/// Returns the possible splits of the actions' data, the first one all in RAM. Each next one halves
/// the part in RAM (or removes a word), as long as the moved part fits next to the key
/// (`action_format.cpp`, next immediate bytes).
pub(super) fn action_data_formats(target: &ChipTarget, table: &TableDemand) -> Vec<ActionDataFormat> {
    let actions: Vec<Vec<(u32, u32)>> =
        table.actions.iter().filter(|a| !a.default_only).map(action_data_slots).collect();
    let slot_bits = |slots: &[(u32, u32)]| slots.iter().map(|s| s.0).sum::<u32>();
    let mut bytes = actions.iter().map(|a| action_ram_bits(slot_bits(a)).div_ceil(8)).max().unwrap_or(0);
    let mut out = vec![ActionDataFormat { bytes, immediate: 0 }];
    while bytes > 0 {
        let target_bytes = if bytes > 16 { bytes - 16 } else { bytes / 2 };
        let mut format = ActionDataFormat::default();
        for slots in &actions {
            let needed = slot_bits(slots).saturating_sub(target_bytes * 8);
            let Some((moved_bits, used_bits)) = min_immediate_bits(slots, needed, target.formats.immediate_bits) else {
                return out;
            };
            format.immediate = format.immediate.max(used_bits);
            format.bytes = format.bytes.max(action_ram_bits(slot_bits(slots) - moved_bits) / 8);
        }
        bytes = format.bytes;
        out.push(format);
    }
    out
}

/// Returns the smallest selection of `slots` (slot bits, used bits) of at least `needed` bits, as
/// (slot bits, used bits). `None` if it exceeds `limit`.
fn min_immediate_bits(slots: &[(u32, u32)], needed: u32, limit: u32) -> Option<(u32, u32)> {
    if needed == 0 {
        return Some((0, 0));
    }
    // A subset-sum table suffices because slots are few and their sums are multiples of 8 up to 32.
    // By sum in bytes: the most unused bits of one slot in a selection with that sum, or `None`.
    let mut max_spare: Vec<Option<u32>> = vec![None; (limit / 8) as usize + 1];
    max_spare[0] = Some(0);
    for (slot, width) in slots {
        let slot_bytes = (slot / 8) as usize;
        for bytes in (slot_bytes..max_spare.len()).rev() {
            if let Some(spare) = max_spare[bytes - slot_bytes] {
                max_spare[bytes] = Some(max_spare[bytes].unwrap_or(0).max(spare.max(slot - width)));
            }
        }
    }
    let needed_bytes = needed.div_ceil(8) as usize;
    let bytes = (needed_bytes..max_spare.len()).find(|bytes| max_spare[*bytes].is_some())?;
    let bits = bytes as u32 * 8;
    Some((bits, bits - max_spare[bytes].unwrap_or(0)))
}

/// Returns the bits that select an entry's action: an index among up to eight, else the
/// instruction's full address (`table_layout.cpp`).
pub(super) fn action_bits(table: &TableDemand) -> u32 {
    match table.actions.iter().filter(|a| !a.default_only).count() {
        0 | 1 => 0,
        n @ 2..=8 => n.next_power_of_two().ilog2(),
        _ => 6,
    }
}

/// Returns the bits of an entry that refer to its state: addresses of at least 10 bits for indirect
/// state, and an enable bit if entries have several actions (`attached_info.cpp`).
pub(super) fn pointer_bits(table: &TableDemand) -> u32 {
    sum_pointer_bits(table, |a| a.size.map_or(0, address_bits))
}

/// Returns [`pointer_bits`] as the compiler first estimates it to choose a packing: direct state
/// also gets an address. Tables with counters therefore get wider rows than their bits require.
pub(super) fn estimated_pointer_bits(table: &TableDemand) -> u32 {
    sum_pointer_bits(table, |a| a.size.map_or(10, address_bits))
}

fn address_bits(size: u64) -> u32 {
    (64 - size.saturating_sub(1).leading_zeros()).max(10)
}

fn sum_pointer_bits(table: &TableDemand, address: impl Fn(&AttachedState) -> u32) -> u32 {
    let enable = u32::from(action_bits(table) > 0);
    table.attached.iter().filter(|a| a.kind != AttachedKind::Idle).map(|a| enable + address(a)).sum()
}

/// Memory that grows with the number of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PerEntryMemory {
    /// Entries per word.
    pub per_word: u32,
    /// Words per entry.
    pub words: u32,
    /// Whether it takes SRAM.
    pub sram: bool,
    /// Whether it takes map RAM, which holds state that the chip reads and writes.
    pub map_ram: bool,
}

impl PerEntryMemory {
    /// Returns the blocks for `entries` entries, without the spare block of state.
    pub fn blocks_for(&self, target: &ChipTarget, entries: u64) -> u32 {
        let per_block = u64::from(target.sram.depth) * u64::from(self.per_word);
        u32::try_from(entries.div_ceil(per_block)).unwrap_or(u32::MAX).saturating_mul(self.words)
    }
}

/// Returns the action RAM for `bytes` bytes per entry (`resource_estimate.cpp`, action data per
/// word).
pub(super) fn action_ram(target: &ChipTarget, bytes: u32) -> Option<PerEntryMemory> {
    let word = target.word_bytes() as u32;
    let beside = |per_word, words| PerEntryMemory { per_word, words, sram: true, map_ram: false };
    match bytes {
        0 => None,
        b if b <= word => Some(beside(word / b.next_power_of_two(), 1)),
        b => Some(beside(1, b.div_ceil(word))),
    }
}

/// Returns the memory of attached state (`resource_estimate.cpp`: counters, registers, meters and
/// idle times per word).
pub(super) fn state_memory(target: &ChipTarget, attached: &AttachedState) -> PerEntryMemory {
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
    PerEntryMemory { per_word, words: 1, sram: attached.kind != AttachedKind::Idle, map_ram: true }
}

/// Returns whether a table has state that cannot be in two stages.
pub(super) fn has_single_stage_state(table: &TableDemand) -> bool {
    table.attached.iter().any(|a| a.size.is_some() && matches!(a.kind, AttachedKind::Register | AttachedKind::Meter))
}

/// Returns the blocks of all state of an allocation with `entries` entries, as (SRAM, map RAM, SRAM
/// of the largest object). Each has a spare block to which one packet's update is written while
/// another packet reads.
pub(super) fn state_blocks(target: &ChipTarget, table: &TableDemand, entries: u64) -> (u32, u32, u32) {
    let (mut sram, mut map_ram, mut largest) = (0u32, 0u32, 0);
    for attached in &table.attached {
        let beside = state_memory(target, attached);
        let blocks = beside.blocks_for(target, attached.size.unwrap_or(entries));
        let blocks = if beside.sram { blocks.saturating_add(1) } else { blocks };
        if beside.sram {
            sram = sram.saturating_add(blocks);
            largest = largest.max(blocks);
        }
        // A meter's colors are stored separately, four per word of map RAM.
        let colours = PerEntryMemory { per_word: 4, words: 1, sram: false, map_ram: true };
        let meter = attached.kind == AttachedKind::Meter;
        let colours = if meter { colours.blocks_for(target, attached.size.unwrap_or(entries)) } else { 0 };
        map_ram = map_ram.saturating_add(blocks).saturating_add(colours);
    }
    (sram, map_ram, largest)
}

/// Returns the resources of actions and state other than blocks: bytes of the action bus, ALUs,
/// instructions.
pub(super) fn stage_units(table: &TableDemand, format: ActionDataFormat) -> StageResources {
    let count = |kinds: &[AttachedKind]| table.attached.iter().filter(|a| kinds.contains(&a.kind)).count() as u32;
    StageResources {
        action_bus: format.bytes + format.immediate.div_ceil(8),
        statistics_alus: count(&[AttachedKind::Counter]),
        meter_alus: count(&[AttachedKind::Meter, AttachedKind::Register]),
        instructions: table.actions.len() as u32,
        ..StageResources::default()
    }
}
