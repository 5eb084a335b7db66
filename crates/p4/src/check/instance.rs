//! Constructor calls, instances and their initialiser blocks.

use super::call::method_signature;
use super::overload::{SigKind, Signature};
use super::scope::Entity;
use super::unify::Family;
use super::{Body, Checker, Place, unknown};
use crate::ast::{self, Arg, ObjMember};
use crate::diag::Diagnostic;
use crate::hir::{
    CallArg, Construct, Constructor, Expr, ExprKind, ExternId, FunctionId, Instance, InstanceId, Ty, TyKind,
    TypeDeclId, Types,
};
use crate::span::Span;

impl Checker<'_> {
    /// `T(args)` as a value.
    pub(super) fn construct_expr(&mut self, ty: &ast::Type, args: &[Arg], span: Span) -> Expr {
        let place = self.body.place;
        if matches!(place, Place::Action | Place::Function | Place::Method | Place::ControlApply | Place::ParserState) {
            let place = super::method::place_name(place);
            self.fail("instance-place", span, format!("a constructor cannot be called in {place}"));
            return unknown(span);
        }
        match self.construct(ty, args, span) {
            Some(construct) => {
                let ty = self.constructed_type(&construct);
                self.no_abstract(ty, span);
                Expr { kind: ExprKind::Construct(Box::new(construct)), ty, span }
            }
            None => unknown(span),
        }
    }

    /// An instance without a name implements no abstract methods.
    fn no_abstract(&mut self, ty: Ty, span: Span) {
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

    /// `T(args)` or `T<A>(args)`
    pub(super) fn construct(&mut self, ty: &ast::Type, args: &[Arg], span: Span) -> Option<Construct> {
        let ty = self.constructed_ty(ty);
        self.construct_of(ty, args, span)
    }

    /// An instantiation of a type whose type arguments may still be unknown.
    pub(super) fn construct_of(&mut self, ty: Ty, args: &[Arg], span: Span) -> Option<Construct> {
        let (sigs, constructors) = match self.kind(ty).clone() {
            TyKind::Unknown => {
                for arg in args {
                    self.expr(&arg.value, None);
                }
                return None;
            }
            TyKind::Extern(id, targs) => self.extern_constructors(id, &targs),
            TyKind::Object(id, targs) => {
                let decl = &self.prog.objects[id.index()];
                let is_type =
                    matches!(decl.kind, crate::hir::ObjectKind::ParserType | crate::hir::ObjectKind::ControlType);
                if is_type {
                    let message = format!("`{}` is only a type: it has no body to make an instance of", decl.name);
                    self.fail("construct", span, message);
                    return None;
                }
                if decl.constructor_params.len() != args.len()
                    && let Some(form) = crate::architectures::other_form(&decl.name, args.len())
                {
                    self.other_blocks(id, args.len(), form, span);
                    return None;
                }
                let sig = Signature {
                    name: decl.name.clone(),
                    what: "constructor of",
                    type_params: Vec::new(),
                    outer: decl.type_params.iter().copied().zip(targs).collect(),
                    params: decl.constructor_params.clone(),
                    result: ty,
                    span: decl.span,
                    kind: SigKind::Constructor,
                };
                (vec![sig], vec![Constructor::Object(id)])
            }
            _ => {
                let shown = self.show(ty);
                self.fail("construct", span, format!("`{shown}` is not a type of which instances are made"));
                return None;
            }
        };
        if sigs.is_empty() {
            let shown = self.show(ty);
            self.fail("construct", span, format!("extern `{shown}` has no constructor"));
            return None;
        }
        let (at, places) = self.pick(&sigs, &[], args, span)?;
        let bound = self.bind_args(&sigs[at], &places, &[], args, None, span)?;
        let type_args = self.constructed_args(ty, &sigs[at], span)?;
        let args = bound.args.into_iter().map(|arg| match arg {
            CallArg::Expr(value) => Some(value),
            _ => None,
        });
        Some(Construct { what: constructors[at], type_args, args: args.collect(), span })
    }

    /// An architecture's package is given the blocks of another form of it: all are named, because which one is missing
    /// would be a guess.
    fn other_blocks(&mut self, package: TypeDeclId, given: usize, form: String, span: Span) {
        let decl = &self.prog.objects[package.index()];
        let names: Vec<&str> = decl.constructor_params.iter().map(|id| &*self.local(*id).name).collect();
        let message =
            format!("`{}` takes {} blocks ({}), and {given} are given", decl.name, names.len(), names.join(", "));
        self.error(Diagnostic::error("arguments", span, message).label(decl.span, "declared here").help(form));
    }

    fn extern_constructors(&self, id: ExternId, targs: &[Ty]) -> (Vec<Signature>, Vec<Constructor>) {
        let decl = &self.prog.externs[id.index()];
        let outer: Vec<_> = decl.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let sig =
            |m| Signature { outer: outer.clone(), kind: SigKind::Constructor, ..method_signature(m, "constructor") };
        decl.constructors.iter().enumerate().map(|(at, m)| (sig(m), Constructor::Extern(id, at))).unzip()
    }

    /// The type arguments, which must be known by now.
    fn constructed_args(&mut self, ty: Ty, sig: &Signature, span: Span) -> Option<Vec<Ty>> {
        let ty = self.resolve(ty);
        let args = match self.kind(ty).clone() {
            TyKind::Extern(_, args) | TyKind::Object(_, args) => args,
            _ => Vec::new(),
        };
        if let &TyKind::Object(id, _) = self.kind(ty) {
            // Of a package that leaves optional parts out, nothing decides their type arguments.
            if self.family(id) == Family::Package {
                for arg in &args {
                    self.give_up_to(*arg, Types::VOID);
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

    /// The type of what a constructor call makes.
    pub(super) fn constructed_type(&mut self, construct: &Construct) -> Ty {
        match construct.what {
            Constructor::Extern(id, _) => self.intern(TyKind::Extern(id, construct.type_args.clone())),
            Constructor::Object(id) => self.intern(TyKind::Object(id, construct.type_args.clone())),
        }
    }

    /// `T(args) name;`, perhaps with an initialiser block.
    pub(super) fn instance_decl(&mut self, decl: &ast::InstanceDecl) -> Option<InstanceId> {
        let annotations = self.annotations(&decl.annotations);
        let span = decl.ty.span.to(decl.name.span);
        let before = self.diags.len();
        let construct = self.construct(&decl.ty, &decl.args, span);
        let Some(construct) = construct else {
            debug_assert!(self.diags.len() >= before);
            self.declare(&decl.name, Entity::Unknown);
            return None;
        };
        let ty = self.constructed_type(&construct);
        self.instance_place(decl, ty, span);
        let (methods, members) = self.initializer(decl, ty);
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
        if decl.name.as_str() == "main" && self.body.place == Place::Top {
            self.main(id, decl, ty);
        }
        self.declare(&decl.name, Entity::Instance(id));
        Some(id)
    }

    fn main(&mut self, id: InstanceId, decl: &ast::InstanceDecl, ty: Ty) {
        match self.kind(ty) {
            TyKind::Object(object, _) if self.family(*object) == Family::Package => self.prog.main = Some(id),
            _ => {
                let shown = self.show(ty);
                self.fail("main", decl.name.span, format!("`main` must be an instance of a package, not of `{shown}`"));
            }
        }
    }

    /// Parsers belong in parsers, controls in controls, packages at the top level.
    fn instance_place(&mut self, decl: &ast::InstanceDecl, ty: Ty, span: Span) {
        let TyKind::Object(id, _) = self.kind(ty) else { return };
        let family = self.family(*id);
        let message = match (family, self.body.place) {
            (Family::Package, Place::Top) => return,
            (Family::Parser, Place::ParserLocals) | (Family::Control, Place::ControlLocals) => return,
            (Family::Package, _) => format!("package `{}` cannot be instantiated here", decl.name),
            (Family::Parser, Place::ControlLocals) => format!("parser `{}` is instantiated in a control", decl.name),
            (Family::Control, Place::ParserLocals) => format!("control `{}` is instantiated in a parser", decl.name),
            _ => format!("`{}` cannot be instantiated at the top level", decl.name),
        };
        let help = match family {
            Family::Package => "instantiate packages at the top level",
            Family::Parser => "parsers are instantiated in parsers, or without a name as arguments of the package",
            Family::Control => "controls are instantiated in controls, or without a name as arguments of the package",
        };
        self.error(Diagnostic::error("instance-place", span, message).help(help));
    }

    /// The initialiser block, which implements the abstract methods.
    fn initializer(&mut self, decl: &ast::InstanceDecl, ty: Ty) -> (Vec<(usize, FunctionId)>, Vec<InstanceId>) {
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
        self.scoped(|c| {
            for member in decl.initializer.iter().flatten() {
                match member {
                    ObjMember::Instance(inner) => members.extend(c.instance_decl(inner)),
                    ObjMember::Function(function) => {
                        methods.extend(c.implementation(function, id, &targs, &abstracts));
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
                    .help("implement it in a block behind the name: `E() e = { ... };`"),
                );
            }
        }
        (methods, members)
    }

    /// The implementation of an abstract method.
    fn implementation(
        &mut self,
        decl: &ast::FunctionDecl,
        id: ExternId,
        targs: &[Ty],
        abstracts: &[usize],
    ) -> Option<(usize, FunctionId)> {
        let body = Body { place: Place::Method, this: Some((id, targs.to_vec())), ..self.body.clone() };
        let function = self.function(decl, body);
        let owner = &self.prog.externs[id.index()];
        let found = abstracts.iter().copied().find(|m| *owner.methods[*m].name == *decl.name.name);
        let Some(at) = found else {
            let message = format!("extern `{}` has no abstract method `{}`", owner.name, decl.name);
            let names: Vec<_> = abstracts.iter().map(|m| owner.methods[*m].name.clone()).collect();
            let names: Vec<&str> = names.iter().map(|n| &**n).collect();
            let help = format!("it has {}", super::names::list(&names));
            self.error(Diagnostic::error("abstract", decl.name.span, message).help(help));
            return None;
        };
        if !self.implements(function, id, targs, at) {
            let span = self.prog.externs[id.index()].methods[at].span;
            let message = format!("`{}` does not have the parameters and result of the abstract method", decl.name);
            self.error(Diagnostic::error("abstract", decl.name.span, message).label(span, "the abstract method"));
            return None;
        }
        Some((at, function))
    }

    fn implements(&mut self, function: FunctionId, id: ExternId, targs: &[Ty], at: usize) -> bool {
        let owner = &self.prog.externs[id.index()];
        let subst = owner.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let (method, function) = (owner.methods[at].clone(), &self.prog.functions[function.index()]);
        let (params, result) = (function.params.clone(), function.result);
        if !function.type_params.is_empty() {
            return false;
        }
        let wanted = self.subst(method.result, &subst);
        if !self.unify(wanted, result) {
            return false;
        }
        // Parameters that are optional need not be there.
        let mut wanted = method.params.iter();
        for have in &params {
            let name = self.local(*have).name.clone();
            let exact = params.len() == method.params.len();
            let Some(want) = wanted.find(|w| exact || self.local(**w).name == name || !self.may_be_missing(**w)) else {
                return false;
            };
            let (ht, wt) = (self.local(*have).ty, self.local(*want).ty);
            let wt = self.subst(wt, &subst);
            if self.direction(*have) != self.direction(*want) || !self.unify(wt, ht) {
                return false;
            }
        }
        wanted.all(|w| self.may_be_missing(*w))
    }
}
