//! Functions that native code calls.
#![allow(unsafe_code)]

use crate::abi::{FrameHeader, Helpers, StageContext};
use crate::flows::{PacketEntry, WorkerFlows};
use crate::idle_profiles::tick_of;
use crate::packet_written::{PacketWrittenTable, PacketWrittenTables};
use entries::{big_from_words, push_words, words_for};
use flowtable::RecordId;
use interp::MeterColor;
use interp::host::{ArchEffect, ExternHost, HitTimes, PacketContext, SiteId};
use ir::{BinaryOp, Entity, ExternFn, ExternId, HashAlgorithm, TableId, Type, ValueSetId};
use num_bigint::BigUint;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::sync::Arc;

/// Data that calls need besides the packet.
pub struct Runtime {
    /// The interpreter's externs.
    pub host: Arc<Mutex<ExternHost>>,
    /// Times of the last hits, which workers write without the host.
    pub hit_times: Arc<HitTimes>,
    /// For each table, the effects of a hit.
    pub hit_effects: Vec<HitEffects>,
    /// Call sites by number.
    pub sites: Vec<CallTarget>,
    /// Tables that packets write.
    pub written: Arc<PacketWrittenTables>,
    /// For each call site of `add_entry` in such a table, the entry that it adds.
    pub additions: Vec<Option<EntryTemplate>>,
    /// For each value set, the number of words of each key.
    pub value_sets: Vec<Vec<usize>>,
}

/// Effects of a hit on its entry.
#[derive(Clone, Copy, Debug)]
pub struct HitEffects {
    /// The idle timer restarts.
    pub restarts_timer: bool,
    /// The host counts or meters the packet.
    pub counts: bool,
}

/// A call site as the run time sees it.
#[derive(Clone, Copy, Debug)]
pub struct CallTarget {
    /// Its id in the host.
    pub id: SiteId,
    /// Called function.
    pub func: ExternFn,
    /// Table argument.
    pub table: Option<TableId>,
    /// Object of the call.
    pub object: Option<ExternId>,
    /// Words of the arguments in the call area.
    pub arg_words: usize,
    /// Words of the results, after the arguments.
    pub result_words: usize,
}

/// How a call of `add_entry` makes the action of an entry from its arguments.
#[derive(Clone, Debug)]
pub struct ActionTemplate {
    /// Position of the action in the table's list: the value's first byte.
    pub arm: u8,
    /// For each parameter its first word in the call area, its offset in the value, and its bytes.
    pub params: Vec<[usize; 3]>,
}

/// How a call of `add_entry` makes entries from its arguments.
#[derive(Clone, Debug)]
pub struct EntryTemplate {
    /// The table.
    pub table: TableId,
    /// Its action.
    pub action: ActionTemplate,
    /// First word of its twin's key in the call area, and the twin's action, if a second entry is
    /// added with it.
    pub twin: Option<(usize, ActionTemplate)>,
    /// Word of the expire time profile in the call area.
    pub profile_word: usize,
    /// Bytes of a lookup key.
    pub key_bytes: usize,
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

/// Returns the number of an algorithm in native code.
pub fn algorithm_number(algorithm: HashAlgorithm) -> u64 {
    ALGORITHMS.iter().position(|a| *a == algorithm).unwrap_or(0) as u64
}

/// Returns the addresses of the functions.
pub fn helper_addresses() -> Helpers {
    Helpers {
        call: call_extern as *const () as usize,
        add_entry: add_entry as *const () as usize,
        hit: record_hit as *const () as usize,
        begin_block: begin_block as *const () as usize,
        hash: hash_bytes as *const () as usize,
        hash_payload: hash_payload as *const () as usize,
        arithmetic: wide_arithmetic as *const () as usize,
        value_set: search_value_set as *const () as usize,
    }
}

/// # Safety
/// The pointers are the arguments of the running stage and one of its frames.
unsafe fn call_context<'a>(
    context: *mut StageContext,
    frame: *mut u8,
) -> (&'a Runtime, &'a mut StageContext, &'a mut FrameHeader) {
    // SAFETY: the engine keeps all three alive and does not access them while a stage runs.
    unsafe {
        let context = &mut *context;
        (&*context.runtime.cast::<c_void>().cast::<Runtime>(), context, &mut *frame.cast::<FrameHeader>())
    }
}

fn meter_color(number: u64) -> MeterColor {
    match number {
        0 => MeterColor::Green,
        1 => MeterColor::Yellow,
        _ => MeterColor::Red,
    }
}

fn packet_index(context: &StageContext, head: *const FrameHeader, stride: usize) -> usize {
    (head as usize - context.frames as usize) / stride.max(1)
}

