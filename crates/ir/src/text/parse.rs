//! Core of the parser: tokens, references, types, constants, and recovery after errors.

use super::error::{TextError, TextResult};
use super::keywords::KeywordEnum;
use super::lex::{TextToken, TokenKind, clip_for_message, lex, line_and_column};
use super::resolve::{self, EntityKind, NameLookup, SymbolTable, numbered_index};
use crate::declaration::{DataType, Preamble, SourceLoc};
use crate::entity::Entity;
use crate::pipeline::Pipeline;
use crate::types::{Const, Type};
use num_bigint::BigUint;
use num_traits::ToPrimitive;

/// Maximum length of a text, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 1 << 24;
/// Number of errors after which the parser stops.
const MAX_ERRORS: usize = 50;
/// Maximum nesting of tuples.
const MAX_TUPLE_DEPTH: u32 = 32;

/// Parses a pipeline. The text may be arbitrary: time and memory are linear in its length, and
/// nothing panics. A parsed pipeline may still be rejected by the verifier.
///
/// # Errors
/// All errors found, at least one, in the order of the text: parsing continues at the next
/// statement.
pub fn parse(text: &str) -> Result<Pipeline, Vec<TextError>> {
    let error_at_start =
        |message: &str, help: String| vec![TextError { line: 1, col: 1, message: message.into(), help }];
    if text.len() > MAX_TEXT_BYTES {
        return Err(error_at_start("the text is too long", format!("at most {MAX_TEXT_BYTES} bytes")));
    }
    let tokens = lex(text).map_err(|e| vec![e])?;
    let mut parser =
        TextParser { text, tokens, at: 0, errors: Vec::new(), names: SymbolTable::default(), expanded_refs: 0 };
    parser.collect_names();
    let pipeline = parser.parse_pipeline();
    match pipeline {
        Some(pipeline) if parser.errors.is_empty() => Ok(pipeline),
        _ => {
            if parser.errors.is_empty() {
                return Err(error_at_start("no pipeline", "start with `pipeline \"name\" v1model`".into()));
            }
            parser.errors.sort_by_key(|e| (e.line, e.col));
            Err(parser.errors)
        }
    }
}

pub(super) struct TextParser<'a> {
    text: &'a str,
    pub tokens: Vec<TextToken<'a>>,
    pub at: usize,
    pub errors: Vec<TextError>,
    pub names: SymbolTable,
    /// Number of references expanded from ranges. It is bounded, because ranges can expand to more
    /// references than the text has bytes.
    pub expanded_refs: usize,
}

