//! Fields at any bit of a byte string, most significant bit first, as words (least significant first).

/// A bit string that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// Length in bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.len = 0;
    }

    /// The bytes; the last one is filled with zeros.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends the low `width` bits of words.
    pub fn push(&mut self, width: u32, words: &[u64]) {
        for bit in (0..width as usize).rev() {
            if self.len.is_multiple_of(8) {
                // Whole bytes at once where they begin at a byte.
                if bit >= 7 && (bit + 1).is_multiple_of(8) {
                    let top = bit / 8;
                    self.bytes.extend((0..=top).rev().map(|byte| byte_of(words, byte)));
                    self.len += bit + 1;
                    return;
                }
                self.bytes.push(0);
            }
            let one = words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
            if let (true, Some(last)) = (one, self.bytes.last_mut()) {
                *last |= 0x80 >> (self.len % 8);
            }
            self.len += 1;
        }
    }
}

fn byte_of(words: &[u64], byte: usize) -> u8 {
    words.get(byte / 8).map_or(0, |word| (word >> (byte % 8 * 8)) as u8)
}

/// Reads `width` bits from bit `at` on into words; bits behind the bytes are 0.
pub fn read(bytes: &[u8], at: usize, width: u32, out: &mut [u64]) {
    out.fill(0);
    let end = at + width as usize;
    // From the least significant bit on, a byte of the source at a time.
    let mut place = 0;
    let mut position = end;
    while position > at {
        let byte = (position - 1) / 8;
        let low = 7 - (position - 1) % 8;
        let count = (8 - low).min(position - at);
        let value = u64::from(bytes.get(byte).copied().unwrap_or(0)) >> low & ((1 << count) - 1);
        let (word, shift) = (place / 64, place % 64);
        if let Some(word) = out.get_mut(word) {
            *word |= value << shift;
        }
        if shift + count > 64
            && let Some(word) = out.get_mut(word + 1)
        {
            *word |= value >> (64 - shift);
        }
        place += count;
        position -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written at any place and of any width is read again, and what is beside it stays.
    #[test]
    fn there_and_back() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let fields: Vec<(u32, Vec<u64>)> = (0..rng.usize(1..8))
                .map(|_| {
                    let width = rng.u32(1..200);
                    let mut words: Vec<u64> = (0..tables::words_for(width)).map(|_| rng.u64(..)).collect();
                    let top = width % 64;
                    if let (Some(last), true) = (words.last_mut(), top != 0) {
                        *last &= (1 << top) - 1;
                    }
                    (width, words)
                })
                .collect();
            let mut bits = Bits::default();
            fields.iter().for_each(|(width, words)| bits.push(*width, words));
            assert_eq!(bits.bytes().len(), bits.len().div_ceil(8));
            let mut at = 0;
            for (width, words) in &fields {
                let mut out = vec![u64::MAX; words.len()];
                read(bits.bytes(), at, *width, &mut out);
                assert_eq!(&out, words, "width {width} at {at}");
                at += *width as usize;
            }
        }
    }
}
