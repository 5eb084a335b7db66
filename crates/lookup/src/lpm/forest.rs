//! [`Forest`]: all sets and nodes of a table, and how prefixes come and go.
//!
//! The prefixes under one exact key are a tree of blocks. Its first block is a [`Set`] line; a set that overflows becomes one with
//! a gate and a node behind it; behind a node's slots there are sets again, or nodes. `build.rs` decides which.

use super::address::Address;
use super::node::{self, Ending, INNER, Nodes};
use super::pool::{Line, Pool, Ref};
use super::set::{Formats, Route, Set};
use super::values::Values;

/// Bytes of a set's line for prefixes, cells and gate if no key is in its way.
pub(super) const ROOM: usize = 56;
/// Values of at most this many bytes lie in the lines of sets.
const SHORT: usize = 8;
/// A node with so many prefixes is built anew without much thought.
const FEW: u32 = 64;

#[derive(Clone, Debug)]
pub(super) struct Forest<A> {
    pub pool: Pool,
    pub nodes: Nodes,
    pub values: Values,
    /// Of lines in the pool.
    pub formats: Formats,
    /// Whether cells are numbers of values.
    pub numbered: bool,
    address: std::marker::PhantomData<A>,
}

impl<A: Address> Forest<A> {
    /// With values of at most `longest_value` bytes; of numbers if `numbered`, or if they are not short.
    pub(super) fn new(longest_value: usize, numbered: bool) -> Forest<A> {
        let numbered = numbered || longest_value > SHORT;
        Forest {
            pool: Pool::new(),
            nodes: Nodes::default(),
            values: Values::new(longest_value),
            formats: Formats::new(ROOM, cell_bytes(longest_value, numbered)),
            numbered,
            address: std::marker::PhantomData,
        }
    }

    /// The cell of a value, for one more prefix.
    pub(super) fn cell(&mut self, value: &[u8]) -> u64 {
        if self.numbered {
            return u64::from(self.values.take(value));
        }
        let mut word = [0; 8];
        let len = value.len().min(self.formats.cell);
        word[..len].copy_from_slice(&value[..len]);
        u64::from_le_bytes(word)
    }

    fn release(&mut self, cell: u64) {
        if self.numbered {
            self.values.release(cell as u32);
        }
    }

    /// The number of a cell's value: a prefix goes from a set to a node.
    pub(super) fn number(&mut self, cell: u64) -> u32 {
        if self.numbered { cell as u32 } else { self.values.take(&cell.to_le_bytes()) }
    }

    /// The way back.
    fn cell_of(&mut self, number: u32) -> u64 {
        if self.numbered {
            return u64::from(number);
        }
        let mut word = [0; 8];
        word.copy_from_slice(&self.values.get(number)[..8]);
        self.values.release(number);
        u64::from_le_bytes(word)
    }

    /// Adds a prefix to a set's line, or gives it another value. Whether it was there.
    pub(super) fn insert_in_set(&mut self, formats: &Formats, line: &mut Line, route: Route<A>) -> bool {
        let mut set: Set<A> = formats.read(line, &self.pool);
        if let Some(gate) = set.gate
            && gate.has(route.addr, route.len)
        {
            let (child, replaced) = self.insert(gate.child, route.below(gate.len));
            if child != gate.child {
                formats.write_child(line, child);
            }
            return replaced;
        }
        let there = set.position(route.addr, route.len);
        match there {
            Some(at) => {
                let before = std::mem::replace(&mut set.routes[at].cell, route.cell);
                self.release(before);
            }
            None => set.add(route),
        }
        if !formats.write(line, &mut self.pool, &set) {
            let mut routes = Vec::new();
            self.drain_set(&set, A::from_wide(0), 0, &mut routes);
            self.build_line(formats, line, routes);
        }
        there.is_some()
    }

