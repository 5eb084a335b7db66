//! Checks controls and packages.

use super::function::ParamOwner;
use super::scope::ScopeEntity;
use super::unify::ObjectFamily;
use super::{BodyContext, CheckContext, Checker};
use crate::ast::{self, Local, Param, TypeParam};
use crate::hir::{ControlBody, LocalDecl, LocalId, Object, ObjectKind, TypeDeclId, TypeParamId, Types};

/// Declared parameters of a parser, control or package.
pub(super) struct ContainerSignature {
    pub type_params: Vec<TypeParamId>,
    pub params: Vec<LocalId>,
    pub constructor_params: Vec<LocalId>,
}

impl Checker<'_> {
    /// Adds an incompletely declared object. Its parameters and body are set later.
    pub(super) fn add_object(
        &mut self,
        name: &ast::Ident,
        annotations: &ast::Annotations,
        kind: ObjectKind,
    ) -> TypeDeclId {
        self.check_annotations(annotations);
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

    /// Checks type parameters, parameters and constructor parameters and declares them in the
    /// innermost scope.
    pub(super) fn declare_container_params(
        &mut self,
        family: ObjectFamily,
        types: &[TypeParam],
        params: &[Param],
        constructor: &[Param],
    ) -> ContainerSignature {
        self.declared_family = Some(family);
        let type_params = self.declare_type_params(types);
        let ids = self.declare_params(params, ParamOwner::Apply);
        let constructor_params = self.declare_params(constructor, ParamOwner::Constructor);
        self.check_distinct_lists(types, params, constructor);
        self.declared_family = None;
        ContainerSignature { type_params, params: ids, constructor_params }
    }

    /// Reports names that occur in two of the lists. Names within one list were checked before.
    fn check_distinct_lists(&mut self, types: &[TypeParam], params: &[Param], constructor: &[Param]) {
        let lists = [types.iter().collect(), param_names(params), param_names(constructor)];
        for (at, second) in lists.iter().enumerate() {
            for name in second {
                let first = lists[..at].iter().flatten().find(|n: &&&ast::Ident| n.name == name.name);
                if let Some(first) = first {
                    let first = first.span;
                    self.error(super::scope::duplicate_error(name, first));
                }
            }
        }
    }

    /// Sets the parameters of the object.
    pub(super) fn set_container_params(&mut self, id: TypeDeclId, head: ContainerSignature) {
        let object = &mut self.prog.objects[id.index()];
        object.type_params = head.type_params;
        object.params = head.params;
        object.constructor_params = head.constructor_params;
    }

    /// Checks `package P<X>(params);`.
    pub(super) fn package_decl(&mut self, decl: &ast::PackageDecl) {
        self.declare_unfinished(&decl.name, "package");
        let id = self.add_object(&decl.name, &decl.annotations, ObjectKind::Package);
        let head = self
            .in_new_scope(|c| c.declare_container_params(ObjectFamily::Package, &decl.type_params, &[], &decl.params));
        self.set_container_params(id, head);
        self.scopes.set(&decl.name, ScopeEntity::Object(id));
    }

    /// Checks a control with its body, or a control type, and declares it. Its parameters are in a
    /// scope outside of that of its locals.
    pub(super) fn control_decl(&mut self, decl: &ast::ControlDecl) {
        self.declare_unfinished(&decl.name, "control");
        let Some(body) = &decl.body else {
            let id = self.add_object(&decl.name, &decl.annotations, ObjectKind::ControlType);
            let signature = self.in_new_scope(|c| {
                c.declare_container_params(ObjectFamily::Control, &decl.type_params, &decl.params, &[])
            });
            self.set_container_params(id, signature);
            self.scopes.set(&decl.name, ScopeEntity::Object(id));
            return;
        };
        let id = self.add_object(&decl.name, &decl.annotations, ObjectKind::Control(ControlBody::default()));
        let checked = self.in_new_scope(|c| {
            let signature = c.declare_container_params(
                ObjectFamily::Control,
                &decl.type_params,
                &decl.params,
                &body.constructor_params,
            );
            c.set_container_params(id, signature);
            let body_context = BodyContext {
                context: CheckContext::ControlLocals,
                object: Some(id),
                result: Types::VOID,
                loops: 0,
                this: None,
            };
            c.in_new_scope(|c| {
                c.with_body(body_context, |c| {
                    let locals = body.locals.iter().filter_map(|l| c.control_local(l)).collect();
                    let apply =
                        c.in_context(CheckContext::ControlApply, |c| c.in_new_scope(|c| c.check_block(&body.apply)));
                    ControlBody { locals, apply }
                })
            })
        });
        self.prog.objects[id.index()].kind = ObjectKind::Control(checked);
        self.scopes.set(&decl.name, ScopeEntity::Object(id));
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

fn param_names(params: &[Param]) -> Vec<&ast::Ident> {
    params.iter().map(|p| &p.name).collect()
}
