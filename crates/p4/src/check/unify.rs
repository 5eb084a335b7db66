//! Whether two types are, or can be made, the same.

use super::Checker;
use crate::hir::{LocalId, LocalKind, ObjectKind, Ty, TyKind, TypeDeclId};

/// Which family an object or its type belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    Parser,
    Control,
    Package,
}

impl Checker<'_> {
    /// Makes the types equal by setting inference variables; `false` if they differ.
    pub(super) fn unify(&mut self, a: Ty, b: Ty) -> bool {
        let (a, b) = (self.resolve(a), self.resolve(b));
        if a == b {
            return true;
        }
        match (self.kind(a).clone(), self.kind(b).clone()) {
            (TyKind::Unknown, _) | (_, TyKind::Unknown) => true,
            (TyKind::Infer(var), _) => self.bind(var, b),
            (_, TyKind::Infer(var)) => self.bind(var, a),
            (TyKind::Struct(x, xs), TyKind::Struct(y, ys)) => x == y && self.unify_all(&xs, &ys),
            (TyKind::Extern(x, xs), TyKind::Extern(y, ys)) => x == y && self.unify_all(&xs, &ys),
            (TyKind::Tuple(xs), TyKind::Tuple(ys)) => self.unify_all(&xs, &ys),
            (TyKind::List(x), TyKind::List(y)) | (TyKind::Set(x), TyKind::Set(y)) => self.unify(x, y),
            (TyKind::Stack(x, n), TyKind::Stack(y, m)) => n == m && self.unify(x, y),
            (TyKind::Object(x, xs), TyKind::Object(y, ys)) => self.unify_objects(x, &xs, y, &ys).is_ok(),
            _ => false,
        }
    }

    fn unify_all(&mut self, xs: &[Ty], ys: &[Ty]) -> bool {
        xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| self.unify(*x, *y))
    }

    /// Whether the object is a parser, control or package.
    pub(super) fn family(&self, id: TypeDeclId) -> Family {
        match self.prog.objects[id.index()].kind {
            ObjectKind::Parser(_) | ObjectKind::ParserType => Family::Parser,
            ObjectKind::Control(_) | ObjectKind::ControlType => Family::Control,
            ObjectKind::Package => Family::Package,
        }
    }

    /// Matches a parser, control or package (`have`) against the type that is wanted, parameter by parameter.
    pub(super) fn unify_objects(
        &mut self,
        want: TypeDeclId,
        want_args: &[Ty],
        have: TypeDeclId,
        have_args: &[Ty],
    ) -> Result<(), String> {
        if want == have {
            return if self.unify_all(want_args, have_args) { Ok(()) } else { Err(String::new()) };
        }
        let (wf, hf) = (self.family(want), self.family(have));
        if wf != hf {
            return Err(format!("it is a {hf:?}, and a {wf:?} is needed").to_lowercase());
        }
        if wf == Family::Package {
            return Err("it is another package".to_owned());
        }
        let (w, h) = (&self.prog.objects[want.index()], &self.prog.objects[have.index()]);
        let want_subst = w.type_params.iter().copied().zip(want_args.iter().copied()).collect();
        let have_subst = h.type_params.iter().copied().zip(have_args.iter().copied()).collect();
        let (want_params, have_params) = (w.params.clone(), h.params.clone());
        let fewer = want_params.get(have_params.len()..);
        if !fewer.is_some_and(|missing| missing.iter().all(|p| self.may_be_missing(*p))) {
            return Err(format!("it has {} parameters, and {} are needed", have_params.len(), want_params.len()));
        }
        for (wp, hp) in want_params.iter().zip(&have_params) {
            let (wd, hd) = (self.direction(*wp), self.direction(*hp));
            let (wt, ht) = (self.local(*wp).ty, self.local(*hp).ty);
            let (wt, ht) = (self.subst(wt, &want_subst), self.subst(ht, &have_subst));
            let name = self.local(*hp).name.clone();
            if wd != hd {
                let (wd, hd) = (named_direction(wd), named_direction(hd));
                return Err(format!("its parameter `{name}` is {hd}, and {wd} is needed"));
            }
            if !self.unify(wt, ht) {
                let (wt, ht) = (self.show(wt), self.show(ht));
                return Err(format!("its parameter `{name}` is of type `{ht}`, and `{wt}` is needed"));
            }
        }
        Ok(())
    }

    /// The direction of a parameter; none for constructor parameters.
    pub(super) fn direction(&self, id: LocalId) -> crate::ast::Direction {
        match &self.local(id).kind {
            LocalKind::Param(direction, _, _) => *direction,
            _ => crate::ast::Direction::None,
        }
    }
}

/// `in`, or words for no direction.
pub(super) fn named_direction(direction: crate::ast::Direction) -> String {
    match direction {
        crate::ast::Direction::None => "without a direction".to_owned(),
        other => format!("`{}`", other.as_str()),
    }
}
