//! Parsing bodies.

use super::error::Res;
use super::lex::Kind as Tok;
use super::parse::Parser;
use super::resolve::{Kind, numbered};
use super::words::Word;
use crate::body::*;
use crate::entity::{Block, Entity, Value};
use crate::externs::ExternFn;
use crate::pipeline::Control;
use crate::types::Type;
use std::collections::BTreeMap;

/// The types of a body's values, as definitions come along.
type Types = BTreeMap<u32, Type>;

enum Statement {
    Inst(Inst),
    Term(Term),
}

impl Parser<'_> {
    pub fn control(&mut self) -> Res<Control> {
        let start = self.at;
        let name = self.string("the control's name, as a string")?;
        let kind = self.choice("the control's role")?;
        self.sign("{")?;
        let mut body = Body::default();
        let mut types = Types::new();
        loop {
            if self.is_sign("}") {
                let ends = self.token().depth == 0;
                self.next();
                // Otherwise it closes a statement that had an error.
                if ends {
                    break;
                }
                continue;
            }
            if *self.kind() == Tok::End || self.is_full() {
                return self.expected("`}` at the end of the control");
            }
            let at = self.at;
            let result = self.body_line(&mut body, &mut types).and_then(|()| self.end_of_statement());
            if let Err(error) = result {
                self.recover(error, at, 1);
                // What is left of this control ended inside the statement: the next declaration is here.
                if self.token().depth == 0 && !self.is_sign("}") {
                    break;
                }
            }
        }
        for (expected, (number, ty)) in (0..).zip(types) {
            if expected != number && self.errors.is_empty() {
                let mend =
                    format!("values are numbered from v0 without gaps; `unused v{expected}: bool` keeps a number");
                return Err(self.error_at(start, format!("v{expected} is not defined in this control"), mend));
            }
            body.values.push(ty);
        }
        Ok(Control { name, kind, body })
    }

    fn body_line(&mut self, body: &mut Body, types: &mut Types) -> Res<()> {
        match self.kind() {
            Tok::Word("entry") => self.then(|p| {
                body.entry = if p.eat_word("none") { None } else { Some(p.block()?) };
                Ok(())
            }),
            Tok::Word("state") => self.then(|p| {
                let name = p.string("the state's name, as a string")?;
                let block = p.block()?;
                body.states.push(State { name, block, loc: p.loc()? });
                Ok(())
            }),
            Tok::Word("unused") => self.then(|p| p.definition(types).map(drop)),
            Tok::Word(word) if numbered(word, "block").is_some() => self.block_head(body, types),
            _ => self.statement(body, types),
        }
    }

    fn block(&mut self) -> Res<Block> {
        self.number_of("block", "a block, as `block0`")
    }

    fn value(&mut self) -> Res<Value> {
        self.number_of("v", "a value, as `v0`")
    }

    fn definition(&mut self, types: &mut Types) -> Res<Value> {
        let at = self.at;
        let value = self.value()?;
        self.sign(":")?;
        let ty = self.ty()?;
        match types.insert(value.0, ty) {
            Some(other) if other != ty => Err(self.error_at(
                at,
                format!("{value} is defined with two types"),
                "give each definition its own number",
            )),
            _ => Ok(value),
        }
    }

    fn block_head(&mut self, body: &mut Body, types: &mut Types) -> Res<()> {
        let at = self.at;
        let block = self.block()?;
        let expected = body.blocks.next_key();
        let params = if self.is_sign("(") { self.list("(", ")", |p| p.definition(types))? } else { Vec::new() };
        self.sign(":")?;
        body.blocks.push(BlockData { params, ..BlockData::default() });
        if block != expected {
            return Err(self.error_at(at, format!("{block} stands where {expected} should"), "number blocks in order"));
        }
        Ok(())
    }

    fn statement(&mut self, body: &mut Body, types: &mut Types) -> Res<()> {
        let at = self.at;
        let mut results = Vec::new();
        let defines = matches!(self.kind(), Tok::Word(word) if numbered(word, "v").is_some());
        if defines {
            results.push(self.definition(types)?);
            while self.eat_sign(",") {
                results.push(self.definition(types)?);
            }
            self.sign("=")?;
        }
        let statement = self.operation()?;
        let loc = self.loc()?;
        let Some(last) = body.blocks.len().checked_sub(1) else {
            return Err(self.error_at(at, "an instruction before the first block", "start with `block0:`"));
        };
        let data = &mut body.blocks[Block::from_index(last)];
        match statement {
            _ if data.term.is_some() => {
                Err(self.error_at(at, "an instruction after the block's end", "start the next block before it"))
            }
            Statement::Inst(inst) => {
                data.insts.push(InstData { inst, results, loc });
                Ok(())
            }
            Statement::Term(_) if !results.is_empty() => {
                Err(self.error_at(at, "a terminator has no results", "remove what is left of `=`"))
            }
            Statement::Term(term) => {
                data.term = Some(TermData { term, loc });
                Ok(())
            }
        }
    }

    fn operation(&mut self) -> Res<Statement> {
        let at = self.at;
        let word = self.word("an instruction")?;
        if let Some(op) = UnaryOp::from_word(word) {
            return Ok(Statement::Inst(Inst::Unary(op, self.value()?)));
        }
        if let Some(op) = BinaryOp::from_word(word) {
            let (a, b) = self.pair(Self::value, Self::value)?;
            return Ok(Statement::Inst(Inst::Binary(op, a, b)));
        }
        if let Some(term) = self.terminator(word)? {
            return Ok(Statement::Term(term));
        }
        match self.instruction(word)? {
            Some(inst) => Ok(Statement::Inst(inst)),
            None => {
                let message = format!("{} is no instruction", self.tokens[at].kind.describe());
                Err(self.error_at(at, message, "the instructions are listed in docs/ir.md"))
            }
        }
    }

    fn pair<A, B>(
        &mut self,
        first: impl FnOnce(&mut Self) -> Res<A>,
        second: impl FnOnce(&mut Self) -> Res<B>,
    ) -> Res<(A, B)> {
        let a = first(self)?;
        self.sign(",")?;
        Ok((a, second(self)?))
    }

    fn instruction(&mut self, word: &str) -> Res<Option<Inst>> {
        Ok(Some(match word {
            "const" => Inst::Const(self.constant()?),
            "load" => Inst::Load(self.entity(Kind::Var)?),
            "store" => {
                let (var, value) = self.pair(|p| p.entity(Kind::Var), Self::value)?;
                Inst::Store(var, value)
            }
            "cast" => {
                let (ty, value) = self.pair(Self::ty, Self::value)?;
                Inst::Cast(ty, value)
            }
            "slice" => {
                let (value, (hi, lo)) = self.pair(Self::value, |p| p.pair(Self::int, Self::int))?;
                Inst::Slice { value, hi, lo }
            }
            "concat" => {
                let (a, b) = self.pair(Self::value, Self::value)?;
                Inst::Concat(a, b)
            }
            "select" => {
                let (cond, (then, els)) = self.pair(Self::value, |p| p.pair(Self::value, Self::value))?;
                Inst::Select { cond, then, els }
            }
            "is_valid" => Inst::IsValid(self.entity(Kind::Header)?),
            "set_valid" => Inst::SetValid(self.entity(Kind::Header)?),
            "set_invalid" => Inst::SetInvalid(self.entity(Kind::Header)?),
            "copy_header" => {
                let (dst, src) = self.pair(|p| p.entity(Kind::Header), |p| p.entity(Kind::Header))?;
                Inst::CopyHeader { dst, src }
            }
            "extract" => Inst::Extract(self.entity(Kind::Header)?),
            "extract_varbit" => {
                let (header, bits) = self.pair(|p| p.entity(Kind::Header), Self::value)?;
                Inst::ExtractVarbit(header, bits)
            }
            "advance" => Inst::Advance(self.value()?),
            "lookahead" => Inst::Lookahead(self.ty()?),
            "verify" => {
                let (cond, error) = self.pair(Self::value, Self::value)?;
                Inst::Verify(cond, error)
            }
            "packet_length" => Inst::PacketLength,
            "in_value_set" => Inst::InValueSet(self.entity(Kind::ValueSet)?, self.values()?),
            "emit" => Inst::Emit(self.entity(Kind::Header)?),
            "call" => self.extern_call()?,
            _ => return Ok(None),
        }))
    }

    fn extern_call(&mut self) -> Res<Inst> {
        let at = self.at;
        let name = self.word("an extern function")?;
        let func = ExternFn::from_name(name).ok_or_else(|| {
            let message = format!("{} is no extern function", self.tokens[at].kind.describe());
            self.error_at(at, message, "the functions are listed in docs/ir.md")
        })?;
        let object = if self.is_sign("(") { None } else { Some(self.entity(Kind::Extern)?) };
        Ok(Inst::Extern { object, func, args: self.list("(", ")", Self::arg)? })
    }

    fn values(&mut self) -> Res<Vec<Value>> {
        self.list("(", ")", Self::value)
    }

    fn arg(&mut self) -> Res<Arg> {
        match self.kind() {
            Tok::Str(_) => self.string("a string").map(Arg::Str),
            Tok::Sign("(") => self.values().map(Arg::Values),
            Tok::Word("vars") => self.then(|p| p.list("(", ")", |p| p.entity(Kind::Var))).map(Arg::Vars),
            Tok::Word("table") => self.then(|p| p.entity(Kind::Table)).map(Arg::Table),
            Tok::Word("action") => self.then(|p| p.entity(Kind::Action)).map(Arg::Action),
            Tok::Word(_) => self.value().map(Arg::Value),
            _ => self.expected("an argument"),
        }
    }

    fn call(&mut self) -> Res<BlockCall> {
        let block = self.block()?;
        let args = if self.is_sign("(") { self.values()? } else { Vec::new() };
        Ok(BlockCall { block, args })
    }

    fn terminator(&mut self, word: &str) -> Res<Option<Term>> {
        Ok(Some(match word {
            "jump" => Term::Jump(self.call()?),
            "branch" => {
                let (cond, (then, els)) = self.pair(Self::value, |p| p.pair(Self::call, Self::call))?;
                Term::Branch { cond, then, els }
            }
            "switch" => self.switch()?,
            "apply" => {
                let table = self.entity(Kind::Table)?;
                let keys = self.values()?;
                self.sign("{")?;
                let mut arms = Vec::new();
                while !self.eat_sign("}") {
                    let action = self.entity(Kind::Action)?;
                    self.sign("=>")?;
                    arms.push(Arm { action, block: self.block()? });
                }
                Term::Apply { table, keys, arms }
            }
            "return" => Term::Return,
            "exit" => Term::Exit,
            "reject" => Term::Reject,
            _ => return Ok(None),
        }))
    }

    fn switch(&mut self) -> Res<Term> {
        let value = self.value()?;
        self.sign("{")?;
        let mut cases = Vec::new();
        while !self.eat_word_anywhere("_") {
            let constant = self.constant()?;
            self.sign("=>")?;
            cases.push((constant, self.call()?));
        }
        self.sign("=>")?;
        let default = self.call()?;
        self.sign("}")?;
        Ok(Term::Switch { value, cases, default })
    }
}
