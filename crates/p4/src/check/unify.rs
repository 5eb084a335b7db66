//! Unification of types.

use super::Checker;
use crate::hir::{LocalId, LocalKind, ObjectKind, Ty, TyKind, TypeDeclId};

/// Family of an object or object type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ObjectFamily {
    Parser,
    Control,
    Package,
}

impl Checker<'_> {
    /// Makes the types equal by solving inference variables; false if they differ.
    pub(super) fn unify(&mut self, a: Ty, b: Ty) -> bool {
        let (a, b) = (self.resolve(a), self.resolve(b));
        if a == b {
            return true;
        }
        match (self.type_kind(a).clone(), self.type_kind(b).clone()) {
            (TyKind::Unknown, _) | (_, TyKind::Unknown) => true,
            (TyKind::Infer(var), _) => self.solve_var(var, b),
            (_, TyKind::Infer(var)) => self.solve_var(var, a),
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

    /// Returns whether the object is a parser, control or package.
    pub(super) fn object_family(&self, id: TypeDeclId) -> ObjectFamily {
        match self.prog.objects[id.index()].kind {
            ObjectKind::Parser(_) | ObjectKind::ParserType => ObjectFamily::Parser,
            ObjectKind::Control(_) | ObjectKind::ControlType => ObjectFamily::Control,
            ObjectKind::Package => ObjectFamily::Package,
        }
    }

    /// Matches a parser, control or package (`have`) with the expected type (`want`), parameter by
    /// parameter; the argument lists are type arguments. Returns the first difference as the reason
    /// for a message; an empty one if only type arguments differ.
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
        let (want_family, have_family) = (self.object_family(want), self.object_family(have));
        if want_family != have_family {
            return Err(format!("it is a {have_family:?}, and a {want_family:?} is needed").to_lowercase());
        }
        if want_family == ObjectFamily::Package {
            return Err("it is another package".to_owned());
        }
        let (want_decl, have_decl) = (&self.prog.objects[want.index()], &self.prog.objects[have.index()]);
        let want_subst = want_decl.type_params.iter().copied().zip(want_args.iter().copied()).collect();
        let have_subst = have_decl.type_params.iter().copied().zip(have_args.iter().copied()).collect();
        let (want_params, have_params) = (want_decl.params.clone(), have_decl.params.clone());
        let unmatched = want_params.get(have_params.len()..);
        if !unmatched.is_some_and(|missing| missing.iter().all(|p| self.can_be_omitted(*p))) {
            return Err(format!("it has {} parameters, and {} are needed", have_params.len(), want_params.len()));
        }
        for (want_param, have_param) in want_params.iter().zip(&have_params) {
            let (want_direction, have_direction) = (self.direction(*want_param), self.direction(*have_param));
            let (want_ty, have_ty) = (self.local_decl(*want_param).ty, self.local_decl(*have_param).ty);
            let (want_ty, have_ty) = (self.substitute(want_ty, &want_subst), self.substitute(have_ty, &have_subst));
            let name = self.local_decl(*have_param).name.clone();
            if want_direction != have_direction {
                let (want_direction, have_direction) =
                    (named_direction(want_direction), named_direction(have_direction));
                return Err(format!("its parameter `{name}` is {have_direction}, and {want_direction} is needed"));
            }
            if !self.unify(want_ty, have_ty) {
                let (want_ty, have_ty) = (self.type_text(want_ty), self.type_text(have_ty));
                return Err(format!("its parameter `{name}` is of type `{have_ty}`, and `{want_ty}` is needed"));
            }
        }
        Ok(())
    }

    /// Returns the direction of a parameter; none for constructor parameters.
    pub(super) fn direction(&self, id: LocalId) -> crate::ast::Direction {
        match &self.local_decl(id).kind {
            LocalKind::Param(direction, _, _) => *direction,
            _ => crate::ast::Direction::None,
        }
    }
}

/// Returns `in`, or words for no direction.
pub(super) fn named_direction(direction: crate::ast::Direction) -> String {
    match direction {
        crate::ast::Direction::None => "without a direction".to_owned(),
        other => format!("`{}`", other.as_str()),
    }
}
