//! A packet in words: `eth(dst=02:00:00:00:00:01)/ipv4(dst=10.0.0.2)/udp(dport=53)/payload(64)`. Here is how it is read; `build.rs`
//! makes the bytes.
//!
//! A layer is a name with fields in parentheses; parentheses without fields may be left out. Layers stand from the outermost to the innermost.

use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Layers of a packet.
const MAX_LAYERS: usize = 32;

/// What is wrong with a packet in words, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{what}\n  {text}\n  {blank}^", blank = " ".repeat(*at))]
pub struct BadLayers {
    /// What, and the mend.
    what: String,
    /// The whole.
    text: String,
    /// In characters.
    at: usize,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
struct Piece<'a> {
    text: &'a str,
    /// In bytes from the beginning.
    at: usize,
}

impl<'a> Piece<'a> {
    fn part(self, from: usize, to: usize) -> Piece<'a> {
        Piece { text: &self.text[from..to], at: self.at + from }
    }

    fn trim(self) -> Piece<'a> {
        let text = self.text.trim_start();
        Piece { text: text.trim_end(), at: self.at + self.text.len() - text.len() }
    }

    /// Up to the first `stop` that is in no parentheses, and behind it.
    fn split(self, stop: char) -> (Piece<'a>, Option<Piece<'a>>) {
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
pub struct Layer<'a> {
    whole: &'a str,
    name: Piece<'a>,
    /// Name and value; a value alone has no name.
    fields: Vec<(Option<Piece<'a>>, Piece<'a>)>,
    /// The names of the fields that were asked for.
    known: RefCell<Vec<&'static str>>,
}

fn bad(whole: &str, at: usize, what: String) -> BadLayers {
    BadLayers { what, text: whole.to_owned(), at: whole[..at].chars().count() }
}

/// Reads a packet in words.
///
/// # Errors
/// If it has another form.
pub fn parse(whole: &str) -> Result<Vec<Layer<'_>>, BadLayers> {
    let mut layers = Vec::new();
    let mut rest = Some(Piece { text: whole, at: 0 });
    while let Some(piece) = rest {
        let (one, behind) = piece.split('/');
        if layers.len() == MAX_LAYERS {
            return Err(bad(whole, one.at, format!("a packet has at most {MAX_LAYERS} layers")));
        }
        layers.push(layer(whole, one.trim())?);
        rest = behind;
    }
    Ok(layers)
}

fn layer<'a>(whole: &'a str, piece: Piece<'a>) -> Result<Layer<'a>, BadLayers> {
    let Some(open) = piece.text.find('(') else {
        if piece.text.is_empty() {
            return Err(bad(
                whole,
                piece.at,
                "a layer is missing here; write for example ipv4(dst=10.0.0.2)".to_owned(),
            ));
        }
        return Ok(Layer { whole, name: piece, fields: Vec::new(), known: RefCell::default() });
    };
    if !piece.text.ends_with(')') {
        let at = piece.at + piece.text.len();
        return Err(bad(whole, at, "a `)` is missing here".to_owned()));
    }
    let mut fields = Vec::new();
    let mut rest = Some(piece.part(open + 1, piece.text.len() - 1));
    while let Some(inner) = rest.filter(|inner| !inner.text.trim().is_empty()) {
        let (one, behind) = inner.split(',');
        let one = one.trim();
        fields.push(match one.split('=') {
            (value, None) => (None, value),
            (name, Some(value)) => (Some(name.trim()), value.trim()),
        });
        rest = behind;
    }
    Ok(Layer { whole, name: piece.part(0, open).trim(), fields, known: RefCell::default() })
}

