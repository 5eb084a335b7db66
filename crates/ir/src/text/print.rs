//! Core of the printer: names, types, constants, and the common parts of declarations.

use super::resolve::{EntityKind, SymbolTable};
use crate::declaration::{DataType, Preamble, SourceLoc};
use crate::entity::Entity;
use crate::externs::ExternKind;
use crate::pipeline::Pipeline;
use crate::types::{Const, Type};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::fmt::{Display, Write};

/// Options of the printer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// Prints source positions. Without them the text reads better, and parses to a pipeline
    /// without positions.
    pub locs: bool,
}

/// Prints a complete pipeline: [`super::parse()`] returns an equal one.
///
/// A result that is missing in its body's value table (the verifier rejects it) has no type to
/// print, and does not parse.
pub fn print(pipeline: &Pipeline) -> String {
    print_with(pipeline, PrintOptions { locs: true })
}

/// Prints with options.
pub fn print_with(pipeline: &Pipeline, options: PrintOptions) -> String {
    let mut printer = TextPrinter { out: String::new(), pipeline, names: SymbolTable::of_pipeline(pipeline), options };
    printer.print_pipeline();
    printer.out
}

pub(super) struct TextPrinter<'p> {
    pub out: String,
    pub pipeline: &'p Pipeline,
    pub names: SymbolTable,
    pub options: PrintOptions,
}

