//! A packet's first bytes with room behind them, and the words that are read of them.

use super::form::WINDOW;

/// Words of a window that are looked at together.
pub const BLOCK: usize = 4;

/// Room for all words of a window, however they begin.
pub const BLOCKS: usize = WINDOW / 8 / BLOCK + 1;

/// Bytes of a window: a word can be loaded from any place, and a block of words from the place of any word.
pub const ROOM: usize = WINDOW + 8 * BLOCK;

/// A packet's first bytes, as far as somebody looks, zeros behind a shorter one; and room.
pub type Window = [u8; ROOM];

/// Of no packet.
pub const EMPTY: Window = [0; ROOM];

/// With room behind.
pub fn window(bytes: &[u8; WINDOW]) -> Window {
    let mut window = EMPTY;
    window[..WINDOW].copy_from_slice(bytes);
    window
}

/// The 16 bits there.
#[inline]
pub fn word(window: &Window, at: u8) -> u16 {
    u16::from_be_bytes([window[usize::from(at)], window[usize::from(at) + 1]])
}

/// A word that begins with these 16 bits.
#[inline]
pub fn two(bits: u16) -> u64 {
    let [high, low] = bits.to_be_bytes();
    u64::from_ne_bytes([high, low, 0, 0, 0, 0, 0, 0])
}

/// Moves a word's bytes so many places on; those that fall off come in at its beginning.
#[inline]
pub fn moved(word: u64, places: u32) -> u64 {
    if cfg!(target_endian = "little") { word.rotate_left(8 * places) } else { word.rotate_right(8 * places) }
}
