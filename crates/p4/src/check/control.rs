//! Controls and packages.

use super::function::ParamsOf;
use super::scope::Entity;
use super::unify::Family;
use super::{Body, Checker, Place};
use crate::ast::{self, Local, Param, TypeParam};
use crate::hir::{ControlBody, LocalDecl, LocalId, Object, ObjectKind, TypeDeclId, TypeParamId, Types};

/// What the head of a parser, control or package declares.
pub(super) struct Head {
    pub type_params: Vec<TypeParamId>,
    pub params: Vec<LocalId>,
    pub constructor_params: Vec<LocalId>,
}

impl Checker<'_> {
    /// Adds an object that is being declared; its parts are put in when they are known.
    pub(super) fn new_object(
        &mut self,
        name: &ast::Ident,
        annotations: &ast::Annotations,
        kind: ObjectKind,
    ) -> TypeDeclId {
        self.annotations(annotations);
        self.prog.objects.push(Object {
            name: name.name.clone(),
            annotations: annotations.clone(),
            type_params: Vec::new(),
            params: Vec::new(),
            constructor_params: Vec::new(),
            kind,
            span: name.span,
        });
        TypeDeclId(self.prog.objects.len() as u32 - 1)
    }

    /// Type parameters, parameters and constructor parameters, declared in the innermost scope.
    pub(super) fn head(
        &mut self,
        family: Family,
        types: &[TypeParam],
        params: &[Param],
        constructor: &[Param],
    ) -> Head {
        self.head_of = Some(family);
        let type_params = self.declare_type_params(types);
        let ids = self.params(params, ParamsOf::Apply);
        let constructor_params = self.params(constructor, ParamsOf::Constructor);
        self.distinct_lists(types, params, constructor);
        self.head_of = None;
        Head { type_params, params: ids, constructor_params }
    }

    /// Type parameters, parameters and constructor parameters share one set of names; within a list, names have been
    /// compared already.
    fn distinct_lists(&mut self, types: &[TypeParam], params: &[Param], constructor: &[Param]) {
        let lists = [types.iter().collect(), names(params), names(constructor)];
        for (at, second) in lists.iter().enumerate() {
            for name in second {
                let first = lists[..at].iter().flatten().find(|n: &&&ast::Ident| n.name == name.name);
                if let Some(first) = first {
                    let first = first.span;
                    self.error(super::scope::duplicate(name, first));
                }
            }
        }
    }

    /// Puts the head's parts into the object.
    pub(super) fn set_head(&mut self, id: TypeDeclId, head: Head) {
        let object = &mut self.prog.objects[id.index()];
        object.type_params = head.type_params;
        object.params = head.params;
        object.constructor_params = head.constructor_params;
    }

    /// `package P<X>(params);`
    pub(super) fn package_decl(&mut self, decl: &ast::PackageDecl) {
        self.begin(&decl.name, "package");
        let id = self.new_object(&decl.name, &decl.annotations, ObjectKind::Package);
        let head = self.scoped(|c| c.head(Family::Package, &decl.type_params, &[], &decl.params));
        self.set_head(id, head);
        self.scopes.set(&decl.name, Entity::Object(id));
    }

    /// A control, or a control's type.
    pub(super) fn control_decl(&mut self, decl: &ast::ControlDecl) {
        self.begin(&decl.name, "control");
        let Some(body) = &decl.body else {
            let id = self.new_object(&decl.name, &decl.annotations, ObjectKind::ControlType);
            let head = self.scoped(|c| c.head(Family::Control, &decl.type_params, &decl.params, &[]));
            self.set_head(id, head);
            self.scopes.set(&decl.name, Entity::Object(id));
            return;
        };
        let id = self.new_object(&decl.name, &decl.annotations, ObjectKind::Control(ControlBody::default()));
        let checked = self.scoped(|c| {
            let head = c.head(Family::Control, &decl.type_params, &decl.params, &body.constructor_params);
            c.set_head(id, head);
            let place =
                Body { place: Place::ControlLocals, object: Some(id), result: Types::VOID, loops: 0, this: None };
            c.scoped(|c| {
                c.in_body(place, |c| {
                    let locals = body.locals.iter().filter_map(|l| c.control_local(l)).collect();
                    let apply = c.at_place(Place::ControlApply, |c| c.scoped(|c| c.block(&body.apply)));
                    ControlBody { locals, apply }
                })
            })
        });
        self.prog.objects[id.index()].kind = ObjectKind::Control(checked);
        self.scopes.set(&decl.name, Entity::Object(id));
    }

    fn control_local(&mut self, local: &Local) -> Option<LocalDecl> {
        match local {
            Local::Action(d) => Some(LocalDecl::Action(self.action_decl(d))),
            Local::Table(d) => self.table_decl(d).map(LocalDecl::Table),
            Local::ValueSet(d) => {
                self.fail("value-set", d.span, "value sets can only be declared in parsers");
                None
            }
            other => self.local_value(other),
        }
    }
}

fn names(params: &[Param]) -> Vec<&ast::Ident> {
    params.iter().map(|p| &p.name).collect()
}
