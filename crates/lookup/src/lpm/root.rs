//! [`RootCache`]: the first line or node of all keys of a batch, decoded for comparison with many
//! addresses.
#![allow(unsafe_code)]

use super::address::AddressBits;
use super::next_hops::VALUE_NUMBER_BITS;
use super::node::PREAMBLE_BYTES;
use super::pool::{BlockRef, LineBytes};
use super::prefix_line::{PrefixLine, PrefixLineLayouts};
use super::table::TypedLpmTable;
use super::view::{CHUNK_KEYS, LpmView, SLOT_MASKS};
use smallvec::SmallVec;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Prefix of addresses, most significant word first.
#[derive(Clone, Copy)]
pub(super) struct RootPrefix {
    pub bits: [u64; 2],
    /// Mask of the prefix bits.
    pub mask: [u64; 2],
    pub len: u32,
}

/// Decoded prefixes of a line, and its compressed child.
pub(super) struct RootCache {
    /// Each with the address of its value; shortest first.
    pub routes: SmallVec<[(RootPrefix, *const u8); 12]>,
    pub child_prefix: RootPrefix,
    pub child: BlockRef,
}

impl RootPrefix {
    #[inline]
    fn new<A: AddressBits>(addr: A, len: u32) -> RootPrefix {
        let words = |wide: u128| [(wide >> 64) as u64, wide as u64];
        RootPrefix { bits: words(addr.to_left_u128()), mask: words(!u128::MAX.checked_shr(len).unwrap_or(0)), len }
    }

    /// Returns whether an address matches.
    #[inline(always)]
    fn matches_address<A: AddressBits>(&self, address: A) -> bool {
        let wide = address.to_left_u128();
        let high = ((wide >> 64) as u64 ^ self.bits[0]) & self.mask[0];
        let low = if A::WORDS > 1 { (wide as u64 ^ self.bits[1]) & self.mask[1] } else { 0 };
        high | low == 0
    }
}

/// Maximum size in bytes of a node that is expected to stay in cache.
const CACHED_NODE_BYTES: usize = 64 << 10;

/// Slots of a node, decoded for many lookups.
pub(super) struct NodeSlots {
    first: *const u8,
    /// Address bits before those that choose a slot.
    skipped_bits: u32,
    stride: u32,
    /// Slot size as a binary logarithm.
    size: u32,
    /// Mask of a slot in the low bits of its word.
    mask: u64,
}

impl NodeSlots {
    /// Returns the slots of the node `at` in the pool of `view`, after `before` bits of an address;
    /// `None` for null or a prefix line.
    #[inline(always)]
    pub(super) fn of_node(view: &LpmView<'_>, at: BlockRef, before: u32) -> Option<NodeSlots> {
        let node = !at.is_null() && !at.is_prefix_line();
        let first = view.pool.wrapping_add(((at.line() as usize) << 6) + PREAMBLE_BYTES);
        let (stride, size) = (at.stride(), at.slot_size_log2());
        node.then(|| NodeSlots { first, skipped_bits: before, stride, size, mask: SLOT_MASKS[size as usize & 3] })
    }

    /// Reads the slot of an address.
    #[inline(always)]
    pub(super) fn read_slot<A: AddressBits>(&self, address: A) -> u64 {
        // At least one bit follows the skipped ones, so a one-word address can be shifted by their
        // number.
        let rest = if A::WORDS > 1 {
            address.skip_bits(self.skipped_bits)
        } else {
            address.skip_bits_short(self.skipped_bits)
        };
        let byte = (rest.leading_bits(self.stride) as usize) << self.size;
        // The first slot is aligned to 16 bytes.
        let at = self.first.wrapping_add(byte & !7);
        // SAFETY: an aligned word inside a node, which has a slot for each value of `stride` bits.
        let word = u64::from_le(unsafe { at.cast::<u64>().read() }) >> ((byte & 7) * 8);
        word & self.mask
    }
}

