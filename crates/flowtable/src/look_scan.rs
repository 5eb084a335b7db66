//! The comparison of look bytes with the units of a pass.
#![allow(unsafe_code)]

use crate::idle_times::IdleTimes;
use crate::records::Records;
use std::sync::atomic::Ordering::Relaxed;

/// Look bytes that are compared together.
pub(crate) const BLOCK: u32 = 64;

/// The codes of a range of units: bytes from `first` on, modulo 256, without 0.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    first: u8,
    /// Distance of the last code.
    span: u8,
}

impl Codes {
    /// Returns the codes of units `first` to `last`.
    pub fn new(first: u32, last: u32) -> Codes {
        if last.wrapping_sub(first) >= 254 {
            return Codes { first: 0, span: 255 };
        }
        let (first, last) = (IdleTimes::code_of(first), IdleTimes::code_of(last));
        Codes { first, span: last.wrapping_sub(first) }
    }

    /// Returns whether a look byte is in the range; 0 never is.
    #[inline(always)]
    fn contains(self, code: u8) -> bool {
        (code.wrapping_sub(self.first) <= self.span) & (code != 0)
    }
}

/// Collects the records of a block, from a multiple of [`BLOCK`] on, whose turn it is.
#[inline]
pub(crate) fn collect_due(records: &Records, first: u32, codes: &Codes, due: &mut Vec<u32>) {
    let mut turns = turns_of_block(records, first, *codes);
    while turns != 0 {
        let record = first + turns.trailing_zeros();
        if record <= records.capacity {
            due.push(record);
        }
        turns &= turns - 1;
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn turns_of_block(records: &Records, first: u32, codes: Codes) -> u64 {
    use std::arch::x86_64::*;
    let start = std::ptr::from_ref(records.look(first)).cast::<__m128i>();
    let turns = |n: usize| {
        // SAFETY: SSE2 is part of x86-64; 64 bytes from a record on lie in the area. Other threads
        // may write bytes meanwhile: a mixture of old and new bytes is valid, because each is
        // looked at again.
        unsafe {
            let bytes = _mm_load_si128(start.wrapping_add(n));
            let distance = _mm_sub_epi8(bytes, _mm_set1_epi8(codes.first as i8));
            let is_within = _mm_cmpeq_epi8(_mm_min_epu8(distance, _mm_set1_epi8(codes.span as i8)), distance);
            let is_free = _mm_cmpeq_epi8(bytes, _mm_setzero_si128());
            u64::from(_mm_movemask_epi8(_mm_andnot_si128(is_free, is_within)) as u32)
        }
    };
    turns(0) | turns(1) << 16 | turns(2) << 32 | turns(3) << 48
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
fn turns_of_block(records: &Records, first: u32, codes: Codes) -> u64 {
    turns_by_byte(records, first, codes)
}

/// Compares look bytes one by one.
#[cfg_attr(all(target_arch = "x86_64", not(miri)), allow(dead_code))]
fn turns_by_byte(records: &Records, first: u32, codes: Codes) -> u64 {
    let last = records.capacity.min(first + BLOCK - 1);
    let turn = |record: u32| u64::from(codes.contains(records.look(record).load(Relaxed))) << (record - first);
    (first..=last).map(turn).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordLayout, Shape};

    #[test]
    fn looks_compare_alike_by_vector_and_by_byte() {
        let shape = Shape::new(4, 1, 1000);
        let records = Records::new(&shape, RecordLayout::new(&shape), 1000).unwrap();
        (0..=1000u32).for_each(|record| records.look(record).store(record as u8, Relaxed));
        for (first, last) in [(0, 0), (5, 6), (253, 256), (254, 254), (250, 500), (1, 255), (0, 253), (1000, 1001)] {
            let codes = Codes::new(first, last);
            for block in (0..=1000).step_by(BLOCK as usize) {
                let mut due = Vec::new();
                collect_due(&records, block, &codes, &mut due);
                let by_byte = turns_by_byte(&records, block, codes);
                let expected: Vec<u32> = (0..BLOCK).filter(|n| by_byte >> n & 1 != 0).map(|n| block + n).collect();
                assert_eq!(due, expected, "{first} to {last}");
            }
            // Each unit's code is in the range exactly if the unit is, up to 254 units.
            for unit in first..first + 254 {
                let is_in = codes.contains(IdleTimes::code_of(unit));
                assert_eq!(is_in, unit <= last || last - first >= 254, "{unit} of {first} to {last}");
            }
        }
    }
}
