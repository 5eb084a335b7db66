//! Looking up in [`Levels`]: step by step for all keys of a batch, each asking for the memory of the next.
//!
//! Which kind a key's block is cannot be foreseen, so nothing branches on it: each key is written behind the lists of all kinds, and one list becomes longer.
#![allow(unsafe_code)]

use super::super::address::Address;
use super::super::table::Table;
use super::super::view::{look_elsewhere, prefetch};
use super::block::{ARRAY, LINE, RUNS, TREE};
use super::{ASK, BITS, ENTRIES, Entry, KIND, Levels, PAGE, STEP};
use smallvec::SmallVec;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Keys whose numbers are looked at together.
const GROUP: usize = 16;

/// A table's memory.
pub(super) struct View {
    pub first: *const Entry,
    pub pages: *const Entry,
    pub pool: *const u8,
    /// Value number 0, and bytes from one to the next.
    values: *const u8,
    stride: usize,
    /// Of a key.
    pub bits: u32,
}

/// A key at a block: from the lowest bit which key (8 bits), the bits of its address that count there (16), a line of the pool ([`KIND`]).
pub(super) type Visit = u64;

/// Where a visit has the bits of the address, and the line.
pub(super) const VISIT_BITS: u32 = 8;
pub(super) const VISIT_LINE: u32 = VISIT_BITS + STEP;

/// Keys that go through the levels together: a visit has so many bits for which it is.
pub(super) const CHUNK: usize = 1 << VISIT_BITS;

fn who(visit: Visit) -> usize {
    visit as usize % CHUNK
}

fn bits_of(visit: Visit) -> u16 {
    (visit >> VISIT_BITS) as u16
}

impl View {
    /// The line of a visit.
    #[inline(always)]
    fn line(&self, visit: Visit) -> *const u8 {
        self.pool.wrapping_add((visit >> VISIT_LINE << 6) as usize)
    }
}

/// Keys that are at a kind of block.
pub(super) struct Visits {
    pub list: [MaybeUninit<Visit>; CHUNK + 8],
    pub len: usize,
}

impl Visits {
    fn new() -> Visits {
        Visits { list: [const { MaybeUninit::uninit() }; CHUNK + 8], len: 0 }
    }

    /// Adds a visit if `really`. There are at most `CHUNK` really.
    #[inline(always)]
    fn add(&mut self, visit: Visit, really: bool) {
        self.list[self.len].write(visit);
        self.len += usize::from(really);
    }

    #[inline(always)]
    fn all(&self) -> impl Iterator<Item = Visit> {
        // SAFETY: so many have been written.
        self.list[..self.len.min(CHUNK)].iter().map(|visit| unsafe { visit.assume_init() })
    }
}

/// What is known of the keys of a batch: for each its number, unless it is at a block.
pub(super) struct Known {
    pub numbers: [MaybeUninit<u32>; CHUNK],
    pub lines: Visits,
    pub trees: Visits,
    pub arrays: Visits,
}

/// What a processor does.
///
/// # Safety
/// Of all functions: the processor has what it takes.
pub(super) trait Machine {
    /// The first two steps of `count` keys, at most [`CHUNK`], which `keys` has.
    unsafe fn begin<A: Address>(view: &View, keys: &[u64], count: usize, known: &mut Known) {
        // SAFETY: as promised.
        unsafe { begin::<A>(view, keys, count, known) }
    }

    /// Of the 16 words at `places`, how many a value is behind.
    #[inline(always)]
    unsafe fn of_sixteen(places: *const u8, value: u16) -> usize {
        // SAFETY: as promised.
        let places = unsafe { places.cast::<[u16; RUNS]>().read_unaligned() };
        places.iter().map(|place| u16::from(u16::from_le(*place) < value)).sum::<u16>().into()
    }

    /// The same of 32.
    #[inline(always)]
    unsafe fn of_all(places: *const u8, value: u16) -> usize {
        // SAFETY: as promised.
        unsafe { Self::of_sixteen(places, value) + Self::of_sixteen(places.add(2 * RUNS), value) }
    }
}

