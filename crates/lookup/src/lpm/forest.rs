//! [`TrieForest`]: all prefix lines and nodes of a table; insertion and removal of prefixes.
//!
//! The prefixes under one exact key form a tree of blocks. Its root is a [`PrefixLine`]. A line
//! that overflows becomes one with a compressed child, which is a node; the children of a node's
//! slots are lines or nodes again. `build.rs` chooses between them.

use super::address::AddressBits;
use super::next_hops::NextHopTable;
use super::node::{self, INNER_SLOT_SIZE, NodePrefix, TrieNodes};
use super::pool::{BlockRef, LineBytes, LinePool};
use super::prefix_line::{LpmRoute, PrefixLine, PrefixLineLayouts};

/// Bytes of a line for prefixes, cells and child, if the exact key takes none of them.
pub(super) const LINE_AREA_BYTES: usize = 56;
/// Maximum length in bytes of values stored in the lines.
const MAX_INLINE_VALUE_BYTES: usize = 8;
/// Maximum number of prefixes of a node that is rebuilt rather than widened.
const CHEAP_REBUILD_PREFIXES: u32 = 64;

#[derive(Clone, Debug)]
pub(super) struct TrieForest<A> {
    pub pool: LinePool,
    pub nodes: TrieNodes,
    pub values: NextHopTable,
    /// Layouts of lines in the pool.
    pub line_layouts: PrefixLineLayouts,
    /// Whether cells are value numbers.
    pub uses_value_numbers: bool,
    address: std::marker::PhantomData<A>,
}

impl<A: AddressBits> TrieForest<A> {
    /// Creates a forest for values of at most `longest_value` bytes. Cells are value numbers if
    /// `numbered` or if values are not short.
    pub(super) fn new(longest_value: usize, numbered: bool) -> TrieForest<A> {
        let numbered = numbered || longest_value > MAX_INLINE_VALUE_BYTES;
        TrieForest {
            pool: LinePool::new(),
            nodes: TrieNodes::default(),
            values: NextHopTable::new(longest_value),
            line_layouts: PrefixLineLayouts::new(LINE_AREA_BYTES, cell_bytes(longest_value, numbered)),
            uses_value_numbers: numbered,
            address: std::marker::PhantomData,
        }
    }

    /// Returns the cell of a value for a new prefix.
    pub(super) fn value_cell(&mut self, value: &[u8]) -> u64 {
        if self.uses_value_numbers {
            return u64::from(self.values.acquire(value));
        }
        let mut word = [0; 8];
        let len = value.len().min(self.line_layouts.cell_bytes);
        word[..len].copy_from_slice(&value[..len]);
        u64::from_le_bytes(word)
    }

    fn release_cell(&mut self, cell: u64) {
        if self.uses_value_numbers {
            self.values.release(cell as u32);
        }
    }

    /// Converts a cell to a value number, for a prefix that moves from a line to a node.
    pub(super) fn cell_to_number(&mut self, cell: u64) -> u32 {
        if self.uses_value_numbers { cell as u32 } else { self.values.acquire(&cell.to_le_bytes()) }
    }

    /// Converts a value number to a cell.
    fn number_to_cell(&mut self, number: u32) -> u64 {
        if self.uses_value_numbers {
            return u64::from(number);
        }
        let mut word = [0; 8];
        word.copy_from_slice(&self.values.get(number)[..8]);
        self.values.release(number);
        u64::from_le_bytes(word)
    }

    /// Inserts a prefix into a line, or replaces its value. Returns whether it existed. A prefix
    /// below the compressed child goes into the child; a line that becomes too full is built again,
    /// with a child.
    pub(super) fn insert_in_line(
        &mut self,
        layouts: &PrefixLineLayouts,
        line: &mut LineBytes,
        route: LpmRoute<A>,
    ) -> bool {
        let mut contents: PrefixLine<A> = layouts.read_line(line, &self.pool);
        if let Some(compressed_child) = contents.compressed_child
            && compressed_child.covers_longer(route.addr, route.len)
        {
            let (child, replaced) =
                self.insert_below(compressed_child.child, route.skip_leading_bits(compressed_child.len));
            if child != compressed_child.child {
                layouts.write_child(line, child);
            }
            return replaced;
        }
        let position = contents.position(route.addr, route.len);
        match position {
            Some(index) => {
                let old_cell = std::mem::replace(&mut contents.routes[index].cell, route.cell);
                self.release_cell(old_cell);
            }
            None => contents.insert_route(route),
        }
        if !layouts.write_line(line, &mut self.pool, &contents) {
            let mut routes = Vec::new();
            self.drain_line(&contents, A::from_left_u128(0), 0, &mut routes);
            self.build_line(layouts, line, routes);
        }
        position.is_some()
    }

