//! The functions that native code calls.
#![allow(unsafe_code)]

use crate::abi::{Context, Head, Helpers};
use entries::{big_from_words, push_words, words_for};
use interp::Colour;
use interp::host::{Effect, ExternHost, PacketContext, SiteId};
use ir::{BinaryOp, Entity, HashAlgorithm, TableId, Type, ValueSetId};
use num_bigint::BigUint;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::Arc;

/// What calls need besides the packet.
pub struct Runtime {
    /// The interpreter's externs.
    pub host: Arc<Mutex<ExternHost>>,
    /// For each call site: its number with the host, words of arguments and of results.
    pub sites: Vec<(SiteId, usize, usize)>,
    /// For each value set, the words of each key.
    pub value_sets: Vec<Vec<usize>>,
}

const ALGORITHMS: [HashAlgorithm; 9] = [
    HashAlgorithm::Crc32,
    HashAlgorithm::Crc32Custom,
    HashAlgorithm::Crc16,
    HashAlgorithm::Crc16Custom,
    HashAlgorithm::Random,
    HashAlgorithm::Identity,
    HashAlgorithm::Csum16,
    HashAlgorithm::Xor16,
    HashAlgorithm::TargetDefault,
];

const OPERATIONS: [BinaryOp; 18] = {
    use BinaryOp::*;
    [Add, Sub, Mul, Div, Mod, AddSat, SubSat, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge]
};

/// The number by which native code names an algorithm.
pub fn algorithm_number(algorithm: HashAlgorithm) -> u64 {
    ALGORITHMS.iter().position(|a| *a == algorithm).unwrap_or(0) as u64
}

/// The functions' addresses.
pub fn helpers() -> Helpers {
    Helpers {
        call: call as *const () as usize,
        hit: hit as *const () as usize,
        begin_block: begin_block as *const () as usize,
        hash: hash as *const () as usize,
        hash_payload: hash_payload as *const () as usize,
        arithmetic: arithmetic as *const () as usize,
        value_set: value_set as *const () as usize,
    }
}

/// # Safety
/// The pointers are those that a stage was called with, and its frame.
unsafe fn parts<'a>(context: *mut Context, frame: *mut u8) -> (&'a Runtime, &'a mut Context, &'a mut Head) {
    // SAFETY: the engine keeps all three alive and touches none of them while a stage runs.
    unsafe {
        let context = &mut *context;
        (&*context.runtime.cast::<c_void>().cast::<Runtime>(), context, &mut *frame.cast::<Head>())
    }
}

fn colour(number: u64) -> Colour {
    match number {
        0 => Colour::Green,
        1 => Colour::Yellow,
        _ => Colour::Red,
    }
}

fn lane(context: &Context, head: *const Head, stride: usize) -> usize {
    (head as usize - context.frames as usize) / stride.max(1)
}

unsafe extern "C" fn call(context: *mut Context, frame: *mut u8, site: u64, hit: u64) {
    // SAFETY: called by native code with its own arguments.
    let (runtime, context, head) = unsafe { parts(context, frame) };
    let (id, arg_words, result_words) = runtime.sites[site as usize];
    // SAFETY: the area has room for the longest call: the engine refuses programs with longer ones.
    let area = unsafe { std::slice::from_raw_parts_mut(context.area, arg_words + result_words) };
    let (args, results) = area.split_at_mut(arg_words);
    let packet = PacketContext {
        now: head.clock.time,
        ingress_length: head.arrival.counted,
        payload: &[],
        lane: lane(context, head, context.stride),
        hit: (hit as u32).checked_sub(1),
        colour: colour(hit >> 32),
    };
    let effect = runtime.host.lock().call(id, &packet, args, results);
    debug_assert!(effect == Effect::None, "only calls without an effect on the architecture come here");
}

unsafe extern "C" fn hit(context: *mut Context, frame: *mut u8, table: u64, entry: u64) -> u64 {
    // SAFETY: called by native code with its own arguments.
    let (runtime, _, head) = unsafe { parts(context, frame) };
    let mut host = runtime.host.lock();
    host.advance(head.clock.time);
    let colour = host.hit(TableId::from_index(table as usize), entry as u32, head.arrival.counted);
    colour.map_or(0, |colour| colour as u64)
}

unsafe extern "C" fn begin_block(context: *mut Context, frame: *mut u8) {
    // SAFETY: called by native code with its own arguments.
    let (runtime, context, head) = unsafe { parts(context, frame) };
    runtime.host.lock().begin_block(lane(context, head, context.stride));
}

unsafe extern "C" fn hash(algorithm: u64, bytes: *const u8, len: u64) -> u64 {
    // SAFETY: native code has written so many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
    interp::host::hash(ALGORITHMS[algorithm as usize], bytes)
}

unsafe extern "C" fn hash_payload(frame: *mut u8, cursor: u64, algorithm: u64, bytes: *const u8, len: u64) -> u64 {
    // SAFETY: the frame is that of a packet whose bytes nobody else touches; native code has written the others.
    let (head, first) = unsafe { (&*frame.cast::<Head>(), std::slice::from_raw_parts(bytes, len as usize)) };
    let payload = (head.arrival.len as u64).saturating_sub(cursor) as usize;
    // SAFETY: the packet has `len` bytes, of which `cursor` are parsed.
    let payload = unsafe { std::slice::from_raw_parts(head.arrival.data.add(cursor as usize), payload) };
    interp::host::hash(ALGORITHMS[algorithm as usize], &[first, payload].concat())
}

unsafe extern "C" fn arithmetic(operation: u64, kind: u64, other: u64, area: *mut u64) {
    let (width, signed) = (kind as u32, kind >> 32 != 0);
    let (words, other_words) = (words_for(width), words_for(other as u32));
    // SAFETY: native code has written both operands there.
    let area = unsafe { std::slice::from_raw_parts_mut(area, words + other_words) };
    let ty = if signed { Type::Int(width) } else { Type::Bit(width) };
    let (a, b) = (big_from_words(&area[..words]), big_from_words(&area[words..]));
    let result: BigUint = ir::eval::binary(OPERATIONS[operation as usize], ty, &a, &b);
    let mut out = Vec::with_capacity(words);
    push_words(&result, words, &mut out);
    area[..words].copy_from_slice(&out);
}

unsafe extern "C" fn value_set(context: *mut Context, set: u64) -> u64 {
    // SAFETY: called by native code with its own arguments.
    let context = unsafe { &mut *context };
    // SAFETY: the engine keeps both alive while a stage runs.
    let (runtime, lookups) = unsafe { (&*context.runtime.cast::<Runtime>(), &*context.lookups) };
    let set = ValueSetId::from_index(set as usize);
    let widths = &runtime.value_sets[set.index()];
    // SAFETY: native code has written the keys there.
    let mut rest = unsafe { std::slice::from_raw_parts(context.area, widths.iter().sum()) };
    let mut keys = Vec::with_capacity(widths.len());
    for words in widths {
        let (key, behind) = rest.split_at(*words);
        keys.push(key);
        rest = behind;
    }
    // Those of this batch's version, as its tables are: the interpreter's may be newer already.
    u64::from(lookups.in_value_set(set, &keys))
}
