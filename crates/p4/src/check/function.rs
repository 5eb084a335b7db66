//! Checks functions and actions, and the parameters of all declarations.

use super::scope::{OverloadedFunction, ScopeEntity};
use super::unify::ObjectFamily;
use super::{BodyContext, CheckContext, Checker};
use crate::ast::{self, Direction, Param};
use crate::diag::Diagnostic;
use crate::hir::{Action, ActionId, Expr, Function, FunctionId, LocalId, LocalKind, ObjectKind, Ty, TyKind, Types};

/// Kind of declaration that owns a parameter list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ParamOwner {
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
    /// Checks parameters, declares them in the innermost scope, and returns them in order. `owner`
    /// is the kind of declaration that has them.
    pub(super) fn declare_params(&mut self, params: &[Param], owner: ParamOwner) -> Vec<LocalId> {
        self.check_distinct_names(params.iter().map(|p| &p.name));
        let mut undirected: Option<&Param> = None;
        let mut ids = Vec::new();
        for param in params {
            if owner == ParamOwner::Action {
                match (param.direction, undirected) {
                    (Direction::None, _) => undirected = Some(param),
                    (_, Some(undirected_param)) => {
                        self.error(
                            Diagnostic::error(
                                "param-order",
                                undirected_param.span,
                                "parameters without direction come last in an action",
                            )
                            .label(param.span, "this one has a direction"),
                        );
                        undirected = None;
                    }
                    _ => {}
                }
            }
            ids.push(self.declare_param(param, owner));
        }
        ids
    }

    /// Checks one parameter and declares it in the innermost scope. A parameter of a wrong type is
    /// declared with an unknown type, so that its uses cause no further errors.
    fn declare_param(&mut self, param: &Param, owner: ParamOwner) -> LocalId {
        let annotations = self.check_annotations(&param.annotations);
        let mut ty = self.resolve_type(&param.ty);
        if !self.check_param_type(param, ty, owner) {
            ty = Types::UNKNOWN;
        }
        let is_optional = param.annotations.iter().any(|a| a.name.as_str() == "optional");
        if is_optional && !self.allows_optional(owner) {
            self.fail(
                "param-optional",
                param.span,
                "`@optional` is for parameters of externs, packages and types of parsers and controls",
            );
        }
        let default = param.default.as_ref().and_then(|d| self.param_default(param, d, ty, is_optional, owner));
        let kind = match owner {
            ParamOwner::Constructor | ParamOwner::ExternConstructor => {
                LocalKind::ConstructorParam(default, is_optional)
            }
            _ => LocalKind::Param(param.direction, default, is_optional),
        };
        let ty = self.resolve(ty);
        let local = crate::hir::Local { name: param.name.name.clone(), ty, kind, annotations, span: param.span };
        let id = self.add_local(local);
        self.scopes.set(&param.name, ScopeEntity::Local(id));
        id
    }

    /// Returns whether parameters can be `@optional`: only in declarations without a body that
    /// would use them.
    fn allows_optional(&self, of: ParamOwner) -> bool {
        match of {
            ParamOwner::Action => false,
            ParamOwner::Constructor => self.declared_family == Some(ObjectFamily::Package),
            ParamOwner::Function => self.is_prototype,
            ParamOwner::Apply | ParamOwner::ExternConstructor => true,
        }
    }

    /// Checks the default value of a parameter of type `ty`; returns `None` after an error.
    fn param_default(
        &mut self,
        param: &Param,
        default: &ast::Expr,
        ty: Ty,
        is_optional: bool,
        owner: ParamOwner,
    ) -> Option<Box<Expr>> {
        if matches!(param.direction, Direction::Out | Direction::InOut) || is_optional {
            let modifier = if is_optional { "@optional" } else { param.direction.as_str() };
            let message = format!("parameter `{}` is `{modifier}` and cannot have a default value", param.name);
            self.fail("param-default", param.span, message);
            return None;
        }
        let value = self.check_expr(default, Some(ty));
        let value = match self.type_kind(ty) {
            // Compatibility of objects is checked at the call, because only there the type
            // arguments are known.
            TyKind::Object(..) => value,
            _ => self.coerce_for(value, ty, param.ty.span, "the type of the parameter"),
        };
        let is_known = self.is_known(&value) || owner == ParamOwner::Action;
        if value.ty != Types::UNKNOWN && !is_known {
            self.fail("not-constant", default.span, "a default value must be known at compile time");
            return None;
        }
        Some(Box::new(value))
    }

    /// Checks that a parameter can have the type `ty` and its direction, in a declaration of the
    /// kind `owner`. Returns false after an error.
    fn check_param_type(&mut self, param: &Param, ty: Ty, owner: ParamOwner) -> bool {
        let type_text = self.type_text(ty);
        let name = &param.name;
        let has_direction = param.direction != Direction::None;
        let object = match self.type_kind(ty) {
            TyKind::Object(id, _) => Some(&self.prog.objects[id.index()].kind),
            _ => None,
        };
        let is_object = object.is_some();
        let is_package = matches!(object, Some(ObjectKind::Package));
        let is_extern = matches!(self.type_kind(ty), TyKind::Extern(..));
        let is_compile_time = matches!(self.type_kind(ty), TyKind::InfInt | TyKind::Str);
        let in_control = self.body.context == CheckContext::Top && self.declared_family == Some(ObjectFamily::Control);
        let is_parser = matches!(object, Some(ObjectKind::Parser(_) | ObjectKind::ParserType));
        let problem = match owner {
            ParamOwner::ExternConstructor if is_object => {
                Some((format!("a parameter of an extern's constructor cannot be of type `{type_text}`"), None))
            }
            ParamOwner::Constructor if matches!(object, Some(ObjectKind::Parser(_) | ObjectKind::Control(_))) => {
                Some((
                    format!("parameter `{name}` cannot be of type `{type_text}`, which has a body"),
                    Some("declare a type without a body, as in `control C();`, and use that"),
                ))
            }
            ParamOwner::Constructor if in_control && is_parser => {
                Some((format!("parser `{name}` cannot be used in a control"), Some("parsers are used in parsers")))
            }
            ParamOwner::Constructor | ParamOwner::ExternConstructor if has_direction => {
                Some(("a constructor parameter has no direction".to_owned(), None))
            }
            ParamOwner::Constructor | ParamOwner::ExternConstructor if ty == Types::VOID => {
                Some(("a parameter cannot be of type `void`".to_owned(), None))
            }
            ParamOwner::Constructor | ParamOwner::ExternConstructor => None,
            _ if is_package => Some((format!("parameter `{name}` cannot be a package"), None)),
            _ if is_object => Some((
                format!("parameter `{name}` cannot be of type `{type_text}`"),
                Some("parsers and controls are constructor parameters, in the second pair of parentheses"),
            )),
            ParamOwner::Action if is_extern => {
                Some((format!("a parameter of an action cannot be the extern `{type_text}`"), None))
            }
            ParamOwner::Action if is_compile_time => {
                Some((format!("a parameter of an action cannot be of type `{type_text}`"), None))
            }
            _ if is_extern && has_direction => Some((
                format!("parameter `{name}` of extern type `{type_text}` cannot have a direction"),
                Some("remove the direction"),
            )),
            _ if is_compile_time && has_direction => Some((
                format!("parameter `{name}` of type `{type_text}` cannot have a direction"),
                Some("values of this type exist at compile time only: remove the direction"),
            )),
            _ if matches!(ty, Types::VOID) || matches!(self.type_kind(ty), TyKind::MatchKind if has_direction) => {
                Some((format!("a parameter cannot be of type `{type_text}`"), None))
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

    /// Checks a function of the program, which can be overloaded.
    pub(super) fn function_decl(&mut self, decl: &ast::FunctionDecl) {
        self.begin_function(&decl.name);
        let body = BodyContext { context: CheckContext::Function, ..self.body.clone() };
        let id = self.check_function(decl, body);
        self.end_function(&decl.name, OverloadedFunction::Own(id));
    }

    /// Starts the declaration of a function. Its name is not yet among the overloads. The first
    /// overload declares the name as unfinished, so that recursion is reported as such.
    fn begin_function(&mut self, name: &ast::Ident) {
        if self.scopes.global(name.as_str()).is_none() {
            self.scopes.set(name, ScopeEntity::Unfinished("function"));
        }
    }

    fn end_function(&mut self, name: &ast::Ident, func: OverloadedFunction) {
        match self.scopes.global(name.as_str()) {
            Some(ScopeEntity::Unfinished(_)) => self.scopes.set(name, ScopeEntity::Functions(vec![func])),
            _ => self.declare(name, ScopeEntity::Functions(vec![func])),
        }
    }

    /// Checks a function, or the implementation of an abstract method.
    pub(super) fn check_function(&mut self, decl: &ast::FunctionDecl, body: BodyContext) -> FunctionId {
        self.check_annotations(&decl.annotations);
        let function = self.in_new_scope(|c| {
            let type_params = c.declare_type_params(&decl.type_params);
            let result = c.result_type(&decl.result);
            let params = c.declare_params(&decl.params, ParamOwner::Function);
            c.check_distinct_names(decl.type_params.iter().chain(decl.params.iter().map(|p| &p.name)));
            let body = BodyContext { result, loops: 0, ..body };
            let stmts = c.in_new_scope(|c| c.with_body(body, |c| c.check_block(&decl.body)));
            c.check_returns(&stmts, result, decl);
            Function { name: decl.name.name.clone(), type_params, params, result, body: stmts, span: decl.name.span }
        });
        self.prog.functions.push(function);
        FunctionId(self.prog.functions.len() as u32 - 1)
    }

    /// Checks the result type of a function.
    pub(super) fn result_type(&mut self, written: &ast::Type) -> Ty {
        let ty = self.resolve_type(written);
        if matches!(
            self.type_kind(ty),
            TyKind::Object(..) | TyKind::Extern(..) | TyKind::InfInt | TyKind::Str | TyKind::MatchKind
        ) {
            let shown = self.type_text(ty);
            self.fail("result-type", written.span, format!("a result cannot be of type `{shown}`"));
            return Types::UNKNOWN;
        }
        ty
    }

    /// Checks an action, global or in a control. Its name is declared before its body is checked,
    /// so that a recursive call is an error.
    pub(super) fn action_decl(&mut self, decl: &ast::ActionDecl) -> ActionId {
        let annotations = self.check_annotations(&decl.annotations);
        self.declare_unfinished(&decl.name, "action");
        let owner = self.body.object;
        let (params, stmts) = self.in_new_scope(|c| {
            let params = c.declare_params(&decl.params, ParamOwner::Action);
            let body = BodyContext { context: CheckContext::Action, result: Types::VOID, loops: 0, ..c.body.clone() };
            let stmts = c.in_new_scope(|c| c.with_body(body, |c| c.check_block(&decl.body)));
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
        self.scopes.set(&decl.name, ScopeEntity::Action(id));
        id
    }

    /// Checks an extern function.
    pub(super) fn extern_function_decl(&mut self, decl: &ast::MethodDecl) {
        let method = self.in_new_scope(|c| c.prototype(decl));
        self.prog.extern_functions.push(method);
        let id = crate::hir::ExternFnId(self.prog.extern_functions.len() as u32 - 1);
        self.declare(&decl.name, ScopeEntity::Functions(vec![OverloadedFunction::Extern(id)]));
    }
}
