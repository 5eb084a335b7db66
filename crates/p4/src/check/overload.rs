//! Overload resolution: selects a function by its arguments.
//! Their number and names decide (specification, "Overload resolution"), then their types if several
//! functions remain.

use super::Checker;
use super::infer::TypeSubst;
use crate::ast::{self, Arg};
use crate::diag::Diagnostic;
use crate::hir::{LocalId, LocalKind, Ty, TypeParamId};
use crate::span::Span;
use std::sync::Arc;

/// Signature of a callable.
#[derive(Clone, Debug)]
pub(super) struct CallableSignature {
    pub name: Arc<str>,
    /// Kind of callable, for messages.
    pub what: &'static str,
    pub type_params: Vec<TypeParamId>,
    /// Substitution of the type parameters of the enclosing object.
    pub outer: TypeSubst,
    pub params: Vec<LocalId>,
    pub result: Ty,
    pub span: Span,
    pub kind: CallableKind,
}

/// Kind of callable, with its rules for arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CallableKind {
    /// Arguments must be known at compile time.
    Constructor,
    /// Arguments without direction can be run-time values.
    Action,
    /// Type arguments must have a known width.
    Extern,
    /// No special rule.
    Plain,
}

/// Reason why arguments do not match the parameters.
pub(super) struct ArgumentMismatch {
    span: Span,
    message: String,
    help: Option<String>,
}

