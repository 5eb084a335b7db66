//! Lowers calls. All code of the program is inlined.

use super::const_value::{ConstValue, ObjectInstanceId};
use super::effects::returns_early;
use super::frame::{Binding, BoundParams, CopyOut, InlineFrame, LoweringContext, ReturnTarget};
use super::lowering::{LowerResult, Lowering, MAX_CALL_DEPTH};
use super::params::InlineArg;
use super::storage::Storage;
use super::type_layout::TypeLayout;
use super::value::RValue;
use crate::hir::{self, Call, Callee, Expr, LocalDecl, LocalId, ObjectKind, ObjectRef, Stmt, StmtKind, Ty};
use crate::span::Span;
use std::rc::Rc;

/// Code that a call inlines.
#[derive(Clone, Copy, Debug)]
pub(super) enum InlinedCode {
    Function(hir::FunctionId),
    Action(hir::ActionId),
    /// A parser or control.
    Object(ObjectInstanceId),
}

impl<'a> Lowering<'a> {
    /// Lowers any call. `ty` is the type of its result.
    pub(super) fn lower_call(&mut self, call: &Call, ty: Ty) -> LowerResult<RValue> {
        let loc = self.builder.loc();
        self.set_location(call.span);
        let result = self.lower_callee(call, ty);
        self.builder.set_loc(loc);
        result
    }

    /// Lowers a call by the kind of its callee; `ty` is the P4 type of the call's value.
    fn lower_callee(&mut self, call: &Call, ty: Ty) -> LowerResult<RValue> {
        match &call.callee {
            Callee::Function(id) => self.inline_call(InlinedCode::Function(*id), call),
            Callee::Action(id) => self.inline_call(InlinedCode::Action(*id), call),
            Callee::ExternFunction(id) => self.lower_extern_call(*id, call, ty),
            Callee::Method(object, id, method_index) => self.lower_method_call(object, *id, *method_index, call, ty),
            Callee::Apply(object) => {
                let instance = self.object_ref(object, call.span)?;
                let id = self.known_object(&instance, call.span)?;
                self.inline_call(InlinedCode::Object(id), call)
            }
            Callee::ApplyTable(table) => {
                self.apply_statement(*table, call.span)?;
                Ok(RValue::Void)
            }
            Callee::IsValid(header) => self.is_valid(header).map(RValue::Scalar),
            Callee::SetValid(header) => self.set_validity(header, true),
            Callee::SetInvalid(header) => self.set_validity(header, false),
            Callee::PushFront(stack, count) => self.push_front(stack, *count),
            Callee::PopFront(stack, count) => self.pop_front(stack, *count),
            Callee::SizeOf(measure, sized_ty) => {
                let size = ConstValue::Int(self.eval_size(*measure, *sized_ty));
                Ok(self.const_to_rvalue(&size, ty))
            }
            Callee::This(_) => self.unsupported(call.span, "`this`"),
        }
    }

    /// Returns the object on which a method is called.
    pub(super) fn object_ref(&mut self, object: &ObjectRef, span: Span) -> LowerResult<ConstValue> {
        match object {
            ObjectRef::Instance(id) => self.resolve_instance(*id),
            ObjectRef::Local(id) => {
                if let Some(Binding::Const(known)) = &self.locals[id.index()] {
                    return Ok(known.clone());
                }
                match self.objects[self.current_object.index()].arguments.get(id) {
                    Some(known) => Ok(known.clone()),
                    None => self.unsupported(span, "calling a method on this"),
                }
            }
            ObjectRef::Construct(construct) => self.direct_instance(construct),
        }
    }

    /// Returns the instance of `C.apply(...)`: one for each source position, named after its type.
    fn direct_instance(&mut self, construct: &hir::Construct) -> LowerResult<ConstValue> {
        let name = match construct.what {
            hir::Constructor::Object(id) => self.hir.objects[id.index()].name.to_string(),
            hir::Constructor::Extern(id, _) => self.hir.externs[id.index()].name.to_string(),
        };
        let key = (construct.span, self.current_object);
        if let Some(known) = self.direct_instances.get(&key) {
            return Ok(known.clone());
        }
        let naming = self.instance_name(&name, &Vec::new());
        let known = self.instantiate(construct, &naming)?;
        self.direct_instances.insert(key, known.clone());
        Ok(known)
    }

    /// Inlines a call.
    fn inline_call(&mut self, code: InlinedCode, call: &Call) -> LowerResult<RValue> {
        let args: Vec<InlineArg> = call.args.iter().map(InlineArg::Call).collect();
        let order = call.order.positions(args.len());
        self.inline_code(code, &call.type_args, &args, &order, call.span)
    }

    /// Inlines code with arguments, which are evaluated in the given order.
    pub(super) fn inline_code(
        &mut self,
        code: InlinedCode,
        type_args: &[Ty],
        args: &[InlineArg],
        order: &[usize],
        span: Span,
    ) -> LowerResult<RValue> {
        if self.frames.len() > MAX_CALL_DEPTH {
            return self.report_limit(span, format!("calls nest more than {MAX_CALL_DEPTH} deep"));
        }
        let (params, result) = self.code_signature(code);
        let context = self.code_context(code, type_args);
        let action = if let InlinedCode::Action(id) = code { Some(id) } else { None };
        let bound = self.bind_args(params, args, order, &context, action)?;
        let result = self.substitute_params(result, &context.subst);
        self.lower_inlined(code, context, bound, result, span)
    }