impl<'a> Layer<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name.text
    }

    /// Something is wrong with it as a whole.
    pub fn bad(&self, what: String) -> BadLayers {
        bad(self.whole, self.name.at, what)
    }

    /// The value of a field.
    fn find(&self, name: &'static str) -> Option<Piece<'a>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
        self.fields.iter().find(|(own, _)| own.is_some_and(|own| own.text == name)).map(|(_, value)| *value)
    }

    /// A field, read by `read`; what it reads is described by `form`.
    fn read<T>(
        &self,
        name: &'static str,
        form: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, BadLayers> {
        let Some(value) = self.find(name) else { return Ok(None) };
        let wrong =
            || bad(self.whole, value.at, format!("`{}` is no {name} of {}; give {form}", value.text, self.name()));
        read(value.text).map(Some).ok_or_else(wrong)
    }

    /// A number up to `most`, decimal or with 0x; `None` if it is not given.
    pub fn number(&self, name: &'static str, most: u32) -> Result<Option<u32>, BadLayers> {
        self.read(name, &format!("a number up to {most}"), |text| number(text).filter(|value| *value <= most))
    }

    /// A number that has a default.
    pub fn number_or(&self, name: &'static str, most: u32, default: u32) -> Result<u32, BadLayers> {
        Ok(self.number(name, most)?.unwrap_or(default))
    }

    /// A MAC address.
    pub fn mac(&self, name: &'static str, default: [u8; 6]) -> Result<[u8; 6], BadLayers> {
        let read = |text: &str| text.parse::<region::Mac>().ok().map(|mac| mac.0);
        Ok(self.read(name, "a MAC address such as 02:00:00:00:00:01", read)?.unwrap_or(default))
    }

    /// An IPv4 address.
    pub fn v4(&self, name: &'static str, default: [u8; 4]) -> Result<Ipv4Addr, BadLayers> {
        Ok(self.read(name, "an IPv4 address such as 10.0.0.1", |text| text.parse().ok())?.unwrap_or(default.into()))
    }

    /// An IPv6 address.
    pub fn v6(&self, name: &'static str, default: u128) -> Result<Ipv6Addr, BadLayers> {
        Ok(self.read(name, "an IPv6 address such as fd00::1", |text| text.parse().ok())?.unwrap_or(default.into()))
    }

    /// One of some names, or a number up to `most`.
    pub fn named(&self, name: &'static str, names: &[(&str, u32)], most: u32, default: u32) -> Result<u32, BadLayers> {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let form = format!("{}, or a number up to {most}", all.join(", "));
        let read = |text: &str| {
            let one = |word: &str| names.iter().find(|(name, _)| *name == word.trim()).map(|(_, value)| *value);
            let number = number(text).filter(|value| *value <= most);
            number.or_else(|| text.split('+').map(one).try_fold(0, |sum, value| Some(sum | value?)))
        };
        Ok(self.read(name, &form, read)?.unwrap_or(default))
    }

    /// Bytes as hex digits.
    pub fn bytes(&self, name: &'static str) -> Result<Option<Vec<u8>>, BadLayers> {
        self.read(name, "an even number of hex digits", packet::unhex)
    }

    /// The value that stands alone, a number up to `most`.
    pub fn alone(&self, most: u32) -> Result<Option<u32>, BadLayers> {
        let Some((_, value)) = self.fields.iter().find(|(name, _)| name.is_none()) else { return Ok(None) };
        let wrong = || bad(self.whole, value.at, format!("`{}` is no number up to {most}", value.text));
        number(value.text).filter(|value| *value <= most).map(Some).ok_or_else(wrong)
    }

    /// Refuses fields that nobody asked for.
    pub fn end(&self, alone: bool) -> Result<(), BadLayers> {
        let known = self.known.borrow();
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let Some(name) = name else {
                if alone {
                    continue;
                }
                let what = format!("`{}` has no name; write FIELD={}", value.text, value.text);
                return Err(bad(self.whole, value.at, what));
            };
            if !known.contains(&name.text) {
                let what = format!("{} has no field `{}`; it has {}", self.name(), name.text, known.join(", "));
                return Err(bad(self.whole, name.at, what));
            }
            let same = |(other, _): &(Option<Piece<'_>>, Piece<'_>)| other.is_some_and(|other| other.text == name.text);
            if self.fields[..index].iter().any(same) {
                return Err(bad(self.whole, name.at, format!("`{}` is given twice; leave one out", name.text)));
            }
        }
        Ok(())
    }
}

/// Decimal, or hexadecimal with 0x.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
