//! Calls: everything is inlined.

use super::frame::{Binding, Bound, Context, CopyOut, Frame, ResultTo};
use super::known::{Known, ObjectId};
use super::lowering::{Lower, MAX_CALL_DEPTH, Res};
use super::params::Arg;
use super::place::Place;
use super::shape::Shape;
use super::value::Val;
use super::walk::returns_early;
use crate::hir::{self, Call, Callee, Expr, LocalDecl, LocalId, ObjectKind, ObjectRef, Stmt, StmtKind, Ty};
use crate::span::Span;
use std::rc::Rc;

/// What is called.
#[derive(Clone, Copy, Debug)]
pub(super) enum Code {
    Function(hir::FunctionId),
    Action(hir::ActionId),
    /// A parser or control.
    Object(ObjectId),
}

impl<'a> Lower<'a> {
    /// A call of any kind. `ty` is the type of its result.
    pub(super) fn call(&mut self, call: &Call, ty: Ty) -> Res<Val> {
        let loc = self.b.loc();
        self.at(call.span);
        let result = self.dispatch(call, ty);
        self.b.set_loc(loc);
        result
    }

    fn dispatch(&mut self, call: &Call, ty: Ty) -> Res<Val> {
        match &call.callee {
            Callee::Function(id) => self.inline(Code::Function(*id), call),
            Callee::Action(id) => self.inline(Code::Action(*id), call),
            Callee::ExternFunction(id) => self.extern_function(*id, call, ty),
            Callee::Method(object, id, n) => self.method(object, *id, *n, call, ty),
            Callee::Apply(object) => {
                let known = self.object_ref(object, call.span)?;
                let id = self.known_object(&known, call.span)?;
                self.inline(Code::Object(id), call)
            }
            Callee::ApplyTable(table) => {
                self.apply_statement(*table, call.span)?;
                Ok(Val::Void)
            }
            Callee::IsValid(header) => self.is_valid(header).map(Val::Scalar),
            Callee::SetValid(header) => self.set_validity(header, true),
            Callee::SetInvalid(header) => self.set_validity(header, false),
            Callee::PushFront(stack, count) => self.push_front(stack, *count),
            Callee::PopFront(stack, count) => self.pop_front(stack, *count),
            Callee::SizeOf(which, of) => {
                let known = Known::Int(self.size_of(*which, *of));
                Ok(self.known_value(&known, ty))
            }
            Callee::This(_) => self.unsupported(call.span, "`this`"),
        }
    }

    /// The object that something is called on.
    pub(super) fn object_ref(&mut self, object: &ObjectRef, span: Span) -> Res<Known> {
        match object {
            ObjectRef::Instance(id) => self.instance(*id),
            ObjectRef::Local(id) => {
                if let Some(Binding::Known(known)) = &self.locals[id.index()] {
                    return Ok(known.clone());
                }
                match self.objects[self.this.index()].arguments.get(id) {
                    Some(known) => Ok(known.clone()),
                    None => self.unsupported(span, "calling a method on this"),
                }
            }
            ObjectRef::Construct(construct) => self.direct_instance(construct),
        }
    }

    /// The instance of `C.apply(...)`: one for each place of the source, named after its type.
    fn direct_instance(&mut self, construct: &hir::Construct) -> Res<Known> {
        let name = match construct.what {
            hir::Constructor::Object(id) => self.hir.objects[id.index()].name.to_string(),
            hir::Constructor::Extern(id, _) => self.hir.externs[id.index()].name.to_string(),
        };
        let key = (construct.span, self.this);
        if let Some(known) = self.direct.get(&key) {
            return Ok(known.clone());
        }
        let naming = self.naming(&name, &Vec::new());
        let known = self.construct(construct, &naming)?;
        self.direct.insert(key, known.clone());
        Ok(known)
    }

    /// Inlines a call.
    fn inline(&mut self, code: Code, call: &Call) -> Res<Val> {
        let args: Vec<Arg> = call.args.iter().map(Arg::Call).collect();
        let order = call.order.positions(args.len());
        self.inline_with(code, &call.type_args, &args, &order, call.span)
    }

