//! Masks that are put together one by one wait for each other: a comparison within a mask takes as long as five additions. So those that nobody asks for on the way are put
//! together in pairs, pairs of pairs and so on, each as soon as it is there.

use crate::lanes::ir::{Code, Id, Op};
use crate::lanes::masks::inverted;
use std::collections::HashMap;

/// Masks of one row that have been put together so far: each with the logarithm of how many they are.
type Row = Vec<(Id, u32)>;

/// The same, with rows of masks in pairs.
pub fn balanced(code: Code) -> Code {
    let links = Links::of(&code);
    let mut made = Making { code: Code::default(), moved: Vec::with_capacity(code.ops.len()) };
    let mut rows: HashMap<u32, Row> = HashMap::new();
    for (at, op) in code.ops.into_iter().enumerate() {
        let Some((root, last)) = links.root[at] else {
            let id = made.add(op);
            made.moved.push(id);
            continue;
        };
        let (first, second, negated) = parts(&op);
        let row = rows.entry(root).or_default();
        if row.is_empty() {
            let first = made.moved[first.0 as usize];
            made.push(row, first);
        }
        let mut leaf = made.moved[second.0 as usize];
        if negated {
            leaf = made.not(leaf);
        }
        made.push(row, leaf);
        let id = if last { made.all(row) } else { Id(u32::MAX) };
        made.moved.push(id);
    }
    made.code
}

/// What is put together: the row so far, another mask, and whether it is that or its opposite.
fn parts(op: &Op) -> (Id, Id, bool) {
    match op {
        Op::Both(a, b) => (*a, *b, false),
        Op::Without(a, b) => (*a, *b, true),
        _ => (Id(0), Id(0), false),
    }
}

/// Which operations are links of rows.
struct Links {
    /// For each, the last one of its row, and whether it is that.
    root: Vec<Option<(u32, bool)>>,
}

impl Links {
    fn of(code: &Code) -> Links {
        let is_link = |id: Id| matches!(code.ops[id.0 as usize], Op::Both(..) | Op::Without(..));
        let mut uses = vec![0u32; code.ops.len()];
        code.ops.iter().flat_map(Op::operands).for_each(|id| uses[id.0 as usize] += 1);
        let mut root: Vec<Option<(u32, bool)>> = vec![None; code.ops.len()];
        for (at, op) in code.ops.iter().enumerate().rev() {
            if !is_link(Id(at as u32)) {
                continue;
            }
            let (row, _) = *root[at].get_or_insert((at as u32, true));
            // What came first is the row so far, if nobody else wants it.
            let (first, ..) = parts(op);
            if is_link(first) && uses[first.0 as usize] == 1 {
                root[first.0 as usize] = Some((row, false));
            }
        }
        Links { root }
    }
}

/// Code that is being made.
struct Making {
    code: Code,
    moved: Vec<Id>,
}

impl Making {
    fn add(&mut self, mut op: Op) -> Id {
        op.rename(&|id| self.moved[id.0 as usize]);
        self.put(op)
    }

    fn put(&mut self, op: Op) -> Id {
        self.code.ops.push(op);
        Id(self.code.ops.len() as u32 - 1)
    }

    fn not(&mut self, mask: Id) -> Id {
        let op = inverted(&self.code.ops[mask.0 as usize]).unwrap_or(Op::Not(mask));
        self.put(op)
    }

    /// Another mask of a row: those that stand for as many are put together.
    fn push(&mut self, row: &mut Row, mask: Id) {
        let (mut mask, mut rank) = (mask, 0);
        while let Some((other, _)) = row.pop_if(|(_, other)| *other == rank) {
            mask = self.put(Op::Both(other, mask));
            rank += 1;
        }
        row.push((mask, rank));
    }

    /// All of a row.
    fn all(&mut self, row: &mut Row) -> Id {
        let mut all = row.pop().map(|(mask, _)| mask);
        while let Some((mask, _)) = row.pop() {
            all = all.map(|all| self.put(Op::Both(mask, all)));
        }
        all.unwrap_or(Id(0))
    }
}
