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
    /// Checks `T(args)` as a value. The code of actions, functions, methods, `apply` blocks and
    /// parser states cannot contain it, because all objects exist before the first packet.
    pub(super) fn construct_expr(&mut self, ty: &ast::Type, args: &[Arg], span: Span) -> Expr {
        if matches!(
            self.body.context,
            CheckContext::Action
                | CheckContext::Function
                | CheckContext::Method
                | CheckContext::ControlApply
                | CheckContext::ParserState
        ) {
            let context_name = super::method::place_name(self.body.context);
            self.fail("instance-place", span, format!("a constructor cannot be called in {context_name}"));
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

    /// Checks an instantiation of a type with possibly unknown type arguments. Returns `None` after
    /// an error or if the type is unknown.
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
                // A package with another number of blocks is a known variant of the architecture,
                // which gets a message of its own.
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
                let type_text = self.type_text(ty);
                self.fail("construct", span, format!("`{type_text}` is not a type that can be instantiated"));
                return None;
            }
        };
        if sigs.is_empty() {
            let type_text = self.type_text(ty);
            self.fail("construct", span, format!("extern `{type_text}` has no constructor"));
            return None;
        }
        let (selected, arg_of_param) = self.select_signature(&sigs, &[], args, span)?;
        let bound = self.bind_args(&sigs[selected], &arg_of_param, &[], args, None, span)?;
        let type_args = self.constructed_type_args(ty, &sigs[selected], span)?;
        let args = bound.args.into_iter().map(|arg| match arg {
            CallArg::Expr(value) => Some(value),
            _ => None,
        });
        Some(Construct { what: constructors[selected], type_args, args: args.collect(), span })
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

    /// Returns the type arguments of the constructed type `ty`, which must be determined at this
    /// point. Reports an argument of an extern that is not, and returns `None`. `sig` is the called
    /// constructor.
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

    /// Checks `T(args) name;` with an optional initialiser block. Returns `None` after an error;
    /// the name is then declared as unknown, so that its uses cause no further errors.
    pub(super) fn instance_decl(&mut self, decl: &ast::InstanceDecl) -> Option<InstanceId> {
        let annotations = self.check_annotations(&decl.annotations);
        let span = decl.ty.span.to(decl.name.span);
        let errors_before = self.diags.len();
        let construct = self.check_construct(&decl.ty, &decl.args, span);
        let Some(construct) = construct else {
            debug_assert!(self.diags.len() >= errors_before);
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

    /// Checks the initialiser block, which implements the abstract methods. Returns the
    /// implementations, each with the index of its method in the extern, and the instances declared
    /// in the block. Methods marked `@optional` need no implementation.
    fn check_initializer(&mut self, decl: &ast::InstanceDecl, ty: Ty) -> (Vec<(usize, FunctionId)>, Vec<InstanceId>) {
        let Some((id, targs)) = self.as_extern(ty) else {
            if decl.initializer.is_some() {
                self.fail("initializer", decl.span, "only instances of externs have an initialiser block");
            }
            return Default::default();
        };
        let abstract_methods: Vec<usize> = (0..self.prog.externs[id.index()].methods.len())
            .filter(|m| self.prog.externs[id.index()].methods[*m].is_abstract)
            .collect();
        if decl.initializer.is_some() && abstract_methods.is_empty() {
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
                        methods.extend(c.check_implementation(function, id, &targs, &abstract_methods));
                    }
                }
            }
        });
        for method_index in abstract_methods {
            if !methods.iter().any(|(m, _)| *m == method_index) {
                let method = &self.prog.externs[id.index()].methods[method_index];
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

    /// Checks the implementation `decl` of an abstract method of extern `id`, which has the type
    /// arguments `targs`. `abstract_methods` are the indices of the abstract methods. Returns the
    /// index of the implemented method, and the function; `None` after an error.
    fn check_implementation(
        &mut self,
        decl: &ast::FunctionDecl,
        id: ExternId,
        targs: &[Ty],
        abstract_methods: &[usize],
    ) -> Option<(usize, FunctionId)> {
        let body = BodyContext { context: CheckContext::Method, this: Some((id, targs.to_vec())), ..self.body.clone() };
        let function = self.check_function(decl, body);
        let owner = &self.prog.externs[id.index()];
        let implemented = abstract_methods.iter().copied().find(|m| *owner.methods[*m].name == *decl.name.name);
        let Some(method_index) = implemented else {
            let message = format!("extern `{}` has no abstract method `{}`", owner.name, decl.name);
            let names: Vec<_> = abstract_methods.iter().map(|m| owner.methods[*m].name.clone()).collect();
            let names: Vec<&str> = names.iter().map(|n| &**n).collect();
            let help = format!("it has {}", super::names::join_names(&names));
            self.error(Diagnostic::error("abstract", decl.name.span, message).help(help));
            return None;
        };
        if !self.implements_method(function, id, targs, method_index) {
            let span = self.prog.externs[id.index()].methods[method_index].span;
            let message = format!("`{}` does not have the parameters and result of the abstract method", decl.name);
            self.error(Diagnostic::error("abstract", decl.name.span, message).label(span, "the abstract method"));
            return None;
        }
        Some((method_index, function))
    }

    /// Returns whether `function` has the result, and parameters of the types and directions, of
    /// method `method_index` of extern `id` with the type arguments `targs`.
    fn implements_method(&mut self, function: FunctionId, id: ExternId, targs: &[Ty], method_index: usize) -> bool {
        let owner = &self.prog.externs[id.index()];
        let subst = owner.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let (method, function) = (owner.methods[method_index].clone(), &self.prog.functions[function.index()]);
        let (params, result) = (function.params.clone(), function.result);
        if !function.type_params.is_empty() {
            return false;
        }
        let declared_result = self.substitute(method.result, &subst);
        if !self.unify(declared_result, result) {
            return false;
        }
        // The implementation can omit optional parameters. Those are skipped until the names agree.
        let mut wanted_params = method.params.iter();
        for param in &params {
            let name = self.local_decl(*param).name.clone();
            let same_count = params.len() == method.params.len();
            let Some(declared) = wanted_params.find(|wanted_param| {
                same_count || self.local_decl(**wanted_param).name == name || !self.can_be_omitted(**wanted_param)
            }) else {
                return false;
            };
            let (own_ty, declared_ty) = (self.local_decl(*param).ty, self.local_decl(*declared).ty);
            let declared_ty = self.substitute(declared_ty, &subst);
            if self.direction(*param) != self.direction(*declared) || !self.unify(declared_ty, own_ty) {
                return false;
            }
        }
        wanted_params.all(|wanted_param| self.can_be_omitted(*wanted_param))
    }
}
