//! Which of several functions of one name is called: by the number and the names of the arguments
//! (specification "Overload resolution"), and by their types where that leaves a choice.

use super::Checker;
use super::infer::Subst;
use crate::ast::{self, Arg};
use crate::diag::Diagnostic;
use crate::hir::{LocalId, LocalKind, Ty, TypeParamId};
use crate::span::Span;
use std::sync::Arc;

/// Something that can be called.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub name: Arc<str>,
    /// What it is, for messages.
    pub what: &'static str,
    pub type_params: Vec<TypeParamId>,
    /// What the type parameters of the object around it stand for.
    pub outer: Subst,
    pub params: Vec<LocalId>,
    pub result: Ty,
    pub span: Span,
    pub kind: SigKind,
}

/// What differs between the things that can be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SigKind {
    /// Arguments must be known at compile time.
    Constructor,
    /// Arguments without direction are run-time values.
    Action,
    /// Type arguments must be of a known width.
    Extern,
    /// The rest.
    Plain,
}

/// Why arguments do not go with the parameters.
pub(super) struct Misfit {
    span: Span,
    message: String,
    help: Option<String>,
}

impl Checker<'_> {
    /// Which parameter has a default value or may be left out.
    pub(super) fn may_be_missing(&self, param: LocalId) -> bool {
        match &self.local(param).kind {
            LocalKind::Param(_, default, optional) | LocalKind::ConstructorParam(default, optional) => {
                default.is_some() || *optional
            }
            LocalKind::Var => false,
        }
    }

    /// For each parameter, the argument that goes with it.
    pub(super) fn arrange(&self, sig: &Signature, args: &[Arg], span: Span) -> Result<Vec<Option<usize>>, Misfit> {
        let misfit = |span, message: String, help: Option<String>| Err(Misfit { span, message, help });
        let named = args.iter().filter(|a| a.name.is_some()).count();
        if named != 0 && named != args.len() {
            return misfit(span, "either all arguments are named or none".to_owned(), None);
        }
        let mut places = vec![None; sig.params.len()];
        for (at, arg) in args.iter().enumerate() {
            let param = match &arg.name {
                None => at,
                Some(name) => match sig.params.iter().position(|p| *self.local(*p).name == *name.name) {
                    Some(param) => param,
                    None => {
                        let message = format!("{} `{}` has no parameter `{name}`", sig.what, sig.name);
                        let known: Vec<&str> = sig.params.iter().map(|p| &*self.local(*p).name).collect();
                        let near = crate::suggest::closest(name.as_str(), known.iter().copied());
                        return misfit(name.span, message, near.map(|n| format!("did you mean `{n}`?")));
                    }
                },
            };
            if param >= places.len() {
                let message = format!("{} `{}` takes {}, not {}", sig.what, sig.name, count(places.len()), args.len());
                return misfit(span, message, None);
            }
            if places[param].is_some() {
                return misfit(arg.span, format!("`{}` is given twice", self.local(sig.params[param]).name), None);
            }
            places[param] = Some(at);
        }
        let missing = sig.params.iter().zip(&places).find(|(p, a)| a.is_none() && !self.may_be_missing(**p));
        if let Some((param, _)) = missing {
            let name = &self.local(*param).name;
            return misfit(span, format!("{} `{}` needs an argument for `{name}`", sig.what, sig.name), None);
        }
        Ok(places)
    }

    /// The signature that is called, and the argument of each of its parameters.
    pub(super) fn pick(
        &mut self,
        sigs: &[Signature],
        type_args: &[ast::Type],
        args: &[Arg],
        span: Span,
    ) -> Option<(usize, Vec<Option<usize>>)> {
        let generic = |s: &Signature| type_args.is_empty() || s.type_params.len() == type_args.len();
        let mut fitting: Vec<(usize, Vec<Option<usize>>)> = Vec::new();
        let mut misfit = None;
        for (at, sig) in sigs.iter().enumerate() {
            match self.arrange(sig, args, span) {
                Ok(places) if generic(sig) => fitting.push((at, places)),
                Ok(_) => {
                    let message = format!(
                        "{} `{}` has {} type parameters, and {} type arguments are given",
                        sig.what,
                        sig.name,
                        sig.type_params.len(),
                        type_args.len()
                    );
                    misfit = Some((sig, Misfit { span, message, help: None }));
                }
                Err(why) => misfit = Some((sig, why)),
            }
        }
        if fitting.len() > 1 {
            return self.pick_by_type(sigs, fitting, type_args, args, span);
        }
        if let Some(only) = fitting.pop() {
            return Some(only);
        }
        let (sig, misfit) = misfit?;
        let diagnostic = match sigs {
            [_] => Diagnostic::error("arguments", misfit.span, misfit.message).label(sig.span, "declared here"),
            _ => {
                let message = format!("no `{}` takes these {} arguments", sig.name, args.len());
                let mut diagnostic = Diagnostic::error("arguments", span, message);
                for sig in sigs {
                    diagnostic = diagnostic.label(sig.span, format!("takes {}", count(sig.params.len())));
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

    /// Of several that fit by number, the first whose types fit.
    fn pick_by_type(
        &mut self,
        sigs: &[Signature],
        fitting: Vec<(usize, Vec<Option<usize>>)>,
        type_args: &[ast::Type],
        args: &[Arg],
        span: Span,
    ) -> Option<(usize, Vec<Option<usize>>)> {
        let mut found = Vec::new();
        for (at, places) in &fitting {
            let before = self.diags.len();
            self.bind_args(&sigs[*at], places, type_args, args, None, span);
            if !self.diags[before..].iter().any(Diagnostic::is_error) {
                found.push((*at, places.clone()));
            }
            self.diags.truncate(before);
        }
        if found.len() == 1 {
            return found.pop();
        }
        // The signature without parameters left out is the closer one.
        let exact = |f: &(usize, Vec<Option<usize>>)| f.1.iter().all(Option::is_some);
        let closest: Vec<_> = found.iter().filter(|f| exact(f)).cloned().collect();
        if closest.len() == 1 {
            return closest.into_iter().next();
        }
        let name = &sigs[0].name;
        let message = match found.is_empty() {
            true => format!("no `{name}` takes arguments of these types"),
            false => format!("it is ambiguous which `{name}` is meant"),
        };
        let mut diagnostic = Diagnostic::error("overload", span, message);
        for (at, _) in &fitting {
            diagnostic = diagnostic.label(sigs[*at].span, "a candidate");
        }
        self.error(diagnostic);
        None
    }
}

/// "1 argument", "2 arguments"
fn count(n: usize) -> String {
    format!("{n} argument{}", if n == 1 { "" } else { "s" })
}
