//! [`Root`]: what all keys of a batch see first, a line or a node, in a form to compare many addresses with.
#![allow(unsafe_code)]

use super::address::Address;
use super::node::PREAMBLE;
use super::pool::{Line, Ref};
use super::set::{Formats, Set};
use super::table::Table;
use super::values::NUMBER_BITS;
use super::view::{CHUNK, MASKS, View};
use smallvec::SmallVec;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// The first bits of addresses, most significant word first.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub bits: [u64; 2],
    /// Which bits count.
    pub mask: [u64; 2],
    pub len: u32,
}

/// The prefixes of a line, and what is behind its gate.
pub(super) struct Root {
    /// Each with its value's first byte; shortest first.
    pub routes: SmallVec<[(Prefix, *const u8); 12]>,
    pub gate: Prefix,
    pub child: Ref,
}

impl Prefix {
    #[inline]
    fn new<A: Address>(addr: A, len: u32) -> Prefix {
        let words = |wide: u128| [(wide >> 64) as u64, wide as u64];
        Prefix { bits: words(addr.wide()), mask: words(!u128::MAX.checked_shr(len).unwrap_or(0)), len }
    }

    /// Whether an address has it.
    #[inline(always)]
    fn is_of<A: Address>(&self, address: A) -> bool {
        let wide = address.wide();
        let high = ((wide >> 64) as u64 ^ self.bits[0]) & self.mask[0];
        let low = if A::WORDS > 1 { (wide as u64 ^ self.bits[1]) & self.mask[1] } else { 0 };
        high | low == 0
    }
}

/// Bytes of a node that stays in a near cache.
const NEAR: usize = 64 << 10;

/// The slots of a node: what is the same for all keys that are there.
pub(super) struct Slots {
    first: *const u8,
    /// Bits of an address before those that choose a slot.
    before: u32,
    stride: u32,
    /// Of a slot, as a logarithm.
    size: u32,
    /// What counts of a word that has a slot in its low bits.
    mask: u64,
}

impl Slots {
    /// Those of the node that `at` names in the pool of `view`, behind `before` bits of an address; `None` if there is nothing, or a set.
    #[inline(always)]
    pub(super) fn of(view: &View<'_>, at: Ref, before: u32) -> Option<Slots> {
        let node = !at.is_null() && !at.is_set();
        let first = view.pool.wrapping_add(((at.line() as usize) << 6) + PREAMBLE);
        let (stride, size) = (at.stride(), at.size());
        node.then(|| Slots { first, before, stride, size, mask: MASKS[size as usize & 3] })
    }

    /// The slot of an address.
    #[inline(always)]
    pub(super) fn read<A: Address>(&self, address: A) -> u64 {
        // There is a bit behind those before the node, so a word of an address can be shifted by their number.
        let rest = if A::WORDS > 1 { address.skip(self.before) } else { address.step(self.before) };
        let byte = (rest.top(self.stride) as usize) << self.size;
        // The first slot is at a multiple of 16.
        let at = self.first.wrapping_add(byte & !7);
        // SAFETY: an aligned word inside of a node: there are as many slots as `stride` bits have values.
        let word = u64::from_le(unsafe { at.cast::<u64>().read() }) >> ((byte & 7) * 8);
        word & self.mask
    }
}

impl Root {
    /// What there is at `at`.
    pub(super) fn at<A: Address>(view: &View<'_>, table: &Table<A>, at: Ref) -> Root {
        if at.is_set() {
            return Root::of_line(view, table, &table.forest.formats, table.forest.pool.line(at.line()));
        }
        Root { child: at, ..Root::empty::<A>() }
    }

    /// No prefixes.
    pub(super) fn empty<A: Address>() -> Root {
        Root { routes: SmallVec::new(), gate: Prefix::new(A::from_wide(0), 0), child: Ref::NULL }
    }

    /// What a line of these formats says.
    pub(super) fn of_line<A: Address>(view: &View<'_>, table: &Table<A>, formats: &Formats, line: &Line) -> Root {
        let pool = &table.forest.pool;
        let set: Set<A> = formats.read(line, pool);
        let value = |index, cell| {
            let number = |cell: u64| view.values.wrapping_add(cell as usize * view.stride);
            if view.numbered { number(cell) } else { formats.cell_at(line, pool, index) }
        };
        let mut routes = SmallVec::new();
        for (index, route) in set.routes.iter().enumerate().rev() {
            routes.push((Prefix::new(route.addr, route.len), value(index, route.cell)));
        }
        let (addr, len, child) =
            set.gate.map_or((A::from_wide(0), 0, Ref::NULL), |gate| (gate.addr, gate.len, gate.child));
        Root { routes, gate: Prefix::new(addr, len), child }
    }
    /// Whether it pays to look for one address after the other: there is no node below, or one that stays in a near cache. What is further away is to
    /// be asked for first.
    pub(super) fn is_near(&self) -> bool {
        let child = self.child;
        child.is_null() || child.is_set() || 1 << (child.stride() + child.size()) <= NEAR
    }

    /// Looks for each address; `out` has a place for each and gets the values. `go_on` gets the keys that have more below: their position,
    /// where they go, the rest of the address. If one has, it may get others, too, with nowhere to go.
    #[inline(always)]
    pub(super) fn look_up<A: Address>(
        &self,
        view: &View<'_>,
        address: impl Fn(usize) -> A,
        out: &mut [*const u8],
        mut go_on: impl FnMut(usize, Ref, A),
    ) {
        let slots = Slots::of(view, self.child, self.gate.len);
        let mut below = [const { MaybeUninit::<u64>::uninit() }; CHUNK];
        let mut any = 0;
        for (index, (out, below)) in out.iter_mut().zip(&mut below).enumerate() {
            let address = address(index);
            let mut found = std::ptr::null();
            for (prefix, value) in &self.routes {
                found = select_unpredictable(prefix.is_of(address), *value, found);
            }
            let mut child = if self.gate.is_of(address) { self.child.0 } else { 0 };
            if let Some(slots) = &slots {
                let slot = slots.read(address);
                let slot = if child != 0 { slot } else { 0 };
                let number = slot as usize & ((1 << NUMBER_BITS) - 1);
                found = select_unpredictable(number != 0, view.values.wrapping_add(number * view.stride), found);
                child = slot >> NUMBER_BITS;
            }
            *out = found;
            below.write(child);
            any |= child;
        }
        if any == 0 {
            return;
        }
        let depth = self.gate.len + slots.map_or(0, |slots| slots.stride);
        for (index, below) in below[..out.len().min(CHUNK)].iter().enumerate() {
            // SAFETY: written above.
            go_on(index, Ref(unsafe { below.assume_init() }), address(index).skip(depth));
        }
    }
}
