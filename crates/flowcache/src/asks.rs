//! [`Asks`]: the bits of a packet's state that a segment asks for, and how their values lie one behind the other in few words.

use crate::effects::Slots;
use interp::walk::{Slot, State};

/// Bits of a slot, and where their value goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bits {
    /// Which slot; from [`Slots::end`] on it stands for a header's validity.
    pub slot: Slot,
    /// Which of its bits.
    pub mask: u64,
    /// Which word of the values.
    pub word: u32,
    /// How far the value is shifted up there.
    pub shift: u32,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Asks {
    /// By slot.
    bits: Box<[Bits]>,
    words: usize,
    /// So many of them are slots; behind them are validities.
    slots: usize,
}

impl Asks {
    /// For these slots, in their order, with the bits of each that are asked for, none of them 0.
    pub fn new(slots: &Slots, masks: &[(Slot, u64)]) -> Asks {
        // Bits left in each word. Wide ones first, so that narrow ones fill what they leave.
        let mut left: Vec<u32> = Vec::new();
        let mut order: Vec<usize> = (0..masks.len()).collect();
        let width = |mask: u64| 64 - mask.leading_zeros();
        order.sort_by_key(|at| std::cmp::Reverse(width(masks[*at].1)));
        let mut bits: Vec<Bits> =
            masks.iter().map(|(slot, mask)| Bits { slot: *slot, mask: *mask, word: 0, shift: 0 }).collect();
        for at in order {
            let width = width(masks[at].1);
            let word = left.iter().position(|left| *left >= width).unwrap_or_else(|| {
                left.push(64);
                left.len() - 1
            });
            (bits[at].word, bits[at].shift) = (word as u32, 64 - left[word]);
            left[word] -= width;
        }
        let fields = bits.iter().filter(|bits| bits.slot < slots.end).count();
        Asks { bits: bits.into(), words: left.len(), slots: fields }
    }

    /// Words of the values.
    pub fn words(&self) -> usize {
        self.words
    }

    /// What is asked for, by slot.
    pub fn bits(&self) -> &[Bits] {
        &self.bits
    }

    /// The place of a slot among [`Asks::bits`].
    pub fn place(&self, slot: Slot) -> Option<usize> {
        self.bits.binary_search_by_key(&slot, |bits| bits.slot).ok()
    }

    /// What the packet has there, into `out`, which has [`Asks::words`] words. The state's first slot is number `from`; slots that it does not have are 0.
    #[inline]
    pub fn gather(&self, slots: &Slots, state: State<'_>, from: Slot, out: &mut [u64]) {
        out.fill(0);
        let (fields, valid) = self.bits.split_at(self.slots);
        for bits in fields {
            let value = state.slots.get((bits.slot - from) as usize).copied().unwrap_or(0);
            out[bits.word as usize] |= (value & bits.mask) << bits.shift;
        }
        for bits in valid {
            out[bits.word as usize] |= u64::from(state.valid[(bits.slot - slots.end) as usize]) << bits.shift;
        }
    }

    /// The values, one for each of [`Asks::bits`], packed.
    pub fn pack(&self, values: impl Iterator<Item = u64>, out: &mut [u64]) {
        out.fill(0);
        for (bits, value) in self.bits.iter().zip(values) {
            out[bits.word as usize] |= (value & bits.mask) << bits.shift;
        }
    }

    /// The value of the bits at a place.
    pub fn value(&self, packed: &[u64], place: usize) -> u64 {
        let bits = self.bits[place];
        packed[bits.word as usize] >> bits.shift & bits.mask
    }
}

#[cfg(test)]
mod tests {
    use super::Asks;
    use crate::effects::Slots;
    use interp::walk::State;

    /// Whatever is asked for comes out as it went in, in as few words as the widths allow.
    #[test]
    fn values_come_out_as_they_went_in() {
        let mut rng = fastrand::Rng::with_seed(11);
        for _ in 0..500 {
            let slots = Slots { first: 3, values: 20, end: 30, headers: 40 };
            let mut masks = Vec::new();
            for slot in 3..30 {
                let mask = rng.u64(..) >> rng.u32(0..64) & rng.u64(..);
                if mask != 0 && rng.bool() {
                    masks.push((slot, mask));
                }
            }
            masks.extend((30..70).filter(|_| rng.bool()).map(|slot| (slot, 1)));
            let asks = Asks::new(&slots, &masks);
            let words: Vec<u64> = (0..30).map(|_| rng.u64(..)).collect();
            let valid: Vec<bool> = (0..40).map(|_| rng.bool()).collect();
            let (mut packed, mut again) = (vec![9; asks.words()], vec![7; asks.words()]);
            asks.gather(&slots, State { slots: &words, valid: &valid }, 0, &mut packed);
            let value = |slot: u32| if slot < 30 { words[slot as usize] } else { u64::from(valid[slot as usize - 30]) };
            for (place, (slot, mask)) in masks.iter().enumerate() {
                assert_eq!(asks.value(&packed, place), value(*slot) & mask);
                assert_eq!(asks.place(*slot), Some(place));
            }
            asks.pack(masks.iter().map(|(slot, _)| value(*slot)), &mut again);
            assert_eq!(packed, again);
            let bits: u32 = masks.iter().map(|(_, mask)| 64 - mask.leading_zeros()).sum();
            assert!(asks.words() as u32 <= 1 + 2 * bits.div_ceil(64));
        }
    }
}
