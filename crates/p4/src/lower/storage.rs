//! Storage: variables, headers, stacks and unions of the pipeline are made for values, and used again.

use super::lowering::{Lower, MAX_VARS, Res};
use super::place::Place;
use super::shape::{Member, Shape};
use crate::hir::{self, Ty};
use crate::span::Span;
use ir::{Loc, VarId, VarKind};
use std::rc::Rc;

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

impl Lower<'_> {
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