impl Checker<'_> {
    /// Returns whether a parameter has a default value or is optional.
    pub(super) fn can_be_omitted(&self, param: LocalId) -> bool {
        match &self.local_decl(param).kind {
            LocalKind::Param(_, default, optional) | LocalKind::ConstructorParam(default, optional) => {
                default.is_some() || *optional
            }
            LocalKind::Var => false,
        }
    }

    /// Assigns arguments to parameters, by position or by name. Returns the index of the argument
    /// for each parameter, `None` for an omitted one; or the reason why they do not match.
    pub(super) fn match_arguments(
        &self,
        sig: &CallableSignature,
        args: &[Arg],
        span: Span,
    ) -> Result<Vec<Option<usize>>, ArgumentMismatch> {
        let misfit = |span, message: String, help: Option<String>| Err(ArgumentMismatch { span, message, help });
        let named = args.iter().filter(|a| a.name.is_some()).count();
        if named != 0 && named != args.len() {
            return misfit(span, "either all arguments are named or none".to_owned(), None);
        }
        let mut arg_of_param = vec![None; sig.params.len()];
        for (arg_index, arg) in args.iter().enumerate() {
            let param_index = match &arg.name {
                None => arg_index,
                Some(name) => match sig.params.iter().position(|p| *self.local_decl(*p).name == *name.name) {
                    Some(param_index) => param_index,
                    None => {
                        let message = format!("{} `{}` has no parameter `{name}`", sig.what, sig.name);
                        let names: Vec<&str> = sig.params.iter().map(|p| &*self.local_decl(*p).name).collect();
                        let similar = crate::suggest::closest_name(name.as_str(), names.iter().copied());
                        return misfit(name.span, message, similar.map(|n| format!("did you mean `{n}`?")));
                    }
                },
            };
            if param_index >= arg_of_param.len() {
                let message = format!(
                    "{} `{}` takes {}, not {}",
                    sig.what,
                    sig.name,
                    argument_count(arg_of_param.len()),
                    args.len()
                );
                return misfit(span, message, None);
            }
            if arg_of_param[param_index].is_some() {
                return misfit(
                    arg.span,
                    format!("`{}` is given twice", self.local_decl(sig.params[param_index]).name),
                    None,
                );
            }
            arg_of_param[param_index] = Some(arg_index);
        }
        let missing = sig.params.iter().zip(&arg_of_param).find(|(p, arg)| arg.is_none() && !self.can_be_omitted(**p));
        if let Some((param, _)) = missing {
            let name = &self.local_decl(*param).name;
            return misfit(span, format!("{} `{}` needs an argument for `{name}`", sig.what, sig.name), None);
        }
        Ok(arg_of_param)
    }

    /// Selects the signature of a call: by the number and names of the arguments, then by their
    /// types. Returns its index in `sigs`, and for each of its parameters the index of the
    /// argument, `None` for an omitted one. Reports a call that fits none, and returns `None`.
    pub(super) fn select_signature(
        &mut self,
        sigs: &[CallableSignature],
        type_args: &[ast::Type],
        args: &[Arg],
        span: Span,
    ) -> Option<(usize, Vec<Option<usize>>)> {
        let fits_type_args = |s: &CallableSignature| type_args.is_empty() || s.type_params.len() == type_args.len();
        let mut fitting: Vec<(usize, Vec<Option<usize>>)> = Vec::new();
        let mut misfit = None;
        for (sig_index, sig) in sigs.iter().enumerate() {
            match self.match_arguments(sig, args, span) {
                Ok(arg_of_param) if fits_type_args(sig) => fitting.push((sig_index, arg_of_param)),
                Ok(_) => {
                    let message = format!(
                        "{} `{}` has {} type parameters, and {} type arguments are given",
                        sig.what,
                        sig.name,
                        sig.type_params.len(),
                        type_args.len()
                    );
                    misfit = Some((sig, ArgumentMismatch { span, message, help: None }));
                }
                Err(mismatch) => misfit = Some((sig, mismatch)),
            }
        }
        if fitting.len() > 1 {
            return self.select_by_type(sigs, fitting, type_args, args, span);
        }
        if let Some(selected) = fitting.pop() {
            return Some(selected);
        }
        let (sig, misfit) = misfit?;
        let diagnostic = match sigs {
            [_] => Diagnostic::error("arguments", misfit.span, misfit.message).label(sig.span, "declared here"),
            _ => {
                let message = format!("no `{}` takes these {} arguments", sig.name, args.len());
                let mut diagnostic = Diagnostic::error("arguments", span, message);
                for sig in sigs {
                    diagnostic = diagnostic.label(sig.span, format!("takes {}", argument_count(sig.params.len())));
                }
                diagnostic
            }
        };
        self.error(match misfit.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        });
        None
    }

    /// Selects the only candidate with matching types. `fitting` and the result are signatures and
    /// arguments as in [`Checker::select_signature`].
    fn select_by_type(
        &mut self,
        sigs: &[CallableSignature],
        fitting: Vec<(usize, Vec<Option<usize>>)>,
        type_args: &[ast::Type],
        args: &[Arg],
        span: Span,
    ) -> Option<(usize, Vec<Option<usize>>)> {
        let mut matching = Vec::new();
        for (sig_index, arg_of_param) in &fitting {
            // Each candidate is checked on trial: its diagnostics are removed again.
            let diags_before = self.diags.len();
            self.bind_args(&sigs[*sig_index], arg_of_param, type_args, args, None, span);
            if !self.diags[diags_before..].iter().any(Diagnostic::is_error) {
                matching.push((*sig_index, arg_of_param.clone()));
            }
            self.diags.truncate(diags_before);
        }
        if matching.len() == 1 {
            return matching.pop();
        }
        // Prefer the only candidate without omitted arguments.
        let omits_nothing = |candidate: &(usize, Vec<Option<usize>>)| candidate.1.iter().all(Option::is_some);
        let complete: Vec<_> = matching.iter().filter(|candidate| omits_nothing(candidate)).cloned().collect();
        if complete.len() == 1 {
            return complete.into_iter().next();
        }
        let name = &sigs[0].name;
        let message = match matching.is_empty() {
            true => format!("no `{name}` takes arguments of these types"),
            false => format!("it is ambiguous which `{name}` is meant"),
        };
        let mut diagnostic = Diagnostic::error("overload", span, message);
        for (sig_index, _) in &fitting {
            diagnostic = diagnostic.label(sigs[*sig_index].span, "a candidate");
        }
        self.error(diagnostic);
        None
    }
}

/// Returns "1 argument", "2 arguments".
fn argument_count(n: usize) -> String {
    format!("{n} argument{}", if n == 1 { "" } else { "s" })
}