/// Any processor.
struct Plain;

impl Machine for Plain {}

/// # Safety
/// `keys` has `count` keys, at most [`CHUNK`].
#[inline(always)]
unsafe fn begin<A: Address>(view: &View, keys: &[u64], count: usize, known: &mut Known) {
    let mut entries = [const { MaybeUninit::<(*const Entry, u64)>::uninit() }; CHUNK];
    for (index, entry) in entries[..count].iter_mut().enumerate() {
        // SAFETY: there are so many keys. There is an entry for each value of so many bits, and a page that is named is there.
        unsafe {
            let key = keys.get_unchecked(index * A::WORDS..(index + 1) * A::WORDS);
            let top = A::from_words(key, view.bits).top(BITS);
            let first = view.first.add((top >> (2 * STEP)) as usize);
            let in_page = (first.read() as usize % (1 << KIND)) * ENTRIES + (top >> STEP) as usize % ENTRIES;
            let place = select_unpredictable(first.read() >> KIND == PAGE, view.pages.wrapping_add(in_page), first);
            prefetch(place.cast());
            entry.write((place, top));
        }
    }
    for (index, entry) in entries[..count].iter().enumerate() {
        // SAFETY: written above: an entry of the first step or of a page.
        let (entry, top) = unsafe {
            let (place, top) = entry.assume_init();
            (place.read(), top)
        };
        known.numbers[index].write(entry);
        let (kind, bits) = (entry >> KIND, top % (1 << STEP));
        let visit = u64::from(entry % (1 << KIND)) << VISIT_LINE | bits << VISIT_BITS | index as u64;
        let line = view.line(visit);
        prefetch(select_unpredictable(kind == ARRAY, line.wrapping_add(2 * bits as usize), line));
        known.lines.add(visit, kind == LINE);
        known.trees.add(visit, kind == TREE);
        known.arrays.add(visit, kind == ARRAY);
    }
}

/// Looks up the keys of a table with levels; `walk` looks up those that have more than [`BITS`] bits to look at.
pub(in super::super) fn lookup<A: Address>(
    table: &Table<A>,
    levels: &Levels,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
) {
    look_up(table, levels, keys, out, walk, answer::<A>);
}

fn look_up<A: Address>(
    table: &Table<A>,
    levels: &Levels,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
    answer: impl Fn(&View, &[u64], &mut [*const u8], &mut SmallVec<[u16; CHUNK]>),
) {
    let values = &table.forest.values;
    let view = View {
        first: levels.first.as_ptr(),
        pages: levels.pages.as_ptr(),
        pool: levels.pool.start(),
        values: values.start(),
        stride: values.stride(),
        bits: table.lpm_bits,
    };
    let there = out.len().min(keys.len() / A::WORDS);
    out[there..].fill(std::ptr::null());
    let mut asking = SmallVec::<[u16; CHUNK]>::new();
    for (keys, out) in keys.chunks(CHUNK * A::WORDS).zip(out[..there].chunks_mut(CHUNK)) {
        asking.clear();
        answer(&view, keys, out, &mut asking);
        if !asking.is_empty() {
            look_elsewhere(asking.iter().map(|who| usize::from(*who)), A::WORDS, keys, out, &walk);
        }
    }
}

