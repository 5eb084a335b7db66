//! First bytes of a packet with padding, and loads from them.

use super::form::WINDOW;

/// Words of a block, which are processed together.
pub const BLOCK: usize = 4;

/// Number of blocks for all words of a window at any block alignment.
pub const BLOCKS: usize = WINDOW / 8 / BLOCK + 1;

/// Bytes of a padded window: a word can be loaded at any offset, and a block at the offset of any
/// word.
pub const ROOM: usize = WINDOW + 8 * BLOCK;

/// First bytes of a packet, padded. Only the bytes within the table's depth are defined; they are 0
/// after the packet's end.
pub type PacketWindow = [u8; ROOM];

/// Window of no packet.
pub const EMPTY: PacketWindow = [0; ROOM];

/// Returns the bytes with padding.
pub fn window(bytes: &[u8; WINDOW]) -> PacketWindow {
    let mut window = EMPTY;
    window[..WINDOW].copy_from_slice(bytes);
    window
}

/// Returns the 16 bits at an offset, as a number.
#[inline]
pub fn word(window: &PacketWindow, at: u8) -> u16 {
    u16::from_be_bytes([window[usize::from(at)], window[usize::from(at) + 1]])
}

/// Returns a word with these 16 bits as its first two bytes in memory, in network order.
#[inline]
pub fn leading_word(bits: u16) -> u64 {
    let [high, low] = bits.to_be_bytes();
    u64::from_ne_bytes([high, low, 0, 0, 0, 0, 0, 0])
}

/// Rotates a word's bytes in memory by `places` towards the end.
#[inline]
pub fn rotate_bytes(word: u64, places: u32) -> u64 {
    if cfg!(target_endian = "little") { word.rotate_left(8 * places) } else { word.rotate_right(8 * places) }
}
