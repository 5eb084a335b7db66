//! Parser of bodies.

use super::error::TextResult;
use super::keywords::KeywordEnum;
use super::lex::TokenKind;
use super::parse::TextParser;
use super::resolve::{EntityKind, numbered_index};
use crate::body::*;
use crate::entity::{Block, Entity, Value};
use crate::externs::ExternFn;
use crate::pipeline::Control;
use crate::types::Type;
use std::collections::BTreeMap;

/// The types of a body's values, in the order of parsing.
type ValueTypes = BTreeMap<u32, Type>;

enum Statement {
    Inst(Inst),
    Term(Terminator),
}

impl TextParser<'_> {
    /// Parses `control "name" role { body }` after its keyword. An error in a line is recorded, and
    /// parsing continues with the next one. Values are numbered `v0`, `v1`, ... over the whole
    /// control.
    pub fn parse_control(&mut self) -> TextResult<Control> {
        let start = self.at;
        let name = self.parse_string("the control's name, as a string")?;
        let kind = self.parse_keyword("the control's role")?;
        self.expect_sign("{")?;
        let mut body = Body::default();
        let mut types = ValueTypes::new();
        loop {
            if self.is_sign("}") {
                let closes_control = self.token().brace_depth == 0;
                self.advance();
                // Otherwise the brace closes a statement that had an error.
                if closes_control {
                    break;
                }
                continue;
            }
            if *self.token_kind() == TokenKind::End || self.has_max_errors() {
                return self.expected_error("`}` at the end of the control");
            }
            let line_start = self.at;
            let result = self.parse_body_line(&mut body, &mut types).and_then(|()| self.end_of_statement());
            if let Err(error) = result {
                self.recover_from(error, line_start, 1);
                // The control ended inside the erroneous statement; the next declaration starts
                // here.
                if self.token().brace_depth == 0 && !self.is_sign("}") {
                    break;
                }
            }
        }
        for (expected, (number, ty)) in (0..).zip(types) {
            if expected != number && self.errors.is_empty() {
                let help =
                    format!("values are numbered from v0 without gaps; `unused v{expected}: bool` keeps a number");
                return Err(self.error_at(start, format!("v{expected} is not defined in this control"), help));
            }
            body.values.push(ty);
        }
        Ok(Control { name, kind, body })
    }

    fn parse_body_line(&mut self, body: &mut Body, types: &mut ValueTypes) -> TextResult<()> {
        match self.token_kind() {
            TokenKind::Word("entry") => self.advance_then(|p| {
                body.entry = if p.eat_word("none") { None } else { Some(p.parse_block()?) };
                Ok(())
            }),
            TokenKind::Word("state") => self.advance_then(|p| {
                let name = p.parse_string("the state's name, as a string")?;
                let block = p.parse_block()?;
                body.states.push(ParserStateBlock { name, block, loc: p.parse_loc()? });
                Ok(())
            }),
            TokenKind::Word("unused") => self.advance_then(|p| p.parse_definition(types).map(drop)),
            TokenKind::Word(word) if numbered_index(word, "block").is_some() => self.parse_block_head(body, types),
            _ => self.parse_statement(body, types),
        }
    }

    fn parse_block(&mut self) -> TextResult<Block> {
        self.parse_numbered("block", "a block, as `block0`")
    }

    fn parse_value(&mut self) -> TextResult<Value> {
        self.parse_numbered("v", "a value, as `v0`")
    }

    fn parse_definition(&mut self, types: &mut ValueTypes) -> TextResult<Value> {
        let at = self.at;
        let value = self.parse_value()?;
        self.expect_sign(":")?;
        let ty = self.parse_type()?;
        match types.insert(value.0, ty) {
            Some(other) if other != ty => Err(self.error_at(
                at,
                format!("{value} is defined with two types"),
                "give each definition its own number",
            )),
            _ => Ok(value),
        }
    }

    fn parse_block_head(&mut self, body: &mut Body, types: &mut ValueTypes) -> TextResult<()> {
        let at = self.at;
        let block = self.parse_block()?;
        let expected = body.blocks.next_key();
        let params =
            if self.is_sign("(") { self.parse_list("(", ")", |p| p.parse_definition(types))? } else { Vec::new() };
        self.expect_sign(":")?;
        body.blocks.push(BlockData { params, ..BlockData::default() });
        if block != expected {
            return Err(self.error_at(at, format!("found {block}, expected {expected}"), "number blocks in order"));
        }
        Ok(())
    }

    /// Parses an instruction with its results, or a terminator, and adds it to the last block of
    /// `body`. The types of the results are added to `types`.
    fn parse_statement(&mut self, body: &mut Body, types: &mut ValueTypes) -> TextResult<()> {
        let start = self.at;
        let mut results = Vec::new();
        let has_results = matches!(self.token_kind(), TokenKind::Word(word) if numbered_index(word, "v").is_some());
        if has_results {
            results.push(self.parse_definition(types)?);
            while self.eat_sign(",") {
                results.push(self.parse_definition(types)?);
            }
            self.expect_sign("=")?;
        }
        let statement = self.parse_operation()?;
        let loc = self.parse_loc()?;
        let Some(last_block) = body.blocks.len().checked_sub(1) else {
            return Err(self.error_at(start, "an instruction before the first block", "start with `block0:`"));
        };
        let data = &mut body.blocks[Block::from_index(last_block)];
        match statement {
            _ if data.term.is_some() => {
                Err(self.error_at(start, "an instruction after the block's end", "start the next block before it"))
            }
            Statement::Inst(inst) => {
                data.insts.push(InstData { inst, results, loc });
                Ok(())
            }
            Statement::Term(_) if !results.is_empty() => {
                Err(self.error_at(start, "a terminator has no results", "remove the results and `=`"))
            }
            Statement::Term(term) => {
                data.term = Some(TerminatorData { term, loc });
                Ok(())
            }
        }
    }

    /// Parses an instruction or a terminator, without results.
    fn parse_operation(&mut self) -> TextResult<Statement> {
        let start = self.at;
        let word = self.parse_word("an instruction")?;
        if let Some(op) = UnaryOp::from_keyword(word) {
            return Ok(Statement::Inst(Inst::Unary(op, self.parse_value()?)));
        }
        if let Some(op) = BinaryOp::from_keyword(word) {
            let (a, b) = self.parse_pair(Self::parse_value, Self::parse_value)?;
            return Ok(Statement::Inst(Inst::Binary(op, a, b)));
        }
        if let Some(term) = self.parse_terminator(word)? {
            return Ok(Statement::Term(term));
        }
        match self.parse_instruction(word)? {
            Some(inst) => Ok(Statement::Inst(inst)),
            None => {
                let message = format!("{} is no instruction", self.tokens[start].kind.describe());
                Err(self.error_at(start, message, "the instructions are listed in docs/reference/ir.md"))
            }
        }
    }

    fn parse_pair<A, B>(
        &mut self,
        first: impl FnOnce(&mut Self) -> TextResult<A>,
        second: impl FnOnce(&mut Self) -> TextResult<B>,
    ) -> TextResult<(A, B)> {
        let a = first(self)?;
        self.expect_sign(",")?;
        Ok((a, second(self)?))
    }

    /// Parses the operands of the instruction `word`, in the order in which the printer writes
    /// them; `None` for another word.
    fn parse_instruction(&mut self, word: &str) -> TextResult<Option<Inst>> {
        Ok(Some(match word {
            "const" => Inst::Const(self.parse_constant()?),
            "load" => Inst::Load(self.parse_entity(EntityKind::Var)?),
            "store" => {
                let (var, value) = self.parse_pair(|p| p.parse_entity(EntityKind::Var), Self::parse_value)?;
                Inst::Store(var, value)
            }
            "cast" => {
                let (ty, value) = self.parse_pair(Self::parse_type, Self::parse_value)?;
                Inst::Cast(ty, value)
            }
            "slice" => {
                let (value, (hi, lo)) =
                    self.parse_pair(Self::parse_value, |p| p.parse_pair(Self::parse_int, Self::parse_int))?;
                Inst::Slice { value, hi, lo }
            }
            "concat" => {
                let (a, b) = self.parse_pair(Self::parse_value, Self::parse_value)?;
                Inst::Concat(a, b)
            }
            "select" => {
                let (cond, (then, els)) =
                    self.parse_pair(Self::parse_value, |p| p.parse_pair(Self::parse_value, Self::parse_value))?;
                Inst::Select { cond, then, els }
            }
            "is_valid" => Inst::IsValid(self.parse_entity(EntityKind::Header)?),
            "set_valid" => Inst::SetValid(self.parse_entity(EntityKind::Header)?),
            "set_invalid" => Inst::SetInvalid(self.parse_entity(EntityKind::Header)?),
            "copy_header" => {
                let (dst, src) =
                    self.parse_pair(|p| p.parse_entity(EntityKind::Header), |p| p.parse_entity(EntityKind::Header))?;
                Inst::CopyHeader { dst, src }
            }
            "extract" => Inst::Extract(self.parse_entity(EntityKind::Header)?),
            "extract_varbit" => {
                let (header, bits) = self.parse_pair(|p| p.parse_entity(EntityKind::Header), Self::parse_value)?;
                Inst::ExtractVarbit(header, bits)
            }
            "advance" => Inst::Advance(self.parse_value()?),
            "lookahead" => Inst::Lookahead(self.parse_type()?),
            "verify" => {
                let (cond, error) = self.parse_pair(Self::parse_value, Self::parse_value)?;
                Inst::Verify(cond, error)
            }
            "packet_length" => Inst::PacketLength,
            "in_value_set" => Inst::InValueSet(self.parse_entity(EntityKind::ValueSet)?, self.parse_values()?),
            "emit" => Inst::Emit(self.parse_entity(EntityKind::Header)?),
            "call" => self.parse_extern_call()?,
            _ => return Ok(None),
        }))
    }

    fn parse_extern_call(&mut self) -> TextResult<Inst> {
        let at = self.at;
        let name = self.parse_word("an extern function")?;
        let func = ExternFn::from_name(name).ok_or_else(|| {
            let message = format!("{} is no extern function", self.tokens[at].kind.describe());
            self.error_at(at, message, "the functions are listed in docs/reference/ir.md")
        })?;
        let object = if self.is_sign("(") { None } else { Some(self.parse_entity(EntityKind::Extern)?) };
        Ok(Inst::Extern { object, func, args: self.parse_list("(", ")", Self::parse_arg)? })
    }

    fn parse_values(&mut self) -> TextResult<Vec<Value>> {
        self.parse_list("(", ")", Self::parse_value)
    }

    fn parse_arg(&mut self) -> TextResult<ExternArg> {
        match self.token_kind() {
            TokenKind::Str(_) => self.parse_string("a string").map(ExternArg::Str),
            TokenKind::Sign("(") => self.parse_values().map(ExternArg::Values),
            TokenKind::Word("vars") => {
                self.advance_then(|p| p.parse_list("(", ")", |p| p.parse_entity(EntityKind::Var))).map(ExternArg::Vars)
            }
            TokenKind::Word("table") => self.advance_then(|p| p.parse_entity(EntityKind::Table)).map(ExternArg::Table),
            TokenKind::Word("action") => {
                self.advance_then(|p| p.parse_entity(EntityKind::Action)).map(ExternArg::Action)
            }
            TokenKind::Word(_) => self.parse_value().map(ExternArg::Value),
            _ => self.expected_error("an argument"),
        }
    }

    fn parse_block_call(&mut self) -> TextResult<BlockCall> {
        let block = self.parse_block()?;
        let args = if self.is_sign("(") { self.parse_values()? } else { Vec::new() };
        Ok(BlockCall { block, args })
    }

    /// Parses the operands of the terminator `word`; `None` for another word.
    fn parse_terminator(&mut self, word: &str) -> TextResult<Option<Terminator>> {
        Ok(Some(match word {
            "jump" => Terminator::Jump(self.parse_block_call()?),
            "branch" => {
                let (cond, (then, els)) = self
                    .parse_pair(Self::parse_value, |p| p.parse_pair(Self::parse_block_call, Self::parse_block_call))?;
                Terminator::Branch { cond, then, els }
            }
            "switch" => self.parse_switch()?,
            "apply" => {
                let table = self.parse_entity(EntityKind::Table)?;
                let keys = self.parse_values()?;
                self.expect_sign("{")?;
                let mut arms = Vec::new();
                while !self.eat_sign("}") {
                    let action = self.parse_entity(EntityKind::Action)?;
                    self.expect_sign("=>")?;
                    arms.push(ActionArm { action, block: self.parse_block()? });
                }
                Terminator::Apply { table, keys, arms }
            }
            "return" => Terminator::Return,
            "exit" => Terminator::Exit,
            "reject" => Terminator::Reject,
            _ => return Ok(None),
        }))
    }

    fn parse_switch(&mut self) -> TextResult<Terminator> {
        let value = self.parse_value()?;
        self.expect_sign("{")?;
        let mut cases = Vec::new();
        while !self.eat_word_anywhere("_") {
            let constant = self.parse_constant()?;
            self.expect_sign("=>")?;
            cases.push((constant, self.parse_block_call()?));
        }
        self.expect_sign("=>")?;
        let default = self.parse_block_call()?;
        self.expect_sign("}")?;
        Ok(Terminator::Switch { value, cases, default })
    }
}
