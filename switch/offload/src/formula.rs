//! Formulas: how many entries a table holds, in terms of what the region has (`vms * (1 - ipv6)`).

use std::collections::BTreeMap;
use std::fmt;

/// Deepest nesting of a formula.
const MAX_DEPTH: u32 = 64;

/// A formula over named parameters, with `+ - * /`, parentheses, `min(a, b)` and `max(a, b)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Formula {
    text: String,
    root: Node,
}

#[derive(Clone, PartialEq, Debug)]
enum Node {
    Number(f64),
    Name(String),
    Pair(Op, Box<(Node, Node)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// What is wrong with a formula, with the column (from 1) where that is known.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormulaError {
    /// It cannot be read.
    #[error("column {column} of `{text}`: expected {expected}")]
    Form {
        /// The formula.
        text: String,
        /// Where, in characters from 1.
        column: usize,
        /// What was expected.
        expected: &'static str,
    },
    /// A parameter has no value.
    #[error("`{text}`: there is no parameter `{name}`; known are {known}")]
    Unknown {
        /// The formula.
        text: String,
        /// The parameter.
        name: String,
        /// Those that have a value.
        known: String,
    },
    /// The value is no number of entries.
    #[error("`{text}` is {value}, which is no number of entries (0 to 2^40)")]
    Value {
        /// The formula.
        text: String,
        /// What came out.
        value: String,
    },
}

/// Values of parameters by name.
pub type Parameters = BTreeMap<String, f64>;

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// [`FormulaError::Form`].
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        let mut reader = Reader { text, rest: text, depth: 0 };
        let root = reader.sum()?;
        match reader.peek() {
            None => Ok(Formula { text: text.to_owned(), root }),
            Some(_) => Err(reader.expected("an operator (+ - * /) or the end")),
        }
    }

    /// A plain number.
    pub fn number(value: f64) -> Formula {
        Formula { text: value.to_string(), root: Node::Number(value) }
    }

    /// Its value, rounded up to whole entries.
    ///
    /// # Errors
    /// [`FormulaError::Unknown`], [`FormulaError::Value`].
    pub fn entries(&self, parameters: &Parameters) -> Result<u64, FormulaError> {
        let value = self.value(&self.root, parameters)?;
        // What is a whole number but for rounding stays that number.
        let whole = (value - 1e-6).ceil().max(0.0);
        match value.is_finite() && value >= -1e-6 && whole <= (1u64 << 40) as f64 {
            true => Ok(whole as u64),
            false => Err(FormulaError::Value { text: self.text.clone(), value: value.to_string() }),
        }
    }

    fn value(&self, node: &Node, parameters: &Parameters) -> Result<f64, FormulaError> {
        let (op, pair) = match node {
            Node::Number(value) => return Ok(*value),
            Node::Name(name) => {
                return parameters.get(name).copied().ok_or_else(|| FormulaError::Unknown {
                    text: self.text.clone(),
                    name: name.clone(),
                    known: parameters.keys().cloned().collect::<Vec<_>>().join(", "),
                });
            }
            Node::Pair(op, pair) => (op, pair),
        };
        let (a, b) = (self.value(&pair.0, parameters)?, self.value(&pair.1, parameters)?);
        Ok(match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div => a / b,
            Op::Min => a.min(b),
            Op::Max => a.max(b),
        })
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expected(&self, expected: &'static str) -> FormulaError {
        let column = self.text[..self.text.len() - self.rest.len()].chars().count() + 1;
        FormulaError::Form { text: self.text.to_owned(), column, expected }
    }

    fn sum(&mut self) -> Result<Node, FormulaError> {
        let mut left = self.product()?;
        loop {
            let op = match self.peek() {
                Some('+') => Op::Add,
                Some('-') => Op::Sub,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = Node::Pair(op, Box::new((left, self.product()?)));
        }
    }

    fn product(&mut self) -> Result<Node, FormulaError> {
        let mut left = self.factor()?;
        loop {
            let op = match self.peek() {
                Some('*') => Op::Mul,
                Some('/') => Op::Div,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = Node::Pair(op, Box::new((left, self.factor()?)));
        }
    }

    fn factor(&mut self) -> Result<Node, FormulaError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.expected("fewer parentheses: at most 64 in each other"));
        }
        let node = match self.peek() {
            Some('(') => {
                self.rest = &self.rest[1..];
                let inner = self.sum()?;
                self.closing()?;
                inner
            }
            Some('-') => {
                self.rest = &self.rest[1..];
                Node::Pair(Op::Sub, Box::new((Node::Number(0.0), self.factor()?)))
            }
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.name()?,
            _ => return Err(self.expected("a number, a parameter or `(`")),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn closing(&mut self) -> Result<(), FormulaError> {
        match self.eat(')') {
            true => Ok(()),
            false => Err(self.expected("`)`")),
        }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.to_owned()
    }

    fn number(&mut self) -> Result<Node, FormulaError> {
        let error = self.expected("a number such as 1_000_000, 0.25 or 2M");
        let digits = self.take(|c| c.is_ascii_digit() || c == '_' || c == '.').replace('_', "");
        let value: f64 = digits.parse().map_err(|_| error)?;
        let scale = match self.rest.chars().next() {
            Some('k') => 1e3,
            Some('M') => 1e6,
            _ => return Ok(Node::Number(value)),
        };
        self.rest = &self.rest[1..];
        Ok(Node::Number(value * scale))
    }

    fn name(&mut self) -> Result<Node, FormulaError> {
        let name = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        let op = match name.as_str() {
            "min" => Op::Min,
            "max" => Op::Max,
            _ => return Ok(Node::Name(name)),
        };
        if !self.eat('(') {
            return Err(self.expected("`(`: min and max are functions"));
        }
        let a = self.sum()?;
        if !self.eat(',') {
            return Err(self.expected("`,`"));
        }
        let b = self.sum()?;
        self.closing()?;
        Ok(Node::Pair(op, Box::new((a, b))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, f64)]) -> Parameters {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn arithmetic_is_that_of_school() {
        let of = |text: &str| Formula::parse(text).unwrap().entries(&with(&[("vms", 1e6), ("ipv6", 0.25)])).unwrap();
        assert_eq!(of("vms * (1 - ipv6)"), 750_000);
        assert_eq!(of("2 + 3 * 4 - 6 / 2"), 11);
        assert_eq!(of("10 - 3 - 2"), 5);
        assert_eq!(of("max(min(vms, 5k), 2_000)"), 5_000);
        assert_eq!(of("7 / 2"), 4, "whole entries, rounded up");
        assert_eq!(of("0.1 * 30"), 3, "not 4, though 0.1 is a little more than a tenth");
        assert_eq!(of("1.5M"), 1_500_000);
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let wrong = |text: &str| Formula::parse(text).unwrap_err().to_string();
        assert_eq!(wrong("vms * "), "column 7 of `vms * `: expected a number, a parameter or `(`");
        assert_eq!(wrong("(1 + 2"), "column 7 of `(1 + 2`: expected `)`");
        assert_eq!(wrong("1 2"), "column 3 of `1 2`: expected an operator (+ - * /) or the end");
        assert!(wrong(&"(".repeat(100_000)).contains("fewer parentheses"));
        let error = Formula::parse("vm / 0").unwrap().entries(&with(&[("vms", 1.0)])).unwrap_err();
        assert_eq!(error.to_string(), "`vm / 0`: there is no parameter `vm`; known are vms");
        let error = Formula::parse("1 / 0").unwrap().entries(&with(&[])).unwrap_err();
        assert_eq!(error.to_string(), "`1 / 0` is inf, which is no number of entries (0 to 2^40)");
        assert!(Formula::parse("0 - 5").unwrap().entries(&with(&[])).is_err());
    }
}