    fn code_signature(&self, code: InlinedCode) -> (&'a [LocalId], Ty) {
        let hir = self.hir;
        match code {
            InlinedCode::Function(id) => (&hir.functions[id.index()].params, hir.functions[id.index()].result),
            InlinedCode::Action(id) => (&hir.actions[id.index()].params, hir::Types::VOID),
            InlinedCode::Object(id) => match self.objects[id.index()].decl {
                Some(decl) => (&hir.objects[decl.index()].params, hir::Types::VOID),
                None => (&[], hir::Types::VOID),
            },
        }
    }

    /// Returns the context in which the body of `code` is lowered: its object, the prefix of its
    /// variable names, and its type arguments `type_args`.
    fn code_context(&mut self, code: InlinedCode, type_args: &[Ty]) -> LoweringContext {
        match code {
            InlinedCode::Function(id) => {
                let function = &self.hir.functions[id.index()];
                let subst = Rc::new(self.substitution(&function.type_params, type_args));
                LoweringContext { current_object: self.current_object, scope: self.scoped_name(&function.name), subst }
            }
            InlinedCode::Action(id) => {
                let action = &self.hir.actions[id.index()];
                // Locals of an action are named after its control, not after the caller.
                let scope = &self.objects[self.current_object.index()].scope;
                let scope = if scope.is_empty() { action.name.to_string() } else { format!("{scope}.{}", action.name) };
                LoweringContext { current_object: self.current_object, scope, subst: Rc::clone(&self.subst) }
            }
            InlinedCode::Object(id) => {
                let object = &self.objects[id.index()];
                LoweringContext { current_object: id, scope: object.scope.clone(), subst: Rc::clone(&object.subst) }
            }
        }
    }

    /// Sets the context of the code to be lowered and returns the previous one.
    pub(super) fn enter_context(&mut self, context: LoweringContext) -> LoweringContext {
        LoweringContext {
            current_object: std::mem::replace(&mut self.current_object, context.current_object),
            scope: std::mem::replace(&mut self.scope, context.scope),
            subst: std::mem::replace(&mut self.subst, context.subst),
        }
    }

    /// Lowers the body of `code` in its `context`, with its parameters bound, and emits the
    /// copy-outs. Restores the caller's bindings and context afterwards. `result` is the type of
    /// the returned value.
    fn lower_inlined(
        &mut self,
        code: InlinedCode,
        context: LoweringContext,
        bound: BoundParams,
        result: Ty,
        span: Span,
    ) -> LowerResult<RValue> {
        let outer_context = self.enter_context(context);
        let mut frame = InlineFrame { copy_outs: bound.copy_outs, owned: bound.owned, ..InlineFrame::default() };
        for (id, binding) in bound.bindings {
            frame.saved.push((id, self.locals[id.index()].replace(binding)));
        }
        self.frames.push(frame);
        let outcome = self.lower_body(code, result, span);
        let current = self.builder.current();
        let frame = self.frames.pop().unwrap_or_default();
        for (id, storage) in frame.owned {
            self.release_storage(id, storage);
        }
        for (id, binding) in frame.saved.into_iter().rev() {
            self.locals[id.index()] = binding;
        }
        self.enter_context(outer_context);
        // `exit` in the body leaves all callers, but their copy-outs are performed on the way.
        if let Some(exit) = frame.exit {
            self.builder.switch_to(exit);
            self.emit_copy_outs(&frame.copy_outs)?;
            self.lower_exit();
            self.continue_at(current);
        }
        let val = outcome?;
        if !self.builder.is_terminated() {
            self.emit_copy_outs(&frame.copy_outs)?;
        }
        Ok(val)
    }

    fn lower_body(&mut self, code: InlinedCode, result: Ty, span: Span) -> LowerResult<RValue> {
        let hir = self.hir;
        match code {
            InlinedCode::Function(id) => self.lower_code(&hir.functions[id.index()].body, result, span),
            InlinedCode::Action(id) => self.lower_code(&hir.actions[id.index()].body, result, span),
            InlinedCode::Object(id) => self.lower_object_body(id, span),
        }
    }

    /// Lowers the body of a parser or control. Continues where it returns or accepts.
    pub(super) fn lower_object_body(&mut self, id: ObjectInstanceId, span: Span) -> LowerResult<RValue> {
        let Some(decl) = self.objects[id.index()].decl else { return Ok(RValue::Void) };
        match &self.hir.objects[decl.index()].kind {
            ObjectKind::Control(body) => {
                self.declare_vars(&body.locals)?;
                self.lower_code(&body.apply, hir::Types::VOID, span)
            }
            ObjectKind::Parser(body) => {
                self.declare_vars(&body.locals)?;
                self.lower_states(id, body).map(|()| RValue::Void)
            }
            _ => self.unsupported(span, "applying an object without a body"),
        }
    }

