//! Declarations: names, types, and the links between headers, variables, stacks and unions.

use super::{Problem, Verifier};
use crate::declare::CORE_ERRORS;
use crate::entity::*;
use crate::pipeline::*;
use crate::types::{Const, MAX_WIDTH, Type};
use num_traits::ToPrimitive;
use std::collections::HashSet;

impl Verifier<'_> {
    pub(super) fn declarations(&mut self) {
        let p = self.p;
        self.names();
        for header_type in p.header_types.values() {
            self.header_type(header_type);
        }
        for (id, var) in p.vars.iter() {
            self.ty("var", &var.name, var.ty);
            self.var_link(id, var);
        }
        for (id, header) in p.headers.iter() {
            self.header(id, header);
        }
        for (id, stack) in p.stacks.iter() {
            self.stack(id, stack);
        }
        for (id, union) in p.unions.iter() {
            for member in &union.members {
                match p.headers.get(*member) {
                    None => self.declaration("union", &union.name, Problem::NoSuch(member.to_string())),
                    Some(h) if h.union != Some(id) => {
                        self.declaration("union", &union.name, Problem::NotItsMember(h.name.clone(), "union"));
                    }
                    Some(_) => {}
                }
            }
            self.twice("union", &union.name, &union.members);
        }
        for (name, var) in &p.intrinsics {
            if p.vars.get(*var).is_none() {
                self.declaration("intrinsic", name, Problem::NoSuch(var.to_string()));
            }
        }
        for (number, vars) in &p.field_lists {
            for var in vars.iter().filter(|v| p.vars.get(**v).is_none()) {
                self.declaration("field_list", &number.to_string(), Problem::NoSuch(var.to_string()));
            }
        }
        for header in &p.controller_headers {
            let name = &header.preamble.name;
            if p.header_types.get(header.header).is_none() {
                self.declaration("controller_header", name, Problem::NoSuch(header.header.to_string()));
            }
            header.fields.iter().for_each(|f| self.ty("controller_header", name, f.ty));
        }
        for action in p.actions.values() {
            for param in &action.params {
                self.ty("action", &action.preamble.name, param.ty);
            }
        }
        for set in p.value_sets.values() {
            set.keys.iter().for_each(|k| self.key_type("value_set", &set.preamble.name, k.ty));
        }
    }

    fn names(&mut self) {
        let p = self.p;
        if p.errors.first().map(String::as_str) != Some(CORE_ERRORS[0]) {
            self.declaration("errors", "", Problem::NoErrorIsNotFirst);
        }
        self.unique("error", p.errors.iter());
        self.unique("enum", p.enums.values().map(|x| &x.name));
        for e in p.enums.values() {
            self.unique("member", e.members.iter());
        }
        self.unique("header_type", p.header_types.values().map(|x| &x.name));
        for ty in p.header_types.values() {
            self.unique("field", ty.fields.iter().map(|f| &f.name));
        }
        self.unique("var", p.vars.values().map(|x| &x.name));
        self.unique("header", p.headers.values().map(|x| &x.name));
        self.unique("stack", p.stacks.values().map(|x| &x.name));
        self.unique("union", p.unions.values().map(|x| &x.name));
        self.unique("action", p.actions.values().map(|x| &x.preamble.name));
        self.unique("table", p.tables.values().map(|x| &x.preamble.name));
        self.unique("value_set", p.value_sets.values().map(|x| &x.preamble.name));
        self.unique("type", p.named_types.iter().map(|(name, _)| name));
        for (name, strings) in &p.mappings {
            let of_strings = |ty: &NamedType| matches!(ty, NamedType::NewType(_, Some((_, None))));
            if !p.named_types.iter().any(|(other, ty)| other == name && of_strings(ty)) {
                self.declaration("mapping", name, Problem::NoStrings);
            }
            self.unique("string of a mapping", strings.iter().map(|(string, _)| string));
            let values: Vec<String> = strings.iter().map(|(_, value)| value.to_string()).collect();
            self.unique("value of a mapping", values.iter());
        }
        // Counters and registers may share a name: P4Info keeps them apart.
        let mut seen = HashSet::new();
        for object in p.externs.values() {
            if !seen.insert((std::mem::discriminant(&object.kind), &object.preamble.name)) {
                self.declaration("extern", &object.preamble.name, Problem::DuplicateName("extern of its kind"));
            }
        }
    }

    fn unique<'n>(&mut self, kind: &'static str, names: impl Iterator<Item = &'n String>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.declaration(kind, name, Problem::DuplicateName(kind));
            }
        }
    }

    fn twice<E: Entity + std::hash::Hash + std::fmt::Display>(&mut self, kind: &str, name: &str, list: &[E]) {
        let mut seen = HashSet::new();
        for entity in list {
            if !seen.insert(*entity) {
                self.declaration(kind, name, Problem::Twice(entity.to_string()));
            }
        }
    }

    /// Whether the type is one that the pipeline knows, within the limit of width.
    pub(super) fn type_problem(&self, ty: Type) -> Option<Problem> {
        match ty {
            Type::Bit(w) | Type::Int(w) | Type::Varbit(w) if w > MAX_WIDTH => Some(Problem::TooWide(w)),
            Type::Enum(id) if self.p.enums.get(id).is_none() => Some(Problem::NoSuch(id.to_string())),
            _ => None,
        }
    }

    pub(super) fn ty(&mut self, kind: &str, name: &str, ty: Type) {
        if let Some(problem) = self.type_problem(ty) {
            self.declaration(kind, name, problem);
        }
    }

    /// A key's type: a lookup compares fixed widths.
    pub(super) fn key_type(&mut self, kind: &str, name: &str, ty: Type) {
        self.ty(kind, name, ty);
        if let Type::Varbit(_) = ty {
            let problem = Problem::TypeClass { what: "a key".into(), expected: "of fixed width", found: ty };
            self.declaration(kind, name, problem);
        }
    }

    /// Whether a constant is in range: its bits within the width; an error or a member that exists; a varbit, empty.
    pub(super) fn const_problem(&self, value: &Const) -> Option<Problem> {
        if let Some(problem) = self.type_problem(value.ty) {
            return Some(problem);
        }
        let below = |n: usize| value.bits.to_usize().is_some_and(|v| v < n);
        let fits = match value.ty {
            Type::Varbit(_) => value.bits.bits() == 0,
            Type::Error => below(self.p.errors.len()),
            Type::Enum(id) => self.p.enums.get(id).is_some_and(|e| below(e.members.len())),
            ty => value.bits.bits() <= u64::from(ty.width()),
        };
        let what = "the constant".to_string();
        (!fits).then_some(Problem::DoesNotFit { what, ty: value.ty })
    }

    fn header_type(&mut self, ty: &HeaderType) {
        for field in &ty.fields {
            self.ty("header_type", &ty.name, field.ty);
            if let Type::Error | Type::Enum(_) = field.ty {
                let what = format!("field {}", field.name);
                let problem = Problem::TypeClass { what, expected: "something that packets carry", found: field.ty };
                self.declaration("header_type", &ty.name, problem);
            }
        }
        if ty.fields.iter().filter(|f| matches!(f.ty, Type::Varbit(_))).count() > 1 {
            self.declaration("header_type", &ty.name, Problem::TwoVarbits);
        }
    }

    fn var_link(&mut self, id: VarId, var: &Var) {
        match var.kind {
            VarKind::Field(header, n) => match self.p.headers.get(header) {
                None => self.declaration("var", &var.name, Problem::NoSuch(header.to_string())),
                Some(h) if h.fields.get(n as usize) != Some(&id) => {
                    self.declaration("var", &var.name, Problem::FieldLink(h.name.clone(), n));
                }
                Some(_) => {}
            },
            VarKind::NextIndex(stack) => match self.p.stacks.get(stack) {
                None => self.declaration("var", &var.name, Problem::NoSuch(stack.to_string())),
                Some(s) if s.next != id => {
                    self.declaration("var", &var.name, Problem::NotItsMember(s.name.clone(), "variable"));
                }
                Some(_) => {}
            },
            VarKind::Meta | VarKind::Intrinsic | VarKind::Local => {}
        }
    }

    fn header(&mut self, id: HeaderId, header: &Header) {
        let name = &header.name;
        if let Some(union) = header.union {
            match self.p.unions.get(union) {
                None => self.declaration("header", name, Problem::NoSuch(union.to_string())),
                Some(u) if !u.members.contains(&id) => {
                    self.declaration("header", name, Problem::NotItsMember(u.name.clone(), "header"));
                }
                Some(_) => {}
            }
        }
        let Some(ty) = self.p.header_types.get(header.ty) else {
            self.declaration("header", name, Problem::NoSuch(header.ty.to_string()));
            return;
        };
        if ty.fields.len() != header.fields.len() {
            let what = "fields".to_string();
            let problem = Problem::Count { what, expected: ty.fields.len(), found: header.fields.len() };
            self.declaration("header", name, problem);
        }
        for ((n, var), field) in (0u32..).zip(&header.fields).zip(&ty.fields) {
            let Some(data) = self.p.vars.get(*var) else {
                self.declaration("header", name, Problem::NoSuch(var.to_string()));
                continue;
            };
            if data.kind != VarKind::Field(id, n) {
                self.declaration("header", name, Problem::NotItsField(n));
            }
            if data.ty != field.ty {
                let what = format!("variable {}", data.name);
                self.declaration("header", name, Problem::Type { what, expected: field.ty, found: data.ty });
            }
        }
    }

    fn stack(&mut self, id: StackId, stack: &Stack) {
        let name = &stack.name;
        match self.p.vars.get(stack.next) {
            None => self.declaration("stack", name, Problem::NoSuch(stack.next.to_string())),
            Some(next) => {
                if next.kind != VarKind::NextIndex(id) {
                    self.declaration("stack", name, Problem::NotItsMember(next.name.clone(), "stack"));
                }
                if next.ty != Type::Bit(32) {
                    let what = "the next index".to_string();
                    self.declaration("stack", name, Problem::Type { what, expected: Type::Bit(32), found: next.ty });
                }
            }
        }
        self.twice("stack", name, &stack.elements);
        let first = stack.elements.first().and_then(|h| self.p.headers.get(*h)).map(|h| h.ty);
        for element in &stack.elements {
            match self.p.headers.get(*element) {
                None => self.declaration("stack", name, Problem::NoSuch(element.to_string())),
                Some(h) if Some(h.ty) != first => {
                    let problem = Problem::ExternKind {
                        what: h.name.clone(),
                        expected: "of the type of the stack's first element",
                    };
                    self.declaration("stack", name, problem);
                }
                Some(_) => {}
            }
        }
    }
}