impl<'a> TextParser<'a> {
    /// Collects all names before parsing, because declarations may refer to later ones.
    fn collect_names(&mut self) {
        for pair in self.tokens.windows(2) {
            let (TokenKind::Word(word), TokenKind::Name(name)) = (&pair[0].kind, &pair[1].kind) else { continue };
            let top = pair[0].is_first_on_line && pair[0].brace_depth == 0;
            if let Some(kind) = EntityKind::ALL.into_iter().find(|k| top && k.keyword() == *word) {
                self.names.add_entity(kind, name);
            }
        }
    }
    pub fn token(&self) -> &TextToken<'a> {
        // The last token is the end, and `advance` never passes it.
        &self.tokens[self.at]
    }
    pub fn token_kind(&self) -> &TokenKind<'a> {
        &self.token().kind
    }
    pub fn advance(&mut self) -> TokenKind<'a> {
        let kind = self.token_kind().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        kind
    }
    pub fn error_at(&self, at: usize, message: impl Into<String>, help: impl Into<String>) -> TextError {
        let (line, col) = line_and_column(self.text, self.tokens[at].offset);
        TextError { line, col, message: message.into(), help: help.into() }
    }
    pub fn error(&self, message: impl Into<String>, help: impl Into<String>) -> TextError {
        self.error_at(self.at, message, help)
    }
    pub fn expected_error<T>(&self, what: &str) -> TextResult<T> {
        Err(self
            .error(format!("expected {what}, found {}", self.token_kind().describe()), format!("write {what} here")))
    }
    pub fn has_max_errors(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }
    /// Records an error and skips to the start of the next statement with at most `depth` braces
    /// around it.
    pub fn recover_from(&mut self, error: TextError, start: usize, depth: u32) {
        if !self.has_max_errors() {
            self.errors.push(error);
        }
        // At least one token is skipped, so that parsing ends.
        self.at = self.at.max(start + 1).min(self.tokens.len() - 1);
        while *self.token_kind() != TokenKind::End
            && !(self.token().is_first_on_line && self.token().brace_depth <= depth)
        {
            self.advance();
        }
        // Skips closing braces of the statement that are on a line of their own.
        while depth == 0 && self.is_sign("}") {
            self.advance();
        }
    }
    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(self.token_kind(), TokenKind::Sign(s) if *s == sign)
    }
    pub fn eat_sign(&mut self, sign: &str) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.advance();
        }
        found
    }
    pub fn expect_sign(&mut self, sign: &str) -> TextResult<()> {
        if self.eat_sign(sign) { Ok(()) } else { self.expected_error(&format!("`{sign}`")) }
    }
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.token_kind(), TokenKind::Word(w) if *w == word)
    }
    /// Consumes an optional part of a statement. It has to be on the same line, because the next
    /// line can start with the same word as a declaration.
    pub fn eat_word(&mut self, word: &str) -> bool {
        !self.token().is_first_on_line && self.eat_word_anywhere(word)
    }
    pub fn eat_word_anywhere(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }
    pub fn expect_keyword(&mut self, word: &str) -> TextResult<()> {
        if self.eat_word_anywhere(word) { Ok(()) } else { self.expected_error(&format!("`{word}`")) }
    }
    pub fn parse_word(&mut self, what: &str) -> TextResult<&'a str> {
        match self.token_kind() {
            TokenKind::Word(w) => {
                let w = *w;
                self.advance();
                Ok(w)
            }
            _ => self.expected_error(what),
        }
    }
    /// Parses a keyword of an enumeration.
    pub fn parse_keyword<T: KeywordEnum>(&mut self, what: &str) -> TextResult<T> {
        let found = match self.token_kind() {
            TokenKind::Word(w) => T::from_keyword(w),
            _ => None,
        };
        match found {
            Some(value) => {
                self.advance();
                Ok(value)
            }
            None => {
                let words: Vec<&str> = T::KEYWORDS.iter().map(|(_, w)| *w).collect();
                let message = format!("expected {what}, found {}", self.token_kind().describe());
                Err(self.error(message, format!("it is one of {}", words.join(", "))))
            }
        }
    }
    pub fn parse_string(&mut self, what: &str) -> TextResult<String> {
        match self.token_kind() {
            TokenKind::Str(_) => match self.advance() {
                TokenKind::Str(text) => Ok(text.into_owned()),
                _ => Ok(String::new()),
            },
            _ => self.expected_error(what),
        }
    }
    /// Parses a name, bare or quoted.
    pub fn parse_plain_name(&mut self, what: &str) -> TextResult<String> {
        match self.token_kind() {
            TokenKind::Word(w) => {
                let name = w.to_string();
                self.advance();
                Ok(name)
            }
            _ => self.parse_string(what),
        }
    }
    /// Parses the `$name` of a declaration.
    pub fn parse_declared_name(&mut self) -> TextResult<String> {
        match self.token_kind() {
            TokenKind::Name(_) => match self.advance() {
                TokenKind::Name(name) => Ok(name.into_owned()),
                _ => Ok(String::new()),
            },
            _ => self.expected_error("a `$name`"),
        }
    }
    pub fn parse_biguint(&mut self) -> TextResult<BigUint> {
        match self.token_kind() {
            TokenKind::Int(_) => match self.advance() {
                TokenKind::Int(value) => Ok(value),
                _ => Ok(BigUint::default()),
            },
            _ => self.expected_error("a number"),
        }
    }
    pub fn parse_int<T: TryFrom<u64>>(&mut self) -> TextResult<T> {
        let at = self.at;
        let value = self.parse_biguint()?;
        let small = value.to_u64().and_then(|v| T::try_from(v).ok());
        let bits = 8 * size_of::<T>();
        small.ok_or_else(|| self.error_at(at, "the number is too great", format!("it has to fit {bits} bits")))
    }
    pub fn parse_int_or<T: TryFrom<u64>>(&mut self, word: &str, default: T) -> TextResult<T> {
        if self.eat_word(word) { self.parse_int() } else { Ok(default) }
    }
    /// Parses `(item, ...)` between the given signs.
    pub fn parse_list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> TextResult<T>,
    ) -> TextResult<Vec<T>> {
        self.expect_sign(open)?;
        let mut items = Vec::new();
        while !self.eat_sign(close) {
            items.push(item(self)?);
            if !self.eat_sign(",") && !self.is_sign(close) {
                return self.expected_error(&format!("`,` or `{close}`"));
            }
        }
        Ok(items)
    }
    /// Parses a reference to an entity of `kind`: `$name`, or its prefix with its index, such as
    /// `var12`. An index is not checked here.
    pub fn parse_entity<E: Entity>(&mut self, kind: EntityKind) -> TextResult<E> {
        let kind_word = kind.keyword();
        let index = match self.token_kind() {
            TokenKind::Name(name) => match self.names.look_up(kind, name) {
                Some(NameLookup::One(index)) => index,
                Some(NameLookup::Ambiguous) => {
                    let message = format!("more than one {kind_word} is called `${}`", clip_for_message(name));
                    return Err(self.error(message, format!("say which: `{}0`, `{0}1`, ...", kind.prefix())));
                }
                None => {
                    let message = format!("no {kind_word} is called `${}`", clip_for_message(name));
                    return Err(
                        self.error(message, format!("declare it: `{kind_word} ${} ...`", clip_for_message(name)))
                    );
                }
            },
            TokenKind::Word(word) => match numbered_index(word, kind.prefix()) {
                Some(index) => index,
                None => return self.expected_error(&format!("a {kind_word}, as `$name` or `{}0`", kind.prefix())),
            },
            _ => return self.expected_error(&format!("a {kind_word}, as `$name` or `{}0`", kind.prefix())),
        };
        self.advance();
        Ok(resolve::entity_from_index(index))
    }
    /// Parses a numbered entity: `block3`, `v7`.
    pub fn parse_numbered<E: Entity>(&mut self, prefix: &str, what: &str) -> TextResult<E> {
        let found = match self.token_kind() {
            TokenKind::Word(word) => numbered_index(word, prefix),
            _ => None,
        };
        match found {
            Some(number) => {
                self.advance();
                Ok(resolve::entity_from_index(number))
            }
            None => self.expected_error(what),
        }
    }
    fn parse_width(&mut self) -> TextResult<u32> {
        self.expect_sign("<")?;
        let width = self.parse_int()?;
        self.expect_sign(">")?;
        Ok(width)
    }
    pub fn parse_type(&mut self) -> TextResult<Type> {
        match self.token_kind() {
            TokenKind::Word("bool") => self.advance_as(Type::Bool),
            TokenKind::Word("error") => self.advance_as(Type::Error),
            TokenKind::Word("bit") => self.advance_then(Self::parse_width).map(Type::Bit),
            TokenKind::Word("int") => self.advance_then(Self::parse_width).map(Type::Int),
            TokenKind::Word("varbit") => self.advance_then(Self::parse_width).map(Type::Varbit),
            TokenKind::Name(_) => self.parse_entity(EntityKind::Enum).map(Type::Enum),
            TokenKind::Word(w) if numbered_index(w, "enum").is_some() => {
                self.parse_entity(EntityKind::Enum).map(Type::Enum)
            }
            _ => self.expected_error("a type"),
        }
    }
    fn advance_as<T>(&mut self, value: T) -> TextResult<T> {
        self.advance();
        Ok(value)
    }
    /// Consumes a token, then continues with `f`.
    pub fn advance_then<T>(&mut self, f: impl FnOnce(&mut Self) -> TextResult<T>) -> TextResult<T> {
        self.advance();
        f(self)
    }
    pub fn parse_constant(&mut self) -> TextResult<Const> {
        if self.is_word("true") || self.is_word("false") {
            let value = self.is_word("true");
            return self.advance_as(Const::bool(value));
        }
        let bits = self.parse_biguint()?;
        self.expect_sign(":")?;
        Ok(Const { ty: self.parse_type()?, bits })
    }
    /// Parses ` @file:line:column`, or no position.
    pub fn parse_loc(&mut self) -> TextResult<SourceLoc> {
        if !self.eat_sign("@") {
            return Ok(SourceLoc::default());
        }
        let file = self.parse_int()?;
        self.expect_sign(":")?;
        let line = self.parse_int()?;
        self.expect_sign(":")?;
        Ok(SourceLoc { file, line, column: self.parse_int()? })
    }
    pub fn parse_annotations(&mut self) -> TextResult<Vec<String>> {
        let mut annotations = Vec::new();
        while self.eat_word("annotation") {
            annotations.push(self.parse_string("the annotation, as a string")?);
        }
        Ok(annotations)
    }
    pub fn parse_preamble(&mut self, name: String) -> TextResult<Preamble> {
        let id = self.parse_int_or("id", 0)?;
        let hidden = self.eat_word("hidden");
        let brief = self.parse_string_after("brief")?.unwrap_or_default();
        let description = self.parse_string_after("description")?.unwrap_or_default();
        Ok(Preamble { name, id, hidden, brief, description, annotations: self.parse_annotations()? })
    }
    pub fn parse_string_after(&mut self, word: &str) -> TextResult<Option<String>> {
        if self.eat_word(word) { self.parse_string("a string").map(Some) } else { Ok(None) }
    }
    /// Parses a data type of the control plane. `depth` is the number of tuples around it, which is
    /// limited.
    pub fn parse_data_type(&mut self, depth: u32) -> TextResult<DataType> {
        if depth > MAX_TUPLE_DEPTH {
            return Err(self.error("tuples are nested too deep", format!("at most {MAX_TUPLE_DEPTH} levels")));
        }
        match self.token_kind() {
            TokenKind::Word("bit") => self.advance_then(Self::parse_width).map(DataType::Bit),
            TokenKind::Word("int") => self.advance_then(Self::parse_width).map(DataType::Int),
            TokenKind::Word("varbit") => self.advance_then(Self::parse_width).map(DataType::Varbit),
            TokenKind::Word("bool") => self.advance_as(DataType::Bool),
            TokenKind::Word("error") => self.advance_as(DataType::Error),
            TokenKind::Word("tuple") => {
                self.advance_then(|p| p.parse_list("(", ")", |p| p.parse_data_type(depth + 1))).map(DataType::Tuple)
            }
            TokenKind::Word("named") => self.advance_then(|p| p.parse_string("the type's name")).map(DataType::Named),
            TokenKind::Word("stack") => {
                self.advance_then(|p| Ok(DataType::Stack(p.parse_string("the type's name")?, p.parse_int()?)))
            }
            _ => self.expected_error("a data type"),
        }
    }
    /// Rejects remaining tokens on a line.
    pub fn end_of_statement(&mut self) -> TextResult<()> {
        if self.token().is_first_on_line || *self.token_kind() == TokenKind::End {
            Ok(())
        } else {
            self.expected_error("the end of the line")
        }
    }
}
