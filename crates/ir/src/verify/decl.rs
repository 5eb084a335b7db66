//! Verification of declarations: names, types, and the links between them.
//! Headers, variables, stacks and unions refer to each other.

use super::{PipelineVerifier, ViolationKind};
use crate::entity::*;
use crate::pipeline::*;
use crate::pipeline_builder::CORE_ERRORS;
use crate::types::{Const, MAX_WIDTH, Type};
use num_traits::ToPrimitive;
use std::collections::HashSet;

impl PipelineVerifier<'_> {
    /// Verifies all declarations except tables, externs and controls: names, types, and the links
    /// between them, which must agree in both directions.
    pub(super) fn verify_declarations(&mut self) {
        let pipeline = self.pipeline;
        self.verify_names();
        for header_type in pipeline.header_types.values() {
            self.verify_header_type(header_type);
        }
        for (id, var) in pipeline.vars.iter() {
            self.verify_type("var", &var.name, var.ty);
            self.verify_var_link(id, var);
        }
        for (id, header) in pipeline.headers.iter() {
            self.verify_header(id, header);
        }
        for (id, stack) in pipeline.stacks.iter() {
            self.verify_stack(id, stack);
        }
        for (id, union) in pipeline.unions.iter() {
            for member in &union.members {
                match pipeline.headers.get(*member) {
                    None => {
                        self.report_declaration("union", &union.name, ViolationKind::MissingEntity(member.to_string()))
                    }
                    Some(header) if header.union != Some(id) => {
                        self.report_declaration(
                            "union",
                            &union.name,
                            ViolationKind::NotItsMember(header.name.clone(), "union"),
                        );
                    }
                    Some(_) => {}
                }
            }
            self.check_no_duplicates("union", &union.name, &union.members);
        }
        for (name, var) in &pipeline.intrinsics {
            if pipeline.vars.get(*var).is_none() {
                self.report_declaration("intrinsic", name, ViolationKind::MissingEntity(var.to_string()));
            }
        }
        for (number, vars) in &pipeline.field_lists {
            for var in vars.iter().filter(|v| pipeline.vars.get(**v).is_none()) {
                self.report_declaration(
                    "field_list",
                    &number.to_string(),
                    ViolationKind::MissingEntity(var.to_string()),
                );
            }
        }
        for header in &pipeline.controller_headers {
            let name = &header.preamble.name;
            if pipeline.header_types.get(header.header).is_none() {
                self.report_declaration(
                    "controller_header",
                    name,
                    ViolationKind::MissingEntity(header.header.to_string()),
                );
            }
            header.fields.iter().for_each(|f| self.verify_type("controller_header", name, f.ty));
        }
        for action in pipeline.actions.values() {
            for param in &action.params {
                self.verify_type("action", &action.preamble.name, param.ty);
            }
        }
        for set in pipeline.value_sets.values() {
            set.keys.iter().for_each(|k| self.verify_key_type("value_set", &set.preamble.name, k.ty));
        }
    }

    /// Verifies that names are unique among declarations of one kind, and that `NoError` is the
    /// first error.
    fn verify_names(&mut self) {
        let pipeline = self.pipeline;
        if pipeline.errors.first().map(String::as_str) != Some(CORE_ERRORS[0]) {
            self.report_declaration("errors", "", ViolationKind::NoErrorIsNotFirst);
        }
        self.check_unique_names("error", pipeline.errors.iter());
        self.check_unique_names("enum", pipeline.enums.values().map(|decl| &decl.name));
        for e in pipeline.enums.values() {
            self.check_unique_names("member", e.members.iter());
        }
        self.check_unique_names("header_type", pipeline.header_types.values().map(|decl| &decl.name));
        for ty in pipeline.header_types.values() {
            self.check_unique_names("field", ty.fields.iter().map(|f| &f.name));
        }
        self.check_unique_names("var", pipeline.vars.values().map(|decl| &decl.name));
        self.check_unique_names("header", pipeline.headers.values().map(|decl| &decl.name));
        self.check_unique_names("stack", pipeline.stacks.values().map(|decl| &decl.name));
        self.check_unique_names("union", pipeline.unions.values().map(|decl| &decl.name));
        self.check_unique_names("action", pipeline.actions.values().map(|decl| &decl.preamble.name));
        self.check_unique_names("table", pipeline.tables.values().map(|decl| &decl.preamble.name));
        self.check_unique_names("value_set", pipeline.value_sets.values().map(|decl| &decl.preamble.name));
        self.check_unique_names("type", pipeline.named_types.iter().map(|(name, _)| name));
        for (name, strings) in &pipeline.mappings {
            let is_string_type = |ty: &NamedType| matches!(ty, NamedType::NewType(_, Some((_, None))));
            if !pipeline.named_types.iter().any(|(other, ty)| other == name && is_string_type(ty)) {
                self.report_declaration("mapping", name, ViolationKind::NoStrings);
            }
            self.check_unique_names("string of a mapping", strings.iter().map(|(string, _)| string));
            let values: Vec<String> = strings.iter().map(|(_, value)| value.to_string()).collect();
            self.check_unique_names("value of a mapping", values.iter());
        }
        // Counters and registers may share a name, because P4Info has separate name spaces for
        // them.
        let mut seen = HashSet::new();
        for object in pipeline.externs.values() {
            if !seen.insert((std::mem::discriminant(&object.kind), &object.preamble.name)) {
                self.report_declaration(
                    "extern",
                    &object.preamble.name,
                    ViolationKind::DuplicateName("extern of its kind"),
                );
            }
        }
    }

    fn check_unique_names<'n>(&mut self, kind: &'static str, names: impl Iterator<Item = &'n String>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.report_declaration(kind, name, ViolationKind::DuplicateName(kind));
            }
        }
    }

    fn check_no_duplicates<E: Entity + std::hash::Hash + std::fmt::Display>(
        &mut self,
        kind: &str,
        name: &str,
        list: &[E],
    ) {
        let mut seen = HashSet::new();
        for entity in list {
            if !seen.insert(*entity) {
                self.report_declaration(kind, name, ViolationKind::ListedTwice(entity.to_string()));
            }
        }
    }

    /// Returns a violation if the type is unknown to the pipeline or too wide.
    pub(super) fn type_violation(&self, ty: Type) -> Option<ViolationKind> {
        match ty {
            Type::Bit(w) | Type::Int(w) | Type::Varbit(w) if w > MAX_WIDTH => Some(ViolationKind::TooWide(w)),
            Type::Enum(id) if self.pipeline.enums.get(id).is_none() => {
                Some(ViolationKind::MissingEntity(id.to_string()))
            }
            _ => None,
        }
    }

    pub(super) fn verify_type(&mut self, kind: &str, name: &str, ty: Type) {
        if let Some(violation) = self.type_violation(ty) {
            self.report_declaration(kind, name, violation);
        }
    }

    /// Checks a key's type. Varbits are not allowed, because a lookup compares fixed widths.
    pub(super) fn verify_key_type(&mut self, kind: &str, name: &str, ty: Type) {
        self.verify_type(kind, name, ty);
        if let Type::Varbit(_) = ty {
            let violation = ViolationKind::TypeClass { what: "a key".into(), expected: "of fixed width", found: ty };
            self.report_declaration(kind, name, violation);
        }
    }

    /// Returns a violation if a constant is out of range: its bits must be within the width, an
    /// error or member must exist, a varbit must be empty.
    pub(super) fn const_violation(&self, value: &Const) -> Option<ViolationKind> {
        if let Some(violation) = self.type_violation(value.ty) {
            return Some(violation);
        }
        let below = |n: usize| value.bits.to_usize().is_some_and(|v| v < n);
        let fits = match value.ty {
            Type::Varbit(_) => value.bits.bits() == 0,
            Type::Error => below(self.pipeline.errors.len()),
            Type::Enum(id) => self.pipeline.enums.get(id).is_some_and(|e| below(e.members.len())),
            ty => value.bits.bits() <= u64::from(ty.width()),
        };
        let what = "the constant".to_string();
        (!fits).then_some(ViolationKind::DoesNotFit { what, ty: value.ty })
    }

    fn verify_header_type(&mut self, ty: &HeaderType) {
        for field in &ty.fields {
            self.verify_type("header_type", &ty.name, field.ty);
            if let Type::Error | Type::Enum(_) = field.ty {
                let what = format!("field {}", field.name);
                let violation =
                    ViolationKind::TypeClass { what, expected: "a type that packets contain", found: field.ty };
                self.report_declaration("header_type", &ty.name, violation);
            }
        }
        if ty.fields.iter().filter(|f| matches!(f.ty, Type::Varbit(_))).count() > 1 {
            self.report_declaration("header_type", &ty.name, ViolationKind::TwoVarbits);
        }
    }

    fn verify_var_link(&mut self, id: VarId, var: &Var) {
        match var.kind {
            VarKind::Field(header, n) => match self.pipeline.headers.get(header) {
                None => self.report_declaration("var", &var.name, ViolationKind::MissingEntity(header.to_string())),
                Some(h) if h.fields.get(n as usize) != Some(&id) => {
                    self.report_declaration("var", &var.name, ViolationKind::FieldLink(h.name.clone(), n));
                }
                Some(_) => {}
            },
            VarKind::NextIndex(stack) => match self.pipeline.stacks.get(stack) {
                None => self.report_declaration("var", &var.name, ViolationKind::MissingEntity(stack.to_string())),
                Some(s) if s.next != id => {
                    self.report_declaration("var", &var.name, ViolationKind::NotItsMember(s.name.clone(), "variable"));
                }
                Some(_) => {}
            },
            VarKind::Meta | VarKind::Intrinsic | VarKind::Local => {}
        }
    }

    /// Verifies that a header has the fields of its type, each in a variable that is linked back to
    /// it, and that its union, if any, lists it.
    fn verify_header(&mut self, id: HeaderId, header: &Header) {
        let name = &header.name;
        if let Some(union) = header.union {
            match self.pipeline.unions.get(union) {
                None => self.report_declaration("header", name, ViolationKind::MissingEntity(union.to_string())),
                Some(u) if !u.members.contains(&id) => {
                    self.report_declaration("header", name, ViolationKind::NotItsMember(u.name.clone(), "header"));
                }
                Some(_) => {}
            }
        }
        let Some(ty) = self.pipeline.header_types.get(header.ty) else {
            self.report_declaration("header", name, ViolationKind::MissingEntity(header.ty.to_string()));
            return;
        };
        if ty.fields.len() != header.fields.len() {
            let what = "fields".to_string();
            let violation = ViolationKind::Count { what, expected: ty.fields.len(), found: header.fields.len() };
            self.report_declaration("header", name, violation);
        }
        for ((field_index, var), field) in (0u32..).zip(&header.fields).zip(&ty.fields) {
            let Some(field_var) = self.pipeline.vars.get(*var) else {
                self.report_declaration("header", name, ViolationKind::MissingEntity(var.to_string()));
                continue;
            };
            if field_var.kind != VarKind::Field(id, field_index) {
                self.report_declaration("header", name, ViolationKind::NotItsField(field_index));
            }
            if field_var.ty != field.ty {
                let what = format!("variable {}", field_var.name);
                self.report_declaration(
                    "header",
                    name,
                    ViolationKind::Type { what, expected: field.ty, found: field_var.ty },
                );
            }
        }
    }

    /// Verifies that the elements of a stack exist and have one type, and that its next index is a
    /// 32-bit variable linked back to it.
    fn verify_stack(&mut self, id: StackId, stack: &Stack) {
        let name = &stack.name;
        match self.pipeline.vars.get(stack.next) {
            None => self.report_declaration("stack", name, ViolationKind::MissingEntity(stack.next.to_string())),
            Some(next) => {
                if next.kind != VarKind::NextIndex(id) {
                    self.report_declaration("stack", name, ViolationKind::NotItsMember(next.name.clone(), "stack"));
                }
                if next.ty != Type::Bit(32) {
                    let what = "the next index".to_string();
                    self.report_declaration(
                        "stack",
                        name,
                        ViolationKind::Type { what, expected: Type::Bit(32), found: next.ty },
                    );
                }
            }
        }
        self.check_no_duplicates("stack", name, &stack.elements);
        let element_type = stack.elements.first().and_then(|h| self.pipeline.headers.get(*h)).map(|h| h.ty);
        for element in &stack.elements {
            match self.pipeline.headers.get(*element) {
                None => self.report_declaration("stack", name, ViolationKind::MissingEntity(element.to_string())),
                Some(h) if Some(h.ty) != element_type => {
                    let violation = ViolationKind::ExternKind {
                        what: h.name.clone(),
                        expected: "of the type of the stack's first element",
                    };
                    self.report_declaration("stack", name, violation);
                }
                Some(_) => {}
            }
        }
    }
}
