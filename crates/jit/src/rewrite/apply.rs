//! Function that applies a row to a packet: checks the key and writes the new header.

use super::emit::FlowCodeBuilder;
use super::{CopiedWord, FlowKeySpec, FlowRowLayout, HeaderRewrite, RequiredChecksum, RewriteTarget};
use crate::code::registers::trusted_flags;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;

/// Low half of the result: the row is for other packets. With each other low half, the high half is
/// the row's number.
pub const NOT_APPLIED: u64 = 0;
/// The new header was written in place.
pub const IN_PLACE: u64 = 1;
/// The new header was written to separate memory.
pub const SEPARATE: u64 = 2;
/// The packet is dropped.
pub const DROPPED: u64 = 3;

/// Emits the function. `head` is the separate memory for a new header. The function returns the
/// fate of the packet: the row's number for it in the high half, the form of the new header in the
/// low half; `NOT_APPLIED` if the packet does not match the row.
pub fn emit_apply(e: &mut FlowCodeBuilder<'_>, row: &FlowRowLayout, head: cl::Value) {
    let mut differs = compare_key(e, row);
    for (index, check) in row.checks.iter().enumerate() {
        let constant = e.load_row_number(row.smalls, row.checked + index);
        let is_wrong = compare_checksum(e, check, constant);
        differs = e.b.ins().bor(differs, is_wrong);
    }
    let (mismatch, matches) = (e.b.create_block(), e.b.create_block());
    e.b.set_cold_block(mismatch);
    e.b.ins().brif(differs, mismatch, &[], matches, &[]);
    e.b.seal_block(mismatch);
    e.b.seal_block(matches);
    e.b.switch_to_block(mismatch);
    let none = e.iconst(NOT_APPLIED);
    e.b.ins().return_(&[none]);
    e.b.switch_to_block(matches);
    let fate = e.load_row_number(row.smalls, 0);
    let fate = e.b.ins().ishl_imm_u(fate, 32);
    let form = match &row.front {
        Some(front) => write_header(e, row, front, head),
        None => DROPPED,
    };
    let form = e.iconst(form);
    let form = e.b.ins().bor(fate, form);
    e.b.ins().return_(&[form]);
}

/// Returns 0 if the packet has the row's key and a length within its bounds. Differences are
/// collected by OR, so that there is one branch.
fn compare_key(e: &mut FlowCodeBuilder<'_>, row: &FlowRowLayout) -> cl::Value {
    let first_word = e.first_key_word(&row.key);
    let known = e.load_row_word(row.lead);
    let mut differs = e.b.ins().bxor(first_word, known);
    let FlowKeySpec { first, masks, near, .. } = &row.key;
    // Masked bits are 0 in each row, so the packet's bits are masked and compared.
    let mut vector_differences = None;
    for (step, masks) in group_words(masks, |mask| *mask != 0) {
        let (offset, expected) = (first + 8 * step, 8 * (row.lead + 1 + step));
        if let [mask] = *masks {
            let (word, expected) = (e.load_packet_word(offset), e.load_row_word(expected / 8));
            let difference = e.b.ins().bxor(word, expected);
            let difference = e.apply_mask(difference, mask);
            differs = e.b.ins().bor(differs, difference);
            continue;
        }
        let (words, expected) = (e.load_two_words(e.packet, offset), e.load_two_words(e.row, expected));
        let difference = e.b.ins().bxor(words, expected);
        let masks = e.load_two_constants([masks[0], masks[1]]);
        let difference = e.b.ins().band(difference, masks);
        vector_differences = Some(
            vector_differences.map_or(difference, |vector_differences| e.b.ins().bor(vector_differences, difference)),
        );
    }
    if let Some(vector_differences) = vector_differences {
        let any_difference = e.b.ins().vany_true(vector_differences);
        let any_difference = e.b.ins().uextend(I64, any_difference);
        differs = e.b.ins().bor(differs, any_difference);
    }
    // Length fields are compared by their distance to the packet's length, which is equal for
    // packets of one flow.
    for offset in near {
        let distance = e.distance_to_length(*offset);
        let expected_offset = 8 * (row.lead + 1) + offset - first;
        let expected = e.b.ins().uload16(I64, trusted_flags(), e.row, expected_offset as i32);
        let difference = e.b.ins().bxor(distance, expected);
        differs = e.b.ins().bor(differs, difference);
    }
    let bounds = [0, 1].map(|index| e.load_row_number(row.bounds, index));
    let short = e.b.ins().icmp(IntCC::UnsignedLessThan, e.length, bounds[0]);
    let long = e.b.ins().icmp(IntCC::UnsignedLessThan, bounds[1], e.length);
    let outside = e.b.ins().bor(short, long);
    let outside = e.b.ins().uextend(I64, outside);
    e.b.ins().bor(differs, outside)
}

