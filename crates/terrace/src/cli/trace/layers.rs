//! Parses a packet description such as
//! `eth(dst=02:00:00:00:00:01)/ipv4(dst=10.0.0.2)/udp(dport=53)/payload(64)`. The bytes are built
//! in `build.rs`.
//!
//! A layer is a name with fields in parentheses; empty parentheses may be omitted. Layers are
//! listed from the outermost to the innermost.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Maximum number of layers of a packet.
const MAX_LAYERS: usize = 32;

/// Syntax error in a packet description, with its location.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{what}\n  {text}\n  {blank}^", blank = " ".repeat(*at))]
pub struct PacketSyntaxError {
    /// Description of the error, with the fix.
    what: String,
    /// The whole packet description.
    text: String,
    /// Location in the text, in characters.
    at: usize,
}

/// A part of the text with its location.
#[derive(Clone, Copy, Debug)]
struct TextSpan<'a> {
    text: &'a str,
    /// Byte offset in the whole text.
    at: usize,
}

impl<'a> TextSpan<'a> {
    fn part(self, from: usize, to: usize) -> TextSpan<'a> {
        TextSpan { text: &self.text[from..to], at: self.at + from }
    }

    fn trim(self) -> TextSpan<'a> {
        let text = self.text.trim_start();
        TextSpan { text: text.trim_end(), at: self.at + self.text.len() - text.len() }
    }

    /// Splits at the first `stop` outside of parentheses.
    fn split(self, stop: char) -> (TextSpan<'a>, Option<TextSpan<'a>>) {
        let mut depth = 0i32;
        for (at, character) in self.text.char_indices() {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ if character == stop && depth <= 0 => {
                    return (self.part(0, at), Some(self.part(at + stop.len_utf8(), self.text.len())));
                }
                _ => {}
            }
        }
        (self, None)
    }
}

/// A layer with its fields.
#[derive(Debug)]
pub struct PacketLayer<'a> {
    whole: &'a str,
    name: TextSpan<'a>,
    /// Name and value of each field. A value without a name has `None`.
    fields: Vec<(Option<TextSpan<'a>>, TextSpan<'a>)>,
    /// Names of the fields that were looked up. [`PacketLayer::refuse_unknown_fields`] refuses all
    /// other fields.
    known: RefCell<Vec<&'static str>>,
}

fn bad(whole: &str, at: usize, what: String) -> PacketSyntaxError {
    PacketSyntaxError { what, text: whole.to_owned(), at: whole[..at].chars().count() }
}

/// Parses a packet description.
///
/// # Errors
/// If its syntax is invalid.
pub fn parse_layers(whole: &str) -> Result<Vec<PacketLayer<'_>>, PacketSyntaxError> {
    let mut layers = Vec::new();
    let mut rest = Some(TextSpan { text: whole, at: 0 });
    while let Some(piece) = rest {
        let (one, behind) = piece.split('/');
        if layers.len() == MAX_LAYERS {
            return Err(bad(whole, one.at, format!("a packet has at most {MAX_LAYERS} layers")));
        }
        layers.push(parse_layer(whole, one.trim())?);
        rest = behind;
    }
    Ok(layers)
}

/// Parses one layer, `NAME` or `NAME(FIELD=VALUE, ...)`. `whole` is the complete description, for
/// error messages with a mark at the position.
fn parse_layer<'a>(whole: &'a str, piece: TextSpan<'a>) -> Result<PacketLayer<'a>, PacketSyntaxError> {
    let Some(open) = piece.text.find('(') else {
        if piece.text.is_empty() {
            return Err(bad(
                whole,
                piece.at,
                "a layer is missing here; write for example ipv4(dst=10.0.0.2)".to_owned(),
            ));
        }
        return Ok(PacketLayer { whole, name: piece, fields: Vec::new(), known: RefCell::default() });
    };
    if !piece.text.ends_with(')') {
        let at = piece.at + piece.text.len();
        return Err(bad(whole, at, "a `)` is missing here".to_owned()));
    }
    let mut fields = Vec::new();
    let mut remaining = Some(piece.part(open + 1, piece.text.len() - 1));
    while let Some(inner) = remaining.filter(|inner| !inner.text.trim().is_empty()) {
        let (field, after) = inner.split(',');
        let field = field.trim();
        fields.push(match field.split('=') {
            (value, None) => (None, value),
            (name, Some(value)) => (Some(name.trim()), value.trim()),
        });
        remaining = after;
    }
    Ok(PacketLayer { whole, name: piece.part(0, open).trim(), fields, known: RefCell::default() })
}

