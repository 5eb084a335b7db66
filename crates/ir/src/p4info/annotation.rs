//! Annotations as text: selection for P4Info, and parsing of structured annotations.

use super::model::{AnnotationBody, Annotations, Documentation, Expression, StructuredAnnotation};

/// An annotation split into its parts.
pub(super) struct ParsedAnnotation<'a> {
    pub name: &'a str,
    /// Text within brackets or parentheses; empty if there are none.
    pub body: &'a str,
    /// `@name[...]`, as opposed to `@name(...)`.
    pub structured: bool,
}

impl<'a> ParsedAnnotation<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim().strip_prefix('@')?;
        let end = text.find(['(', '[']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let body = rest.get(1..rest.len().saturating_sub(1)).unwrap_or("");
        Some(ParsedAnnotation { name: name.trim(), body, structured: rest.starts_with('[') })
    }
    /// Returns the first string of the annotation, as in `@brief("...")`.
    pub fn string(&self) -> Option<String> {
        match expressions(self.body)?.into_iter().next() {
            Some(Expression::String(text)) => Some(text),
            _ => None,
        }
    }
    /// Returns the first number of the annotation, as in `@max_group_size(8)`.
    pub fn int(&self) -> Option<i64> {
        match expressions(self.body)?.into_iter().next() {
            Some(Expression::Int(value)) => Some(value),
            _ => None,
        }
    }
    pub fn pairs(&self) -> Vec<(String, Expression)> {
        pairs(self.body).unwrap_or_default()
    }
}

/// Returns all annotations of a name.
pub(super) fn find_all<'a>(annotations: &'a [String], name: &str) -> impl Iterator<Item = ParsedAnnotation<'a>> {
    annotations.iter().filter_map(|a| ParsedAnnotation::parse(a)).filter(move |a| a.name == name)
}

/// Returns the first annotation of a name.
pub(super) fn find<'a>(annotations: &'a [String], name: &str) -> Option<ParsedAnnotation<'a>> {
    find_all(annotations, name).next()
}

/// Returns the annotations that P4Info includes: all except those with P4Info fields of their own
/// and those in `but`.
pub(super) fn exported_annotations(annotations: &[String], but: &[&str]) -> Annotations {
    let mut shown = Annotations::default();
    for text in annotations {
        let Some(annotation) = ParsedAnnotation::parse(text) else { continue };
        if annotation.structured {
            shown.structured.push(parse_structured(&annotation));
        } else if !["name", "id", "brief", "description"].contains(&annotation.name) && !but.contains(&annotation.name)
        {
            shown.plain.push(text.trim().to_string());
        }
    }
    shown
}

/// Returns the texts of `@brief` and `@description`.
pub(super) fn documentation(annotations: &[String]) -> Documentation {
    let text = |name| find(annotations, name).and_then(|a| a.string()).unwrap_or_default();
    Documentation { brief: text("brief"), description: text("description") }
}

fn parse_structured(annotation: &ParsedAnnotation<'_>) -> StructuredAnnotation {
    let body = if annotation.body.trim().is_empty() {
        AnnotationBody::Empty
    } else if let Some(pairs) = pairs(annotation.body) {
        AnnotationBody::Pairs(pairs)
    } else {
        AnnotationBody::Expressions(expressions(annotation.body).unwrap_or_default())
    };
    StructuredAnnotation { name: annotation.name.to_string(), body }
}

fn expressions(text: &str) -> Option<Vec<Expression>> {
    let mut parser = ExpressionParser { rest: text, depth: 0 };
    let mut list = Vec::new();
    loop {
        list.push(parser.comparison()?);
        if parser.at_end() {
            return Some(list);
        }
        parser.eat_sign(",").then_some(())?;
    }
}

fn pairs(text: &str) -> Option<Vec<(String, Expression)>> {
    let mut parser = ExpressionParser { rest: text, depth: 0 };
    let mut list = Vec::new();
    loop {
        let key = parser.word()?.to_string();
        (parser.eat_sign("=") && !parser.rest.starts_with('=')).then_some(())?;
        list.push((key, parser.comparison()?));
        if parser.at_end() {
            return Some(list);
        }
        parser.eat_sign(",").then_some(())?;
    }
}

/// Parser of constant expressions in annotations: literals, arithmetic, comparison.
struct ExpressionParser<'a> {
    rest: &'a str,
    depth: u32,
}

impl<'a> ExpressionParser<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }
    fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.rest.is_empty()
    }
    fn eat_sign(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
    fn word(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
    fn comparison(&mut self) -> Option<Expression> {
        let left = self.sum()?;
        for (sign, f) in [("==", Self::equal as fn(&_, &_) -> bool), ("!=", |a, b| !Self::equal(a, b))] {
            if self.eat_sign(sign) {
                let right = self.sum()?;
                return Some(Expression::Bool(f(&left, &right)));
            }
        }
        Some(left)
    }
    fn equal(a: &Expression, b: &Expression) -> bool {
        a == b
    }
    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        loop {
            let f = if self.eat_sign("+") {
                i64::checked_add
            } else if self.eat_sign("-") {
                i64::checked_sub
            } else {
                return Some(left);
            };
            left = arithmetic(f, left, self.product()?)?;
        }
    }
    fn product(&mut self) -> Option<Expression> {
        let mut left = self.primary()?;
        loop {
            let f = if self.eat_sign("*") {
                i64::checked_mul
            } else if self.eat_sign("/") {
                i64::checked_div
            } else if self.eat_sign("%") {
                i64::checked_rem
            } else {
                return Some(left);
            };
            left = arithmetic(f, left, self.primary()?)?;
        }
    }
    /// Parses a literal, a negation or an expression in parentheses; `None` for anything else. The
    /// nesting is limited, because annotations can be hostile.
    fn primary(&mut self) -> Option<Expression> {
        self.depth += 1;
        let value = if self.depth > 32 {
            None
        } else if self.eat_sign("(") {
            self.comparison().filter(|_| self.eat_sign(")"))
        } else if self.eat_sign("-") {
            arithmetic(i64::checked_sub, Expression::Int(0), self.primary()?)
        } else if self.eat_sign("\"") {
            self.string()
        } else {
            match self.word()? {
                "true" => Some(Expression::Bool(true)),
                "false" => Some(Expression::Bool(false)),
                word => parse_integer(word).map(Expression::Int),
            }
        };
        self.depth -= 1;
        value
    }
    /// Parses a string after its opening quote. As in p4c, an escaped character keeps its
    /// backslash.
    fn string(&mut self) -> Option<Expression> {
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        })?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Some(Expression::String(text.to_owned()))
    }
}

fn arithmetic(f: fn(i64, i64) -> Option<i64>, a: Expression, b: Expression) -> Option<Expression> {
    match (a, b) {
        (Expression::Int(a), Expression::Int(b)) => f(a, b).map(Expression::Int),
        _ => None,
    }
}

/// Parses a P4 integer literal: `12`, `8w0xff`, `0b1_0`.
fn parse_integer(word: &str) -> Option<i64> {
    let digits = match word.find(['w', 's']).filter(|n| *n > 0 && word[..*n].bytes().all(|b| b.is_ascii_digit())) {
        Some(n) => &word[n + 1..],
        None => word,
    };
    let digits = digits.replace('_', "").to_ascii_lowercase();
    let (digits, radix) = match digits.get(..2) {
        Some("0x") => (&digits[2..], 16),
        Some("0b") => (&digits[2..], 2),
        Some("0o") => (&digits[2..], 8),
        Some("0d") => (&digits[2..], 10),
        _ => (&digits[..], 10),
    };
    i64::from_str_radix(digits, radix).ok()
}