unsafe extern "C" fn call_extern(context: *mut StageContext, frame: *mut u8, site: u64, hit: u64) {
    // SAFETY: native code passes its own arguments.
    let (runtime, context, head) = unsafe { call_context(context, frame) };
    let CallTarget { id, func, table, object, arg_words, result_words } = runtime.sites[site as usize];
    // SAFETY: the area holds the longest call, because the engine refuses programs with longer
    // ones.
    let area = unsafe { std::slice::from_raw_parts_mut(context.call_area, arg_words + result_words) };
    let (args, results) = area.split_at_mut(arg_words);
    // SAFETY: the worker owns them, and does not use them while a stage runs.
    let flows = unsafe { &mut *context.flows.cast::<WorkerFlows>() };
    if let (ExternFn::RestartExpireTimer | ExternFn::SetEntryExpireTime, Some(table)) = (func, table) {
        let profile = (func == ExternFn::SetEntryExpireTime).then(|| args[0] as u8);
        return restart_timer(runtime, flows, table, hit as u32, head, profile);
    }
    let lane = packet_index(context, head, context.frame_stride);
    if let (ExternFn::PortPoolTake, Some(pool)) = (func, object) {
        let arg = |index: usize| args.get(index).map_or(0, |word| u32::try_from(*word).unwrap_or(u32::MAX));
        let now_ns = runtime.hit_times.time_of(head.time.time_ns);
        let taken = flows.take_port(pool, lane, std::array::from_fn(arg), now_ns);
        results.iter_mut().zip(taken).for_each(|(result, value)| *result = value);
        return;
    }
    if let (ExternFn::EntryQuotaTake, Some(quota)) = (func, object) {
        let arg = |index: usize| args.get(index).map_or(0, |word| u32::try_from(*word).unwrap_or(u32::MAX));
        let taken = flows.take_share(quota, lane, std::array::from_fn(arg));
        results.iter_mut().for_each(|result| *result = u64::from(taken));
        return;
    }
    let packet = PacketContext {
        now: head.time.time_ns,
        ingress_length: head.input.metered_len,
        payload: &[],
        lane,
        hit: (hit as u32).checked_sub(1),
        colour: meter_color(hit >> 32),
    };
    let mut host = runtime.host.lock();
    let effect = host.call(id, &packet, args, results);
    debug_assert!(effect == ArchEffect::None, "only calls without an effect on the architecture come here");
}

/// Restarts the idle timer of an entry that a packet hit, with a new expire time profile if one is
/// passed. `hit` is the number of the entry plus 1; 0 after a miss, without an effect.
fn restart_timer(
    runtime: &Runtime,
    flows: &mut WorkerFlows,
    table: TableId,
    hit: u32,
    head: &FrameHeader,
    profile: Option<u8>,
) {
    let Some(entry) = hit.checked_sub(1) else { return };
    let now_ns = runtime.hit_times.time_of(head.time.time_ns);
    match (runtime.written.get(table), profile) {
        (Some(written), _) => {
            flows.set_tick(table, tick_of(now_ns));
            let number = profile.map(|profile| runtime.idle_number(table, written, profile));
            flows.restart_timer(table, RecordId(entry), number);
        }
        (None, None) => runtime.hit_times.record(table.index(), entry, now_ns),
        (None, Some(_)) => runtime.host.lock().restart_timer(table, entry, now_ns, profile),
    }
}

impl Runtime {
    /// Returns the number of an expire time profile in a table that packets write.
    fn idle_number(&self, table: TableId, written: &PacketWrittenTable, profile: u8) -> u8 {
        let timeout_ns = || self.host.lock().expire_time(table, profile);
        written.idle_profiles.number_of_profile(&written.flows, profile, timeout_ns)
    }
}

/// Executes PNA `add_entry` with the key that the packet looked up. Returns 1 if an entry was
/// added, 0 after a hit, if the key is there by now, or if the table is full.
unsafe extern "C" fn add_entry(context: *mut StageContext, frame: *mut u8, site: u64, hit: u64, key: *const u8) -> u64 {
    // SAFETY: native code passes its own arguments.
    let (runtime, context, head) = unsafe { call_context(context, frame) };
    let Some(template) = &runtime.additions[site as usize] else { return 0 };
    if hit as u32 != 0 {
        return 0;
    }
    // SAFETY: the worker owns them, and does not use them while a stage runs.
    let flows = unsafe { &mut *context.flows.cast::<WorkerFlows>() };
    // SAFETY: the area holds the arguments of the longest call, and the queue a key for each
    // packet.
    let (args, key) = unsafe {
        let words = runtime.sites[site as usize].arg_words;
        (std::slice::from_raw_parts(context.call_area, words), std::slice::from_raw_parts(key, template.key_bytes))
    };
    let table = template.table;
    let Some(written) = runtime.written.get(table) else { return 0 };
    flows.set_tick(table, tick_of(runtime.hit_times.time_of(head.time.time_ns)));
    let new = PacketEntry {
        key,
        idle_number: runtime.idle_number(table, written, args[template.profile_word] as u8),
        lane: packet_index(context, head, context.frame_stride),
    };
    let Some(records) = template.add_entries(written, flows, &new, args) else { return 0 };
    if written.has_host_state {
        let mut host = runtime.host.lock();
        for record in records.into_iter().flatten() {
            if let Some(entry) = flows.entry(table, record) {
                host.entry_added(table, record.0, &written.stored_entry(&entry));
            }
        }
    }
    1
}