    /// Inlines code with arguments, which are evaluated in that order.
    pub(super) fn inline_with(
        &mut self,
        code: Code,
        type_args: &[Ty],
        args: &[Arg],
        order: &[usize],
        span: Span,
    ) -> Res<Val> {
        if self.frames.len() > MAX_CALL_DEPTH {
            return self.limit(span, format!("calls nest more than {MAX_CALL_DEPTH} deep"));
        }
        let (params, result) = self.signature(code);
        let context = self.context_of(code, type_args);
        let action = if let Code::Action(id) = code { Some(id) } else { None };
        let bound = self.bind_args(params, args, order, &context, action)?;
        let result = self.replace(result, &context.subst);
        self.activate(code, context, bound, result, span)
    }

    fn signature(&self, code: Code) -> (&'a [LocalId], Ty) {
        let hir = self.hir;
        match code {
            Code::Function(id) => (&hir.functions[id.index()].params, hir.functions[id.index()].result),
            Code::Action(id) => (&hir.actions[id.index()].params, hir::Types::VOID),
            Code::Object(id) => match self.objects[id.index()].decl {
                Some(decl) => (&hir.objects[decl.index()].params, hir::Types::VOID),
                None => (&[], hir::Types::VOID),
            },
        }
    }

    fn context_of(&mut self, code: Code, type_args: &[Ty]) -> Context {
        match code {
            Code::Function(id) => {
                let function = &self.hir.functions[id.index()];
                let subst = Rc::new(self.substitution(&function.type_params, type_args));
                Context { this: self.this, scope: self.scoped(&function.name), subst }
            }
            Code::Action(id) => {
                let action = &self.hir.actions[id.index()];
                // Locals of an action are named after the control, not after whoever calls it.
                let scope = &self.objects[self.this.index()].scope;
                let scope = if scope.is_empty() { action.name.to_string() } else { format!("{scope}.{}", action.name) };
                Context { this: self.this, scope, subst: Rc::clone(&self.subst) }
            }
            Code::Object(id) => {
                let object = &self.objects[id.index()];
                Context { this: id, scope: object.scope.clone(), subst: Rc::clone(&object.subst) }
            }
        }
    }

    /// Makes a context that of the code lowered from now on, and returns the one it replaces.
    pub(super) fn enter(&mut self, context: Context) -> Context {
        Context {
            this: std::mem::replace(&mut self.this, context.this),
            scope: std::mem::replace(&mut self.scope, context.scope),
            subst: std::mem::replace(&mut self.subst, context.subst),
        }
    }

    /// Lowers a body with its parameters bound.
    fn activate(&mut self, code: Code, context: Context, bound: Bound, result: Ty, span: Span) -> Res<Val> {
        let outer = self.enter(context);
        let mut frame = Frame { copy_outs: bound.copy_outs, owned: bound.owned, ..Frame::default() };
        for (id, binding) in bound.bindings {
            frame.saved.push((id, self.locals[id.index()].replace(binding)));
        }
        self.frames.push(frame);
        let done = self.body_of(code, result, span);
        let current = self.b.current();
        let frame = self.frames.pop().unwrap_or_default();
        for (id, place) in frame.owned {
            self.release(id, place);
        }
        for (id, binding) in frame.saved.into_iter().rev() {
            self.locals[id.index()] = binding;
        }
        self.enter(outer);
        if let Some(exit) = frame.exit {
            self.b.switch_to(exit);
            self.copy_out(&frame.copy_outs)?;
            self.exit();
            self.resume(current);
        }
        let val = done?;
        if !self.b.is_terminated() {
            self.copy_out(&frame.copy_outs)?;
        }
        Ok(val)
    }

    fn body_of(&mut self, code: Code, result: Ty, span: Span) -> Res<Val> {
        let hir = self.hir;
        match code {
            Code::Function(id) => self.code(&hir.functions[id.index()].body, result, span),
            Code::Action(id) => self.code(&hir.actions[id.index()].body, result, span),
            Code::Object(id) => self.object_body(id, span),
        }
    }

    /// Lowers the body of a parser or control up to where it returns or accepts.
    pub(super) fn object_body(&mut self, id: ObjectId, span: Span) -> Res<Val> {
        let Some(decl) = self.objects[id.index()].decl else { return Ok(Val::Void) };
        match &self.hir.objects[decl.index()].kind {
            ObjectKind::Control(body) => {
                self.declare_vars(&body.locals)?;
                self.code(&body.apply, hir::Types::VOID, span)
            }
            ObjectKind::Parser(body) => {
                self.declare_vars(&body.locals)?;
                self.states(id, body).map(|()| Val::Void)
            }
            _ => self.unsupported(span, "applying an object without a body"),
        }
    }