    /// Removes a prefix from a line. Returns whether it existed.
    pub(super) fn remove_from_line(
        &mut self,
        layouts: &PrefixLineLayouts,
        line: &mut LineBytes,
        addr: A,
        len: u32,
    ) -> bool {
        let mut contents: PrefixLine<A> = layouts.read_line(line, &self.pool);
        if let Some(compressed_child) = &mut contents.compressed_child
            && compressed_child.covers_longer(addr, len)
        {
            let old_child = compressed_child.child;
            let (child, removed) =
                self.remove_below(old_child, addr.skip_bits(compressed_child.len), len - compressed_child.len);
            if child != old_child {
                compressed_child.child = child;
                self.merge_shrunk_child(layouts, line, contents);
            }
            return removed;
        }
        let Some(index) = contents.position(addr, len) else {
            return false;
        };
        let cell = contents.routes.remove(index).cell;
        self.release_cell(cell);
        let written = layouts.write_line(line, &mut self.pool, &contents);
        debug_assert!(written, "fewer prefixes fit in the line");
        true
    }

    /// Updates a line after a change of its compressed child. Removes an empty child, and merges a
    /// child that fits in the line.
    fn merge_shrunk_child(&mut self, layouts: &PrefixLineLayouts, line: &mut LineBytes, mut contents: PrefixLine<A>) {
        let Some(compressed_child) = contents.compressed_child else { return };
        if compressed_child.child.is_prefix_line() {
            let child: PrefixLine<A> =
                self.line_layouts.read_line(self.pool.line(compressed_child.child.line()), &self.pool);
            if child.compressed_child.is_none() {
                let mut merged =
                    PrefixLine { routes: contents.routes.clone(), compressed_child: None, value_block: None };
                for route in &child.routes {
                    let addr = compressed_child.addr.append_bits(compressed_child.len, route.addr);
                    merged.insert_route(LpmRoute { addr, len: compressed_child.len + route.len, cell: route.cell });
                }
                if layouts.write_line(line, &mut self.pool, &merged) {
                    self.free_line(compressed_child.child.line(), &child);
                    return;
                }
            }
        }
        if compressed_child.child.is_null() {
            contents.compressed_child = None;
        }
        let written = layouts.write_line(line, &mut self.pool, &contents);
        debug_assert!(written, "a line without a child holds more prefixes");
    }

    /// Inserts a prefix below `node`, or replaces its value. Returns the new block and whether the
    /// prefix existed. `node` may be null, a prefix line or a node.
    pub(super) fn insert_below(&mut self, node: BlockRef, route: LpmRoute<A>) -> (BlockRef, bool) {
        if node.is_null() {
            return (self.build_block(&mut [route], 0), false);
        }
        if node.is_prefix_line() {
            let (layouts, mut line) = (self.line_layouts, *self.pool.line(node.line()));
            let replaced = self.insert_in_line(&layouts, &mut line, route);
            *self.pool.line_mut(node.line()) = line;
            return (self.replace_empty_line(node), replaced);
        }
        let stride = node.stride();
        let (node, replaced) = if route.len <= stride {
            let ending = NodePrefix::new(route.addr.leading_bits(stride), route.len, self.cell_to_number(route.cell));
            let (node, old_number) = self.nodes.insert_prefix(&mut self.pool, node, ending);
            if let Some(number) = old_number {
                self.values.release(number);
            }
            (node, old_number.is_some())
        } else {
            if node.slot_size_log2() < INNER_SLOT_SIZE
                && self.nodes.prefix_count(&self.pool, node) <= CHEAP_REBUILD_PREFIXES
            {
                // The node was built for shorter prefixes.
                let mut routes = vec![route];
                self.drain_block(node, A::from_left_u128(0), 0, &mut routes);
                return (self.build_block(&mut routes, 0), false);
            }
            let node = if node.slot_size_log2() < INNER_SLOT_SIZE {
                self.nodes.widen_slots(&mut self.pool, node, INNER_SLOT_SIZE)
            } else {
                node
            };
            let slot = route.addr.leading_bits(stride);
            let old_child = node::child_at(&self.pool, node, slot);
            let (child, replaced) = self.insert_below(old_child, route.skip_leading_bits(stride));
            if child != old_child {
                node::set_child(&mut self.pool, node, slot, child);
            }
            (node, replaced)
        };
        let has_outgrown = !replaced && self.nodes.update_count(&self.pool, node, true);
        (if has_outgrown { self.rebuild_block(node) } else { node }, replaced)
    }

