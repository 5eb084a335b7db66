//! From a packet and a row to the packet's new beginning.

use super::emit::Emit;
use super::{Check, Front, Key, Moved, Place, Row};
use crate::code::registers::trusted;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;

/// What comes back in the low half; in the high half, if it is not [`OTHERS`], the row's number.
pub const OTHERS: u64 = 0;
/// The packet has its new beginning.
pub const THERE: u64 = 1;
/// The new beginning lies apart.
pub const APART: u64 = 2;
/// The packet is dropped.
pub const DROPPED: u64 = 3;

/// Makes the function: what becomes of the packet, if the row is for it. `head` is where a new beginning lies apart.
pub fn apply(e: &mut Emit<'_>, row: &Row, head: cl::Value) {
    let mut differs = compared(e, row);
    for (at, check) in row.checks.iter().enumerate() {
        let constant = e.small(row.smalls, row.checked + at);
        let wrong = wrong(e, check, constant);
        differs = e.b.ins().bor(differs, wrong);
    }
    let (others, matches) = (e.b.create_block(), e.b.create_block());
    e.b.set_cold_block(others);
    e.b.ins().brif(differs, others, &[], matches, &[]);
    e.b.seal_block(others);
    e.b.seal_block(matches);
    e.b.switch_to_block(others);
    let none = e.number(OTHERS);
    e.b.ins().return_(&[none]);
    e.b.switch_to_block(matches);
    let fate = e.small(row.smalls, 0);
    let fate = e.b.ins().ishl_imm_u(fate, 32);
    let became = match &row.front {
        Some(front) => written(e, row, front, head),
        None => DROPPED,
    };
    let became = e.number(became);
    let became = e.b.ins().bor(fate, became);
    e.b.ins().return_(&[became]);
}

/// 0 if the packet has the row's key, and a length that it is for.
fn compared(e: &mut Emit<'_>, row: &Row) -> cl::Value {
    let lead = e.lead(&row.key);
    let known = e.of_row(row.lead);
    let mut differs = e.b.ins().bxor(lead, known);
    let Key { first, masks, near, .. } = &row.key;
    // Bits of the key that do not count are 0 in each row, so only those that count are compared.
    let mut all = None;
    for (step, masks) in steps(masks, |mask| *mask != 0) {
        let (at, known) = (first + 8 * step, 8 * (row.lead + 1 + step));
        if let [mask] = *masks {
            let (word, known) = (e.word(at), e.of_row(known / 8));
            let both = e.b.ins().bxor(word, known);
            let both = e.masked(both, mask);
            differs = e.b.ins().bor(differs, both);
            continue;
        }
        let (words, known) = (e.two(e.packet, at), e.two(e.row, known));
        let both = e.b.ins().bxor(words, known);
        let masks = e.two_constants([masks[0], masks[1]]);
        let both = e.b.ins().band(both, masks);
        all = Some(all.map_or(both, |all| e.b.ins().bor(all, both)));
    }
    if let Some(all) = all {
        let any = e.b.ins().vany_true(all);
        let any = e.b.ins().uextend(I64, any);
        differs = e.b.ins().bor(differs, any);
    }
    for at in near {
        let distance = e.near(*at);
        let place = 8 * (row.lead + 1) + at - first;
        let known = e.b.ins().uload16(I64, trusted(), e.row, place as i32);
        let both = e.b.ins().bxor(distance, known);
        differs = e.b.ins().bor(differs, both);
    }
    let bounds = [0, 1].map(|at| e.small(row.bounds, at));
    let short = e.b.ins().icmp(IntCC::UnsignedLessThan, e.length, bounds[0]);
    let long = e.b.ins().icmp(IntCC::UnsignedLessThan, bounds[1], e.length);
    let outside = e.b.ins().bor(short, long);
    let outside = e.b.ins().uextend(I64, outside);
    e.b.ins().bor(differs, outside)
}

/// 0 if the sum is what it must be.
fn wrong(e: &mut Emit<'_>, check: &Check, constant: cl::Value) -> cl::Value {
    let sum = e.sum(&check.words, constant);
    let sum = match check.word {
        Some(at) => {
            let word = e.half(at);
            e.b.ins().bxor(sum, word)
        }
        None => sum,
    };
    let expected = e.number(u64::from(check.expected.to_be()));
    e.b.ins().bxor(sum, expected)
}

/// Writes the new beginning. All that is summed is read before.
fn written(e: &mut Emit<'_>, row: &Row, front: &Front, head: cl::Value) -> u64 {
    let sums: Vec<cl::Value> = front
        .sums
        .iter()
        .enumerate()
        .map(|(at, (_, words, complement))| {
            let constant = e.small(row.smalls, row.sums + at);
            let sum = e.sum(words, constant);
            if *complement { e.b.ins().bxor_imm_u(sum, 0xffff) } else { sum }
        })
        .collect();
    let (to, became) = match &front.place {
        Place::There(stays) => {
            over(e, row, stays);
            (e.packet, THERE)
        }
        Place::Apart(moved) => {
            apart(e, row, front.len.div_ceil(8), (moved, head));
            (head, APART)
        }
    };
    for (at, place) in front.lengths.iter().enumerate() {
        let more = e.small(row.smalls, 1 + at);
        let length = e.b.ins().iadd(e.length, more);
        let length = e.swapped(length);
        e.b.ins().istore16(trusted(), length, to, *place as i32);
    }
    for ((place, ..), sum) in front.sums.iter().zip(sums) {
        e.b.ins().istore16(trusted(), sum, to, *place as i32);
    }
    became
}

/// Words that are looked at by two or one, each with its number; those by themselves that don't matter are left out.
fn steps(words: &[u64], matters: impl Fn(&u64) -> bool) -> Vec<(usize, &[u64])> {
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

/// Over the packet's words, but those that stay whole.
fn over(e: &mut Emit<'_>, row: &Row, stays: &[u64]) {
    for (at, stays) in steps(stays, |stays| *stays != u64::MAX) {
        let mut words = match stays {
            [_] => e.of_row(row.set + at),
            _ => e.two(e.row, 8 * (row.set + at)),
        };
        if stays.iter().any(|stays| *stays != 0) {
            let old = match *stays {
                [stays] => {
                    let old = e.word(8 * at);
                    e.masked(old, stays)
                }
                _ => {
                    let (old, stays) = (e.two(e.packet, 8 * at), e.two_constants([stays[0], stays[1]]));
                    e.b.ins().band(old, stays)
                }
            };
            words = e.b.ins().bor(old, words);
        }
        e.b.ins().store(trusted(), words, e.packet, 8 * at as i32);
    }
}

/// So many words, elsewhere.
fn apart(e: &mut Emit<'_>, row: &Row, words: usize, (moved, head): (&[Moved], cl::Value)) {
    for to in 0..words {
        let mut word = e.of_row(row.set + to);
        for Moved { from, places, keep, .. } in moved.iter().filter(|moved| moved.to == to) {
            let taken = e.word(*from);
            let taken = if *places == 0 { taken } else { e.b.ins().rotl_imm_u(taken, i64::from(8 * places)) };
            let taken = e.masked(taken, *keep);
            word = e.b.ins().bor(word, taken);
        }
        e.b.ins().store(trusted(), word, head, 8 * to as i32);
    }
}
