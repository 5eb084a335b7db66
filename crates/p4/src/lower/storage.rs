//! Storage of values: a tree of scalar variables, headers, stacks and unions.

use ir::{HeaderId, Pipeline, VarId, VarKind};
use std::collections::HashSet;
use std::rc::Rc;

/// Storage of a value.
#[derive(Clone, Debug)]
pub(super) enum Storage {
    Scalar(VarId),
    /// A struct or tuple.
    Struct(Rc<[Storage]>),
    Header {
        id: HeaderId,
        fields: Rc<[Storage]>,
    },
    Stack {
        elems: Rc<[Storage]>,
        next: VarId,
    },
    Union {
        members: Rc<[Storage]>,
    },
    /// No storage.
    Nothing,
}

/// A scalar or header: the unit of overlap between storages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum StorageLeaf {
    Var(VarId),
    Header(HeaderId),
}

impl Storage {
    /// Returns part `n`: field, member or element.
    pub(super) fn part(&self, n: usize) -> Option<&Storage> {
        match self {
            Storage::Struct(parts)
            | Storage::Header { fields: parts, .. }
            | Storage::Stack { elems: parts, .. }
            | Storage::Union { members: parts, .. } => parts.get(n),
            Storage::Scalar(_) | Storage::Nothing => None,
        }
    }

    /// Calls `f` for each header and each scalar outside of headers.
    pub(super) fn for_each_leaf(&self, f: &mut impl FnMut(StorageLeaf)) {
        match self {
            Storage::Scalar(var) => f(StorageLeaf::Var(*var)),
            Storage::Header { id, .. } => f(StorageLeaf::Header(*id)),
            Storage::Struct(parts) | Storage::Union { members: parts, .. } => {
                parts.iter().for_each(|p| p.for_each_leaf(f))
            }
            Storage::Stack { elems, next, .. } => {
                f(StorageLeaf::Var(*next));
                elems.iter().for_each(|p| p.for_each_leaf(f));
            }
            Storage::Nothing => {}
        }
    }

    /// Calls `f` for each scalar, including fields of headers.
    pub(super) fn for_each_var(&self, f: &mut impl FnMut(VarId)) {
        match self {
            Storage::Scalar(var) => f(*var),
            Storage::Struct(parts)
            | Storage::Header { fields: parts, .. }
            | Storage::Stack { elems: parts, .. }
            | Storage::Union { members: parts, .. } => parts.iter().for_each(|p| p.for_each_var(f)),
            Storage::Nothing => {}
        }
    }

    /// Returns all scalars, including fields of headers.
    pub(super) fn vars(&self) -> Vec<VarId> {
        let mut vars = Vec::new();
        self.for_each_var(&mut |v| vars.push(v));
        vars
    }

    /// Returns the leaves that decide overlap. A header and its fields have the same leaf. So do
    /// all members of a union, because writing one invalidates the others.
    pub(super) fn overlap_leaves(&self, pipeline: &Pipeline) -> HashSet<StorageLeaf> {
        let mut leaves = HashSet::new();
        self.for_each_leaf(&mut |leaf| {
            let header = match leaf {
                StorageLeaf::Var(var) => match pipeline.vars.get(var).map(|v| v.kind) {
                    Some(VarKind::Field(header, _)) => header,
                    _ => {
                        leaves.insert(leaf);
                        return;
                    }
                },
                StorageLeaf::Header(header) => header,
            };
            leaves.insert(StorageLeaf::Header(union_members(pipeline, header).first().copied().unwrap_or(header)));
        });
        leaves
    }

    /// Returns whether writing one can change the other.
    pub(super) fn overlaps(&self, other: &Storage, pipeline: &Pipeline) -> bool {
        let mine = self.overlap_leaves(pipeline);
        other.overlap_leaves(pipeline).iter().any(|leaf| mine.contains(leaf))
    }
}

/// Returns the members of the union that contains a header; empty if none does.
pub(super) fn union_members(pipeline: &Pipeline, header: HeaderId) -> &[HeaderId] {
    let union = pipeline.headers.get(header).and_then(|h| h.union);
    union.and_then(|union| pipeline.unions.get(union)).map_or(&[], |union| &union.members)
}

/// Returns the header id of a header.
pub(super) fn header_id(place: &Storage) -> Option<HeaderId> {
    match place {
        Storage::Header { id, .. } => Some(*id),
        _ => None,
    }
}