    /// Removes a prefix below `node`. Returns the new block and whether the prefix existed.
    pub(super) fn remove_below(&mut self, node: BlockRef, addr: A, len: u32) -> (BlockRef, bool) {
        if node.is_null() {
            return (node, false);
        }
        if node.is_prefix_line() {
            let (layouts, mut line) = (self.line_layouts, *self.pool.line(node.line()));
            let removed = self.remove_from_line(&layouts, &mut line, addr, len);
            *self.pool.line_mut(node.line()) = line;
            return (self.replace_empty_line(node), removed);
        }
        let stride = node.stride();
        let slot = addr.leading_bits(stride);
        let removed = if len <= stride {
            let number = self.nodes.remove_prefix(&mut self.pool, node, slot, len);
            if let Some(number) = number {
                self.values.release(number);
            }
            number.is_some()
        } else {
            let old_child = node::child_at(&self.pool, node, slot);
            let (child, removed) = self.remove_below(old_child, addr.skip_bits(stride), len - stride);
            if child != old_child {
                node::set_child(&mut self.pool, node, slot, child);
            }
            removed
        };
        if !removed {
            return (node, false);
        }
        let has_shrunk = self.nodes.update_count(&self.pool, node, false);
        if self.nodes.prefix_count(&self.pool, node) == 0 {
            self.nodes.free_node(&mut self.pool, node);
            return (BlockRef::NULL, true);
        }
        (if has_shrunk { self.rebuild_block(node) } else { node }, true)
    }

    /// Replaces a line without prefixes of its own by its child.
    pub(super) fn replace_empty_line(&mut self, at: BlockRef) -> BlockRef {
        let set: PrefixLine<A> = self.line_layouts.read_line(self.pool.line(at.line()), &self.pool);
        let instead = match set.compressed_child {
            _ if !set.routes.is_empty() => return at,
            Some(gate) if gate.len > 0 => return at,
            Some(gate) => gate.child,
            None => BlockRef::NULL,
        };
        self.free_line(at.line(), &set);
        instead
    }

    fn rebuild_block(&mut self, at: BlockRef) -> BlockRef {
        let mut routes = Vec::new();
        self.drain_block(at, A::from_left_u128(0), 0, &mut routes);
        self.build_block(&mut routes, 0)
    }

    /// Removes all prefixes at and below `block` and frees its blocks. `above` holds the first
    /// `depth` bits of the prefixes.
    pub(super) fn drain_block(&mut self, block: BlockRef, above: A, depth: u32, routes: &mut Vec<LpmRoute<A>>) {
        if block.is_null() {
            return;
        }
        if block.is_prefix_line() {
            let contents: PrefixLine<A> = self.line_layouts.read_line(self.pool.line(block.line()), &self.pool);
            self.drain_line(&contents, above, depth, routes);
            // Its block of cells was freed with its prefixes.
            self.pool.free_block(block.line(), 1);
            return;
        }
        let stride = block.stride();
        if block.slot_size_log2() == INNER_SLOT_SIZE {
            for slot in 0..1 << stride {
                let child = node::child_at(&self.pool, block, slot);
                let above = above.append_bits(depth, A::from_leading_bits(slot, stride));
                self.drain_block(child, above, depth + stride, routes);
            }
        }
        for ending in self.nodes.free_node(&mut self.pool, block) {
            let addr = above.append_bits(depth, A::from_leading_bits(ending.first_slot(), stride));
            routes.push(LpmRoute { addr, len: depth + ending.len(), cell: self.number_to_cell(ending.value_number()) });
        }
    }

    /// Removes all prefixes of a line, its block of cells and its child. The caller frees the line.
    fn drain_line(&mut self, set: &PrefixLine<A>, above: A, depth: u32, routes: &mut Vec<LpmRoute<A>>) {
        for route in &set.routes {
            routes.push(LpmRoute {
                addr: above.append_bits(depth, route.addr),
                len: depth + route.len,
                cell: route.cell,
            });
        }
        if let Some((block, lines)) = set.value_block {
            self.pool.free_block(block, lines);
        }
        if let Some(gate) = &set.compressed_child {
            self.drain_block(gate.child, above.append_bits(depth, gate.addr), depth + gate.len, routes);
        }
    }

    fn free_line(&mut self, line: u32, set: &PrefixLine<A>) {
        if let Some((block, lines)) = set.value_block {
            self.pool.free_block(block, lines);
        }
        self.pool.free_block(line, 1);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes() + self.nodes.memory_bytes() + self.values.memory_bytes()
    }
}

/// Returns the bytes of a cell.
fn cell_bytes(longest_value: usize, numbered: bool) -> usize {
    if numbered { 4 } else { longest_value.max(1) }
}
