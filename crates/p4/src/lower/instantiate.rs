//! Instantiation: from `main` on, packages, parsers, controls and extern objects come into being.

use super::known::{Known, Naming, Object, ObjectId, Package};
use super::lowering::{Lower, MAX_CALL_DEPTH, Res};
use super::names;
use crate::hir::{self, Construct, Constructor, Expr, LocalDecl, ObjectKind};
use std::rc::Rc;

impl Lower<'_> {
    /// The names of a declaration in the object at hand.
    pub(super) fn naming(&self, name: &str, annotations: &crate::ast::Annotations) -> Naming {
        let this = &self.objects[self.this.index()];
        let scope = if this.scope.is_empty() { name.to_string() } else { format!("{}.{name}", this.scope) };
        let path = names::control_plane_name(&this.path, name, annotations);
        Naming { path, scope, annotations: Rc::new(annotations.clone()), by_type: false }
    }

    /// The object that a named instance is, made when first met.
    pub(super) fn instance(&mut self, id: hir::InstanceId) -> Res<Known> {
        let known = self.objects[self.this.index()].instances.get(&id).or_else(|| self.globals.get(&id));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        if self.hir.globals.contains(&id) {
            return self.global(id);
        }
        self.declare_instance(id)
    }

    /// A global instance.
    fn global(&mut self, id: hir::InstanceId) -> Res<Known> {
        let this = std::mem::replace(&mut self.this, ObjectId::OUTSIDE);
        let subst = std::mem::take(&mut self.subst);
        let decl = &self.hir.instances[id.index()];
        let mut naming = self.naming(&decl.name, &decl.annotations);
        naming.by_type = matches!(decl.construct.what, Constructor::Object(_));
        let known = self.construct(&decl.construct, &naming);
        self.this = this;
        self.subst = subst;
        let known = known?;
        self.globals.insert(id, known.clone());
        Ok(known)
    }

    /// An instance of the object at hand.
    pub(super) fn declare_instance(&mut self, id: hir::InstanceId) -> Res<Known> {
        let decl = &self.hir.instances[id.index()];
        let naming = self.naming(&decl.name, &decl.annotations);
        let known = self.construct(&decl.construct, &naming)?;
        self.objects[self.this.index()].instances.insert(id, known.clone());
        Ok(known)
    }

    /// Instantiates.
    pub(super) fn construct(&mut self, construct: &Construct, naming: &Naming) -> Res<Known> {
        match construct.what {
            Constructor::Extern(id, _) => {
                let id = self.make_extern(id, construct, naming)?;
                Ok(Known::Extern(id))
            }
            Constructor::Object(decl) => match self.hir.objects[decl.index()].kind {
                ObjectKind::Package => {
                    let args =
                        self.arguments(&self.hir.objects[decl.index()].constructor_params, construct, naming, true)?;
                    Ok(Known::Package(Rc::new(Package { decl, args, span: construct.span })))
                }
                ObjectKind::Parser(_) | ObjectKind::Control(_) => self.make_object(decl, construct, naming),
                _ => self.unsupported(construct.span, "an instance of a type without a body"),
            },
        }
    }

    /// Known values of constructor arguments.
    fn arguments(
        &mut self,
        params: &[hir::LocalId],
        construct: &Construct,
        naming: &Naming,
        by_type: bool,
    ) -> Res<Vec<Known>> {
        let mut args = Vec::new();
        for (param, arg) in params.iter().zip(&construct.args) {
            let name = &self.local(*param).name;
            let naming = Naming {
                path: if naming.path.is_empty() { name.to_string() } else { format!("{}.{name}", naming.path) },
                scope: format!("{}.{name}", naming.scope),
                annotations: Rc::default(),
                by_type,
            };
            args.push(match arg {
                Some(arg) => self.known(arg, &naming)?,
                None => Known::Missing,
            });
        }
        Ok(args)
    }

    fn make_object(&mut self, decl: hir::TypeDeclId, construct: &Construct, naming: &Naming) -> Res<Known> {
        let object = &self.hir.objects[decl.index()];
        let depth = self.objects[self.this.index()].depth + 1;
        if depth > MAX_CALL_DEPTH {
            return self.limit(construct.span, format!("instances nest more than {MAX_CALL_DEPTH} deep"));
        }
        if self.objects.len() > 1 << 14 {
            return self.limit(construct.span, "the program has too many instances");
        }
        let (path, scope) = if naming.by_type {
            // As in p4c, a `@name` in front of a parser or control changes no name of what it declares.
            (object.name.to_string(), object.name.to_string())
        } else {
            (naming.path.clone(), naming.scope.clone())
        };
        let inner = Naming { path: path.clone(), scope: scope.clone(), ..naming.clone() };
        let args = self.arguments(&object.constructor_params, construct, &inner, false)?;
        let subst = Rc::new(self.substitution(&object.type_params, &construct.type_args));
        let new = Object {
            decl: Some(decl),
            path,
            scope,
            arguments: object.constructor_params.iter().copied().zip(args).collect(),
            subst: Rc::clone(&subst),
            depth,
            ..Object::outside()
        };
        let id = ObjectId::from_index(self.objects.len());
        self.objects.push(new);
        let outer = std::mem::replace(&mut self.this, id);
        let outer_subst = std::mem::replace(&mut self.subst, subst);
        let done = self.declare_locals(decl);
        self.this = outer;
        self.subst = outer_subst;
        done.map(|()| Known::Object(id))
    }

    /// Declares what a new object declares and uses.
    fn declare_locals(&mut self, decl: hir::TypeDeclId) -> Res<()> {
        let locals = match &self.hir.objects[decl.index()].kind {
            ObjectKind::Parser(body) => &body.locals,
            ObjectKind::Control(body) => &body.locals,
            _ => return Ok(()),
        };
        let used = self.used_by(decl);
        self.called.extend(used.called.iter().map(|id| (self.this, *id)));
        let is_extern = |lower: &Self, id: &hir::InstanceId| {
            matches!(lower.hir.instances[id.index()].construct.what, Constructor::Extern(..))
        };
        let mut done = Ok(());
        for local in locals {
            let declared = match local {
                LocalDecl::Instance(id) if is_extern(self, id) || used.instances.contains(id) => {
                    self.declare_instance(*id).map(|_| ())
                }
                LocalDecl::Table(id) if used.tables.contains(id) => self.declare_table(*id).map(|_| ()),
                LocalDecl::ValueSet(id) if used.value_sets.contains(id) => self.declare_value_set(*id).map(|_| ()),
                _ => Ok(()),
            };
            done = done.and(declared);
        }
        done
    }

    /// The known constructor argument number `n`.
    pub(super) fn constructor_arg<'c>(&mut self, construct: &'c Construct, n: usize) -> Res<&'c Expr> {
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
