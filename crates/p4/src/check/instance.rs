//! Checks constructor calls, instances and their initialiser blocks.

use super::call::method_signature;
use super::overload::{CallableKind, CallableSignature};
use super::scope::ScopeEntity;
use super::unify::ObjectFamily;
use super::{BodyContext, CheckContext, Checker, unknown_expr};
use crate::ast::{self, Arg, ObjMember};
use crate::diag::Diagnostic;
use crate::hir::{
    CallArg, Construct, Constructor, Expr, ExprKind, ExternId, FunctionId, Instance, InstanceId, Ty, TyKind,
    TypeDeclId, Types,
};
use crate::span::Span;

impl Checker<'_> {
    /// Checks `T(args)` as a value.
    pub(super) fn construct_expr(&mut self, ty: &ast::Type, args: &[Arg], span: Span) -> Expr {
        let place = self.body.context;
        if matches!(
            place,
            CheckContext::Action
                | CheckContext::Function
                | CheckContext::Method
                | CheckContext::ControlApply
                | CheckContext::ParserState
        ) {
            let place = super::method::place_name(place);
            self.fail("instance-place", span, format!("a constructor cannot be called in {place}"));
            return unknown_expr(span);
        }
        match self.check_construct(ty, args, span) {
            Some(construct) => {
                let ty = self.constructed_type(&construct);
                self.check_no_abstract_methods(ty, span);
                Expr { kind: ExprKind::Construct(Box::new(construct)), ty, span }
            }
            None => unknown_expr(span),
        }
    }

    /// Reports a nameless instance of an extern with abstract methods, because it cannot implement
    /// them.
    fn check_no_abstract_methods(&mut self, ty: Ty, span: Span) {
        let Some((id, _)) = self.as_extern(ty) else { return };
        let decl = &self.prog.externs[id.index()];
        let Some(method) = decl.methods.iter().find(|m| m.is_abstract) else { return };
        let message =
            format!("extern `{}` has the abstract method `{}`, which is not implemented here", decl.name, method.name);
        let diagnostic = Diagnostic::error("abstract", span, message)
            .label(method.span, "the abstract method")
            .help("give the instance a name and a block that implements it: `E() e = { ... };`");
        self.error(diagnostic);
    }

    /// Checks `T(args)` or `T<A>(args)`.
    pub(super) fn check_construct(&mut self, ty: &ast::Type, args: &[Arg], span: Span) -> Option<Construct> {
        let ty = self.constructed_ty(ty);
        self.check_construct_type(ty, args, span)
    }

    /// Checks an instantiation of a type with possibly unknown type arguments.
    pub(super) fn check_construct_type(&mut self, ty: Ty, args: &[Arg], span: Span) -> Option<Construct> {
        let (sigs, constructors) = match self.type_kind(ty).clone() {
            TyKind::Unknown => {
                for arg in args {
                    self.check_expr(&arg.value, None);
                }
                return None;
            }
            TyKind::Extern(id, targs) => self.extern_constructors(id, &targs),
            TyKind::Object(id, targs) => {
                let decl = &self.prog.objects[id.index()];
                let is_type =
                    matches!(decl.kind, crate::hir::ObjectKind::ParserType | crate::hir::ObjectKind::ControlType);
                if is_type {
                    let message = format!("`{}` is only a type: it has no body and cannot be instantiated", decl.name);
                    self.fail("construct", span, message);
                    return None;
                }
                if decl.constructor_params.len() != args.len()
                    && let Some(form) = crate::architectures::describe_variant(&decl.name, args.len())
                {
                    self.report_other_blocks(id, args.len(), form, span);
                    return None;
                }
                let sig = CallableSignature {
                    name: decl.name.clone(),
                    what: "constructor of",
                    type_params: Vec::new(),
                    outer: decl.type_params.iter().copied().zip(targs).collect(),
                    params: decl.constructor_params.clone(),
                    result: ty,
                    span: decl.span,
                    kind: CallableKind::Constructor,
                };
                (vec![sig], vec![Constructor::Object(id)])
            }
            _ => {
                let shown = self.type_text(ty);
                self.fail("construct", span, format!("`{shown}` is not a type that can be instantiated"));
                return None;
            }
        };
        if sigs.is_empty() {
            let shown = self.type_text(ty);
            self.fail("construct", span, format!("extern `{shown}` has no constructor"));
            return None;
        }
        let (at, places) = self.select_signature(&sigs, &[], args, span)?;
        let bound = self.bind_args(&sigs[at], &places, &[], args, None, span)?;
        let type_args = self.constructed_type_args(ty, &sigs[at], span)?;
        let args = bound.args.into_iter().map(|arg| match arg {
            CallArg::Expr(value) => Some(value),
            _ => None,
        });
        Some(Construct { what: constructors[at], type_args, args: args.collect(), span })
    }

    /// Reports a package that is given the blocks of another variant of the architecture. Names all
    /// blocks, because the missing one is not known.
    fn report_other_blocks(&mut self, package: TypeDeclId, given: usize, form: String, span: Span) {
        let decl = &self.prog.objects[package.index()];
        let names: Vec<&str> = decl.constructor_params.iter().map(|id| &*self.local_decl(*id).name).collect();
        let message =
            format!("`{}` takes {} blocks ({}), and {given} are given", decl.name, names.len(), names.join(", "));
        self.error(Diagnostic::error("arguments", span, message).label(decl.span, "declared here").help(form));
    }

    fn extern_constructors(&self, id: ExternId, targs: &[Ty]) -> (Vec<CallableSignature>, Vec<Constructor>) {
        let decl = &self.prog.externs[id.index()];
        let outer: Vec<_> = decl.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let sig = |m| CallableSignature {
            outer: outer.clone(),
            kind: CallableKind::Constructor,
            ..method_signature(m, "constructor")
        };
        decl.constructors.iter().enumerate().map(|(at, m)| (sig(m), Constructor::Extern(id, at))).unzip()
    }

    /// Returns the type arguments, which must be known at this point.
    fn constructed_type_args(&mut self, ty: Ty, sig: &CallableSignature, span: Span) -> Option<Vec<Ty>> {
        let ty = self.resolve(ty);
        let args = match self.type_kind(ty).clone() {
            TyKind::Extern(_, args) | TyKind::Object(_, args) => args,
            _ => Vec::new(),
        };
        if let &TyKind::Object(id, _) = self.type_kind(ty) {
            // Optional parts that a package omits leave their type arguments undetermined.
            if self.object_family(id) == ObjectFamily::Package {
                for arg in &args {
                    self.set_var_to(*arg, Types::VOID);
                }
            }
            return Some(args.into_iter().map(|arg| self.resolve(arg)).collect());
        }
        for arg in &args {
            let problem = match (self.has_infer(*arg), *arg == Types::INT) {
                (true, _) => "cannot be inferred",
                (_, true) => "has no width",
                _ => continue,
            };
            let message = format!("a type argument of `{}` {problem}", sig.name);
            self.error(
                Diagnostic::error("infer-type", span, message)
                    .label(sig.span, "declared here")
                    .help(format!("write the type arguments: `{}<...>(...)`", sig.name)),
            );
            return None;
        }
        Some(args)
    }

    /// Returns the type of the object that a constructor call creates.
    pub(super) fn constructed_type(&mut self, construct: &Construct) -> Ty {
        match construct.what {
            Constructor::Extern(id, _) => self.intern(TyKind::Extern(id, construct.type_args.clone())),
            Constructor::Object(id) => self.intern(TyKind::Object(id, construct.type_args.clone())),
        }
    }

    /// Checks `T(args) name;` with an optional initialiser block.
    pub(super) fn instance_decl(&mut self, decl: &ast::InstanceDecl) -> Option<InstanceId> {
        let annotations = self.check_annotations(&decl.annotations);
        let span = decl.ty.span.to(decl.name.span);
        let before = self.diags.len();
        let construct = self.check_construct(&decl.ty, &decl.args, span);
        let Some(construct) = construct else {
            debug_assert!(self.diags.len() >= before);
            self.declare(&decl.name, ScopeEntity::Unknown);
            return None;
        };
        let ty = self.constructed_type(&construct);
        self.check_instance_place(decl, ty, span);
        let (methods, members) = self.check_initializer(decl, ty);
        self.prog.instances.push(Instance {
            name: decl.name.name.clone(),
            annotations,
            construct,
            ty,
            methods,
            members,
            span,
        });
        let id = InstanceId(self.prog.instances.len() as u32 - 1);
        if decl.name.as_str() == "main" && self.body.context == CheckContext::Top {
            self.set_main(id, decl, ty);
        }
        self.declare(&decl.name, ScopeEntity::Instance(id));
        Some(id)
    }

    fn set_main(&mut self, id: InstanceId, decl: &ast::InstanceDecl, ty: Ty) {
        match self.type_kind(ty) {
            TyKind::Object(object, _) if self.object_family(*object) == ObjectFamily::Package => {
                self.prog.main = Some(id)
            }
            _ => {
                let shown = self.type_text(ty);
                self.fail("main", decl.name.span, format!("`main` must be an instance of a package, not of `{shown}`"));
            }
        }
    }

    /// Checks that parsers are instantiated in parsers, controls in controls, and packages at the
    /// top level.
    fn check_instance_place(&mut self, decl: &ast::InstanceDecl, ty: Ty, span: Span) {
        let TyKind::Object(id, _) = self.type_kind(ty) else { return };
        let family = self.object_family(*id);
        let message = match (family, self.body.context) {
            (ObjectFamily::Package, CheckContext::Top) => return,
            (ObjectFamily::Parser, CheckContext::ParserLocals)
            | (ObjectFamily::Control, CheckContext::ControlLocals) => return,
            (ObjectFamily::Package, _) => format!("package `{}` cannot be instantiated here", decl.name),
            (ObjectFamily::Parser, CheckContext::ControlLocals) => {
                format!("parser `{}` is instantiated in a control", decl.name)
            }
            (ObjectFamily::Control, CheckContext::ParserLocals) => {
                format!("control `{}` is instantiated in a parser", decl.name)
            }
            _ => format!("`{}` cannot be instantiated at the top level", decl.name),
        };
        let help = match family {
            ObjectFamily::Package => "instantiate packages at the top level",
            ObjectFamily::Parser => {
                "parsers are instantiated in parsers, or without a name as arguments of the package"
            }
            ObjectFamily::Control => {
                "controls are instantiated in controls, or without a name as arguments of the package"
            }
        };
        self.error(Diagnostic::error("instance-place", span, message).help(help));
    }

    /// Checks the initialiser block, which implements the abstract methods.
    fn check_initializer(&mut self, decl: &ast::InstanceDecl, ty: Ty) -> (Vec<(usize, FunctionId)>, Vec<InstanceId>) {
        let Some((id, targs)) = self.as_extern(ty) else {
            if decl.initializer.is_some() {
                self.fail("initializer", decl.span, "only instances of externs have an initialiser block");
            }
            return Default::default();
        };
        let abstracts: Vec<usize> = (0..self.prog.externs[id.index()].methods.len())
            .filter(|m| self.prog.externs[id.index()].methods[*m].is_abstract)
            .collect();
        if decl.initializer.is_some() && abstracts.is_empty() {
            let name = self.prog.externs[id.index()].name.clone();
            self.fail("initializer", decl.name.span, format!("extern `{name}` has no abstract methods to implement"));
            return Default::default();
        }
        let (mut methods, mut members) = (Vec::new(), Vec::new());
        self.in_new_scope(|c| {
            for member in decl.initializer.iter().flatten() {
                match member {
                    ObjMember::Instance(inner) => members.extend(c.instance_decl(inner)),
                    ObjMember::Function(function) => {
                        methods.extend(c.check_implementation(function, id, &targs, &abstracts));
                    }
                }
            }
        });
        for at in abstracts {
            if !methods.iter().any(|(m, _)| *m == at) {
                let method = &self.prog.externs[id.index()].methods[at];
                let (name, span) = (method.name.clone(), method.span);
                if method.annotations.iter().any(|a| a.name.as_str() == "optional") {
                    continue;
                }
                if decl
                    .initializer
                    .iter()
                    .flatten()
                    .any(|m| matches!(m, ObjMember::Function(f) if *f.name.name == *name))
                {
                    continue;
                }
                self.error(
                    Diagnostic::error(
                        "abstract",
                        decl.name.span,
                        format!("`{}` does not implement `{name}`", decl.name),
                    )
                    .label(span, "the abstract method")
                    .help("implement it in a block after the name: `E() e = { ... };`"),
                );
            }
        }
        (methods, members)
    }

    /// Checks the implementation of an abstract method.
    fn check_implementation(
        &mut self,
        decl: &ast::FunctionDecl,
        id: ExternId,
        targs: &[Ty],
        abstracts: &[usize],
    ) -> Option<(usize, FunctionId)> {
        let body = BodyContext { context: CheckContext::Method, this: Some((id, targs.to_vec())), ..self.body.clone() };
        let function = self.check_function(decl, body);
        let owner = &self.prog.externs[id.index()];
        let found = abstracts.iter().copied().find(|m| *owner.methods[*m].name == *decl.name.name);
        let Some(at) = found else {
            let message = format!("extern `{}` has no abstract method `{}`", owner.name, decl.name);
            let names: Vec<_> = abstracts.iter().map(|m| owner.methods[*m].name.clone()).collect();
            let names: Vec<&str> = names.iter().map(|n| &**n).collect();
            let help = format!("it has {}", super::names::join_names(&names));
            self.error(Diagnostic::error("abstract", decl.name.span, message).help(help));
            return None;
        };
        if !self.implements_method(function, id, targs, at) {
            let span = self.prog.externs[id.index()].methods[at].span;
            let message = format!("`{}` does not have the parameters and result of the abstract method", decl.name);
            self.error(Diagnostic::error("abstract", decl.name.span, message).label(span, "the abstract method"));
            return None;
        }
        Some((at, function))
    }

    fn implements_method(&mut self, function: FunctionId, id: ExternId, targs: &[Ty], at: usize) -> bool {
        let owner = &self.prog.externs[id.index()];
        let subst = owner.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let (method, function) = (owner.methods[at].clone(), &self.prog.functions[function.index()]);
        let (params, result) = (function.params.clone(), function.result);
        if !function.type_params.is_empty() {
            return false;
        }
        let wanted = self.substitute(method.result, &subst);
        if !self.unify(wanted, result) {
            return false;
        }
        // Optional parameters can be omitted.
        let mut wanted = method.params.iter();
        for have in &params {
            let name = self.local_decl(*have).name.clone();
            let exact = params.len() == method.params.len();
            let Some(want) = wanted.find(|w| exact || self.local_decl(**w).name == name || !self.can_be_omitted(**w))
            else {
                return false;
            };
            let (ht, wt) = (self.local_decl(*have).ty, self.local_decl(*want).ty);
            let wt = self.substitute(wt, &subst);
            if self.direction(*have) != self.direction(*want) || !self.unify(wt, ht) {
                return false;
            }
        }
        wanted.all(|w| self.can_be_omitted(*w))
    }
}
