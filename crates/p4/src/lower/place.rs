//! Places: the tree of scalar variables, headers, stacks and unions that holds a value.

use ir::{HeaderId, Pipeline, VarId, VarKind};
use std::collections::HashSet;
use std::rc::Rc;

/// Storage of a value.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Scalar(VarId),
    /// Of a struct or tuple.
    Struct(Rc<[Place]>),
    Header {
        id: HeaderId,
        fields: Rc<[Place]>,
    },
    Stack {
        elems: Rc<[Place]>,
        next: VarId,
    },
    Union {
        members: Rc<[Place]>,
    },
    /// Of what takes none.
    Nothing,
}

/// A scalar or header: what two places can have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Leaf {
    Var(VarId),
    Header(HeaderId),
}

impl Place {
    /// Part number `n`: field, member or element.
    pub(super) fn part(&self, n: usize) -> Option<&Place> {
        match self {
            Place::Struct(parts)
            | Place::Header { fields: parts, .. }
            | Place::Stack { elems: parts, .. }
            | Place::Union { members: parts, .. } => parts.get(n),
            Place::Scalar(_) | Place::Nothing => None,
        }
    }

    /// Calls `f` with each scalar outside headers and each header.
    pub(super) fn for_each_leaf(&self, f: &mut impl FnMut(Leaf)) {
        match self {
            Place::Scalar(var) => f(Leaf::Var(*var)),
            Place::Header { id, .. } => f(Leaf::Header(*id)),
            Place::Struct(parts) | Place::Union { members: parts, .. } => parts.iter().for_each(|p| p.for_each_leaf(f)),
            Place::Stack { elems, next, .. } => {
                f(Leaf::Var(*next));
                elems.iter().for_each(|p| p.for_each_leaf(f));
            }
            Place::Nothing => {}
        }
    }

    /// Calls `f` with each scalar, fields of headers included.
    pub(super) fn for_each_var(&self, f: &mut impl FnMut(VarId)) {
        match self {
            Place::Scalar(var) => f(*var),
            Place::Struct(parts)
            | Place::Header { fields: parts, .. }
            | Place::Stack { elems: parts, .. }
            | Place::Union { members: parts, .. } => parts.iter().for_each(|p| p.for_each_var(f)),
            Place::Nothing => {}
        }
    }

    /// All scalars, fields of headers included.
    pub(super) fn vars(&self) -> Vec<VarId> {
        let mut vars = Vec::new();
        self.for_each_var(&mut |v| vars.push(v));
        vars
    }

    /// What other places can have in common with this one; a header stands for its fields, and the
    /// fields for it. A union's members stand for each other, as one is invalid once another is
    /// written.
    pub(super) fn leaves(&self, pipeline: &Pipeline) -> HashSet<Leaf> {
        let mut leaves = HashSet::new();
        self.for_each_leaf(&mut |leaf| {
            let header = match leaf {
                Leaf::Var(var) => match pipeline.vars.get(var).map(|v| v.kind) {
                    Some(VarKind::Field(header, _)) => header,
                    _ => {
                        leaves.insert(leaf);
                        return;
                    }
                },
                Leaf::Header(header) => header,
            };
            leaves.insert(Leaf::Header(union_members(pipeline, header).first().copied().unwrap_or(header)));
        });
        leaves
    }

    /// Whether writing one may change the other.
    pub(super) fn overlaps(&self, other: &Place, pipeline: &Pipeline) -> bool {
        let mine = self.leaves(pipeline);
        other.leaves(pipeline).iter().any(|leaf| mine.contains(leaf))
    }
}

/// The members of the union that a header is in; none if it is in none.
pub(super) fn union_members(pipeline: &Pipeline, header: HeaderId) -> &[HeaderId] {
    let union = pipeline.headers.get(header).and_then(|h| h.union);
    union.and_then(|union| pipeline.unions.get(union)).map_or(&[], |union| &union.members)
}

/// The header that a place is.
pub(super) fn header_id(place: &Place) -> Option<HeaderId> {
    match place {
        Place::Header { id, .. } => Some(*id),
        _ => None,
    }
}
