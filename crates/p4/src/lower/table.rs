//! Declares tables, actions and value sets.

use super::lowering::{LowerResult, Lowering};
use super::names;
use super::type_layout::TypeLayout;
use crate::ast::Direction;
use crate::hir::{self, Expr};
use crate::span::Span;
use ir::{ActionCall, ActionRef, MatchKind, Table};

impl<'a> Lowering<'a> {
    /// Returns the table in the current object; declares it on first use, because an object that is
    /// instantiated twice has two tables.
    pub(super) fn declare_table(&mut self, id: hir::TableId) -> LowerResult<ir::TableId> {
        if let Some(known) = self.objects[self.current_object.index()].tables.get(&id) {
            return Ok(*known);
        }
        let decl = &self.hir.tables[id.index()];
        let path = &self.objects[self.current_object.index()].path;
        let preamble =
            names::build_preamble(names::control_plane_name(path, &decl.name, &decl.annotations), &decl.annotations);
        self.take_identity("table", &preamble, decl.span)?;
        self.check_field_ids(decl.keys.iter().map(|key| (&key.annotations, key.span)))?;
        let keys = decl.keys.iter().map(|k| self.declare_key(k)).collect::<LowerResult<Vec<_>>>()?;
        let mut actions = Vec::new();
        for action in &decl.actions {
            actions.push(ActionRef {
                action: self.declare_action(action.action)?,
                table_only: names::find_annotation(&action.annotations, "tableonly").is_some(),
                default_only: names::find_annotation(&action.annotations, "defaultonly").is_some(),
                annotations: names::listed_action_annotations(&action.annotations),
            });
        }
        let Some(default) = actions.get(decl.default_action.0).map(|a| a.action) else {
            return self.error("no-default-action", decl.span, "this table has no default action");
        };
        let args = self.action_data(default, &decl.default_action.1, decl.span)?;
        let size = match &decl.size {
            // Size 0 is the same as no size. P4Info then shows p4c's default size, and no entry is
            // rejected because of the size.
            Some(size) => Some(self.eval_u64(size)?).filter(|size| *size != 0),
            None => None,
        };
        let loc = self.source_loc(decl.span);
        let mut table = Table {
            const_default: decl.const_default,
            const_entries: decl.const_entries,
            size,
            loc,
            ..Table::new(preamble, keys, actions, ActionCall { action: default, args })
        };
        self.read_properties(&decl.properties, &mut table)?;
        table.entries = self.lower_entries(decl, &table)?;
        let table = self.pipeline.tables.push(table);
        self.objects[self.current_object.index()].tables.insert(id, table);
        Ok(table)
    }

    /// Declares a key element. Its name for the control plane is its annotation `@name`, or its
    /// expression; an expression without an obvious name is an error.
    fn declare_key(&mut self, key: &hir::Key) -> LowerResult<ir::MatchKey> {
        let ty = self.scalar_type(key.expr.ty, key.span)?;
        let kind = self.match_kind(key.match_kind, key.span)?;
        let annotated = names::find_annotation(&key.annotations, "name").and_then(|a| a.single_string());
        let name = match annotated.map(|name| name.strip_prefix('.').unwrap_or(name).to_string()) {
            Some(name) => Some(name),
            None => self.key_name(&key.expr),
        };
        let Some(name) = name else {
            let message = "this key is too complex for the compiler to name it";
            let help = "give it a name for the control plane: `@name(\"...\")` after the match kind";
            return self.report(crate::diag::Diagnostic::error("unnamed-key", key.span, message).help(help));
        };
        self.record_named_type_of(key.expr.ty);
        Ok(ir::MatchKey {
            name,
            ty,
            kind,
            annotations: names::documented_annotations(&key.annotations, &[]),
            id: names::annotation_id(&key.annotations),
            type_name: self.type_name(key.expr.ty),
        })
    }

    fn match_kind(&mut self, kind: usize, span: Span) -> LowerResult<MatchKind> {
        let name = self.hir.match_kinds.get(kind).cloned().unwrap_or_default();
        match MatchKind::from_keyword(&name) {
            Some(kind) => Ok(kind),
            None => self.unsupported(span, format_args!("match kind `{name}`")),
        }
    }