/// Returns 0 if the checksum is as required.
fn compare_checksum(e: &mut FlowCodeBuilder<'_>, check: &RequiredChecksum, constant: cl::Value) -> cl::Value {
    let sum = e.emit_sum(&check.words, constant);
    let sum = match check.word {
        Some(at) => {
            let word = e.load_packet_half(at);
            e.b.ins().bxor(sum, word)
        }
        None => sum,
    };
    let expected = e.iconst(u64::from(check.expected.to_be()));
    e.b.ins().bxor(sum, expected)
}

/// Writes the new header and returns its form. All sums are computed before, because writing
/// changes their words.
fn write_header(e: &mut FlowCodeBuilder<'_>, row: &FlowRowLayout, front: &HeaderRewrite, head: cl::Value) -> u64 {
    let sums: Vec<cl::Value> = front
        .sums
        .iter()
        .enumerate()
        .map(|(index, (_, words, complement))| {
            let constant = e.load_row_number(row.smalls, row.sums + index);
            let sum = e.emit_sum(words, constant);
            if *complement { e.b.ins().bxor_imm_u(sum, 0xffff) } else { sum }
        })
        .collect();
    let (target, form) = match &front.place {
        RewriteTarget::InPlace(keep_masks) => {
            overwrite_in_place(e, row, keep_masks);
            (e.packet, IN_PLACE)
        }
        RewriteTarget::Separate(moved) => {
            write_separately(e, row, front.len.div_ceil(8), (moved, head));
            (head, SEPARATE)
        }
    };
    for (index, offset) in front.lengths.iter().enumerate() {
        let addend = e.load_row_number(row.smalls, 1 + index);
        let length = e.b.ins().iadd(e.length, addend);
        let length = e.swap_bytes(length);
        e.b.ins().istore16(trusted_flags(), length, target, *offset as i32);
    }
    for ((offset, ..), sum) in front.sums.iter().zip(sums) {
        e.b.ins().istore16(trusted_flags(), sum, target, *offset as i32);
    }
    form
}

/// Groups words by two or one, each with its index; omits words that do not matter, unless they are
/// paired.
fn group_words(words: &[u64], matters: impl Fn(&u64) -> bool) -> Vec<(usize, &[u64])> {
    let mut steps = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !matters(word) {
            at += 1;
            continue;
        }
        let count = if words.get(at + 1).is_some_and(&matters) { 2 } else { 1 };
        steps.push((at, &words[at..at + count]));
        at += count;
    }
    steps
}

/// Emits code that writes a row's new header words over those of the packet, in words of 64 bits,
/// or two at once. `keep_masks` has a mask for each word: bits that are set keep the packet's
/// value. The row has zeros there. Words that keep all bits are skipped.
fn overwrite_in_place(e: &mut FlowCodeBuilder<'_>, row: &FlowRowLayout, keep_masks: &[u64]) {
    for (at, masks) in group_words(keep_masks, |mask| *mask != u64::MAX) {
        let mut words = match masks {
            [_] => e.load_row_word(row.set + at),
            _ => e.load_two_words(e.row, 8 * (row.set + at)),
        };
        if masks.iter().any(|mask| *mask != 0) {
            let old = match *masks {
                [mask] => {
                    let old = e.load_packet_word(8 * at);
                    e.apply_mask(old, mask)
                }
                _ => {
                    let (old, mask) = (e.load_two_words(e.packet, 8 * at), e.load_two_constants([masks[0], masks[1]]));
                    e.b.ins().band(old, mask)
                }
            };
            words = e.b.ins().bor(old, words);
        }
        e.b.ins().store(trusted_flags(), words, e.packet, 8 * at as i32);
    }
}

/// Emits code that writes `words` words of the new header to separate memory, because the header
/// has another length than the bytes that it replaces.
fn write_separately(
    e: &mut FlowCodeBuilder<'_>,
    row: &FlowRowLayout,
    words: usize,
    (moved, head): (&[CopiedWord], cl::Value),
) {
    for to in 0..words {
        let mut word = e.load_row_word(row.set + to);
        for CopiedWord { from, places, keep, .. } in moved.iter().filter(|moved| moved.to == to) {
            let taken = e.load_packet_word(*from);
            let taken = if *places == 0 { taken } else { e.b.ins().rotl_imm_u(taken, i64::from(8 * places)) };
            let taken = e.apply_mask(taken, *keep);
            word = e.b.ins().bor(word, taken);
        }
        e.b.ins().store(trusted_flags(), word, head, 8 * to as i32);
    }
}