    /// Removes a prefix from a set's line. Whether it was there.
    pub(super) fn remove_in_set(&mut self, formats: &Formats, line: &mut Line, addr: A, len: u32) -> bool {
        let mut set: Set<A> = formats.read(line, &self.pool);
        if let Some(gate) = &mut set.gate
            && gate.has(addr, len)
        {
            let before = gate.child;
            let (child, removed) = self.remove(before, addr.skip(gate.len), len - gate.len);
            if child != before {
                gate.child = child;
                self.child_shrank(formats, line, set);
            }
            return removed;
        }
        let Some(at) = set.position(addr, len) else {
            return false;
        };
        let cell = set.routes.remove(at).cell;
        self.release(cell);
        let written = formats.write(line, &mut self.pool, &set);
        debug_assert!(written, "a set of fewer prefixes has room");
        true
    }

    /// What is behind a gate is another block now: nothing at all, or perhaps so little that it fits in the line.
    fn child_shrank(&mut self, formats: &Formats, line: &mut Line, mut set: Set<A>) {
        let Some(gate) = set.gate else { return };
        if gate.child.is_set() {
            let child: Set<A> = self.formats.read(self.pool.line(gate.child.line()), &self.pool);
            if child.gate.is_none() {
                let mut all = Set { routes: set.routes.clone(), gate: None, apart: None };
                for route in &child.routes {
                    let addr = gate.addr.append(gate.len, route.addr);
                    all.add(Route { addr, len: gate.len + route.len, cell: route.cell });
                }
                if formats.write(line, &mut self.pool, &all) {
                    self.free_set(gate.child.line(), &child);
                    return;
                }
            }
        }
        if gate.child.is_null() {
            set.gate = None;
        }
        let written = formats.write(line, &mut self.pool, &set);
        debug_assert!(written, "a set without a gate has more room");
    }

    /// Adds a prefix below `at`, or gives it another value. What is there now, and whether the prefix was.
    pub(super) fn insert(&mut self, at: Ref, route: Route<A>) -> (Ref, bool) {
        if at.is_null() {
            return (self.build(&mut [route], 0), false);
        }
        if at.is_set() {
            let (formats, mut line) = (self.formats, *self.pool.line(at.line()));
            let replaced = self.insert_in_set(&formats, &mut line, route);
            *self.pool.line_mut(at.line()) = line;
            return (self.unwrap_line(at), replaced);
        }
        let stride = at.stride();
        let (at, replaced) = if route.len <= stride {
            let ending = Ending::new(route.addr.top(stride), route.len, self.number(route.cell));
            let (at, before) = self.nodes.put(&mut self.pool, at, ending);
            if let Some(number) = before {
                self.values.release(number);
            }
            (at, before.is_some())
        } else {
            if at.size() < INNER && self.nodes.count(&self.pool, at) <= FEW {
                // It was made for shorter prefixes.
                let mut routes = vec![route];
                self.drain(at, A::from_wide(0), 0, &mut routes);
                return (self.build(&mut routes, 0), false);
            }
            let at = if at.size() < INNER { self.nodes.resize(&mut self.pool, at, INNER) } else { at };
            let slot = route.addr.top(stride);
            let before = node::child(&self.pool, at, slot);
            let (child, replaced) = self.insert(before, route.below(stride));
            if child != before {
                node::set_child(&mut self.pool, at, slot, child);
            }
            (at, replaced)
        };
        let grown = !replaced && self.nodes.counted(&self.pool, at, true);
        (if grown { self.rebuild(at) } else { at }, replaced)
    }

