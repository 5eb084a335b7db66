//! Formats types in P4 syntax.

use super::Checker;
use crate::hir::{Program, Ty, TyKind};

impl Program {
    /// Returns the type in P4 syntax. A `_` stands for a type that is not inferred yet.
    pub fn type_text(&self, ty: Ty) -> String {
        let with_args = |name: &str, args: &[Ty]| match args {
            [] => name.to_owned(),
            args => format!("{name}<{}>", self.type_list_text(args)),
        };
        match self.types.kind(ty) {
            TyKind::Unknown => "an unknown type".to_owned(),
            TyKind::Void => "void".to_owned(),
            TyKind::Bool => "bool".to_owned(),
            TyKind::Str => "string".to_owned(),
            TyKind::InfInt => "int".to_owned(),
            TyKind::Bit(width) => format!("bit<{width}>"),
            TyKind::Int(width) => format!("int<{width}>"),
            TyKind::Varbit(width) => format!("varbit<{width}>"),
            TyKind::Error => "error".to_owned(),
            TyKind::MatchKind => "match_kind".to_owned(),
            TyKind::Enum(id) => self.enums[id.index()].name.to_string(),
            TyKind::Struct(id, args) => with_args(&self.structs[id.index()].name, args),
            TyKind::NewType(id) => self.newtypes[id.index()].name.to_string(),
            TyKind::Stack(element, n) => format!("{}[{n}]", self.type_text(*element)),
            TyKind::Tuple(elements) => format!("tuple<{}>", self.type_list_text(elements)),
            TyKind::List(element) => format!("list<{}>", self.type_text(*element)),
            TyKind::Extern(id, args) => with_args(&self.externs[id.index()].name, args),
            TyKind::Object(id, args) => with_args(&self.objects[id.index()].name, args),
            TyKind::Param(id) => self.type_params[id.index()].to_string(),
            TyKind::Set(element) => format!("set<{}>", self.type_text(*element)),
            TyKind::ApplyResult(_) => "the result of a table's apply".to_owned(),
            TyKind::ActionRun(_) => "action_run".to_owned(),
            TyKind::InvalidHeader => "{#}".to_owned(),
            TyKind::Infer(_) => "_".to_owned(),
        }
    }

    fn type_list_text(&self, types: &[Ty]) -> String {
        types.iter().map(|ty| self.type_text(*ty)).collect::<Vec<_>>().join(", ")
    }
}

impl Checker<'_> {
    /// Returns the type in P4 syntax, with solved inference variables replaced.
    pub(super) fn type_text(&mut self, ty: Ty) -> String {
        let ty = self.resolve(ty);
        self.prog.type_text(ty)
    }
}
