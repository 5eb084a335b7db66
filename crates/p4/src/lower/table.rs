//! Declarations of tables, actions and value sets.

use super::lowering::{Lower, Res};
use super::names;
use super::shape::Shape;
use crate::ast::Direction;
use crate::hir::{self, Expr};
use crate::span::Span;
use ir::{ActionCall, ActionRef, MatchKind, Table};

impl<'a> Lower<'a> {
    /// The table in the object at hand, declared when first met.
    pub(super) fn declare_table(&mut self, id: hir::TableId) -> Res<ir::TableId> {
        if let Some(known) = self.objects[self.this.index()].tables.get(&id) {
            return Ok(*known);
        }
        let decl = &self.hir.tables[id.index()];
        let path = &self.objects[self.this.index()].path;
        let preamble =
            names::preamble(names::control_plane_name(path, &decl.name, &decl.annotations), &decl.annotations);
        self.take_identity("table", &preamble, decl.span)?;
        self.check_field_ids(decl.keys.iter().map(|key| (&key.annotations, key.span)))?;
        let keys = decl.keys.iter().map(|k| self.declare_key(k)).collect::<Res<Vec<_>>>()?;
        let mut actions = Vec::new();
        for action in &decl.actions {
            actions.push(ActionRef {
                action: self.declare_action(action.action)?,
                table_only: names::annotation(&action.annotations, "tableonly").is_some(),
                default_only: names::annotation(&action.annotations, "defaultonly").is_some(),
                annotations: names::of_listed_action(&action.annotations),
            });
        }
        let Some(default) = actions.get(decl.default_action.0).map(|a| a.action) else {
            return self.error("no-default-action", decl.span, "this table has no default action");
        };
        let args = self.action_data(default, &decl.default_action.1, decl.span)?;
        let size = match &decl.size {
            // A size of 0 promises nothing, as does none: P4Info then tells p4c's default size,
            // and no entry is refused for it.
            Some(size) => Some(self.known_u64(size)?).filter(|size| *size != 0),
            None => None,
        };
        let loc = self.loc(decl.span);
        let mut table = Table {
            const_default: decl.const_default,
            const_entries: decl.const_entries,
            size,
            loc,
            ..Table::new(preamble, keys, actions, ActionCall { action: default, args })
        };
        self.properties(&decl.properties, &mut table)?;
        table.entries = self.entries(decl, &table)?;
        let table = self.p.tables.push(table);
        self.objects[self.this.index()].tables.insert(id, table);
        Ok(table)
    }

    fn declare_key(&mut self, key: &hir::Key) -> Res<ir::Key> {
        let ty = self.scalar(key.expr.ty, key.span)?;
        let kind = self.match_kind(key.match_kind, key.span)?;
        let explicit = names::annotation(&key.annotations, "name").and_then(|a| a.single_string());
        let name = match explicit.map(|name| name.strip_prefix('.').unwrap_or(name).to_string()) {
            Some(name) => Some(name),
            None => self.key_name(&key.expr),
        };
        let Some(name) = name else {
            let message = "this key is too complex for the compiler to name it";
            let help = "give it a name for the control plane: `@name(\"...\")` after the match kind";
            return self.report(crate::diag::Diagnostic::error("unnamed-key", key.span, message).help(help));
        };
        self.note_type(key.expr.ty);
        Ok(ir::Key {
            name,
            ty,
            kind,
            annotations: names::described(&key.annotations, &[]),
            id: names::id(&key.annotations),
            type_name: self.type_name(key.expr.ty),
        })
    }

    fn match_kind(&mut self, kind: usize, span: Span) -> Res<MatchKind> {
        let name = self.hir.match_kinds.get(kind).cloned().unwrap_or_default();
        match MatchKind::from_word(&name) {
            Some(kind) => Ok(kind),
            None => self.unsupported(span, format_args!("match kind `{name}`")),
        }
    }

