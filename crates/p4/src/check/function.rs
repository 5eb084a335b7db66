//! Functions, actions, and the parameters of everything.

use super::scope::{Entity, Func};
use super::unify::Family;
use super::{Body, Checker, Place};
use crate::ast::{self, Direction, Param};
use crate::diag::Diagnostic;
use crate::hir::{Action, ActionId, Expr, Function, FunctionId, LocalId, LocalKind, ObjectKind, Ty, TyKind, Types};

/// Whose parameters they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ParamsOf {
    /// A function, extern function or method.
    Function,
    /// An action.
    Action,
    /// `apply` of a parser or control.
    Apply,
    /// The constructor of a parser or control, or a package.
    Constructor,
    /// The constructor of an extern.
    ExternConstructor,
}

impl Checker<'_> {
    /// Parameters, declared in the innermost scope.
    pub(super) fn params(&mut self, params: &[Param], of: ParamsOf) -> Vec<LocalId> {
        self.distinct(params.iter().map(|p| &p.name));
        let mut plain_before: Option<&Param> = None;
        let mut ids = Vec::new();
        for param in params {
            if of == ParamsOf::Action {
                match (param.direction, plain_before) {
                    (Direction::None, _) => plain_before = Some(param),
                    (_, Some(plain)) => {
                        self.error(
                            Diagnostic::error(
                                "param-order",
                                plain.span,
                                "parameters without direction come last in an action",
                            )
                            .label(param.span, "this one has a direction"),
                        );
                        plain_before = None;
                    }
                    _ => {}
                }
            }
            ids.push(self.param(param, of));
        }
        ids
    }

    fn param(&mut self, param: &Param, of: ParamsOf) -> LocalId {
        let annotations = self.annotations(&param.annotations);
        let mut ty = self.ty(&param.ty);
        if !self.param_fits(param, ty, of) {
            ty = Types::UNKNOWN;
        }
        let optional = param.annotations.iter().any(|a| a.name.as_str() == "optional");
        if optional && !self.optional_allowed(of) {
            self.fail(
                "param-optional",
                param.span,
                "`@optional` is for parameters of externs, packages and types of parsers and controls",
            );
        }
        let default = param.default.as_ref().and_then(|d| self.param_default(param, d, ty, optional, of));
        let kind = match of {
            ParamsOf::Constructor | ParamsOf::ExternConstructor => LocalKind::ConstructorParam(default, optional),
            _ => LocalKind::Param(param.direction, default, optional),
        };
        let ty = self.resolve(ty);
        let local = crate::hir::Local { name: param.name.name.clone(), ty, kind, annotations, span: param.span };
        let id = self.add_local(local);
        self.scopes.set(&param.name, Entity::Local(id));
        id
    }

    /// Whether parameters there may be `@optional`: where there is no body that would use them.
    fn optional_allowed(&self, of: ParamsOf) -> bool {
        match of {
            ParamsOf::Action => false,
            ParamsOf::Constructor => self.head_of == Some(Family::Package),
            ParamsOf::Function => self.prototype,
            ParamsOf::Apply | ParamsOf::ExternConstructor => true,
        }
    }

    fn param_default(
        &mut self,
        param: &Param,
        default: &ast::Expr,
        ty: Ty,
        optional: bool,
        of: ParamsOf,
    ) -> Option<Box<Expr>> {
        if matches!(param.direction, Direction::Out | Direction::InOut) || optional {
            let what = if optional { "@optional" } else { param.direction.as_str() };
            let message = format!("parameter `{}` is `{what}` and cannot have a default value", param.name);
            self.fail("param-default", param.span, message);
            return None;
        }
        let value = self.expr(default, Some(ty));
        let value = match self.kind(ty) {
            // Whether an object fits is seen at the call, where the type arguments are known.
            TyKind::Object(..) => value,
            _ => self.coerce_for(value, ty, param.ty.span, "the type of the parameter"),
        };
        let known = self.is_known(&value) || of == ParamsOf::Action;
        if value.ty != Types::UNKNOWN && !known {
            self.fail("not-constant", default.span, "a default value must be known at compile time");
            return None;
        }
        Some(Box::new(value))
    }

    /// Whether a parameter may have that type and direction.
    fn param_fits(&mut self, param: &Param, ty: Ty, of: ParamsOf) -> bool {
        let shown = self.show(ty);
        let name = &param.name;
        let directed = param.direction != Direction::None;
        let object = match self.kind(ty) {
            TyKind::Object(id, _) => Some(&self.prog.objects[id.index()].kind),
            _ => None,
        };
        let is_object = object.is_some();
        let package = matches!(object, Some(ObjectKind::Package));
        let is_extern = matches!(self.kind(ty), TyKind::Extern(..));
        let compile_time = matches!(self.kind(ty), TyKind::InfInt | TyKind::Str);
        let in_control = self.body.place == Place::Top && self.head_of == Some(Family::Control);
        let parser = matches!(object, Some(ObjectKind::Parser(_) | ObjectKind::ParserType));
        let problem = match of {
            ParamsOf::ExternConstructor if is_object => {
                Some((format!("a parameter of an extern's constructor cannot be of type `{shown}`"), None))
            }
            ParamsOf::Constructor if matches!(object, Some(ObjectKind::Parser(_) | ObjectKind::Control(_))) => Some((
                format!("parameter `{name}` cannot be of type `{shown}`, which has a body"),
                Some("declare a type without a body, as in `control C();`, and use that"),
            )),
            ParamsOf::Constructor if in_control && parser => {
                Some((format!("parser `{name}` cannot be used in a control"), Some("parsers are used in parsers")))
            }
            ParamsOf::Constructor | ParamsOf::ExternConstructor if directed => {
                Some(("a constructor parameter has no direction".to_owned(), None))
            }
            ParamsOf::Constructor | ParamsOf::ExternConstructor if ty == Types::VOID => {
                Some(("a parameter cannot be of type `void`".to_owned(), None))
            }
            ParamsOf::Constructor | ParamsOf::ExternConstructor => None,
            _ if package => Some((format!("parameter `{name}` cannot be a package"), None)),
            _ if is_object => Some((
                format!("parameter `{name}` cannot be of type `{shown}`"),
                Some("parsers and controls are constructor parameters, in the second pair of parentheses"),
            )),
            ParamsOf::Action if is_extern => {
                Some((format!("a parameter of an action cannot be the extern `{shown}`"), None))
            }
            ParamsOf::Action if compile_time => {
                Some((format!("a parameter of an action cannot be of type `{shown}`"), None))
            }
            _ if is_extern && directed => Some((
                format!("parameter `{name}` of extern type `{shown}` cannot have a direction"),
                Some("remove the direction"),
            )),
            _ if compile_time && directed => Some((
                format!("parameter `{name}` of type `{shown}` cannot have a direction"),
                Some("values of this type exist at compile time only: remove the direction"),
            )),
            _ if matches!(ty, Types::VOID) || matches!(self.kind(ty), TyKind::MatchKind if directed) => {
                Some((format!("a parameter cannot be of type `{shown}`"), None))
            }
            _ => None,
        };
        let Some((message, help)) = problem else { return true };
        let diagnostic = Diagnostic::error("param-type", param.span, message);
        self.error(match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
        false
    }

    /// A function of the program, which may be overloaded.
    pub(super) fn function_decl(&mut self, decl: &ast::FunctionDecl) {
        self.begin_function(&decl.name);
        let body = Body { place: Place::Function, ..self.body.clone() };
        let id = self.function(decl, body);
        self.end_function(&decl.name, Func::Own(id));
    }

    /// While a function is being declared, it is not among the overloads of its name yet; if it is the only one, its
    /// name is there, so that recursion can be named as such.
    fn begin_function(&mut self, name: &ast::Ident) {
        if self.scopes.global(name.as_str()).is_none() {
            self.scopes.set(name, Entity::Unfinished("function"));
        }
    }

    fn end_function(&mut self, name: &ast::Ident, func: Func) {
        match self.scopes.global(name.as_str()) {
            Some(Entity::Unfinished(_)) => self.scopes.set(name, Entity::Functions(vec![func])),
            _ => self.declare(name, Entity::Functions(vec![func])),
        }
    }

    /// The body of a function, or of an abstract method's implementation.
    pub(super) fn function(&mut self, decl: &ast::FunctionDecl, body: Body) -> FunctionId {
        self.annotations(&decl.annotations);
        let function = self.scoped(|c| {
            let type_params = c.declare_type_params(&decl.type_params);
            let result = c.result_type(&decl.result);
            let params = c.params(&decl.params, ParamsOf::Function);
            c.distinct(decl.type_params.iter().chain(decl.params.iter().map(|p| &p.name)));
            let body = Body { result, loops: 0, ..body };
            let stmts = c.scoped(|c| c.in_body(body, |c| c.block(&decl.body)));
            c.returns_always(&stmts, result, decl);
            Function { name: decl.name.name.clone(), type_params, params, result, body: stmts, span: decl.name.span }
        });
        self.prog.functions.push(function);
        FunctionId(self.prog.functions.len() as u32 - 1)
    }

    /// The type of a function's result.
    pub(super) fn result_type(&mut self, written: &ast::Type) -> Ty {
        let ty = self.ty(written);
        if matches!(
            self.kind(ty),
            TyKind::Object(..) | TyKind::Extern(..) | TyKind::InfInt | TyKind::Str | TyKind::MatchKind
        ) {
            let shown = self.show(ty);
            self.fail("result-type", written.span, format!("a result cannot be of type `{shown}`"));
            return Types::UNKNOWN;
        }
        ty
    }

    /// An action, global or of a control.
    pub(super) fn action_decl(&mut self, decl: &ast::ActionDecl) -> ActionId {
        let annotations = self.annotations(&decl.annotations);
        self.begin(&decl.name, "action");
        let owner = self.body.object;
        let (params, stmts) = self.scoped(|c| {
            let params = c.params(&decl.params, ParamsOf::Action);
            let body = Body { place: Place::Action, result: Types::VOID, loops: 0, ..c.body.clone() };
            let stmts = c.scoped(|c| c.in_body(body, |c| c.block(&decl.body)));
            (params, stmts)
        });
        self.prog.actions.push(Action {
            name: decl.name.name.clone(),
            annotations,
            params,
            body: stmts,
            owner,
            span: decl.name.span,
        });
        let id = ActionId(self.prog.actions.len() as u32 - 1);
        self.scopes.set(&decl.name, Entity::Action(id));
        id
    }

    /// An extern function.
    pub(super) fn extern_function(&mut self, decl: &ast::MethodDecl) {
        let method = self.scoped(|c| c.prototype(decl));
        self.prog.extern_functions.push(method);
        let id = crate::hir::ExternFnId(self.prog.extern_functions.len() as u32 - 1);
        self.declare(&decl.name, Entity::Functions(vec![Func::Extern(id)]));
    }
}
