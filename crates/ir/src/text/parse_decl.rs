//! Parser of declarations.

use super::error::TextResult;
use super::lex::TokenKind;
use super::parse::TextParser;
use super::resolve::EntityKind;
use crate::declaration::DataType;
use crate::entity::{Entity, VarId};
use crate::pipeline::*;
use crate::pipeline_builder::CORE_ERRORS;
use crate::table::{Action, MatchKey, Param};

/// Maximum number of references that all ranges of a text can expand to.
const MAX_EXPANDED_REFS: usize = 1 << 20;

impl TextParser<'_> {
    /// Parses the pipeline; `None` if its first line is invalid.
    pub fn parse_pipeline(&mut self) -> Option<Pipeline> {
        let mut pipeline = match self.parse_head() {
            Ok(pipeline) => pipeline,
            Err(error) => {
                self.errors.push(error);
                return None;
            }
        };
        let mut errors_seen = false;
        while *self.token_kind() != TokenKind::End && !self.has_max_errors() {
            let start = self.at;
            let result = self.parse_declaration(&mut pipeline, &mut errors_seen).and_then(|()| self.end_of_statement());
            if let Err(error) = result {
                self.recover_from(error, start, 0);
            }
        }
        Some(pipeline)
    }

    fn parse_head(&mut self) -> TextResult<Pipeline> {
        self.expect_keyword("pipeline")?;
        let name = self.parse_string("the pipeline's name, as a string")?;
        let pipeline = Pipeline::new(name, self.parse_keyword("the architecture")?);
        debug_assert_eq!(pipeline.errors, CORE_ERRORS);
        self.end_of_statement()?;
        Ok(pipeline)
    }

    /// Parses one declaration and adds it to the pipeline `pipeline`. `errors_seen` says whether
    /// the list of errors was already parsed, and is set by it. References can name declarations
    /// that follow.
    fn parse_declaration(&mut self, pipeline: &mut Pipeline, errors_seen: &mut bool) -> TextResult<()> {
        let start = self.at;
        match self.parse_word("a declaration")? {
            "annotation" => pipeline.annotations.push(self.parse_string("the annotation, as a string")?),
            "file" => pipeline.files.push(self.parse_string("the file's name, as a string")?),
            "errors" => {
                if std::mem::replace(errors_seen, true) {
                    return Err(self.error_at(start, "a second list of errors", "put all of them in one list"));
                }
                pipeline.errors = self.parse_names_in_braces()?;
            }
            "enum" => {
                let name = self.parse_declared_name()?;
                pipeline.enums.push(Enum { name, members: self.parse_names_in_braces()? });
            }
            "header_type" => _ = pipeline.header_types.push(self.parse_header_type()?),
            "var" => _ = pipeline.vars.push(self.parse_var()?),
            "header" => _ = pipeline.headers.push(self.parse_header()?),
            "stack" => {
                let name = self.parse_declared_name()?;
                self.expect_keyword("next")?;
                let next = self.parse_entity(EntityKind::Var)?;
                let elements = self.parse_list("{", "}", |parser| parser.parse_entity(EntityKind::Header))?;
                pipeline.stacks.push(Stack { name, elements, next });
            }
            "union" => {
                let name = self.parse_declared_name()?;
                let members = self.parse_list("{", "}", |parser| parser.parse_entity(EntityKind::Header))?;
                pipeline.unions.push(Union { name, members });
            }
            "intrinsic" => {
                let name = self.parse_string("the variable's P4 name, as a string")?;
                self.expect_sign("=")?;
                let var = self.parse_entity(EntityKind::Var)?;
                if pipeline.intrinsics.insert(name, var).is_some() {
                    return Err(self.error_at(start, "a second variable of that P4 name", "leave one of them out"));
                }
            }
            "field_list" => {
                let number = self.parse_int()?;
                let vars = self.parse_list("{", "}", |parser| parser.parse_entity(EntityKind::Var))?;
                if pipeline.field_lists.insert(number, vars).is_some() {
                    return Err(self.error_at(start, "a second field list of that number", "give it another number"));
                }
            }
            "type" => {
                let (name, ty) = self.parse_named_type()?;
                let annotations = self.parse_annotations()?;
                if !annotations.is_empty() {
                    pipeline.type_annotations.insert(name.clone(), annotations);
                }
                pipeline.named_types.push((name, ty));
            }
            "mapping" => {
                let (name, strings) = self.parse_mapping()?;
                if pipeline.mappings.insert(name, strings).is_some() {
                    return Err(self.error_at(start, "a second mapping of that type", "put all its strings in one"));
                }
            }
            "controller_header" => pipeline.controller_headers.push(self.parse_controller_header()?),
            "extern" => _ = pipeline.externs.push(self.parse_extern_inst()?),
            "value_set" => _ = pipeline.value_sets.push(self.parse_value_set()?),
            "action" => _ = pipeline.actions.push(self.parse_action()?),
            "table" => _ = pipeline.tables.push(self.parse_table()?),
            "control" => _ = pipeline.controls.push(self.parse_control()?),
            _ => {
                let message = format!("{} declares nothing", self.tokens[start].kind.describe());
                return Err(self.error_at(start, message, "start the line with var, header, table, control, ..."));
            }
        }
        Ok(())
    }

    fn parse_names_in_braces(&mut self) -> TextResult<Vec<String>> {
        self.parse_list("{", "}", |p| p.parse_plain_name("a name"))
    }

    fn parse_header_type(&mut self) -> TextResult<HeaderType> {
        let name = self.parse_declared_name()?;
        self.expect_sign("{")?;
        let mut fields = Vec::new();
        while !self.eat_sign("}") {
            let name = self.parse_plain_name("a field's name or `}`")?;
            self.expect_sign(":")?;
            fields.push(HeaderField { name, ty: self.parse_type()? });
        }
        Ok(HeaderType { name, fields })
    }

    fn parse_var(&mut self) -> TextResult<Var> {
        let name = self.parse_declared_name()?;
        self.expect_sign(":")?;
        let ty = self.parse_type()?;
        let at = self.at;
        let kind = match self.parse_word("what the variable is")? {
            "field" => VarKind::Field(self.parse_entity(EntityKind::Header)?, self.parse_int()?),
            "meta" => VarKind::Meta,
            "intrinsic" => VarKind::Intrinsic,
            "local" => VarKind::Local,
            "next_index" => VarKind::NextIndex(self.parse_entity(EntityKind::Stack)?),
            _ => {
                let message = format!("{} is no kind of variable", self.tokens[at].kind.describe());
                return Err(self.error_at(at, message, "it is one of field, meta, intrinsic, local, next_index"));
            }
        };
        Ok(Var { name, ty, kind, loc: self.parse_loc()? })
    }

    fn parse_header(&mut self) -> TextResult<Header> {
        let name = self.parse_declared_name()?;
        self.expect_sign(":")?;
        let ty = self.parse_entity(EntityKind::HeaderType)?;
        let fields = self.parse_list("{", "}", Self::parse_var_range)?.into_iter().flatten().collect();
        let union = if self.eat_word("union") { Some(self.parse_entity(EntityKind::Union)?) } else { None };
        Ok(Header { name, ty, fields, union, local: self.eat_word("local") })
    }

    /// Parses `$a`, or `$a .. $b` for all variables from one to the other.
    fn parse_var_range(&mut self) -> TextResult<Vec<VarId>> {
        let start = self.at;
        let first: VarId = self.parse_entity(EntityKind::Var)?;
        if !self.eat_sign("..") {
            return Ok(vec![first]);
        }
        let last: VarId = self.parse_entity(EntityKind::Var)?;
        let count = last.index().checked_sub(first.index()).map_or(0, |n| n + 1);
        // A short text could name the same long range often, so the sum of all ranges is limited.
        self.expanded_refs = self.expanded_refs.saturating_add(count);
        if count == 0 {
            return Err(self.error_at(
                start,
                "the range goes backwards",
                "put the variable that is declared first on the left",
            ));
        }
        if last.index() >= self.names.entity_count(EntityKind::Var) || self.expanded_refs > MAX_EXPANDED_REFS {
            return Err(self.error_at(start, "the range is too long", "list the variables one by one"));
        }
        Ok((first.0..=last.0).map(VarId).collect())
    }

    /// Parses `"name" kind { members }` after the keyword `type`: a named type of the control
    /// plane.
    fn parse_named_type(&mut self) -> TextResult<(String, NamedType)> {
        let name = self.parse_string("the type's name, as a string")?;
        let kind_start = self.at;
        let ty = match self.parse_word("what the type is")? {
            "struct" => NamedType::Struct(self.parse_data_members()?),
            "header" => NamedType::Header(self.parse_data_members()?),
            "union" => NamedType::Union(self.parse_list("{", "}", |p| {
                let name = p.parse_plain_name("a member's name")?;
                p.expect_sign(":")?;
                Ok((name, p.parse_string("the header type's name, as a string")?))
            })?),
            "enum" => NamedType::Enum(self.parse_names_in_braces()?),
            "serializable_enum" => {
                let width = self.parse_int()?;
                let members = self.parse_list("{", "}", |p| {
                    let name = p.parse_plain_name("a member's name")?;
                    p.expect_sign("=")?;
                    Ok((name, p.parse_biguint()?))
                })?;
                NamedType::SerializableEnum(width, members)
            }
            "new_type" => {
                let ty = self.parse_data_type(0)?;
                NamedType::NewType(ty, self.parse_translation()?)
            }
            _ => {
                let message = format!("{} is no kind of type", self.tokens[kind_start].kind.describe());
                let help = "it is one of struct, header, union, enum, serializable_enum, new_type";
                return Err(self.error_at(kind_start, message, help));
            }
        };
        Ok((name, ty))
    }

    fn parse_mapping(&mut self) -> TextResult<(String, Vec<(String, num_bigint::BigUint)>)> {
        let name = self.parse_string("the type's name, as a string")?;
        let strings = self.parse_list("{", "}", |p| {
            let string = p.parse_string("a string of the control plane")?;
            p.expect_sign("=")?;
            Ok((string, p.parse_biguint()?))
        })?;
        Ok((name, strings))
    }

    fn parse_data_members(&mut self) -> TextResult<Vec<(String, DataType)>> {
        self.parse_list("{", "}", |p| {
            let name = p.parse_plain_name("a member's name")?;
            p.expect_sign(":")?;
            Ok((name, p.parse_data_type(0)?))
        })
    }

    fn parse_translation(&mut self) -> TextResult<Option<(String, Option<u32>)>> {
        let Some(uri) = self.parse_string_after("translated")? else { return Ok(None) };
        let width = if self.eat_word("string") { None } else { Some(self.parse_int()?) };
        Ok(Some((uri, width)))
    }

    fn parse_controller_header(&mut self) -> TextResult<ControllerHeader> {
        let name = self.parse_string("the header's name, as a string")?;
        let header = self.parse_entity(EntityKind::HeaderType)?;
        let fields = self.parse_params()?;
        Ok(ControllerHeader { preamble: self.parse_preamble(name)?, header, fields })
    }

    fn parse_value_set(&mut self) -> TextResult<ValueSet> {
        let name = self.parse_declared_name()?;
        self.expect_keyword("size")?;
        let size = self.parse_int()?;
        let preamble = self.parse_preamble(name)?;
        let loc = self.parse_loc()?;
        self.expect_sign("{")?;
        let mut keys = Vec::new();
        while !self.eat_sign("}") {
            self.expect_keyword("key")?;
            keys.push(self.parse_key()?);
        }
        Ok(ValueSet { preamble, size, keys, loc })
    }

    pub fn parse_key(&mut self) -> TextResult<MatchKey> {
        let name = self.parse_string("the key's name, as a string")?;
        self.expect_sign(":")?;
        let ty = self.parse_type()?;
        let kind = self.parse_keyword("how the key is matched")?;
        let type_name = self.parse_string_after("type")?;
        let id = self.parse_int_or("id", 0)?;
        Ok(MatchKey { name, ty, kind, type_name, id, annotations: self.parse_annotations()? })
    }

    fn parse_params(&mut self) -> TextResult<Vec<Param>> {
        self.parse_list("(", ")", |p| {
            let name = p.parse_plain_name("a parameter's name")?;
            p.expect_sign(":")?;
            let ty = p.parse_type()?;
            let type_name = p.parse_string_after("type")?;
            let id = p.parse_int_or("id", 0)?;
            Ok(Param { name, ty, type_name, id, annotations: p.parse_annotations()? })
        })
    }

    fn parse_action(&mut self) -> TextResult<Action> {
        let name = self.parse_declared_name()?;
        let params = self.parse_params()?;
        let preamble = self.parse_preamble(name)?;
        Ok(Action { preamble, params, loc: self.parse_loc()? })
    }
}