impl EntryTemplate {
    /// Adds the entry of a call with these arguments, and its twin. Returns their records; `None`
    /// if neither was added.
    fn add_entries(
        &self,
        written: &PacketWrittenTable,
        flows: &mut WorkerFlows,
        new: &PacketEntry<'_>,
        args: &[u64],
    ) -> Option<[Option<RecordId>; 2]> {
        let Some((first_word, action)) = &self.twin else {
            let record = flows.add_entry(self.table, new, |value| self.action.fill_value(args, value))?;
            return Some([Some(record), None]);
        };
        let codec = &written.codec;
        let twin_key = codec.encode_key_words(&args[*first_word..first_word + codec.entry_key_words()]);
        let fill = |entry: usize, value: &mut [u8]| match entry {
            0 => self.action.fill_value(args, value),
            _ => action.fill_value(args, value),
        };
        Some(flows.add_pair(self.table, new, twin_key.as_slice(), fill)?.map(Some))
    }
}

impl ActionTemplate {
    /// Writes the value of an entry. `args` are the words of the call area.
    fn fill_value(&self, args: &[u64], value: &mut [u8]) {
        value[0] = self.arm;
        for [word, offset, bytes] in &self.params {
            for (index, to) in value[*offset..offset + bytes].chunks_mut(8).enumerate() {
                to.copy_from_slice(&args[word + index].to_le_bytes()[..to.len()]);
            }
        }
    }
}

unsafe extern "C" fn record_hit(context: *mut StageContext, frame: *mut u8, table: u64, entry: u64) -> u64 {
    // SAFETY: native code passes its own arguments.
    let (runtime, _, head) = unsafe { call_context(context, frame) };
    let HitEffects { restarts_timer, counts } = runtime.hit_effects[table as usize];
    if restarts_timer {
        let now_ns = runtime.hit_times.time_of(head.time.time_ns);
        runtime.hit_times.record(table as usize, entry as u32, now_ns);
    }
    if !counts {
        return MeterColor::Green as u64;
    }
    let mut host = runtime.host.lock();
    host.advance(head.time.time_ns);
    let colour = host.count_hit(TableId::from_index(table as usize), entry as u32, head.input.metered_len);
    colour.map_or(0, |colour| colour as u64)
}

unsafe extern "C" fn begin_block(context: *mut StageContext, frame: *mut u8) {
    // SAFETY: native code passes its own arguments.
    let (runtime, context, head) = unsafe { call_context(context, frame) };
    runtime.host.lock().begin_block(packet_index(context, head, context.frame_stride));
}

unsafe extern "C" fn hash_bytes(algorithm: u64, bytes: *const u8, len: u64) -> u64 {
    // SAFETY: native code has written `len` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, len as usize) };
    interp::host::hash(ALGORITHMS[algorithm as usize], bytes)
}

unsafe extern "C" fn hash_payload(frame: *mut u8, cursor: u64, algorithm: u64, bytes: *const u8, len: u64) -> u64 {
    // SAFETY: the frame is that of a packet in flight, which only this worker accesses; native code
    // has written the other bytes.
    let (head, first) = unsafe { (&*frame.cast::<FrameHeader>(), std::slice::from_raw_parts(bytes, len as usize)) };
    let payload = (head.input.len as u64).saturating_sub(cursor) as usize;
    // SAFETY: the packet has `len` bytes, of which `cursor` are parsed.
    let payload = unsafe { std::slice::from_raw_parts(head.input.data.add(cursor as usize), payload) };
    interp::host::hash(ALGORITHMS[algorithm as usize], &[first, payload].concat())
}

unsafe extern "C" fn wide_arithmetic(operation: u64, kind: u64, other: u64, area: *mut u64) {
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

unsafe extern "C" fn search_value_set(context: *mut StageContext, set: u64) -> u64 {
    // SAFETY: native code passes its own arguments.
    let context = unsafe { &mut *context };
    // SAFETY: the engine keeps both alive while a stage runs.
    let (runtime, lookups) = unsafe { (&*context.runtime.cast::<Runtime>(), &*context.lookups) };
    let set = ValueSetId::from_index(set as usize);
    let widths = &runtime.value_sets[set.index()];
    // SAFETY: native code has written the keys there.
    let mut rest = unsafe { std::slice::from_raw_parts(context.call_area, widths.iter().sum()) };
    let mut keys = Vec::with_capacity(widths.len());
    for words in widths {
        let (key, behind) = rest.split_at(*words);
        keys.push(key);
        rest = behind;
    }
    // The value set in the version of this batch, because that of the interpreter may be newer.
    u64::from(lookups.value_set_contains(set, &keys))
}
