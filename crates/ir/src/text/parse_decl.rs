//! Parsing declarations.

use super::error::Res;
use super::lex::Kind as Tok;
use super::parse::Parser;
use super::resolve::Kind;
use crate::declare::CORE_ERRORS;
use crate::declared::DataType;
use crate::entity::{Entity, VarId};
use crate::pipeline::*;
use crate::table::{Action, Key, Param};

/// How many references all ranges of a text may stand for.
const MAX_EXPANDED: usize = 1 << 20;

impl Parser<'_> {
    /// The pipeline, or `None` if not even its first line is right.
    pub fn pipeline(&mut self) -> Option<Pipeline> {
        let mut pipeline = match self.head() {
            Ok(pipeline) => pipeline,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        };
        let mut errors_seen = false;
        while *self.kind() != Tok::End && !self.is_full() {
            let start = self.at;
            let result = self.declaration(&mut pipeline, &mut errors_seen).and_then(|()| self.end_of_statement());
            if let Err(error) = result {
                self.recover(error, start, 0);
            }
        }
        Some(pipeline)
    }

    fn head(&mut self) -> Res<Pipeline> {
        self.keyword("pipeline")?;
        let name = self.string("the pipeline's name, as a string")?;
        let pipeline = Pipeline::new(name, self.choice("the architecture")?);
        debug_assert_eq!(pipeline.errors, CORE_ERRORS);
        self.end_of_statement()?;
        Ok(pipeline)
    }

    fn declaration(&mut self, p: &mut Pipeline, errors_seen: &mut bool) -> Res<()> {
        let at = self.at;
        match self.word("a declaration")? {
            "annotation" => p.annotations.push(self.string("the annotation, as a string")?),
            "file" => p.files.push(self.string("the file's name, as a string")?),
            "errors" => {
                if std::mem::replace(errors_seen, true) {
                    return Err(self.error_at(at, "a second list of errors", "put all of them in one list"));
                }
                p.errors = self.names_in_braces()?;
            }
            "enum" => {
                let name = self.declared_name()?;
                p.enums.push(Enum { name, members: self.names_in_braces()? });
            }
            "header_type" => _ = p.header_types.push(self.header_type()?),
            "var" => _ = p.vars.push(self.var()?),
            "header" => _ = p.headers.push(self.header()?),
            "stack" => {
                let name = self.declared_name()?;
                self.keyword("next")?;
                let next = self.entity(Kind::Var)?;
                let elements = self.list("{", "}", |p| p.entity(Kind::Header))?;
                p.stacks.push(Stack { name, elements, next });
            }
            "union" => {
                let name = self.declared_name()?;
                let members = self.list("{", "}", |p| p.entity(Kind::Header))?;
                p.unions.push(Union { name, members });
            }
            "intrinsic" => {
                let name = self.string("the variable's P4 name, as a string")?;
                self.sign("=")?;
                let var = self.entity(Kind::Var)?;
                if p.intrinsics.insert(name, var).is_some() {
                    return Err(self.error_at(at, "a second variable of that P4 name", "leave one of them out"));
                }
            }
            "field_list" => {
                let number = self.int()?;
                let vars = self.list("{", "}", |p| p.entity(Kind::Var))?;
                if p.field_lists.insert(number, vars).is_some() {
                    return Err(self.error_at(at, "a second field list of that number", "give it another number"));
                }
            }
            "type" => {
                let (name, ty) = self.named_type()?;
                let annotations = self.annotations()?;
                if !annotations.is_empty() {
                    p.type_annotations.insert(name.clone(), annotations);
                }
                p.named_types.push((name, ty));
            }
            "mapping" => {
                let (name, strings) = self.mapping()?;
                if p.mappings.insert(name, strings).is_some() {
                    return Err(self.error_at(at, "a second mapping of that type", "put all its strings in one"));
                }
            }
            "controller_header" => p.controller_headers.push(self.controller_header()?),
            "extern" => _ = p.externs.push(self.extern_inst()?),
            "value_set" => _ = p.value_sets.push(self.value_set()?),
            "action" => _ = p.actions.push(self.action()?),
            "table" => _ = p.tables.push(self.table()?),
            "control" => _ = p.controls.push(self.control()?),
            _ => {
                let message = format!("{} declares nothing", self.tokens[at].kind.describe());
                return Err(self.error_at(at, message, "start the line with var, header, table, control, ..."));
            }
        }
        Ok(())
    }

    fn names_in_braces(&mut self) -> Res<Vec<String>> {
        self.list("{", "}", |p| p.plain_name("a name"))
    }

    fn header_type(&mut self) -> Res<HeaderType> {
        let name = self.declared_name()?;
        self.sign("{")?;
        let mut fields = Vec::new();
        while !self.eat_sign("}") {
            let name = self.plain_name("a field's name or `}`")?;
            self.sign(":")?;
            fields.push(HeaderField { name, ty: self.ty()? });
        }
        Ok(HeaderType { name, fields })
    }

    fn var(&mut self) -> Res<Var> {
        let name = self.declared_name()?;
        self.sign(":")?;
        let ty = self.ty()?;
        let at = self.at;
        let kind = match self.word("what the variable is")? {
            "field" => VarKind::Field(self.entity(Kind::Header)?, self.int()?),
            "meta" => VarKind::Meta,
            "intrinsic" => VarKind::Intrinsic,
            "local" => VarKind::Local,
            "next_index" => VarKind::NextIndex(self.entity(Kind::Stack)?),
            _ => {
                let message = format!("{} is no kind of variable", self.tokens[at].kind.describe());
                return Err(self.error_at(at, message, "it is one of field, meta, intrinsic, local, next_index"));
            }
        };
        Ok(Var { name, ty, kind, loc: self.loc()? })
    }

    fn header(&mut self) -> Res<Header> {
        let name = self.declared_name()?;
        self.sign(":")?;
        let ty = self.entity(Kind::HeaderType)?;
        let fields = self.list("{", "}", Self::var_range)?.into_iter().flatten().collect();
        let union = if self.eat_word("union") { Some(self.entity(Kind::Union)?) } else { None };
        Ok(Header { name, ty, fields, union, local: self.eat_word("local") })
    }

    /// `$a`, or `$a .. $b` for all variables from one to the other.
    fn var_range(&mut self) -> Res<Vec<VarId>> {
        let at = self.at;
        let first: VarId = self.entity(Kind::Var)?;
        if !self.eat_sign("..") {
            return Ok(vec![first]);
        }
        let last: VarId = self.entity(Kind::Var)?;
        let count = last.index().checked_sub(first.index()).map_or(0, |n| n + 1);
        self.expanded = self.expanded.saturating_add(count);
        if count == 0 {
            return Err(self.error_at(
                at,
                "the range goes backwards",
                "put the variable that is declared first on the left",
            ));
        }
        if last.index() >= self.names.count(Kind::Var) || self.expanded > MAX_EXPANDED {
            return Err(self.error_at(at, "the range is too long", "list the variables one by one"));
        }
        Ok((first.0..=last.0).map(VarId).collect())
    }

    fn named_type(&mut self) -> Res<(String, NamedType)> {
        let name = self.string("the type's name, as a string")?;
        let at = self.at;
        let ty = match self.word("what the type is")? {
            "struct" => NamedType::Struct(self.data_members()?),
            "header" => NamedType::Header(self.data_members()?),
            "union" => NamedType::Union(self.list("{", "}", |p| {
                let name = p.plain_name("a member's name")?;
                p.sign(":")?;
                Ok((name, p.string("the header type's name, as a string")?))
            })?),
            "enum" => NamedType::Enum(self.names_in_braces()?),
            "serializable_enum" => {
                let width = self.int()?;
                let members = self.list("{", "}", |p| {
                    let name = p.plain_name("a member's name")?;
                    p.sign("=")?;
                    Ok((name, p.big()?))
                })?;
                NamedType::SerializableEnum(width, members)
            }
            "new_type" => {
                let ty = self.data_type(0)?;
                NamedType::NewType(ty, self.translation()?)
            }
            _ => {
                let message = format!("{} is no kind of type", self.tokens[at].kind.describe());
                let mend = "it is one of struct, header, union, enum, serializable_enum, new_type";
                return Err(self.error_at(at, message, mend));
            }
        };
        Ok((name, ty))
    }

    fn mapping(&mut self) -> Res<(String, Vec<(String, num_bigint::BigUint)>)> {
        let name = self.string("the type's name, as a string")?;
        let strings = self.list("{", "}", |p| {
            let string = p.string("a string of the control plane")?;
            p.sign("=")?;
            Ok((string, p.big()?))
        })?;
        Ok((name, strings))
    }

    fn data_members(&mut self) -> Res<Vec<(String, DataType)>> {
        self.list("{", "}", |p| {
            let name = p.plain_name("a member's name")?;
            p.sign(":")?;
            Ok((name, p.data_type(0)?))
        })
    }

    fn translation(&mut self) -> Res<Option<(String, Option<u32>)>> {
        let Some(uri) = self.string_after("translated")? else { return Ok(None) };
        let width = if self.eat_word("string") { None } else { Some(self.int()?) };
        Ok(Some((uri, width)))
    }

    fn controller_header(&mut self) -> Res<ControllerHeader> {
        let name = self.string("the header's name, as a string")?;
        let header = self.entity(Kind::HeaderType)?;
        let fields = self.params()?;
        Ok(ControllerHeader { preamble: self.preamble(name)?, header, fields })
    }

    fn value_set(&mut self) -> Res<ValueSet> {
        let name = self.declared_name()?;
        self.keyword("size")?;
        let size = self.int()?;
        let preamble = self.preamble(name)?;
        let loc = self.loc()?;
        self.sign("{")?;
        let mut keys = Vec::new();
        while !self.eat_sign("}") {
            self.keyword("key")?;
            keys.push(self.key()?);
        }
        Ok(ValueSet { preamble, size, keys, loc })
    }

    pub fn key(&mut self) -> Res<Key> {
        let name = self.string("the key's name, as a string")?;
        self.sign(":")?;
        let ty = self.ty()?;
        let kind = self.choice("how the key is matched")?;
        let type_name = self.string_after("type")?;
        let id = self.int_or("id", 0)?;
        Ok(Key { name, ty, kind, type_name, id, annotations: self.annotations()? })
    }

    fn params(&mut self) -> Res<Vec<Param>> {
        self.list("(", ")", |p| {
            let name = p.plain_name("a parameter's name")?;
            p.sign(":")?;
            let ty = p.ty()?;
            let type_name = p.string_after("type")?;
            let id = p.int_or("id", 0)?;
            Ok(Param { name, ty, type_name, id, annotations: p.annotations()? })
        })
    }

    fn action(&mut self) -> Res<Action> {
        let name = self.declared_name()?;
        let params = self.params()?;
        let preamble = self.preamble(name)?;
        Ok(Action { preamble, params, loc: self.loc()? })
    }
}