impl<'a> PacketLayer<'a> {
    /// Returns the name of the layer.
    pub fn name(&self) -> &'a str {
        self.name.text
    }

    /// Returns an error at the layer's name.
    pub fn bad(&self, what: String) -> PacketSyntaxError {
        bad(self.whole, self.name.at, what)
    }

    /// Looks up the value of a field, and marks the field as known.
    fn find(&self, name: &'static str) -> Option<TextSpan<'a>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
        self.fields.iter().find(|(own, _)| own.is_some_and(|own| own.text == name)).map(|(_, value)| *value)
    }

    /// Parses the value of a field with `read`. `form` describes a valid value for the error.
    fn read<T>(
        &self,
        name: &'static str,
        form: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, PacketSyntaxError> {
        let Some(value) = self.find(name) else { return Ok(None) };
        let wrong =
            || bad(self.whole, value.at, format!("`{}` is no {name} of {}; give {form}", value.text, self.name()));
        read(value.text).map(Some).ok_or_else(wrong)
    }

    /// Returns a number up to `most`, decimal or with 0x. `None` if the field is not given.
    pub fn number(&self, name: &'static str, most: u32) -> Result<Option<u32>, PacketSyntaxError> {
        self.read(name, &format!("a number up to {most}"), |text| number(text).filter(|value| *value <= most))
    }

    /// Returns a number up to `most`, or the default.
    pub fn number_or(&self, name: &'static str, most: u32, default: u32) -> Result<u32, PacketSyntaxError> {
        Ok(self.number(name, most)?.unwrap_or(default))
    }

    /// Returns a MAC address, or the default.
    pub fn mac_or_default(&self, name: &'static str, default: [u8; 6]) -> Result<[u8; 6], PacketSyntaxError> {
        let read = |text: &str| text.parse::<region::Mac>().ok().map(|mac| mac.0);
        Ok(self.read(name, "a MAC address such as 02:00:00:00:00:01", read)?.unwrap_or(default))
    }

    /// Returns an IPv4 address, or the default.
    pub fn ipv4_or_default(&self, name: &'static str, default: [u8; 4]) -> Result<Ipv4Addr, PacketSyntaxError> {
        Ok(self.read(name, "an IPv4 address such as 10.0.0.1", |text| text.parse().ok())?.unwrap_or(default.into()))
    }

    /// Returns an IPv6 address, or the default.
    pub fn ipv6_or_default(&self, name: &'static str, default: u128) -> Result<Ipv6Addr, PacketSyntaxError> {
        Ok(self.read(name, "an IPv6 address such as fd00::1", |text| text.parse().ok())?.unwrap_or(default.into()))
    }

    /// Returns the number of one of the names, or a number up to `most`, or the default.
    pub fn named_number(
        &self,
        name: &'static str,
        names: &[(&str, u32)],
        most: u32,
        default: u32,
    ) -> Result<u32, PacketSyntaxError> {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let form = format!("{}, or a number up to {most}", all.join(", "));
        let read = |text: &str| {
            let one = |word: &str| names.iter().find(|(name, _)| *name == word.trim()).map(|(_, value)| *value);
            let number = number(text).filter(|value| *value <= most);
            number.or_else(|| text.split('+').map(one).try_fold(0, |sum, value| Some(sum | value?)))
        };
        Ok(self.read(name, &form, read)?.unwrap_or(default))
    }

    /// Returns bytes given as hex digits.
    pub fn bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>, PacketSyntaxError> {
        self.read(name, "an even number of hex digits", packet::unhex)
    }

    /// Returns the value without a name, a number up to `most`.
    pub fn unnamed_value(&self, most: u32) -> Result<Option<u32>, PacketSyntaxError> {
        let Some((_, value)) = self.fields.iter().find(|(name, _)| name.is_none()) else { return Ok(None) };
        let wrong = || bad(self.whole, value.at, format!("`{}` is no number up to {most}", value.text));
        number(value.text).filter(|value| *value <= most).map(Some).ok_or_else(wrong)
    }

    /// Refuses fields that were never looked up, and fields given twice. `alone`: a value without a
    /// name is allowed.
    pub fn refuse_unknown_fields(&self, alone: bool) -> Result<(), PacketSyntaxError> {
        let known = self.known.borrow();
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let Some(name) = name else {
                if alone {
                    continue;
                }
                let message = format!("`{}` has no name; write FIELD={}", value.text, value.text);
                return Err(bad(self.whole, value.at, message));
            };
            if !known.contains(&name.text) {
                let message = format!("{} has no field `{}`; it has {}", self.name(), name.text, known.join(", "));
                return Err(bad(self.whole, name.at, message));
            }
            let has_same_name =
                |(other, _): &(Option<TextSpan<'_>>, TextSpan<'_>)| other.is_some_and(|other| other.text == name.text);
            if self.fields[..index].iter().any(has_same_name) {
                return Err(bad(self.whole, name.at, format!("`{}` is given twice; leave one out", name.text)));
            }
        }
        Ok(())
    }
}

/// Parses a decimal number, or a hexadecimal one with 0x.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
