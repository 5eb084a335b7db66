//! Storage: the tree of scalar variables, headers, stacks and unions that holds a value.

use super::types::{Member, Shape};
use super::{Lower, MAX_VARS, Res};
use crate::hir::{self, Ty};
use crate::span::Span;
use ir::{HeaderId, Loc, VarId, VarKind};
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

/// What the variables of new storage are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    /// Kept from block to block.
    Meta,
    /// The architecture's.
    Intrinsic,
    /// Local to a block.
    Local,
}

impl Storage {
    fn var_kind(self) -> VarKind {
        match self {
            Storage::Meta => VarKind::Meta,
            Storage::Intrinsic => VarKind::Intrinsic,
            Storage::Local => VarKind::Local,
        }
    }
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
    pub(super) fn leaves(&self, lower: &Lower) -> HashSet<Leaf> {
        let mut leaves = HashSet::new();
        self.for_each_leaf(&mut |leaf| {
            let header = match leaf {
                Leaf::Var(var) => match lower.p.vars.get(var).map(|v| v.kind) {
                    Some(VarKind::Field(header, _)) => header,
                    _ => {
                        leaves.insert(leaf);
                        return;
                    }
                },
                Leaf::Header(header) => header,
            };
            leaves.insert(Leaf::Header(lower.union_members(header).first().copied().unwrap_or(header)));
        });
        leaves
    }

    /// Whether writing one may change the other.
    pub(super) fn overlaps(&self, other: &Place, lower: &Lower) -> bool {
        let mine = self.leaves(lower);
        other.leaves(lower).iter().any(|leaf| mine.contains(leaf))
    }
}

impl Lower<'_> {
    /// The members of the union that a header is in; none if it is in none.
    pub(super) fn union_members(&self, header: HeaderId) -> &[HeaderId] {
        let union = self.p.headers.get(header).and_then(|h| h.union);
        union.and_then(|union| self.p.unions.get(union)).map_or(&[], |union| &union.members)
    }

    /// A dotted name that no variable has yet: `name`, `name_1`, ...
    pub(super) fn unique(&mut self, name: &str) -> String {
        let Some(count) = self.names.get_mut(name) else {
            self.names.insert(name.to_string(), 0);
            return name.to_string();
        };
        let mut n = *count;
        loop {
            n += 1;
            let candidate = format!("{name}_{n}");
            if !self.names.contains_key(&candidate) {
                self.names.insert(name.to_string(), n);
                self.names.insert(candidate.clone(), 0);
                return candidate;
            }
        }
    }

    /// A name in the scope that is being lowered.
    pub(super) fn scoped(&self, name: &str) -> String {
        if self.scope.is_empty() { name.to_string() } else { format!("{}.{name}", self.scope) }
    }

    /// Makes storage for a value.
    pub(super) fn allocate(&mut self, name: &str, ty: Ty, storage: Storage, span: Span) -> Res<Place> {
        let size = self.storage_size(ty);
        if size.saturating_add(self.p.vars.len()) > MAX_VARS {
            return self.limit(span, format!("the program has more than {MAX_VARS} scalar variables"));
        }
        let loc = self.loc(span);
        let name = self.unique(name);
        self.allocate_at(&name, ty, storage, loc, span)
    }

    fn allocate_at(&mut self, name: &str, ty: Ty, storage: Storage, loc: Loc, span: Span) -> Res<Place> {
        Ok(match self.shape(ty) {
            Shape::Scalar(ty) => Place::Scalar(self.p.add_var(name, ty, storage.var_kind(), loc)),
            Shape::Struct(members) => Place::Struct(self.allocate_parts(name, &members, storage, loc, span)?),
            Shape::Header(ty, members) => {
                let id = self.p.add_header(name, ty, storage == Storage::Local, loc);
                let vars = self.p.headers[id].fields.clone();
                for var in &vars {
                    let name = self.p.vars[*var].name.clone();
                    let unique = self.unique(&name);
                    self.p.vars[*var].name = unique;
                }
                let mut vars = vars.into_iter();
                let fields = self.header_parts(&members, &mut vars);
                Place::Header { id, fields }
            }
            Shape::Union(members) => {
                let members = self.allocate_parts(name, &members, storage, loc, span)?;
                let ids = members.iter().filter_map(|m| match m {
                    Place::Header { id, .. } => Some(*id),
                    _ => None,
                });
                self.p.add_union(name, ids.collect());
                Place::Union { members }
            }
            Shape::Stack(of, size) => {
                let mut elems = Vec::new();
                for n in 0..size {
                    let name = self.unique(&format!("{name}[{n}]"));
                    elems.push(self.allocate_at(&name, of, storage, loc, span)?);
                }
                let ids = elems.iter().filter_map(|m| match m {
                    Place::Header { id, .. } => Some(*id),
                    _ => None,
                });
                let id = self.p.add_stack(name, ids.collect(), loc);
                Place::Stack { elems: elems.into(), next: self.p.stacks[id].next }
            }
            Shape::Void | Shape::Known | Shape::Opaque | Shape::List(_) => Place::Nothing,
        })
    }

    fn allocate_parts(
        &mut self,
        name: &str,
        members: &[Member],
        storage: Storage,
        loc: Loc,
        span: Span,
    ) -> Res<Rc<[Place]>> {
        let mut parts = Vec::new();
        for member in members {
            let name = self.unique(&format!("{name}.{}", member.name));
            parts.push(self.allocate_at(&name, member.ty, storage, loc, span)?);
        }
        Ok(parts.into())
    }

    /// The fields of a header as the program sees them, made of its flat variables.
    fn header_parts(&mut self, members: &[Member], vars: &mut dyn Iterator<Item = VarId>) -> Rc<[Place]> {
        let mut parts = Vec::new();
        for member in members {
            parts.push(match self.shape(member.ty) {
                Shape::Scalar(_) => vars.next().map_or(Place::Nothing, Place::Scalar),
                Shape::Struct(inner) => Place::Struct(self.header_parts(&inner, vars)),
                _ => Place::Nothing,
            });
        }
        parts.into()
    }

    /// Storage for a local of the object that is being lowered; [`Lower::release`] gives it back.
    pub(super) fn acquire(&mut self, id: hir::LocalId) -> Res<Place> {
        let local = self.local(id);
        let ty = self.ty(local.ty);
        if let Some(place) = self.pool.get_mut(&(self.this, id, ty)).and_then(Vec::pop) {
            return Ok(place);
        }
        let name = self.scoped(&local.name);
        self.allocate(&name, ty, Storage::Local, local.span)
    }

    /// Gives the storage of a local back: its next activation may use it again.
    pub(super) fn release(&mut self, id: hir::LocalId, place: Place) {
        let ty = self.ty(self.local(id).ty);
        self.pool.entry((self.this, id, ty)).or_default().push(place);
    }

    /// Storage for an intermediate result.
    pub(super) fn temporary(&mut self, name: &str, ty: Ty, span: Span) -> Res<Place> {
        let name = self.scoped(name);
        self.allocate(&name, ty, Storage::Local, span)
    }
}
