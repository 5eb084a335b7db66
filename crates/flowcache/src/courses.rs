//! [`Courses`]: all courses as one tree, by their decisions: what a new flow's packet will do, asked without doing it.
//!
//! A packet goes from the root, computes what a decision needs, decides, and goes on with the ways that went on there. Each decision is taken from the packet and the
//! tables as they are; none is assumed. Where no known way went on, nothing is foreseen, and as nothing has been done either, the packet starts anew on the slow path.

use crate::course::{Course, Decides, Step};
use crate::recipe::Part;
use interp::walk::{Beside, Code, Pc, Reg, Script, Slot};
use std::collections::HashMap;
use std::sync::Arc;

/// The most nodes and steps of all courses: when there are more, none is added until all are forgotten, as recipes are now and then.
const MAX_SIZE: usize = 1 << 20;

/// No node.
const NONE: u32 = u32::MAX;

/// Where a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// At a table.
    Asks(u32),
    /// At the end of that node.
    End(u32),
    /// Nowhere.
    Lost,
}

/// Where a way ends.
#[derive(Clone, Debug)]
pub struct Ending {
    /// Its recipe.
    pub recipe: usize,
    /// Where its segment's own words are.
    pub own: Box<[Slot]>,
    /// Elements of counters that it counts in: object, and slot of the index.
    pub counts: Box<[(usize, Slot)]>,
    /// What is done, with what the course has found out.
    pub script: Arc<Script>,
}

#[derive(Clone, Debug)]
enum Fork {
    /// No way was here yet.
    Unknown,
    /// If the slot is 0, and if it is not.
    Branch(Slot, [u32; 2]),
    Switch(Box<interp::walk::Switch>, HashMap<Pc, u32>),
    Table {
        asks: crate::course::Asks,
        on: Vec<(Pc, bool, u32)>,
    },
    End(Ending),
}

#[derive(Clone, Debug)]
struct Node {
    steps: Box<[Step]>,
    fork: Fork,
}

/// How many instructions these are.
fn count(steps: &[Step]) -> usize {
    let each = |step: &Step| if let Step::Ops(ops) = step { ops.len() } else { 1 };
    steps.iter().map(each).sum()
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Courses {
    nodes: Vec<Node>,
    /// Nodes and steps.
    size: usize,
    room: usize,
}

impl Courses {
    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Courses::default();
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Slots of program and courses.
    pub fn room(&self) -> usize {
        self.room
    }

    fn unknown(&mut self) -> u32 {
        self.size += 1;
        self.nodes.push(Node { steps: Box::default(), fork: Fork::Unknown });
        self.nodes.len() as u32 - 1
    }

    /// Adds the course of a recipe, whose one segment is made by `part`.
    pub fn insert(&mut self, course: Course, recipe: usize, part: &Part, code: &Code) {
        if self.size > MAX_SIZE {
            return;
        }
        let Course { stretches, last, counts, moves, keys, room } = course;
        self.room = self.room.max(room);
        let mut at = if self.nodes.is_empty() { self.unknown() } else { 0 };
        for stretch in stretches {
            let (to, flag) = stretch.outcome;
            let node = &mut self.nodes[at as usize];
            if let Fork::Unknown = node.fork {
                node.steps = stretch.steps.into();
                self.size += count(&node.steps);
                node.fork = match stretch.decides {
                    Decides::Branch(slot) => Fork::Branch(slot, [NONE; 2]),
                    Decides::Switch(switch) => Fork::Switch(switch, HashMap::new()),
                    Decides::Table(asks) => Fork::Table { asks: *asks, on: Vec::new() },
                };
            }
            let child = match &node.fork {
                Fork::Branch(_, on) => on[usize::from(flag)],
                Fork::Switch(_, on) => on.get(&to).copied().unwrap_or(NONE),
                Fork::Table { on, .. } => on.iter().find(|one| (one.0, one.1) == (to, flag)).map_or(NONE, |one| one.2),
                Fork::Unknown | Fork::End(_) => return,
            };
            let child = if child == NONE { self.unknown() } else { child };
            match &mut self.nodes[at as usize].fork {
                Fork::Branch(_, on) => on[usize::from(flag)] = child,
                Fork::Switch(_, on) => drop(on.insert(to, child)),
                Fork::Table { on, .. } if on.iter().all(|one| one.2 != child) => on.push((to, flag, child)),
                _ => {}
            }
            at = child;
        }
        let own = part.own().iter().map(|(application, word)| keys[*application][*word]).collect();
        let instead = |pc| moves.iter().find(|(at, _)| *at == pc).map(|(_, op)| *op);
        let script = Script::with(code, &part.way.plays, instead);
        let fork = Fork::End(Ending { recipe, own, counts: counts.into(), script: script.into() });
        self.size += count(&last);
        self.nodes[at as usize] = Node { steps: last.into(), fork };
    }

    /// From a node on to the next table, or the end. `found`: what the tables so far have found.
    #[inline]
    pub fn go(&self, beside: &mut Beside<'_, '_>, mut at: u32, found: &[Option<u32>]) -> At {
        loop {
            let Some(node) = self.nodes.get(at as usize) else { return At::Lost };
            for step in &node.steps {
                match step {
                    Step::Ops(ops) => beside.compute(ops),
                    Step::Argument { d, application, table, word } => {
                        let value = beside.argument(*table as usize, found[*application as usize], *word as usize);
                        beside.set(*d, value);
                    }
                    Step::Set { d, value } => beside.set(*d, *value),
                    Step::Wide(op) => beside.compute_wide(op),
                    Step::Call(call) => beside.call_function(call),
                }
            }
            at = match &node.fork {
                Fork::Branch(slot, on) => on[usize::from(beside.slots()[*slot as usize] != 0)],
                Fork::Switch(switch, on) => on.get(&beside.switch(switch)).copied().unwrap_or(NONE),
                Fork::Table { .. } => return At::Asks(at),
                Fork::End(_) => return At::End(at),
                Fork::Unknown => NONE,
            };
        }
    }

    /// The table that a node asks, and its keys.
    pub fn asks(&self, node: u32) -> Option<(usize, &[Reg])> {
        match &self.nodes[node as usize].fork {
            Fork::Table { asks, .. } => Some((asks.table, &asks.keys)),
            _ => None,
        }
    }

    /// Where a packet goes on whose table at a node has found that.
    #[inline]
    pub fn answered(&self, beside: &Beside<'_, '_>, node: u32, found: Option<u32>) -> u32 {
        let Fork::Table { asks, on } = &self.nodes[node as usize].fork else { return NONE };
        let Some(to) = beside.arm_of(asks.table, found).and_then(|arm| asks.arms.get(arm as usize)) else {
            return NONE;
        };
        on.iter().find(|one| (one.0, one.1) == (*to, found.is_some())).map_or(NONE, |one| one.2)
    }

    /// The end that a packet is at.
    #[inline]
    pub fn end(&self, node: u32) -> Option<&Ending> {
        match &self.nodes[node as usize].fork {
            Fork::End(ending) => Some(ending),
            _ => None,
        }
    }
}
