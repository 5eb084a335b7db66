//! Extern types and prototypes.

use super::Checker;
use super::function::ParamsOf;
use super::scope::Entity;
use crate::ast::{self, MethodDecl};
use crate::diag::Diagnostic;
use crate::hir::{Extern, ExternId, Method, TyKind, Types};

impl Checker<'_> {
    /// `extern E { ... }`
    pub(super) fn extern_decl(&mut self, decl: &ast::ExternDecl) {
        self.annotations(&decl.annotations);
        let id = ExternId(self.prog.externs.len() as u32);
        self.prog.externs.push(Extern {
            name: decl.name.name.clone(),
            annotations: decl.annotations.clone(),
            type_params: Vec::new(),
            methods: Vec::new(),
            constructors: Vec::new(),
            span: decl.name.span,
        });
        self.begin(&decl.name, "extern");
        self.scoped(|c| {
            let type_params = c.declare_type_params(&decl.type_params);
            c.prog.externs[id.index()].type_params = type_params;
            for method in &decl.methods {
                c.method_decl(id, decl, method);
            }
        });
        self.scopes.set(&decl.name, Entity::Extern(id));
        self.same_arity(id, decl);
    }

    fn method_decl(&mut self, id: ExternId, decl: &ast::ExternDecl, method: &MethodDecl) {
        let constructor = method.is_constructor();
        if constructor && method.name.name != decl.name.name {
            let message = format!("method `{}` has no result type", method.name);
            self.error(
                Diagnostic::error("method", method.span, message)
                    .help(format!("give it one, such as `void`; a constructor is named `{}`", decl.name)),
            );
            return;
        }
        if !constructor && method.name.name == decl.name.name {
            let message = format!("the constructor of `{}` has a result type", decl.name);
            self.error(Diagnostic::error("method", method.name.span, message).help("leave the result type away"));
            return;
        }
        let prototype = self.scoped(|c| c.prototype(method));
        let own = &mut self.prog.externs[id.index()];
        if constructor {
            own.constructors.push(prototype);
        } else {
            own.methods.push(prototype);
        }
    }

    /// Two methods of one name differ in the number of parameters, or no call could choose between them.
    fn same_arity(&mut self, id: ExternId, decl: &ast::ExternDecl) {
        let own = &self.prog.externs[id.index()];
        let mut found = Vec::new();
        for group in [&own.methods, &own.constructors] {
            for (at, second) in group.iter().enumerate() {
                let names = |m: &Method| m.params.iter().map(|p| self.local(*p).name.clone()).collect::<Vec<_>>();
                let tys = |m: &Method| m.params.iter().map(|p| self.local(*p).ty).collect::<Vec<_>>();
                let same = |first: &&Method| {
                    first.name == second.name && names(first) == names(second) && tys(first) == tys(second)
                };
                if let Some(first) = group[..at].iter().find(same) {
                    found.push((second.span, first.span, second.name.clone()));
                }
            }
        }
        for (second, first, name) in found {
            let message = format!("`{name}` of extern `{}` is declared twice with the same parameters", decl.name);
            self.error(Diagnostic::error("duplicate", second, message).label(first, "first declared here"));
        }
    }

    /// A prototype, in a scope of its own.
    pub(super) fn prototype(&mut self, decl: &MethodDecl) -> Method {
        self.annotations(&decl.annotations);
        let type_params = self.declare_type_params(&decl.type_params);
        let result = match &decl.result {
            None => Types::VOID,
            Some(written) => {
                let ty = self.ty(written);
                match self.kind(ty) {
                    TyKind::Object(..) | TyKind::InfInt => {
                        let shown = self.show(ty);
                        self.fail("result-type", written.span, format!("a result cannot be of type `{shown}`"));
                        Types::UNKNOWN
                    }
                    _ => ty,
                }
            }
        };
        self.prototype = true;
        let params = match decl.is_constructor() {
            true => self.params(&decl.params, ParamsOf::ExternConstructor),
            false => self.params(&decl.params, ParamsOf::Function),
        };
        self.prototype = false;
        self.distinct(decl.type_params.iter().chain(decl.params.iter().map(|p| &p.name)));
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