    /// Returns the action in the current object, or the global one; declares it on first use. Only
    /// parameters without direction become action data.
    pub(super) fn declare_action(&mut self, id: hir::ActionId) -> LowerResult<ir::ActionId> {
        let decl = &self.hir.actions[id.index()];
        let current_object = &self.objects[self.current_object.index()];
        let declared =
            if decl.owner.is_some() { current_object.actions.get(&id) } else { self.global_actions.get(&id) };
        if let Some(declared) = declared {
            return Ok(*declared);
        }
        let path = if decl.owner.is_some() { current_object.path.as_str() } else { "" };
        let preamble =
            names::build_preamble(names::control_plane_name(path, &decl.name, &decl.annotations), &decl.annotations);
        self.take_identity("action", &preamble, decl.span)?;
        let hir = self.hir;
        let locals = decl.params.iter().map(|param| &hir.locals[param.index()]);
        self.check_field_ids(locals.map(|local| (&local.annotations, local.span)))?;
        let mut params = Vec::new();
        for param in &decl.params {
            if self.direction(*param) != Direction::None {
                continue;
            }
            let local = self.local_decl(*param);
            let scalar = self.scalar_type(local.ty, local.span)?;
            let param = self.control_plane_param(&local.name, local.ty, scalar, &local.annotations);
            params.push(param);
        }
        let loc = self.source_loc(decl.span);
        let action = self.pipeline.actions.push(ir::Action { preamble, params, loc });
        if decl.owner.is_some() {
            self.objects[self.current_object.index()].actions.insert(id, action);
        } else {
            self.global_actions.insert(id, action);
        }
        Ok(action)
    }

    /// Returns the bits of known action data.
    pub(super) fn action_data(
        &mut self,
        action: ir::ActionId,
        args: &[Expr],
        span: Span,
    ) -> LowerResult<Vec<num_bigint::BigUint>> {
        let types: Vec<ir::Type> = self.pipeline.actions[action].params.iter().map(|p| p.ty).collect();
        if types.len() != args.len() {
            return self.error("missing-argument", span, "an action here lacks data, or has too many");
        }
        args.iter().zip(types).map(|(arg, ty)| self.eval_bits(arg, ty)).collect()
    }

    /// Returns the value set in the current object; declares it on first use.
    pub(super) fn declare_value_set(&mut self, id: hir::ValueSetId) -> LowerResult<ir::ValueSetId> {
        if let Some(known) = self.objects[self.current_object.index()].value_sets.get(&id) {
            return Ok(*known);
        }
        let decl = &self.hir.value_sets[id.index()];
        let path = &self.objects[self.current_object.index()].path;
        let preamble =
            names::build_preamble(names::control_plane_name(path, &decl.name, &decl.annotations), &decl.annotations);
        self.take_identity("value set", &preamble, decl.span)?;
        let size = self.eval_u64(&decl.size)?;
        let mut keys = Vec::new();
        // A single key has no name, because P4Info identifies it by number.
        self.value_set_keys("", decl.ty, decl.span, &mut keys)?;
        let loc = self.source_loc(decl.span);
        let set = self.pipeline.value_sets.push(ir::ValueSet { preamble, size, keys, loc });
        self.objects[self.current_object.index()].value_sets.insert(id, set);
        Ok(set)
    }

    /// Appends the keys of a value set with elements of type `ty`: one for each scalar, named
    /// `name` or as its struct field. Annotations of a field apply to all keys in it.
    fn value_set_keys(&mut self, name: &str, ty: hir::Ty, span: Span, out: &mut Vec<ir::MatchKey>) -> LowerResult<()> {
        let ty = self.substitute_scope_params(ty);
        match self.layout(ty) {
            TypeLayout::Scalar(scalar) => {
                self.record_named_type_of(ty);
                out.push(ir::MatchKey {
                    name: name.to_string(),
                    ty: scalar,
                    kind: MatchKind::Exact,
                    annotations: Vec::new(),
                    id: 0,
                    type_name: self.type_name(ty),
                });
            }
            TypeLayout::Struct(members) => {
                let fields: &'a [hir::Field] = match self.types.kind(ty) {
                    hir::TyKind::Struct(id, _) => &self.hir.structs[id.index()].fields,
                    _ => &[],
                };
                for (n, member) in members.iter().enumerate() {
                    let annotations = fields.get(n).map(|f| f.annotations.clone()).unwrap_or_default();
                    let first_key = out.len();
                    let name = names::control_plane_name("", &member.name, &annotations);
                    self.value_set_keys(&name, member.ty, span, out)?;
                    let kind = self.match_annotation(&annotations).unwrap_or(MatchKind::Exact);
                    for key in &mut out[first_key..] {
                        key.kind = kind;
                        key.id = names::annotation_id(&annotations);
                        key.annotations = names::documented_annotations(&annotations, &["match"]);
                    }
                }
            }
            _ => return self.unsupported(span, "a value set of this type"),
        }
        Ok(())
    }

    /// Returns the match kind in `@match(ternary)`.
    fn match_annotation(&self, annotations: &crate::ast::Annotations) -> Option<MatchKind> {
        match &names::find_annotation(annotations, "match")?.body {
            crate::ast::AnnotationBody::Unstructured(body) => MatchKind::from_keyword(&body.text),
            _ => None,
        }
    }
}
