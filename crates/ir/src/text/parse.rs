//! The parser's frame: tokens, references, types, constants; recovery after errors.

use super::error::{Res, TextError};
use super::lex::{Kind as Tok, Token, clip, lex, position};
use super::resolve::{self, Found, Kind, Names, numbered};
use super::words::Word;
use crate::declared::{DataType, Loc, Preamble};
use crate::entity::Entity;
use crate::pipeline::Pipeline;
use crate::types::{Const, Type};
use num_bigint::BigUint;
use num_traits::ToPrimitive;

/// Longest text, in bytes.
pub(super) const MAX_TEXT: usize = 1 << 24;
/// The parser gives up after so many errors.
const MAX_ERRORS: usize = 50;
/// How deep tuples may nest.
const MAX_DEPTH: u32 = 32;

/// Parses a pipeline. The text may be anything: time and memory are linear in its length, nothing panics, and a pipeline that
/// parses may still be one that the verifier refuses.
///
/// # Errors
/// All errors that were found, at least one, in the order of the text: parsing goes on at the next statement.
pub fn parse(text: &str) -> Result<Pipeline, Vec<TextError>> {
    let start = |message: &str, mend: String| vec![TextError { line: 1, col: 1, message: message.into(), mend }];
    if text.len() > MAX_TEXT {
        return Err(start("the text is too long", format!("at most {MAX_TEXT} bytes")));
    }
    let tokens = lex(text).map_err(|e| vec![e])?;
    let mut parser = Parser { text, tokens, at: 0, errors: Vec::new(), names: Names::default(), expanded: 0 };
    parser.collect_names();
    let pipeline = parser.pipeline();
    match pipeline {
        Some(pipeline) if parser.errors.is_empty() => Ok(pipeline),
        _ => {
            if parser.errors.is_empty() {
                return Err(start("no pipeline", "start with `pipeline \"name\" v1model`".into()));
            }
            parser.errors.sort_by_key(|e| (e.line, e.col));
            Err(parser.errors)
        }
    }
}

pub(super) struct Parser<'a> {
    text: &'a str,
    pub tokens: Vec<Token<'a>>,
    pub at: usize,
    pub errors: Vec<TextError>,
    pub names: Names,
    /// References that ranges stood for, so far: they are bounded, as ranges would make more of them than there is text.
    pub expanded: usize,
}

