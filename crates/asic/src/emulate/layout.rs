//! Where variables and values of a packet in flight lie.

use ir::{Body, Entity, Pipeline, Type, VarId};

/// A place in [`super::frame::Frame::slots`]. Bits above the width are 0; words are least significant first. Of a varbit the first word is the
/// length in bits, the others are its bits as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg {
    /// First word.
    pub slot: u32,
    /// How many words.
    pub words: u32,
    /// Type.
    pub ty: Type,
    /// Index of its stage clock.
    pub clock: u32,
}

impl Reg {
    /// Its words.
    pub fn range(self) -> std::ops::Range<usize> {
        self.slot as usize..(self.slot + self.words) as usize
    }

    /// Width in bits, of a varbit the greatest.
    pub fn width(self) -> u32 {
        self.ty.width()
    }

    /// Whether it is a varbit.
    pub fn varbit(self) -> bool {
        matches!(self.ty, Type::Varbit(_))
    }

    /// Bits that it takes where its length is not known: of a varbit its length, in 16 bits, comes first.
    pub fn carried_bits(self) -> u32 {
        self.width() + if self.varbit() { LENGTH_BITS } else { 0 }
    }
}

/// Bits of a varbit's length in a bridge header.
pub const LENGTH_BITS: u32 = 17;

/// The most words that the variables and the values of one body may take: 64 MiB a packet.
pub const MAX_WORDS: u64 = 1 << 23;

/// Places of all variables, and of the values of each body, which share theirs: no value outlives its body.
#[derive(Debug, Default)]
pub struct Layout {
    /// Of each variable.
    pub vars: Vec<Reg>,
    /// Of each value of each control.
    pub values: Vec<Vec<Reg>>,
    /// Words of all.
    pub words: usize,
    /// Clocks of all; those of header validities stand behind those of variables.
    pub clocks: usize,
    /// The clock of the first header's validity.
    pub header_clock: usize,
}

struct Next {
    word: u64,
    clock: u32,
}

impl Next {
    fn place(&mut self, ty: Type) -> Reg {
        let varbit = matches!(ty, Type::Varbit(_));
        let words = tables::words_for(ty.width()) as u32 + u32::from(varbit);
        let reg = Reg { slot: self.word.min(u64::from(u32::MAX / 2)) as u32, words, ty, clock: self.clock };
        self.word += u64::from(words);
        self.clock += 1;
        reg
    }
}

impl Layout {
    /// The layout of a pipeline; `None` if it takes too much.
    pub fn new(pipeline: &Pipeline) -> Option<Layout> {
        let mut next = Next { word: 0, clock: 0 };
        let vars: Vec<Reg> = pipeline.vars.values().map(|var| next.place(var.ty)).collect();
        let header_clock = next.clock as usize;
        next.clock += pipeline.headers.len() as u32;
        let (first_word, first_clock) = (next.word, next.clock);
        let (mut words, mut clocks) = (first_word, first_clock);
        let mut values = Vec::new();
        for control in pipeline.controls.values() {
            (next.word, next.clock) = (first_word, first_clock);
            values.push(control.body.values.values().map(|ty| next.place(*ty)).collect());
            (words, clocks) = (words.max(next.word), clocks.max(next.clock));
        }
        if words > MAX_WORDS {
            return None;
        }
        Some(Layout { vars, values, words: words as usize, clocks: clocks as usize, header_clock })
    }

    /// A variable's place.
    pub fn var(&self, var: VarId) -> Reg {
        self.vars[var.index()]
    }
}

/// Control-flow facts of a body that running it needs.
#[derive(Debug, Default)]
pub struct Shape {
    /// Position of each block in an order in which each comes before its successors except along back edges.
    pub order: Vec<usize>,
    /// For each block where the paths out of it come together again; none: only at the end.
    pub joins: Vec<Option<ir::Block>>,
    /// How many parser states begin at each block.
    pub states: Vec<u32>,
}

impl Shape {
    /// The shape of a body.
    pub fn new(body: &Body) -> Shape {
        let blocks = ir::reverse_postorder(body);
        let mut order = vec![usize::MAX; body.blocks.len()];
        blocks.iter().enumerate().for_each(|(position, block)| order[block.index()] = position);
        let mut states = vec![0; body.blocks.len()];
        for state in &body.states {
            if let Some(count) = states.get_mut(state.block.index()) {
                *count += 1;
            }
        }
        Shape { joins: joins(body, &blocks), order, states }
    }
}

/// Immediate postdominators, after Cooper, Harvey and Kennedy, on the reversed graph with one end added.
fn joins(body: &Body, blocks: &[ir::Block]) -> Vec<Option<ir::Block>> {
    let count = blocks.len();
    let mut position = vec![usize::MAX; body.blocks.len()];
    blocks.iter().enumerate().for_each(|(at, block)| position[block.index()] = at);
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| {
            let term = body.blocks[*block].term.as_ref();
            term.map(|t| t.term.successors()).unwrap_or_default().iter().map(|b| position[b.index()]).collect()
        })
        .collect();
    // The end has number `count`. A block's postdominator is searched for from the back, so numbers mostly fall on the way.
    const NONE: usize = usize::MAX;
    let mut found = vec![NONE; count + 1];
    found[count] = count;
    let mut changed = true;
    while changed {
        changed = false;
        for at in (0..count).rev() {
            let mut new = if successors[at].is_empty() { count } else { NONE };
            for next in successors[at].iter().filter(|next| found[**next] != NONE) {
                new = if new == NONE { *next } else { meet(&found, new, *next) };
            }
            if new != NONE && found[at] != new {
                found[at] = new;
                changed = true;
            }
        }
    }
    let mut joins = vec![None; body.blocks.len()];
    for (at, block) in blocks.iter().enumerate() {
        joins[block.index()] = blocks.get(found[at]).copied();
    }
    joins
}

/// The first block that both go through. In loops numbers do not fall along the way, so the way of one is remembered.
fn meet(found: &[usize], a: usize, b: usize) -> usize {
    let end = found.len() - 1;
    let mut way = std::collections::BTreeSet::new();
    let mut at = a;
    while way.insert(at) && at != end {
        at = found[at];
        if at == usize::MAX {
            break;
        }
    }
    let mut at = b;
    let mut steps = 0;
    while !way.contains(&at) {
        at = found[at];
        steps += 1;
        if at == usize::MAX || steps > found.len() {
            return end;
        }
    }
    at
}
