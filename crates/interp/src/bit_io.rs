//! Access to fields at any bit of a byte string, most significant bit first.
//!
//! Contents of buffers are followed by [`PAD`] zero bytes, because a field is then read with one
//! wide load.

/// Zero bytes after the contents of a buffer.
pub const PAD: usize = 16;

/// Reads `count` bits (at most 64) at bit `position`. Bits beyond the buffer are 0.
pub fn read_bits(bytes: &[u8], position: usize, count: u32) -> u64 {
    if count == 0 {
        return 0;
    }
    let first_byte = position / 8;
    // 16 bytes hold 64 bits at each bit offset within a byte. The shifts drop the bits around them.
    let window = match bytes.get(first_byte..first_byte + 16) {
        Some(chunk) => u128::from_be_bytes(chunk.try_into().unwrap_or([0; 16])),
        None => {
            let mut chunk = [0; 16];
            let remaining = bytes.get(first_byte..).unwrap_or_default();
            chunk[..remaining.len()].copy_from_slice(remaining);
            u128::from_be_bytes(chunk)
        }
    };
    ((window << (position % 8)) >> (128 - count)) as u64
}

/// Reads `width` bits at bit `position` into words, least significant first. `out` must have enough
/// words.
pub fn read_words(bytes: &[u8], position: usize, width: u32, out: &mut [u64]) {
    let mut left = width;
    for word in out {
        let count = left.min(64);
        left -= count;
        *word = read_bits(bytes, position + left as usize, count);
    }
}

/// Writes the low `count` bits (at most 64) of `value` at bit `position`. These bits must be 0, and
/// the buffer must extend at least 16 bytes beyond the byte of `position`.
pub fn write_bits(bytes: &mut [u8], position: usize, count: u32, value: u64) {
    let from = position / 8;
    let Some(chunk) = bytes.get_mut(from..from + 16) else { return };
    if count == 0 {
        return;
    }
    let value = u128::from(value & (u64::MAX >> (64 - count)));
    let old = u128::from_be_bytes(<[u8; 16]>::try_from(&*chunk).unwrap_or([0; 16]));
    let new = old | value << (128 - count - (position % 8) as u32);
    chunk.copy_from_slice(&new.to_be_bytes());
}

/// Writes the low `width` bits of words at bit `position`.
pub fn write_words(bytes: &mut [u8], position: usize, width: u32, words: &[u64]) {
    let mut left = width;
    for word in words {
        let count = left.min(64);
        left -= count;
        write_bits(bytes, position + left as usize, count, *word);
    }
}

/// Growing bit string: input of a hash or output of a deparser.
#[derive(Clone, Debug, Default)]
pub struct BitBuffer {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitBuffer {
    /// Empties the buffer and keeps its memory.
    pub fn clear(&mut self) {
        let used = self.byte_len();
        self.bytes[..used].fill(0);
        self.bits = 0;
    }
    /// Length in bits.
    pub fn bit_len(&self) -> usize {
        self.bits
    }
    /// Length in bytes, rounded up.
    pub fn byte_len(&self) -> usize {
        self.bits.div_ceil(8)
    }
    /// Returns the bytes; an incomplete last byte is padded with zeros.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.byte_len()]
    }
    /// Appends `bits` zero bits and returns the whole buffer and their position.
    pub fn grow(&mut self, bits: usize) -> (&mut [u8], usize) {
        let position = self.bits;
        self.bits += bits;
        let needed = self.byte_len() + PAD + 1;
        if self.bytes.len() < needed {
            self.bytes.resize(needed.next_power_of_two(), 0);
        }
        (&mut self.bytes, position)
    }
    /// Appends the low `width` bits of words.
    pub fn push_words(&mut self, width: u32, words: &[u64]) {
        let (bytes, position) = self.grow(width as usize);
        write_words(bytes, position, width, words);
    }
    /// Appends whole bytes, after padding the last byte with zeros.
    pub fn push_bytes(&mut self, more: &[u8]) {
        self.bits = self.byte_len() * 8;
        let (bytes, position) = self.grow(more.len() * 8);
        bytes[position / 8..position / 8 + more.len()].copy_from_slice(more);
    }
}