    fn declare_vars(&mut self, locals: &[LocalDecl]) -> Res<()> {
        for local in locals {
            if let LocalDecl::Var(id, init) = local {
                self.at(self.local(*id).span);
                self.declare_var(*id, init.as_ref())?;
            }
        }
        Ok(())
    }

    /// Lowers statements that may return.
    fn code(&mut self, body: &[Stmt], result: Ty, span: Span) -> Res<Val> {
        if !returns_early(body) {
            // At most one `return`, at the end: no block to return to.
            let (last, rest) = match body.split_last() {
                Some((Stmt { kind: StmtKind::Return(value), span }, rest)) => (Some((value, span)), rest),
                _ => (None, body),
            };
            self.stmts(rest)?;
            return match last {
                Some((Some(value), span)) if !self.b.is_terminated() => {
                    self.at(*span);
                    let val = self.eval(value)?;
                    self.convert(val, value.ty, result, *span)
                }
                _ => Ok(self.default_value(result)),
            };
        }
        self.code_with_returns(body, result, span)
    }

    fn code_with_returns(&mut self, body: &[Stmt], result: Ty, span: Span) -> Res<Val> {
        let ret = self.b.create_block();
        let to = match self.shape(result) {
            Shape::Void => None,
            Shape::Scalar(ty) => Some((result, ResultTo::Param(self.b.append_param(ret, ty)))),
            _ => Some((result, ResultTo::Place(self.temporary("result", result, span)?))),
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.ret = Some(ret);
            frame.result = to.clone();
        }
        self.stmts(body)?;
        if !self.b.is_terminated() {
            match &to {
                Some((_, ResultTo::Param(_))) => {
                    let val = self.default_value(result);
                    let value = self.scalar_value(val, result, span)?;
                    self.b.jump_with(ret, vec![value]);
                }
                _ => self.b.jump(ret),
            }
        }
        self.b.switch_to(ret);
        Ok(match to {
            None => Val::Void,
            Some((_, ResultTo::Param(value))) => Val::Scalar(value),
            Some((_, ResultTo::Place(place))) => self.read(&place),
        })
    }

    /// `return`
    pub(super) fn return_stmt(&mut self, value: Option<&Expr>, span: Span) -> Res<()> {
        let Some((ret, result)) = self.frames.last().and_then(|f| f.ret.map(|ret| (ret, f.result.clone()))) else {
            return self.unsupported(span, "`return` here");
        };
        let args = match (value, result) {
            (Some(value), Some((ty, to))) => {
                let val = self.eval(value)?;
                let val = self.convert(val, value.ty, ty, span)?;
                match to {
                    ResultTo::Param(_) => vec![self.scalar_value(val, ty, span)?],
                    ResultTo::Place(place) => {
                        self.assign(&place, val, ty, span)?;
                        Vec::new()
                    }
                }
            }
            _ => Vec::new(),
        };
        self.b.jump_with(ret, args);
        Ok(())
    }

    /// Leaves all activations; what they would copy out is copied out.
    pub(super) fn exit(&mut self) {
        let Some(frame) = self.frames.iter_mut().rev().find(|f| !f.copy_outs.is_empty()) else {
            return self.b.exit();
        };
        let block = *frame.exit.get_or_insert_with(|| self.b.create_block());
        self.b.jump(block);
    }

    fn copy_out(&mut self, copies: &[CopyOut]) -> Res<()> {
        for copy in copies {
            let val = self.read(&copy.from);
            self.write_access(&copy.to, val, copy.ty, copy.span)?;
        }
        Ok(())
    }

    /// Whether the current activation declared the variable already.
    pub(super) fn frame_owns(&self, id: LocalId) -> bool {
        self.frames.last().is_some_and(|f| f.declared.contains(&id))
    }

    /// The current activation declares the variable.
    pub(super) fn frame_takes(&mut self, id: LocalId, place: Place) {
        let binding = self.locals[id.index()].clone();
        if let Some(frame) = self.frames.last_mut() {
            frame.owned.push((id, place));
            frame.declared.insert(id);
            frame.saved.push((id, binding));
        }
    }

    /// Starts the activation of a programmable block.
    pub(super) fn enter_block(&mut self) {
        self.frames.push(Frame::default());
    }

    /// Ends the activation of a programmable block.
    pub(super) fn leave_block(&mut self) {
        for (id, binding) in self.frames.pop().unwrap_or_default().saved.into_iter().rev() {
            self.locals[id.index()] = binding;
        }
    }
}