impl<'a> Parser<'a> {
    /// Declarations may refer to later ones, so their names are known before anything is parsed.
    fn collect_names(&mut self) {
        for pair in self.tokens.windows(2) {
            let (Tok::Word(word), Tok::Name(name)) = (&pair[0].kind, &pair[1].kind) else { continue };
            let top = pair[0].first && pair[0].depth == 0;
            if let Some(kind) = Kind::ALL.into_iter().find(|k| top && k.keyword() == *word) {
                self.names.add(kind, name);
            }
        }
    }
    pub fn token(&self) -> &Token<'a> {
        // The last token is the end, and `next` never passes it.
        &self.tokens[self.at]
    }
    pub fn kind(&self) -> &Tok<'a> {
        &self.token().kind
    }
    pub fn next(&mut self) -> Tok<'a> {
        let kind = self.kind().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        kind
    }
    pub fn error_at(&self, at: usize, message: impl Into<String>, mend: impl Into<String>) -> TextError {
        let (line, col) = position(self.text, self.tokens[at].offset);
        TextError { line, col, message: message.into(), mend: mend.into() }
    }
    pub fn error(&self, message: impl Into<String>, mend: impl Into<String>) -> TextError {
        self.error_at(self.at, message, mend)
    }
    pub fn expected<T>(&self, what: &str) -> Res<T> {
        Err(self.error(format!("expected {what}, found {}", self.kind().describe()), format!("write {what} here")))
    }
    pub fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }
    /// Records an error and goes to the start of the next statement with at most `depth` braces around it.
    pub fn recover(&mut self, error: TextError, start: usize, depth: u32) {
        if !self.is_full() {
            self.errors.push(error);
        }
        // At least one token is left behind, so that parsing ends.
        self.at = self.at.max(start + 1).min(self.tokens.len() - 1);
        while *self.kind() != Tok::End && !(self.token().first && self.token().depth <= depth) {
            self.next();
        }
        // Braces that the statement had opened and that close on a line of their own.
        while depth == 0 && self.is_sign("}") {
            self.next();
        }
    }
    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(self.kind(), Tok::Sign(s) if *s == sign)
    }
    pub fn eat_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.next();
        }
        found
    }
    pub fn sign(&mut self, sign: &str) -> Res<()> {
        if self.eat_sign(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), Tok::Word(w) if *w == word)
    }
    /// Takes an optional part of a statement. It has to be on the line that it belongs to: the next line may start with the
    /// same word, as a declaration.
    pub fn eat_word(&mut self, word: &str) -> bool {
        !self.token().first && self.eat_word_anywhere(word)
    }
    pub fn eat_word_anywhere(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }
    pub fn keyword(&mut self, word: &str) -> Res<()> {
        if self.eat_word_anywhere(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }
    pub fn word(&mut self, what: &str) -> Res<&'a str> {
        match self.kind() {
            Tok::Word(w) => {
                let w = *w;
                self.next();
                Ok(w)
            }
            _ => self.expected(what),
        }
    }
    /// A word that stands for a member of an enumeration.
    pub fn choice<T: Word>(&mut self, what: &str) -> Res<T> {
        let found = match self.kind() {
            Tok::Word(w) => T::from_word(w),
            _ => None,
        };
        match found {
            Some(value) => {
                self.next();
                Ok(value)
            }
            None => {
                let words: Vec<&str> = T::WORDS.iter().map(|(_, w)| *w).collect();
                let message = format!("expected {what}, found {}", self.kind().describe());
                Err(self.error(message, format!("it is one of {}", words.join(", "))))
            }
        }
    }
    pub fn string(&mut self, what: &str) -> Res<String> {
        match self.kind() {
            Tok::Str(_) => match self.next() {
                Tok::Str(text) => Ok(text.into_owned()),
                _ => Ok(String::new()),
            },
            _ => self.expected(what),
        }
    }
    /// A name, bare or quoted.
    pub fn plain_name(&mut self, what: &str) -> Res<String> {
        match self.kind() {
            Tok::Word(w) => {
                let name = w.to_string();
                self.next();
                Ok(name)
            }
            _ => self.string(what),
        }
    }
    /// The `$name` of a declaration.
    pub fn declared_name(&mut self) -> Res<String> {
        match self.kind() {
            Tok::Name(_) => match self.next() {
                Tok::Name(name) => Ok(name.into_owned()),
                _ => Ok(String::new()),
            },
            _ => self.expected("a `$name`"),
        }
    }
    pub fn big(&mut self) -> Res<BigUint> {
        match self.kind() {
            Tok::Int(_) => match self.next() {
                Tok::Int(value) => Ok(value),
                _ => Ok(BigUint::default()),
            },
            _ => self.expected("a number"),
        }
    }
    pub fn int<T: TryFrom<u64>>(&mut self) -> Res<T> {
        let at = self.at;
        let value = self.big()?;
        let small = value.to_u64().and_then(|v| T::try_from(v).ok());
        let bits = 8 * size_of::<T>();
        small.ok_or_else(|| self.error_at(at, "the number is too great", format!("it has to fit {bits} bits")))
    }
    pub fn int_or<T: TryFrom<u64>>(&mut self, word: &str, default: T) -> Res<T> {
        if self.eat_word(word) { self.int() } else { Ok(default) }
    }
    /// `(item, ...)` between the given signs.
    pub fn list<T>(&mut self, open: &str, close: &str, mut item: impl FnMut(&mut Self) -> Res<T>) -> Res<Vec<T>> {
        self.sign(open)?;
        let mut items = Vec::new();
        while !self.eat_sign(close) {
            items.push(item(self)?);
            if !self.eat_sign(",") && !self.is_sign(close) {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
        Ok(items)
    }
    /// A reference: `$name` or `var12`.
    pub fn entity<E: Entity>(&mut self, kind: Kind) -> Res<E> {
        let what = kind.keyword();
        let found = match self.kind() {
            Tok::Name(name) => match self.names.find(kind, name) {
                Some(Found::One(index)) => index,
                Some(Found::Ambiguous) => {
                    let message = format!("more than one {what} is called `${}`", clip(name));
                    return Err(self.error(message, format!("say which: `{}0`, `{0}1`, ...", kind.prefix())));
                }
                None => {
                    let message = format!("no {what} is called `${}`", clip(name));
                    return Err(self.error(message, format!("declare it: `{what} ${} ...`", clip(name))));
                }
            },
            Tok::Word(word) => match numbered(word, kind.prefix()) {
                Some(index) => index,
                None => return self.expected(&format!("a {what}, as `$name` or `{}0`", kind.prefix())),
            },
            _ => return self.expected(&format!("a {what}, as `$name` or `{}0`", kind.prefix())),
        };
        self.next();
        Ok(resolve::entity(found))
    }
    /// `block3`, `v7`.
    pub fn number_of<E: Entity>(&mut self, prefix: &str, what: &str) -> Res<E> {
        let found = match self.kind() {
            Tok::Word(word) => numbered(word, prefix),
            _ => None,
        };
        match found {
            Some(number) => {
                self.next();
                Ok(resolve::entity(number))
            }
            None => self.expected(what),
        }
    }
    fn width(&mut self) -> Res<u32> {
        self.sign("<")?;
        let width = self.int()?;
        self.sign(">")?;
        Ok(width)
    }
    pub fn ty(&mut self) -> Res<Type> {
        match self.kind() {
            Tok::Word("bool") => self.next_as(Type::Bool),
            Tok::Word("error") => self.next_as(Type::Error),
            Tok::Word("bit") => self.then(Self::width).map(Type::Bit),
            Tok::Word("int") => self.then(Self::width).map(Type::Int),
            Tok::Word("varbit") => self.then(Self::width).map(Type::Varbit),
            Tok::Name(_) => self.entity(Kind::Enum).map(Type::Enum),
            Tok::Word(w) if numbered(w, "enum").is_some() => self.entity(Kind::Enum).map(Type::Enum),
            _ => self.expected("a type"),
        }
    }
    fn next_as<T>(&mut self, value: T) -> Res<T> {
        self.next();
        Ok(value)
    }
    /// Takes a token, then goes on with `f`.
    pub fn then<T>(&mut self, f: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        self.next();
        f(self)
    }
    pub fn constant(&mut self) -> Res<Const> {
        if self.is_word("true") || self.is_word("false") {
            let value = self.is_word("true");
            return self.next_as(Const::bool(value));
        }
        let bits = self.big()?;
        self.sign(":")?;
        Ok(Const { ty: self.ty()?, bits })
    }
    /// ` @file:line:column`, or no position.
    pub fn loc(&mut self) -> Res<Loc> {
        if !self.eat_sign("@") {
            return Ok(Loc::default());
        }
        let file = self.int()?;
        self.sign(":")?;
        let line = self.int()?;
        self.sign(":")?;
        Ok(Loc { file, line, column: self.int()? })
    }
    pub fn annotations(&mut self) -> Res<Vec<String>> {
        let mut annotations = Vec::new();
        while self.eat_word("annotation") {
            annotations.push(self.string("the annotation, as a string")?);
        }
        Ok(annotations)
    }
    pub fn preamble(&mut self, name: String) -> Res<Preamble> {
        let id = self.int_or("id", 0)?;
        let hidden = self.eat_word("hidden");
        let brief = self.string_after("brief")?.unwrap_or_default();
        let description = self.string_after("description")?.unwrap_or_default();
        Ok(Preamble { name, id, hidden, brief, description, annotations: self.annotations()? })
    }
    pub fn string_after(&mut self, word: &str) -> Res<Option<String>> {
        if self.eat_word(word) { self.string("a string").map(Some) } else { Ok(None) }
    }
    pub fn data_type(&mut self, depth: u32) -> Res<DataType> {
        if depth > MAX_DEPTH {
            return Err(self.error("tuples are nested too deep", format!("at most {MAX_DEPTH} levels")));
        }
        match self.kind() {
            Tok::Word("bit") => self.then(Self::width).map(DataType::Bit),
            Tok::Word("int") => self.then(Self::width).map(DataType::Int),
            Tok::Word("varbit") => self.then(Self::width).map(DataType::Varbit),
            Tok::Word("bool") => self.next_as(DataType::Bool),
            Tok::Word("error") => self.next_as(DataType::Error),
            Tok::Word("tuple") => self.then(|p| p.list("(", ")", |p| p.data_type(depth + 1))).map(DataType::Tuple),
            Tok::Word("named") => self.then(|p| p.string("the type's name")).map(DataType::Named),
            Tok::Word("stack") => self.then(|p| Ok(DataType::Stack(p.string("the type's name")?, p.int()?))),
            _ => self.expected("a data type"),
        }
    }
    /// Refuses what is left of a line.
    pub fn end_of_statement(&mut self) -> Res<()> {
        if self.token().first || *self.kind() == Tok::End { Ok(()) } else { self.expected("the end of the line") }
    }
}
