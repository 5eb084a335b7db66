//! Instantiates packages, parsers, controls and extern objects, starting at `main`.

use super::const_value::{ConstValue, InstanceName, ObjectInstance, ObjectInstanceId, PackageInstance};
use super::lowering::{LowerResult, Lowering, MAX_CALL_DEPTH};
use super::names;
use crate::hir::{self, Construct, Constructor, Expr, LocalDecl, ObjectKind};
use std::rc::Rc;

impl Lowering<'_> {
    /// Returns the names of a declaration in the current object.
    pub(super) fn instance_name(&self, name: &str, annotations: &crate::ast::Annotations) -> InstanceName {
        let current_object = &self.objects[self.current_object.index()];
        let scope =
            if current_object.scope.is_empty() { name.to_string() } else { format!("{}.{name}", current_object.scope) };
        let path = names::control_plane_name(&current_object.path, name, annotations);
        InstanceName { path, scope, annotations: Rc::new(annotations.clone()), by_type: false }
    }

    /// Returns the object of a named instance; creates it on first use.
    pub(super) fn resolve_instance(&mut self, id: hir::InstanceId) -> LowerResult<ConstValue> {
        let known = self.objects[self.current_object.index()].instances.get(&id).or_else(|| self.globals.get(&id));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        if self.hir.globals.contains(&id) {
            return self.create_global_instance(id);
        }
        self.declare_instance(id)
    }

    /// Creates a global instance.
    fn create_global_instance(&mut self, id: hir::InstanceId) -> LowerResult<ConstValue> {
        let current_object = std::mem::replace(&mut self.current_object, ObjectInstanceId::OUTSIDE);
        let subst = std::mem::take(&mut self.subst);
        let decl = &self.hir.instances[id.index()];
        let mut naming = self.instance_name(&decl.name, &decl.annotations);
        naming.by_type = matches!(decl.construct.what, Constructor::Object(_));
        let known = self.instantiate(&decl.construct, &naming);
        self.current_object = current_object;
        self.subst = subst;
        let known = known?;
        self.globals.insert(id, known.clone());
        Ok(known)
    }

    /// Creates an instance of the current object.
    pub(super) fn declare_instance(&mut self, id: hir::InstanceId) -> LowerResult<ConstValue> {
        let decl = &self.hir.instances[id.index()];
        let naming = self.instance_name(&decl.name, &decl.annotations);
        let known = self.instantiate(&decl.construct, &naming)?;
        self.objects[self.current_object.index()].instances.insert(id, known.clone());
        Ok(known)
    }

    /// Instantiates a constructor call and returns the object as a known value. `naming` has the
    /// names for the control plane and for variables.
    pub(super) fn instantiate(&mut self, construct: &Construct, naming: &InstanceName) -> LowerResult<ConstValue> {
        match construct.what {
            Constructor::Extern(id, _) => {
                let id = self.create_extern(id, construct, naming)?;
                Ok(ConstValue::Extern(id))
            }
            Constructor::Object(decl) => match self.hir.objects[decl.index()].kind {
                ObjectKind::Package => {
                    let args = self.eval_constructor_args(
                        &self.hir.objects[decl.index()].constructor_params,
                        construct,
                        naming,
                        true,
                    )?;
                    Ok(ConstValue::Package(Rc::new(PackageInstance { decl, args, span: construct.span })))
                }
                ObjectKind::Parser(_) | ObjectKind::Control(_) => self.create_object(decl, construct, naming),
                _ => self.unsupported(construct.span, "an instance of a type without a body"),
            },
        }
    }

    /// Returns the known values of constructor arguments. Objects among them are named after their
    /// parameter, below `naming`; `by_type` says that they are named after their type instead, as
    /// the blocks of a package.
    fn eval_constructor_args(
        &mut self,
        params: &[hir::LocalId],
        construct: &Construct,
        naming: &InstanceName,
        by_type: bool,
    ) -> LowerResult<Vec<ConstValue>> {
        let mut args = Vec::new();
        for (param, arg) in params.iter().zip(&construct.args) {
            let name = &self.local_decl(*param).name;
            let naming = InstanceName {
                path: if naming.path.is_empty() { name.to_string() } else { format!("{}.{name}", naming.path) },
                scope: format!("{}.{name}", naming.scope),
                annotations: Rc::default(),
                by_type,
            };
            args.push(match arg {
                Some(arg) => self.eval_constructor_arg(arg, &naming)?,
                None => ConstValue::Missing,
            });
        }
        Ok(args)
    }

    /// Creates an instance of the parser or control `decl` and declares its locals, which can
    /// instantiate further objects. The limits on depth and number stop programs in which instances
    /// multiply.
    fn create_object(
        &mut self,
        decl: hir::TypeDeclId,
        construct: &Construct,
        naming: &InstanceName,
    ) -> LowerResult<ConstValue> {
        let object = &self.hir.objects[decl.index()];
        let depth = self.objects[self.current_object.index()].depth + 1;
        if depth > MAX_CALL_DEPTH {
            return self.report_limit(construct.span, format!("instances nest more than {MAX_CALL_DEPTH} deep"));
        }
        if self.objects.len() > 1 << 14 {
            return self.report_limit(construct.span, "the program has too many instances");
        }
        let (path, scope) = if naming.by_type {
            // As in p4c, a `@name` of a parser or control does not change the names of its
            // declarations.
            (object.name.to_string(), object.name.to_string())
        } else {
            (naming.path.clone(), naming.scope.clone())
        };
        let inner_naming = InstanceName { path: path.clone(), scope: scope.clone(), ..naming.clone() };
        let args = self.eval_constructor_args(&object.constructor_params, construct, &inner_naming, false)?;
        let subst = Rc::new(self.substitution(&object.type_params, &construct.type_args));
        let instance = ObjectInstance {
            decl: Some(decl),
            path,
            scope,
            arguments: object.constructor_params.iter().copied().zip(args).collect(),
            subst: Rc::clone(&subst),
            depth,
            ..ObjectInstance::outside()
        };
        let id = ObjectInstanceId::from_index(self.objects.len());
        self.objects.push(instance);
        let outer_object = std::mem::replace(&mut self.current_object, id);
        let outer_subst = std::mem::replace(&mut self.subst, subst);
        let outcome = self.declare_locals(decl);
        self.current_object = outer_object;
        self.subst = outer_subst;
        outcome.map(|()| ConstValue::Object(id))
    }

    /// Declares the locals of the current object, an instance of `decl`, that its code uses. Extern
    /// objects are declared in any case, because the control plane can use them. All are tried, so
    /// that all errors are reported.
    fn declare_locals(&mut self, decl: hir::TypeDeclId) -> LowerResult<()> {
        let locals = match &self.hir.objects[decl.index()].kind {
            ObjectKind::Parser(body) => &body.locals,
            ObjectKind::Control(body) => &body.locals,
            _ => return Ok(()),
        };
        let used = self.used_by(decl);
        self.called_actions.extend(used.called_actions.iter().map(|id| (self.current_object, *id)));
        let is_extern = |lower: &Self, id: &hir::InstanceId| {
            matches!(lower.hir.instances[id.index()].construct.what, Constructor::Extern(..))
        };
        let mut outcome = Ok(());
        for local in locals {
            let declared = match local {
                LocalDecl::Instance(id) if is_extern(self, id) || used.instances.contains(id) => {
                    self.declare_instance(*id).map(|_| ())
                }
                LocalDecl::Table(id) if used.tables.contains(id) => self.declare_table(*id).map(|_| ()),
                LocalDecl::ValueSet(id) if used.value_sets.contains(id) => self.declare_value_set(*id).map(|_| ()),
                _ => Ok(()),
            };
            outcome = outcome.and(declared);
        }
        outcome
    }

    /// Returns constructor argument `n`.
    pub(super) fn constructor_arg<'c>(&mut self, construct: &'c Construct, n: usize) -> LowerResult<&'c Expr> {
        match construct.args.get(n) {
            Some(Some(arg)) => Ok(arg),
            _ => self.error(
                "missing-argument",
                construct.span,
                format!("argument {} of this constructor is missing", n + 1),
            ),
        }
    }
}
