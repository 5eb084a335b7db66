//! [`Way`]: what all segments of one way through the program have in common; a segment has only values beside it.

use crate::asks::Asks;
use crate::segment::{End, Play};
use interp::walk::{Code, Pc, Script};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// Where a word of a table's key comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// It is what the packet has at that place of [`Way::asks`].
    Asked(u32),
    /// It came about on the way: that word of the segment's own.
    Own(u32),
}

/// A question to a table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Question {
    /// The table.
    pub table: u32,
    /// The words of its keys' values, field by field.
    pub key: Box<[Source]>,
    /// The bits of them that decided.
    pub mask: Box<[u64]>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Way {
    /// Where it begins: the start of the control, or a table application.
    pub tag: Pc,
    /// The bits of the packet's state that must be the same.
    pub asks: Arc<Asks>,
    /// What is done.
    pub plays: Arc<[Play]>,
    /// The same, ready to be done: made when it is done first ([`Way::script`]).
    pub script: OnceLock<Script>,
    /// Where it leads.
    pub end: End,
    /// Backward jumps that are left out, and table applications.
    pub fuel: u64,
    /// The backward jumps alone.
    pub backs: u64,
    /// What it asks of tables, in order.
    pub questions: Box<[Question]>,
    /// Words of keys that a segment keeps itself.
    pub own: usize,
}

impl Way {
    /// Words of a segment's body: the values that are asked for, its own words, and two entries' numbers a word.
    pub fn body(&self) -> usize {
        self.asks.words() + self.own + self.questions.len().div_ceil(2)
    }

    /// What is done, ready to be done. `code` is that of the control.
    pub fn script(&self, code: &Code) -> &Script {
        self.script.get_or_init(|| Script::new(code, &self.plays))
    }

    /// How many tables it stands for.
    pub fn tables(&self) -> u32 {
        self.questions.len() as u32
    }

    /// Bytes that it takes, about.
    pub fn memory(&self) -> usize {
        let questions: usize = self.questions.iter().map(|q| size_of_val(&*q.key) + size_of_val(&*q.mask)).sum();
        size_of::<Way>()
            + size_of_val(&*self.plays)
            + self.script.get().map_or(0, Script::memory)
            + questions
            + size_of_val(&*self.questions)
    }
}

impl PartialEq for Way {
    fn eq(&self, other: &Way) -> bool {
        let Way { tag, asks, plays, script: _, end, fuel, backs, questions, own } = self;
        (*tag, *end, *fuel, *backs, *own) == (other.tag, other.end, other.fuel, other.backs, other.own)
            && (Arc::ptr_eq(asks, &other.asks) || *asks == other.asks)
            && *questions == other.questions
            && (Arc::ptr_eq(plays, &other.plays) || *plays == other.plays)
    }
}

impl Eq for Way {}

impl Hash for Way {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Way { tag, asks, plays, script: _, end, fuel, backs, questions, own } = self;
        (tag, asks.bits(), plays, end, fuel, backs, questions, own).hash(state);
    }
}
