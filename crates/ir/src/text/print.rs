//! Printing: names, types, constants; what all declarations share.

use super::resolve::{Kind, Names};
use crate::declared::{DataType, Loc, Preamble};
use crate::entity::Entity;
use crate::externs::ExternKind;
use crate::pipeline::Pipeline;
use crate::types::{Const, Type};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::fmt::{Display, Write};

/// What to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// Source positions. Without them the text reads better, and parses to a pipeline without positions.
    pub locs: bool,
}

/// Prints all there is: [`super::parse()`] gives back an equal pipeline.
///
/// A result that is missing in its body's value table (the verifier refuses it) has no type to print, and does not parse.
pub fn print(pipeline: &Pipeline) -> String {
    print_with(pipeline, PrintOptions { locs: true })
}

/// Prints with options.
pub fn print_with(pipeline: &Pipeline, options: PrintOptions) -> String {
    let mut printer = Printer { out: String::new(), pipeline, names: Names::of_pipeline(pipeline), options };
    printer.pipeline();
    printer.out
}

pub(super) struct Printer<'p> {
    pub out: String,
    pub pipeline: &'p Pipeline,
    pub names: Names,
    pub options: PrintOptions,
}

impl Printer<'_> {
    /// Appends; writing to a string does not fail.
    pub fn put(&mut self, text: impl Display) {
        let _ = write!(self.out, "{text}");
    }
    /// `text`, then a line end.
    pub fn line(&mut self, text: impl Display) {
        self.put(text);
        self.out.push('\n');
    }
    /// ` @file:line:column`, unless there is no position.
    pub fn loc(&mut self, loc: Loc) {
        if self.options.locs && loc != Loc::default() {
            self.put(format_args!(" @{}:{}:{}", loc.file, loc.line, loc.column));
        }
    }
    /// A reference to an entity: `$name` where that is unambiguous, else `var12`.
    pub fn entity<E: Entity + Display>(&mut self, kind: Kind, entity: E) {
        match self.names.name(kind, entity.index()) {
            Some(name) => {
                let text = dollar(name);
                self.put(text);
            }
            None => self.put(entity),
        }
    }
    /// `first, second, ...`
    pub fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                self.put(", ");
            }
            each(self, item);
        }
    }
    pub fn ty(&mut self, ty: Type) {
        match ty {
            Type::Bool => self.put("bool"),
            Type::Bit(w) => self.put(format_args!("bit<{w}>")),
            Type::Int(w) => self.put(format_args!("int<{w}>")),
            Type::Varbit(w) => self.put(format_args!("varbit<{w}>")),
            Type::Error => self.put("error"),
            Type::Enum(id) => self.entity(Kind::Enum, id),
        }
    }
    /// `true`, `false` or `value:type`.
    pub fn constant(&mut self, value: &Const) {
        match (value.ty, value.bits.to_u8()) {
            (Type::Bool, Some(0)) => self.put("false"),
            (Type::Bool, Some(1)) => self.put("true"),
            (ty, _) => {
                self.put(format_args!("{}:", number(&value.bits)));
                self.ty(ty);
            }
        }
    }
    /// What an ordinal constant stands for, as a comment.
    pub fn constant_comment(&mut self, value: &Const) {
        let Some(index) = value.bits.to_usize() else { return };
        let name = match value.ty {
            Type::Error => self.pipeline.errors.get(index),
            Type::Enum(id) => self.pipeline.enums.get(id).and_then(|e| e.members.get(index)),
            _ => None,
        };
        if let Some(name) = name.filter(|n| is_bare(n)) {
            let name = name.clone();
            self.put(format_args!(" // {name}"));
        }
    }
    pub fn annotations(&mut self, annotations: &[String]) {
        for annotation in annotations {
            self.put(format_args!(" annotation {}", quoted(annotation)));
        }
    }
    pub fn preamble(&mut self, preamble: &Preamble) {
        if preamble.id != 0 {
            self.put(format_args!(" id {}", preamble.id));
        }
        if preamble.hidden {
            self.put(" hidden");
        }
        if !preamble.brief.is_empty() {
            self.put(format_args!(" brief {}", quoted(&preamble.brief)));
        }
        if !preamble.description.is_empty() {
            self.put(format_args!(" description {}", quoted(&preamble.description)));
        }
        self.annotations(&preamble.annotations);
    }
    pub fn data_type(&mut self, ty: &DataType) {
        match ty {
            DataType::Bit(w) => self.put(format_args!("bit<{w}>")),
            DataType::Int(w) => self.put(format_args!("int<{w}>")),
            DataType::Varbit(w) => self.put(format_args!("varbit<{w}>")),
            DataType::Bool => self.put("bool"),
            DataType::Error => self.put("error"),
            DataType::Tuple(members) => {
                self.put("tuple(");
                self.list(members, |p, m| p.data_type(m));
                self.put(")");
            }
            DataType::Named(name) => self.put(format_args!("named {}", quoted(name))),
            DataType::Stack(name, size) => self.put(format_args!("stack {} {size}", quoted(name))),
        }
    }
    pub fn extern_kind(&mut self, kind: &ExternKind) {
        use super::words::Word;
        match kind {
            ExternKind::Counter { size, unit, index_type } => {
                self.put(format_args!("counter size {size} unit {}", unit.word()));
                self.index_type(index_type);
            }
            ExternKind::DirectCounter { unit } => self.put(format_args!("direct_counter unit {}", unit.word())),
            ExternKind::Meter { size, unit, index_type } => {
                self.put(format_args!("meter size {size} unit {}", unit.word()));
                self.index_type(index_type);
            }
            ExternKind::DirectMeter { unit } => self.put(format_args!("direct_meter unit {}", unit.word())),
            ExternKind::Register { size, elem, initial, data_type, index_type } => {
                self.put(format_args!("register size {size} elem ("));
                self.list(elem, |p, t| p.ty(*t));
                self.put(") initial (");
                self.list(initial, |p, c| p.constant(c));
                self.put(") data ");
                self.data_type(data_type);
                self.index_type(index_type);
            }
            ExternKind::ActionProfile { size } => self.put(format_args!("action_profile size {size}")),
            ExternKind::ActionSelector { algorithm, size, output_width } => {
                let algorithm = algorithm.word();
                self.put(format_args!("action_selector {algorithm} size {size} width {output_width}"));
            }
            ExternKind::Hash { algorithm, output } => {
                self.put(format_args!("hash {} ", algorithm.word()));
                self.ty(*output);
            }
            ExternKind::Checksum { algorithm, output } => {
                self.put(format_args!("checksum {} ", algorithm.word()));
                self.ty(*output);
            }
            ExternKind::InternetChecksum => self.put("internet_checksum"),
            ExternKind::Checksum16 => self.put("checksum16"),
            ExternKind::Random { min, max } => {
                self.put("random ");
                self.constant(min);
                self.put(" ");
                self.constant(max);
            }
            ExternKind::Digest { data_type, fields } => {
                self.put("digest data ");
                self.data_type(data_type);
                self.put(" fields (");
                self.list(fields, |p, t| p.ty(*t));
                self.put(")");
            }
        }
    }
    fn index_type(&mut self, name: &Option<String>) {
        if let Some(name) = name {
            self.put(format_args!(" index {}", quoted(name)));
        }
    }
}

/// Decimal up to 16 bits, then hexadecimal: masks and addresses read better so, and long ones parse in linear time.
pub(super) fn number(value: &BigUint) -> String {
    if value.bits() <= 16 { value.to_string() } else { format!("{value:#x}") }
}

/// Whether a name stands without quotes: words of letters, digits and `_`, joined by `.`, each with any number of `[digits]`.
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

/// `$name` or `$"odd name"`.
pub(super) fn dollar(name: &str) -> String {
    if is_bare(name) { format!("${name}") } else { format!("${}", quoted(name)) }
}

/// The name, quoted if it has to be.
pub(super) fn bare_or_quoted(name: &str) -> String {
    if is_bare(name) { name.to_string() } else { quoted(name) }
}

/// A string literal: `\"`, `\\`, `\n`, `\r`, `\t` and `\u{hex}` for other control characters.
pub(super) fn quoted(text: &str) -> String {
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