/// The values of at most [`CHUNK`] keys, and which of them are to be looked up elsewhere.
fn answer<A: Address>(view: &View, keys: &[u64], out: &mut [*const u8], asking: &mut SmallVec<[u16; CHUNK]>) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has it.
            return unsafe { answer_avx512::<A>(view, keys, out, asking) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has it.
            return unsafe { answer_avx2::<A>(view, keys, out, asking) };
        }
    }
    // SAFETY: nothing is needed.
    unsafe { answer_with::<A, Plain>(view, keys, out, asking) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn answer_avx512<A: Address>(view: &View, keys: &[u64], out: &mut [*const u8], asking: &mut SmallVec<[u16; CHUNK]>) {
    // SAFETY: this function's features are what is needed.
    unsafe { answer_with::<A, super::lanes::Avx512>(view, keys, out, asking) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn answer_avx2<A: Address>(view: &View, keys: &[u64], out: &mut [*const u8], asking: &mut SmallVec<[u16; CHUNK]>) {
    // SAFETY: nothing is needed.
    unsafe { answer_with::<A, Plain>(view, keys, out, asking) }
}

/// # Safety
/// The processor has what `M` needs.
#[inline(always)]
unsafe fn answer_with<A: Address, M: Machine>(
    view: &View,
    keys: &[u64],
    out: &mut [*const u8],
    asking: &mut SmallVec<[u16; CHUNK]>,
) {
    let count = out.len().min(CHUNK).min(keys.len() / A::WORDS);
    let mut known = Known {
        numbers: [const { MaybeUninit::uninit() }; CHUNK],
        lines: Visits::new(),
        trees: Visits::new(),
        arrays: Visits::new(),
    };
    // SAFETY: as promised to this function; there are so many keys.
    unsafe { M::begin::<A>(view, keys, count, &mut known) };
    let Known { numbers, lines, trees, arrays } = &mut known;
    for visit in trees.all() {
        // SAFETY: a tree's first line.
        let leaf = unsafe { M::of_all(view.line(visit), bits_of(visit)) };
        // Behind it there is a line for each that can be counted, and one more.
        let visit = visit + ((1 + leaf as u64) << VISIT_LINE);
        prefetch(view.line(visit));
        lines.add(visit, true);
    }
    for visit in arrays.all() {
        // SAFETY: a number of an array.
        let number = unsafe { view.line(visit).cast::<u16>().add(bits_of(visit).into()).read() };
        numbers[who(visit)].write(u16::from_le(number).into());
    }
    for visit in lines.all() {
        // SAFETY: a line of runs; no more places are counted than there are numbers behind the first.
        let number = unsafe {
            let line = view.line(visit);
            line.cast::<u16>().add(RUNS + M::of_sixteen(line, bits_of(visit))).read()
        };
        numbers[who(visit)].write(u16::from_le(number).into());
    }
    let (stride, groups) = (view.stride as u32, numbers[..count].chunks(GROUP).zip(out.chunks_mut(GROUP)));
    for (group, (numbers, out)) in groups.enumerate() {
        let mut asks = false;
        for (number, out) in numbers.iter().zip(out) {
            // SAFETY: written for each key: an entry that is a number, or what its block says.
            let number = unsafe { number.assume_init() };
            let value = view.values.wrapping_add((u64::from(number) * u64::from(stride)) as usize);
            *out = select_unpredictable(number == 0, std::ptr::null(), value);
            asks |= number == ASK;
        }
        if asks {
            // SAFETY: as above.
            let asks = |index: &usize| unsafe { numbers[*index].assume_init() } == ASK;
            asking.extend((0..numbers.len()).filter(asks).map(|index| (GROUP * group + index) as u16));
        }
    }
}

#[cfg(test)]
impl Levels {
    /// As [`lookup`], by what other processors do: 1: those without AVX-512; 2: those without AVX2 either.
    pub(in super::super) fn lookup_without<A: Address>(
        &self,
        what: usize,
        table: &Table<A>,
        keys: &[u64],
        out: &mut [*const u8],
    ) {
        let walk = |keys: &[u64], out: &mut [*const u8]| super::super::batch::lookup_scalar(table, keys, out);
        #[cfg(target_arch = "x86_64")]
        if what == 1 && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has it.
            return look_up(table, self, keys, out, walk, |view, keys, out, asking| unsafe {
                answer_avx2::<A>(view, keys, out, asking)
            });
        }
        // SAFETY: nothing is needed.
        look_up(table, self, keys, out, walk, |view, keys, out, asking| unsafe {
            answer_with::<A, Plain>(view, keys, out, asking)
        });
    }
}