impl RootCache {
    /// Decodes the block `at`.
    pub(super) fn from_block<A: AddressBits>(view: &LpmView<'_>, table: &TypedLpmTable<A>, at: BlockRef) -> RootCache {
        if at.is_prefix_line() {
            return RootCache::from_line(view, table, &table.forest.line_layouts, table.forest.pool.line(at.line()));
        }
        RootCache { child: at, ..RootCache::empty::<A>() }
    }

    /// Returns a root without prefixes.
    pub(super) fn empty<A: AddressBits>() -> RootCache {
        RootCache {
            routes: SmallVec::new(),
            child_prefix: RootPrefix::new(A::from_left_u128(0), 0),
            child: BlockRef::NULL,
        }
    }

    /// Decodes a line with these layouts.
    /// The routes are in ascending order of length, so that the last that matches is the longest.
    pub(super) fn from_line<A: AddressBits>(
        view: &LpmView<'_>,
        table: &TypedLpmTable<A>,
        layouts: &PrefixLineLayouts,
        line: &LineBytes,
    ) -> RootCache {
        let pool = &table.forest.pool;
        let contents: PrefixLine<A> = layouts.read_line(line, pool);
        let value = |index, cell| {
            let number = |cell: u64| view.values.wrapping_add(cell as usize * view.value_stride);
            if view.uses_value_numbers { number(cell) } else { layouts.cell_ptr(line, pool, index) }
        };
        let mut routes = SmallVec::new();
        for (index, route) in contents.routes.iter().enumerate().rev() {
            routes.push((RootPrefix::new(route.addr, route.len), value(index, route.cell)));
        }
        let (addr, len, child) = contents
            .compressed_child
            .map_or((A::from_left_u128(0), 0, BlockRef::NULL), |child| (child.addr, child.len, child.child));
        RootCache { routes, child_prefix: RootPrefix::new(addr, len), child }
    }
    /// Returns whether lookups one by one pay off, because the child is null, a line, or a node
    /// that stays in cache. Otherwise slots must be prefetched.
    pub(super) fn is_cached(&self) -> bool {
        let child = self.child;
        child.is_null() || child.is_prefix_line() || 1 << (child.stride() + child.slot_size_log2()) <= CACHED_NODE_BYTES
    }

    /// Looks up each address and writes its value to `out`, which has an element for each. Calls
    /// `go_on` for keys with a longer match below, with their index, next block and remaining
    /// address. If any key has one, it may also be called for others, with a null block.
    #[inline(always)]
    pub(super) fn lookup_each<A: AddressBits>(
        &self,
        view: &LpmView<'_>,
        address: impl Fn(usize) -> A,
        out: &mut [*const u8],
        mut go_on: impl FnMut(usize, BlockRef, A),
    ) {
        let slots = NodeSlots::of_node(view, self.child, self.child_prefix.len);
        let mut children = [const { MaybeUninit::<u64>::uninit() }; CHUNK_KEYS];
        let mut any_child = 0;
        for (index, (out, child_out)) in out.iter_mut().zip(&mut children).enumerate() {
            let address = address(index);
            let mut found = std::ptr::null();
            for (prefix, value) in &self.routes {
                found = select_unpredictable(prefix.matches_address(address), *value, found);
            }
            let mut child = if self.child_prefix.matches_address(address) { self.child.0 } else { 0 };
            if let Some(slots) = &slots {
                let slot = slots.read_slot(address);
                let slot = if child != 0 { slot } else { 0 };
                let number = slot as usize & ((1 << VALUE_NUMBER_BITS) - 1);
                found = select_unpredictable(number != 0, view.values.wrapping_add(number * view.value_stride), found);
                child = slot >> VALUE_NUMBER_BITS;
            }
            *out = found;
            child_out.write(child);
            any_child |= child;
        }
        if any_child == 0 {
            return;
        }
        let depth = self.child_prefix.len + slots.map_or(0, |slots| slots.stride);
        for (index, child) in children[..out.len().min(CHUNK_KEYS)].iter().enumerate() {
            // SAFETY: written above.
            go_on(index, BlockRef(unsafe { child.assume_init() }), address(index).skip_bits(depth));
        }
    }
}