impl TextPrinter<'_> {
    /// Appends text; writing to a string does not fail.
    pub fn write_text(&mut self, text: impl Display) {
        let _ = write!(self.out, "{text}");
    }
    /// Appends `text` and a line end.
    pub fn write_line(&mut self, text: impl Display) {
        self.write_text(text);
        self.out.push('\n');
    }
    /// Prints ` @file:line:column`, unless there is no position.
    pub fn print_loc(&mut self, loc: SourceLoc) {
        if self.options.locs && loc != SourceLoc::default() {
            self.write_text(format_args!(" @{}:{}:{}", loc.file, loc.line, loc.column));
        }
    }
    /// Prints a reference to an entity: `$name` where that is unambiguous, else `var12`.
    pub fn print_entity<E: Entity + Display>(&mut self, kind: EntityKind, entity: E) {
        match self.names.unique_name(kind, entity.index()) {
            Some(name) => {
                let text = dollar_name(name);
                self.write_text(text);
            }
            None => self.write_text(entity),
        }
    }
    /// Prints `first, second, ...`
    pub fn print_list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                self.write_text(", ");
            }
            each(self, item);
        }
    }
    pub fn print_type(&mut self, ty: Type) {
        match ty {
            Type::Bool => self.write_text("bool"),
            Type::Bit(w) => self.write_text(format_args!("bit<{w}>")),
            Type::Int(w) => self.write_text(format_args!("int<{w}>")),
            Type::Varbit(w) => self.write_text(format_args!("varbit<{w}>")),
            Type::Error => self.write_text("error"),
            Type::Enum(id) => self.print_entity(EntityKind::Enum, id),
        }
    }
    /// Prints `true`, `false` or `value:type`.
    pub fn print_constant(&mut self, value: &Const) {
        match (value.ty, value.bits.to_u8()) {
            (Type::Bool, Some(0)) => self.write_text("false"),
            (Type::Bool, Some(1)) => self.write_text("true"),
            (ty, _) => {
                self.write_text(format_args!("{}:", format_number(&value.bits)));
                self.print_type(ty);
            }
        }
    }
    /// Prints the name of an ordinal constant as a comment.
    pub fn print_constant_comment(&mut self, value: &Const) {
        let Some(index) = value.bits.to_usize() else { return };
        let name = match value.ty {
            Type::Error => self.pipeline.errors.get(index),
            Type::Enum(id) => self.pipeline.enums.get(id).and_then(|e| e.members.get(index)),
            _ => None,
        };
        if let Some(name) = name.filter(|n| is_bare(n)) {
            let name = name.clone();
            self.write_text(format_args!(" // {name}"));
        }
    }
    pub fn print_annotations(&mut self, annotations: &[String]) {
        for annotation in annotations {
            self.write_text(format_args!(" annotation {}", quote_string(annotation)));
        }
    }
    pub fn print_preamble(&mut self, preamble: &Preamble) {
        if preamble.id != 0 {
            self.write_text(format_args!(" id {}", preamble.id));
        }
        if preamble.hidden {
            self.write_text(" hidden");
        }
        if !preamble.brief.is_empty() {
            self.write_text(format_args!(" brief {}", quote_string(&preamble.brief)));
        }
        if !preamble.description.is_empty() {
            self.write_text(format_args!(" description {}", quote_string(&preamble.description)));
        }
        self.print_annotations(&preamble.annotations);
    }
    pub fn print_data_type(&mut self, ty: &DataType) {
        match ty {
            DataType::Bit(w) => self.write_text(format_args!("bit<{w}>")),
            DataType::Int(w) => self.write_text(format_args!("int<{w}>")),
            DataType::Varbit(w) => self.write_text(format_args!("varbit<{w}>")),
            DataType::Bool => self.write_text("bool"),
            DataType::Error => self.write_text("error"),
            DataType::Tuple(members) => {
                self.write_text("tuple(");
                self.print_list(members, |p, m| p.print_data_type(m));
                self.write_text(")");
            }
            DataType::Named(name) => self.write_text(format_args!("named {}", quote_string(name))),
            DataType::Stack(name, size) => self.write_text(format_args!("stack {} {size}", quote_string(name))),
        }
    }
    /// Prints the kind of an extern object with its parameters, as the parser reads them.
    pub fn print_extern_kind(&mut self, kind: &ExternKind) {
        use super::keywords::KeywordEnum;
        match kind {
            ExternKind::Counter { size, unit, index_type } => {
                self.write_text(format_args!("counter size {size} unit {}", unit.keyword()));
                self.print_index_type(index_type);
            }
            ExternKind::DirectCounter { unit } => {
                self.write_text(format_args!("direct_counter unit {}", unit.keyword()))
            }
            ExternKind::Meter { size, unit, index_type } => {
                self.write_text(format_args!("meter size {size} unit {}", unit.keyword()));
                self.print_index_type(index_type);
            }
            ExternKind::DirectMeter { unit } => self.write_text(format_args!("direct_meter unit {}", unit.keyword())),
            ExternKind::Register { size, elem, initial, data_type, index_type } => {
                self.write_text(format_args!("register size {size} elem ("));
                self.print_list(elem, |p, t| p.print_type(*t));
                self.write_text(") initial (");
                self.print_list(initial, |p, c| p.print_constant(c));
                self.write_text(") data ");
                self.print_data_type(data_type);
                self.print_index_type(index_type);
            }
            ExternKind::ActionProfile { size } => self.write_text(format_args!("action_profile size {size}")),
            ExternKind::ActionSelector { algorithm, size, output_width } => {
                let algorithm = algorithm.keyword();
                self.write_text(format_args!("action_selector {algorithm} size {size} width {output_width}"));
            }
            ExternKind::Hash { algorithm, output } => {
                self.write_text(format_args!("hash {} ", algorithm.keyword()));
                self.print_type(*output);
            }
            ExternKind::Checksum { algorithm, output } => {
                self.write_text(format_args!("checksum {} ", algorithm.keyword()));
                self.print_type(*output);
            }
            ExternKind::InternetChecksum => self.write_text("internet_checksum"),
            ExternKind::Checksum16 => self.write_text("checksum16"),
            ExternKind::Random { min, max } => {
                self.write_text("random ");
                self.print_constant(min);
                self.write_text(" ");
                self.print_constant(max);
            }
            ExternKind::PortPool { addresses, subscribers, spaces, rest_seconds } => self.write_text(format_args!(
                "port_pool addresses {addresses} subscribers {subscribers} spaces {spaces} rest {rest_seconds}"
            )),
            ExternKind::EntryQuota { owners } => self.write_text(format_args!("entry_quota owners {owners}")),
            ExternKind::Digest { data_type, fields } => {
                self.write_text("digest data ");
                self.print_data_type(data_type);
                self.write_text(" fields (");
                self.print_list(fields, |p, t| p.print_type(*t));
                self.write_text(")");
            }
        }
    }
    fn print_index_type(&mut self, name: &Option<String>) {
        if let Some(name) = name {
            self.write_text(format_args!(" index {}", quote_string(name)));
        }
    }
}

/// Formats in decimal up to 16 bits, then in hexadecimal, because masks and addresses are easier to
/// read and long numbers parse in linear time.
pub(super) fn format_number(value: &BigUint) -> String {
    if value.bits() <= 16 { value.to_string() } else { format!("{value:#x}") }
}

/// Reports whether a name needs no quotes: words of letters, digits and `_`, joined by `.`, each
/// with any number of `[digits]`.
pub(super) fn is_bare(name: &str) -> bool {
    let part = |part: &str| {
        let (word, mut rest) = match part.find('[') {
            Some(at) => part.split_at(at),
            None => (part, ""),
        };
        while let Some((digits, tail)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return false;
            }
            rest = tail;
        }
        let starts = word.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        rest.is_empty() && starts && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    name.split('.').all(part)
}

/// Formats `$name` or `$"odd name"`.
pub(super) fn dollar_name(name: &str) -> String {
    if is_bare(name) { format!("${name}") } else { format!("${}", quote_string(name)) }
}

/// Returns the name, quoted if necessary.
pub(super) fn bare_or_quoted(name: &str) -> String {
    if is_bare(name) { name.to_string() } else { quote_string(name) }
}

/// Formats a string literal: `\"`, `\\`, `\n`, `\r`, `\t` and `\u{hex}` for other control
/// characters.
pub(super) fn quote_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