    /// The action in the object at hand, declared when first met.
    pub(super) fn declare_action(&mut self, id: hir::ActionId) -> Res<ir::ActionId> {
        let decl = &self.hir.actions[id.index()];
        let this = &self.objects[self.this.index()];
        let known = if decl.owner.is_some() { this.actions.get(&id) } else { self.global_actions.get(&id) };
        if let Some(known) = known {
            return Ok(*known);
        }
        let path = if decl.owner.is_some() { this.path.as_str() } else { "" };
        let preamble =
            names::preamble(names::control_plane_name(path, &decl.name, &decl.annotations), &decl.annotations);
        self.take_identity("action", &preamble, decl.span)?;
        let hir = self.hir;
        let locals = decl.params.iter().map(|param| &hir.locals[param.index()]);
        self.check_field_ids(locals.map(|local| (&local.annotations, local.span)))?;
        let mut params = Vec::new();
        for param in &decl.params {
            if self.direction(*param) != Direction::None {
                continue;
            }
            let local = self.local(*param);
            let scalar = self.scalar(local.ty, local.span)?;
            let param = self.param(&local.name, local.ty, scalar, &local.annotations);
            params.push(param);
        }
        let loc = self.loc(decl.span);
        let action = self.p.actions.push(ir::Action { preamble, params, loc });
        if decl.owner.is_some() {
            self.objects[self.this.index()].actions.insert(id, action);
        } else {
            self.global_actions.insert(id, action);
        }
        Ok(action)
    }

    /// The bits of known action data.
    pub(super) fn action_data(
        &mut self,
        action: ir::ActionId,
        args: &[Expr],
        span: Span,
    ) -> Res<Vec<num_bigint::BigUint>> {
        let types: Vec<ir::Type> = self.p.actions[action].params.iter().map(|p| p.ty).collect();
        if types.len() != args.len() {
            return self.error("missing-argument", span, "an action here lacks data, or has too many");
        }
        args.iter().zip(types).map(|(arg, ty)| self.known_bits(arg, ty)).collect()
    }

    /// The value set in the object at hand, declared when first met.
    pub(super) fn declare_value_set(&mut self, id: hir::ValueSetId) -> Res<ir::ValueSetId> {
        if let Some(known) = self.objects[self.this.index()].value_sets.get(&id) {
            return Ok(*known);
        }
        let decl = &self.hir.value_sets[id.index()];
        let path = &self.objects[self.this.index()].path;
        let preamble =
            names::preamble(names::control_plane_name(path, &decl.name, &decl.annotations), &decl.annotations);
        self.take_identity("value set", &preamble, decl.span)?;
        let size = self.known_u64(&decl.size)?;
        let mut keys = Vec::new();
        // A lone key has no name: P4Info knows it by its number.
        self.value_set_keys("", decl.ty, decl.span, &mut keys)?;
        let loc = self.loc(decl.span);
        let set = self.p.value_sets.push(ir::ValueSet { preamble, size, keys, loc });
        self.objects[self.this.index()].value_sets.insert(id, set);
        Ok(set)
    }

    fn value_set_keys(&mut self, name: &str, ty: hir::Ty, span: Span, out: &mut Vec<ir::Key>) -> Res<()> {
        let ty = self.ty(ty);
        match self.shape(ty) {
            Shape::Scalar(scalar) => {
                self.note_type(ty);
                out.push(ir::Key {
                    name: name.to_string(),
                    ty: scalar,
                    kind: MatchKind::Exact,
                    annotations: Vec::new(),
                    id: 0,
                    type_name: self.type_name(ty),
                });
            }
            Shape::Struct(members) => {
                let fields: &'a [hir::Field] = match self.types.kind(ty) {
                    hir::TyKind::Struct(id, _) => &self.hir.structs[id.index()].fields,
                    _ => &[],
                };
                for (n, member) in members.iter().enumerate() {
                    let annotations = fields.get(n).map(|f| f.annotations.clone()).unwrap_or_default();
                    let from = out.len();
                    let name = names::control_plane_name("", &member.name, &annotations);
                    self.value_set_keys(&name, member.ty, span, out)?;
                    let kind = self.match_annotation(&annotations).unwrap_or(MatchKind::Exact);
                    for key in &mut out[from..] {
                        key.kind = kind;
                        key.id = names::id(&annotations);
                        key.annotations = names::described(&annotations, &["match"]);
                    }
                }
            }
            _ => return self.unsupported(span, "a value set of this type"),
        }
        Ok(())
    }

    /// The match kind in `@match(ternary)`.
    fn match_annotation(&self, annotations: &crate::ast::Annotations) -> Option<MatchKind> {
        match &names::annotation(annotations, "match")?.body {
            crate::ast::AnnotationBody::Unstructured(body) => MatchKind::from_word(&body.text),
            _ => None,
        }
    }
}