    fn declare_vars(&mut self, locals: &[LocalDecl]) -> LowerResult<()> {
        for local in locals {
            if let LocalDecl::Var(id, init) = local {
                self.set_location(self.local_decl(*id).span);
                self.declare_var(*id, init.as_ref())?;
            }
        }
        Ok(())
    }

    /// Lowers statements that can return.
    fn lower_code(&mut self, body: &[Stmt], result: Ty, span: Span) -> LowerResult<RValue> {
        if !returns_early(body) {
            // The only `return`, if any, is at the end, so no return block is needed.
            let (last, rest) = match body.split_last() {
                Some((Stmt { kind: StmtKind::Return(value), span }, rest)) => (Some((value, span)), rest),
                _ => (None, body),
            };
            self.lower_stmts(rest)?;
            return match last {
                Some((Some(value), span)) if !self.builder.is_terminated() => {
                    self.set_location(*span);
                    let val = self.eval_expr(value)?;
                    self.convert_value(val, value.ty, result, *span)
                }
                _ => Ok(self.default_value(result)),
            };
        }
        self.lower_code_with_returns(body, result, span)
    }

    /// Lowers a body that has `return` before its end: each `return` jumps to one block after the
    /// body, and passes a scalar as its block parameter, any other value through storage.
    fn lower_code_with_returns(&mut self, body: &[Stmt], result: Ty, span: Span) -> LowerResult<RValue> {
        let return_block = self.builder.create_block();
        let target = match self.layout(result) {
            TypeLayout::Void => None,
            TypeLayout::Scalar(ty) => Some((result, ReturnTarget::Param(self.builder.append_param(return_block, ty)))),
            _ => Some((result, ReturnTarget::Storage(self.allocate_temporary("result", result, span)?))),
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.ret = Some(return_block);
            frame.result = target.clone();
        }
        self.lower_stmts(body)?;
        if !self.builder.is_terminated() {
            match &target {
                Some((_, ReturnTarget::Param(_))) => {
                    let val = self.default_value(result);
                    let value = self.scalar_value(val, result, span)?;
                    self.builder.jump_with(return_block, vec![value]);
                }
                _ => self.builder.jump(return_block),
            }
        }
        self.builder.switch_to(return_block);
        Ok(match target {
            None => RValue::Void,
            Some((_, ReturnTarget::Param(value))) => RValue::Scalar(value),
            Some((_, ReturnTarget::Storage(storage))) => self.read_storage(&storage),
        })
    }

    /// Lowers `return`. It jumps to the return block of the innermost inlined call, with the
    /// converted value.
    pub(super) fn lower_return(&mut self, value: Option<&Expr>, span: Span) -> LowerResult<()> {
        let Some((return_block, result)) =
            self.frames.last().and_then(|f| f.ret.map(|return_block| (return_block, f.result.clone())))
        else {
            return self.unsupported(span, "`return` here");
        };
        let args = match (value, result) {
            (Some(value), Some((ty, target))) => {
                let val = self.eval_expr(value)?;
                let val = self.convert_value(val, value.ty, ty, span)?;
                match target {
                    ReturnTarget::Param(_) => vec![self.scalar_value(val, ty, span)?],
                    ReturnTarget::Storage(storage) => {
                        self.assign_value(&storage, val, ty, span)?;
                        Vec::new()
                    }
                }
            }
            _ => Vec::new(),
        };
        self.builder.jump_with(return_block, args);
        Ok(())
    }

    /// Lowers `exit`: leaves all inlined calls and performs their copy-outs.
    pub(super) fn lower_exit(&mut self) {
        let Some(frame) = self.frames.iter_mut().rev().find(|f| !f.copy_outs.is_empty()) else {
            return self.builder.exit();
        };
        let block = *frame.exit.get_or_insert_with(|| self.builder.create_block());
        self.builder.jump(block);
    }

    fn emit_copy_outs(&mut self, copies: &[CopyOut]) -> LowerResult<()> {
        for copy in copies {
            let val = self.read_storage(&copy.from);
            self.write_lvalue(&copy.to, val, copy.ty, copy.span)?;
        }
        Ok(())
    }

    /// Returns whether the current inlined call already declared the variable.
    pub(super) fn is_declared_in_frame(&self, id: LocalId) -> bool {
        self.frames.last().is_some_and(|f| f.declared.contains(&id))
    }

    /// Records storage of a variable that the current inlined call declares.
    pub(super) fn record_owned_storage(&mut self, id: LocalId, place: Storage) {
        let binding = self.locals[id.index()].clone();
        if let Some(frame) = self.frames.last_mut() {
            frame.owned.push((id, place));
            frame.declared.insert(id);
            frame.saved.push((id, binding));
        }
    }

    /// Starts the frame of a programmable block.
    pub(super) fn enter_block(&mut self) {
        self.frames.push(InlineFrame::default());
    }

    /// Ends the frame of a programmable block.
    pub(super) fn leave_block(&mut self) {
        for (id, binding) in self.frames.pop().unwrap_or_default().saved.into_iter().rev() {
            self.locals[id.index()] = binding;
        }
    }
}