    /// Removes a prefix below `at`. What is there now, and whether the prefix was.
    pub(super) fn remove(&mut self, at: Ref, addr: A, len: u32) -> (Ref, bool) {
        if at.is_null() {
            return (at, false);
        }
        if at.is_set() {
            let (formats, mut line) = (self.formats, *self.pool.line(at.line()));
            let removed = self.remove_in_set(&formats, &mut line, addr, len);
            *self.pool.line_mut(at.line()) = line;
            return (self.unwrap_line(at), removed);
        }
        let stride = at.stride();
        let slot = addr.top(stride);
        let removed = if len <= stride {
            let number = self.nodes.take(&mut self.pool, at, slot, len);
            if let Some(number) = number {
                self.values.release(number);
            }
            number.is_some()
        } else {
            let before = node::child(&self.pool, at, slot);
            let (child, removed) = self.remove(before, addr.skip(stride), len - stride);
            if child != before {
                node::set_child(&mut self.pool, at, slot, child);
            }
            removed
        };
        if !removed {
            return (at, false);
        }
        let shrunk = self.nodes.counted(&self.pool, at, false);
        if self.nodes.count(&self.pool, at) == 0 {
            self.nodes.free_node(&mut self.pool, at);
            return (Ref::NULL, true);
        }
        (if shrunk { self.rebuild(at) } else { at }, true)
    }

    /// A set that says nothing of its own gives way to what is behind it.
    pub(super) fn unwrap_line(&mut self, at: Ref) -> Ref {
        let set: Set<A> = self.formats.read(self.pool.line(at.line()), &self.pool);
        let instead = match set.gate {
            _ if !set.routes.is_empty() => return at,
            Some(gate) if gate.len > 0 => return at,
            Some(gate) => gate.child,
            None => Ref::NULL,
        };
        self.free_set(at.line(), &set);
        instead
    }

    fn rebuild(&mut self, at: Ref) -> Ref {
        let mut routes = Vec::new();
        self.drain(at, A::from_wide(0), 0, &mut routes);
        self.build(&mut routes, 0)
    }

    /// Takes all prefixes at and below `at`, of which the bits up to `depth` are those of `above`, and frees its blocks.
    pub(super) fn drain(&mut self, at: Ref, above: A, depth: u32, routes: &mut Vec<Route<A>>) {
        if at.is_null() {
            return;
        }
        if at.is_set() {
            let set: Set<A> = self.formats.read(self.pool.line(at.line()), &self.pool);
            self.drain_set(&set, above, depth, routes);
            // Its block of cells was given back with its prefixes.
            self.pool.give_back(at.line(), 1);
            return;
        }
        let stride = at.stride();
        if at.size() == INNER {
            for slot in 0..1 << stride {
                let child = node::child(&self.pool, at, slot);
                let above = above.append(depth, A::from_top(slot, stride));
                self.drain(child, above, depth + stride, routes);
            }
        }
        for ending in self.nodes.free_node(&mut self.pool, at) {
            let addr = above.append(depth, A::from_top(ending.first(), stride));
            routes.push(Route { addr, len: depth + ending.len(), cell: self.cell_of(ending.number()) });
        }
    }

    /// The same of a set: its prefixes, its block of cells, and what is behind its gate; its line is the caller's.
    fn drain_set(&mut self, set: &Set<A>, above: A, depth: u32, routes: &mut Vec<Route<A>>) {
        for route in &set.routes {
            routes.push(Route { addr: above.append(depth, route.addr), len: depth + route.len, cell: route.cell });
        }
        if let Some((block, lines)) = set.apart {
            self.pool.give_back(block, lines);
        }
        if let Some(gate) = &set.gate {
            self.drain(gate.child, above.append(depth, gate.addr), depth + gate.len, routes);
        }
    }

    fn free_set(&mut self, line: u32, set: &Set<A>) {
        if let Some((block, lines)) = set.apart {
            self.pool.give_back(block, lines);
        }
        self.pool.give_back(line, 1);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes() + self.nodes.memory_bytes() + self.values.memory_bytes()
    }
}

/// Bytes of a cell, given the longest value and whether cells are numbers.
fn cell_bytes(longest_value: usize, numbered: bool) -> usize {
    if numbered { 4 } else { longest_value.max(1) }
}
