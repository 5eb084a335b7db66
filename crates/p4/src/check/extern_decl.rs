//! Checks extern types and prototypes.

use super::Checker;
use super::function::ParamOwner;
use super::scope::ScopeEntity;
use crate::ast::{self, MethodDecl};
use crate::diag::Diagnostic;
use crate::hir::{Extern, ExternId, Method, TyKind, Types};

impl Checker<'_> {
    /// Checks `extern E { ... }` and declares the type. It is part of the program before its
    /// methods are checked, because their types can contain it.
    pub(super) fn extern_decl(&mut self, decl: &ast::ExternDecl) {
        self.check_annotations(&decl.annotations);
        let id = ExternId(self.prog.externs.len() as u32);
        self.prog.externs.push(Extern {
            name: decl.name.name.clone(),
            annotations: decl.annotations.clone(),
            type_params: Vec::new(),
            methods: Vec::new(),
            constructors: Vec::new(),
            span: decl.name.span,
        });
        self.declare_unfinished(&decl.name, "extern");
        self.in_new_scope(|c| {
            let type_params = c.declare_type_params(&decl.type_params);
            c.prog.externs[id.index()].type_params = type_params;
            for method in &decl.methods {
                c.method_decl(id, decl, method);
            }
        });
        self.scopes.set(&decl.name, ScopeEntity::Extern(id));
        self.check_distinct_methods(id, decl);
    }

    /// Checks the prototype `method` in the declaration `decl` of extern `id`, and adds it to the
    /// methods or constructors of that. A constructor has the extern's name and no result type.
    fn method_decl(&mut self, id: ExternId, decl: &ast::ExternDecl, method: &MethodDecl) {
        let is_constructor = method.is_constructor();
        if is_constructor && method.name.name != decl.name.name {
            let message = format!("method `{}` has no result type", method.name);
            self.error(
                Diagnostic::error("method", method.span, message)
                    .help(format!("give it one, such as `void`; a constructor is named `{}`", decl.name)),
            );
            return;
        }
        if !is_constructor && method.name.name == decl.name.name {
            let message = format!("the constructor of `{}` has a result type", decl.name);
            self.error(Diagnostic::error("method", method.name.span, message).help("remove the result type"));
            return;
        }
        let prototype = self.in_new_scope(|c| c.prototype(method));
        let owner = &mut self.prog.externs[id.index()];
        if is_constructor {
            owner.constructors.push(prototype);
        } else {
            owner.methods.push(prototype);
        }
    }

    /// Reports methods with the same name and parameters, because no call could select one of them.
    fn check_distinct_methods(&mut self, id: ExternId, decl: &ast::ExternDecl) {
        let owner = &self.prog.externs[id.index()];
        let mut duplicates = Vec::new();
        for overloads in [&owner.methods, &owner.constructors] {
            for (index, second) in overloads.iter().enumerate() {
                let names = |m: &Method| m.params.iter().map(|p| self.local_decl(*p).name.clone()).collect::<Vec<_>>();
                let tys = |m: &Method| m.params.iter().map(|p| self.local_decl(*p).ty).collect::<Vec<_>>();
                let is_same = |first: &&Method| {
                    first.name == second.name && names(first) == names(second) && tys(first) == tys(second)
                };
                if let Some(first) = overloads[..index].iter().find(is_same) {
                    duplicates.push((second.span, first.span, second.name.clone()));
                }
            }
        }
        for (second, first, name) in duplicates {
            let message = format!("`{name}` of extern `{}` is declared twice with the same parameters", decl.name);
            self.error(Diagnostic::error("duplicate", second, message).label(first, "first declared here"));
        }
    }

    /// Checks the prototype of a function, method or constructor in the innermost scope. A
    /// constructor gets the result type `void`.
    pub(super) fn prototype(&mut self, decl: &MethodDecl) -> Method {
        self.check_annotations(&decl.annotations);
        let type_params = self.declare_type_params(&decl.type_params);
        let result = match &decl.result {
            None => Types::VOID,
            Some(written) => {
                let ty = self.resolve_type(written);
                match self.type_kind(ty) {
                    TyKind::Object(..) | TyKind::InfInt => {
                        let type_text = self.type_text(ty);
                        self.fail("result-type", written.span, format!("a result cannot be of type `{type_text}`"));
                        Types::UNKNOWN
                    }
                    _ => ty,
                }
            }
        };
        self.is_prototype = true;
        let params = match decl.is_constructor() {
            true => self.declare_params(&decl.params, ParamOwner::ExternConstructor),
            false => self.declare_params(&decl.params, ParamOwner::Function),
        };
        self.is_prototype = false;
        self.check_distinct_names(decl.type_params.iter().chain(decl.params.iter().map(|p| &p.name)));
        Method {
            name: decl.name.name.clone(),
            annotations: decl.annotations.clone(),
            type_params,
            params,
            result,
            is_abstract: decl.is_abstract,
            span: decl.name.span,
        }
    }
}
