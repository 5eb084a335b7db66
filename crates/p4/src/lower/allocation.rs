//! Allocates storage for values and reuses it.
//! Storage is variables, headers, stacks and unions of the pipeline.

use super::lowering::{LowerResult, Lowering, MAX_VARS};
use super::storage::Storage;
use super::type_layout::{LayoutMember, TypeLayout};
use crate::hir::{self, Ty};
use crate::span::Span;
use ir::{SourceLoc, VarId, VarKind};
use std::rc::Rc;

/// Class of new storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StorageClass {
    /// Metadata, shared between blocks.
    Meta,
    /// Metadata of the architecture.
    Intrinsic,
    /// Local to a block.
    Local,
}

impl StorageClass {
    fn var_kind(self) -> VarKind {
        match self {
            StorageClass::Meta => VarKind::Meta,
            StorageClass::Intrinsic => VarKind::Intrinsic,
            StorageClass::Local => VarKind::Local,
        }
    }
}

impl Lowering<'_> {
    /// Returns an unused dotted name: `name`, `name_1`, ...
    pub(super) fn unique_name(&mut self, name: &str) -> String {
        let Some(count) = self.name_counts.get_mut(name) else {
            self.name_counts.insert(name.to_string(), 0);
            return name.to_string();
        };
        let mut n = *count;
        loop {
            n += 1;
            let candidate = format!("{name}_{n}");
            if !self.name_counts.contains_key(&candidate) {
                self.name_counts.insert(name.to_string(), n);
                self.name_counts.insert(candidate.clone(), 0);
                return candidate;
            }
        }
    }

    /// Returns a name in the scope being lowered.
    pub(super) fn scoped_name(&self, name: &str) -> String {
        if self.scope.is_empty() { name.to_string() } else { format!("{}.{name}", self.scope) }
    }

    /// Allocates storage for a value.
    pub(super) fn allocate_storage(
        &mut self,
        name: &str,
        ty: Ty,
        storage: StorageClass,
        span: Span,
    ) -> LowerResult<Storage> {
        let size = self.storage_size(ty);
        if size.saturating_add(self.pipeline.vars.len()) > MAX_VARS {
            return self.report_limit(span, format!("the program has more than {MAX_VARS} scalar variables"));
        }
        let loc = self.source_loc(span);
        let name = self.unique_name(name);
        self.allocate_named(&name, ty, storage, loc, span)
    }

    /// Allocates storage for a value of type `ty` under the name `name`, part by part; parts are
    /// named after their path. `storage` says whether it is metadata of the architecture or local.
    fn allocate_named(
        &mut self,
        name: &str,
        ty: Ty,
        storage: StorageClass,
        loc: SourceLoc,
        span: Span,
    ) -> LowerResult<Storage> {
        Ok(match self.layout(ty) {
            TypeLayout::Scalar(ty) => Storage::Scalar(self.pipeline.add_var(name, ty, storage.var_kind(), loc)),
            TypeLayout::Struct(members) => Storage::Struct(self.allocate_parts(name, &members, storage, loc, span)?),
            TypeLayout::Header(ty, members) => {
                let id = self.pipeline.add_header(name, ty, storage == StorageClass::Local, loc);
                let vars = self.pipeline.headers[id].fields.clone();
                for var in &vars {
                    let name = self.pipeline.vars[*var].name.clone();
                    let unique = self.unique_name(&name);
                    self.pipeline.vars[*var].name = unique;
                }
                let mut vars = vars.into_iter();
                let fields = self.header_parts(&members, &mut vars);
                Storage::Header { id, fields }
            }
            TypeLayout::Union(members) => {
                let members = self.allocate_parts(name, &members, storage, loc, span)?;
                let ids = members.iter().filter_map(|m| match m {
                    Storage::Header { id, .. } => Some(*id),
                    _ => None,
                });
                self.pipeline.add_union(name, ids.collect());
                Storage::Union { members }
            }
            TypeLayout::Stack(element_ty, size) => {
                let mut elems = Vec::new();
                for index in 0..size {
                    let name = self.unique_name(&format!("{name}[{index}]"));
                    elems.push(self.allocate_named(&name, element_ty, storage, loc, span)?);
                }
                let ids = elems.iter().filter_map(|m| match m {
                    Storage::Header { id, .. } => Some(*id),
                    _ => None,
                });
                let id = self.pipeline.add_stack(name, ids.collect(), loc);
                Storage::Stack { elems: elems.into(), next: self.pipeline.stacks[id].next }
            }
            TypeLayout::Void | TypeLayout::CompileTime | TypeLayout::Opaque | TypeLayout::List(_) => Storage::Nothing,
        })
    }

    fn allocate_parts(
        &mut self,
        name: &str,
        members: &[LayoutMember],
        storage: StorageClass,
        loc: SourceLoc,
        span: Span,
    ) -> LowerResult<Rc<[Storage]>> {
        let mut parts = Vec::new();
        for member in members {
            let name = self.unique_name(&format!("{name}.{}", member.name));
            parts.push(self.allocate_named(&name, member.ty, storage, loc, span)?);
        }
        Ok(parts.into())
    }

    /// Builds the fields of a header as declared from its flat variables.
    fn header_parts(&mut self, members: &[LayoutMember], vars: &mut dyn Iterator<Item = VarId>) -> Rc<[Storage]> {
        let mut parts = Vec::new();
        for member in members {
            parts.push(match self.layout(member.ty) {
                TypeLayout::Scalar(_) => vars.next().map_or(Storage::Nothing, Storage::Scalar),
                TypeLayout::Struct(inner) => Storage::Struct(self.header_parts(&inner, vars)),
                _ => Storage::Nothing,
            });
        }
        parts.into()
    }

    /// Acquires storage for a local of the current object; [`Lowering::release_storage`] returns
    /// it.
    pub(super) fn acquire_storage(&mut self, id: hir::LocalId) -> LowerResult<Storage> {
        let local = self.local_decl(id);
        let ty = self.substitute_scope_params(local.ty);
        if let Some(place) = self.free_storage.get_mut(&(self.current_object, id, ty)).and_then(Vec::pop) {
            return Ok(place);
        }
        let name = self.scoped_name(&local.name);
        self.allocate_storage(&name, ty, StorageClass::Local, local.span)
    }

    /// Releases the storage of a local for reuse by later calls.
    pub(super) fn release_storage(&mut self, id: hir::LocalId, place: Storage) {
        let ty = self.substitute_scope_params(self.local_decl(id).ty);
        self.free_storage.entry((self.current_object, id, ty)).or_default().push(place);
    }

    /// Allocates storage for an intermediate result.
    pub(super) fn allocate_temporary(&mut self, name: &str, ty: Ty, span: Span) -> LowerResult<Storage> {
        let name = self.scoped_name(name);
        self.allocate_storage(&name, ty, StorageClass::Local, span)
    }
}
