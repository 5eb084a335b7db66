//! Formulas for the number of entries of a table, in terms of parameters of a region (`vms * (1 -
//! ipv6)`).

use std::collections::BTreeMap;
use std::fmt;

/// Maximum nesting depth of a formula.
const MAX_DEPTH: u32 = 64;

/// Formula over named parameters, with `+ - * /`, parentheses, `min(a, b)` and `max(a, b)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Formula {
    text: String,
    root: FormulaNode,
}

#[derive(Clone, PartialEq, Debug)]
enum FormulaNode {
    Number(f64),
    Name(String),
    Pair(FormulaOp, Box<(FormulaNode, FormulaNode)>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FormulaOp {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// Error in a formula.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormulaError {
    /// Syntax error.
    #[error("column {column} of `{text}`: expected {expected}")]
    Syntax {
        /// The formula.
        text: String,
        /// Column in characters, from 1.
        column: usize,
        /// Expected syntax.
        expected: &'static str,
    },
    /// A parameter has no value.
    #[error("`{text}`: there is no parameter `{name}`; known are {known}")]
    Unknown {
        /// The formula.
        text: String,
        /// Name of the parameter.
        name: String,
        /// Names of the known parameters.
        known: String,
    },
    /// The value is not a number of entries.
    #[error("`{text}` is {value}, which is no number of entries (0 to 2^40)")]
    Value {
        /// The formula.
        text: String,
        /// The value.
        value: String,
    },
}

/// Values of parameters by name.
pub type Parameters = BTreeMap<String, f64>;

impl Formula {
    /// Parses a formula.
    ///
    /// # Errors
    /// [`FormulaError::Syntax`].
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        let mut reader = FormulaParser { text, rest: text, depth: 0 };
        let root = reader.parse_sum()?;
        match reader.peek() {
            None => Ok(Formula { text: text.to_owned(), root }),
            Some(_) => Err(reader.expected("an operator (+ - * /) or the end")),
        }
    }

    /// Returns a constant formula.
    pub fn from_number(value: f64) -> Formula {
        Formula { text: value.to_string(), root: FormulaNode::Number(value) }
    }

    /// Evaluates the formula, rounded up to whole entries.
    ///
    /// # Errors
    /// [`FormulaError::Unknown`], [`FormulaError::Value`].
    pub fn entry_count(&self, parameters: &Parameters) -> Result<u64, FormulaError> {
        let value = self.value(&self.root, parameters)?;
        // Tolerates rounding errors of the arithmetic.
        let whole = (value - 1e-6).ceil().max(0.0);
        match value.is_finite() && value >= -1e-6 && whole <= (1u64 << 40) as f64 {
            true => Ok(whole as u64),
            false => Err(FormulaError::Value { text: self.text.clone(), value: value.to_string() }),
        }
    }

    /// Returns the value of a node with the parameters.
    fn value(&self, node: &FormulaNode, parameters: &Parameters) -> Result<f64, FormulaError> {
        let (op, operands) = match node {
            FormulaNode::Number(value) => return Ok(*value),
            FormulaNode::Name(name) => {
                return parameters.get(name).copied().ok_or_else(|| FormulaError::Unknown {
                    text: self.text.clone(),
                    name: name.clone(),
                    known: parameters.keys().cloned().collect::<Vec<_>>().join(", "),
                });
            }
            FormulaNode::Pair(op, operands) => (op, operands),
        };
        let (a, b) = (self.value(&operands.0, parameters)?, self.value(&operands.1, parameters)?);
        Ok(match op {
            FormulaOp::Add => a + b,
            FormulaOp::Sub => a - b,
            FormulaOp::Mul => a * b,
            FormulaOp::Div => a / b,
            FormulaOp::Min => a.min(b),
            FormulaOp::Max => a.max(b),
        })
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct FormulaParser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: u32,
}

impl FormulaParser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn consume_char(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expected(&self, expected: &'static str) -> FormulaError {
        let column = self.text[..self.text.len() - self.rest.len()].chars().count() + 1;
        FormulaError::Syntax { text: self.text.to_owned(), column, expected }
    }

    fn parse_sum(&mut self) -> Result<FormulaNode, FormulaError> {
        let mut left = self.parse_product()?;
        loop {
            let op = match self.peek() {
                Some('+') => FormulaOp::Add,
                Some('-') => FormulaOp::Sub,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = FormulaNode::Pair(op, Box::new((left, self.parse_product()?)));
        }
    }

    fn parse_product(&mut self) -> Result<FormulaNode, FormulaError> {
        let mut left = self.parse_factor()?;
        loop {
            let op = match self.peek() {
                Some('*') => FormulaOp::Mul,
                Some('/') => FormulaOp::Div,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = FormulaNode::Pair(op, Box::new((left, self.parse_factor()?)));
        }
    }

    /// Parses a number, a parameter, a negation or an expression in parentheses.
    fn parse_factor(&mut self) -> Result<FormulaNode, FormulaError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.expected("fewer parentheses: at most 64 in each other"));
        }
        let node = match self.peek() {
            Some('(') => {
                self.rest = &self.rest[1..];
                let inner = self.parse_sum()?;
                self.expect_closing()?;
                inner
            }
            Some('-') => {
                self.rest = &self.rest[1..];
                FormulaNode::Pair(FormulaOp::Sub, Box::new((FormulaNode::Number(0.0), self.parse_factor()?)))
            }
            Some(c) if c.is_ascii_digit() => self.parse_number()?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.parse_name()?,
            _ => return Err(self.expected("a number, a parameter or `(`")),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn expect_closing(&mut self) -> Result<(), FormulaError> {
        match self.consume_char(')') {
            true => Ok(()),
            false => Err(self.expected("`)`")),
        }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.to_owned()
    }

    fn parse_number(&mut self) -> Result<FormulaNode, FormulaError> {
        let error = self.expected("a number such as 1_000_000, 0.25 or 2M");
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_' || c == '.').replace('_', "");
        let value: f64 = digits.parse().map_err(|_| error)?;
        let scale = match self.rest.chars().next() {
            Some('k') => 1e3,
            Some('M') => 1e6,
            _ => return Ok(FormulaNode::Number(value)),
        };
        self.rest = &self.rest[1..];
        Ok(FormulaNode::Number(value * scale))
    }

    fn parse_name(&mut self) -> Result<FormulaNode, FormulaError> {
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let op = match name.as_str() {
            "min" => FormulaOp::Min,
            "max" => FormulaOp::Max,
            _ => return Ok(FormulaNode::Name(name)),
        };
        if !self.consume_char('(') {
            return Err(self.expected("`(`: min and max are functions"));
        }
        let a = self.parse_sum()?;
        if !self.consume_char(',') {
            return Err(self.expected("`,`"));
        }
        let b = self.parse_sum()?;
        self.expect_closing()?;
        Ok(FormulaNode::Pair(op, Box::new((a, b))))
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
        let of =
            |text: &str| Formula::parse(text).unwrap().entry_count(&with(&[("vms", 1e6), ("ipv6", 0.25)])).unwrap();
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
        let error = Formula::parse("vm / 0").unwrap().entry_count(&with(&[("vms", 1.0)])).unwrap_err();
        assert_eq!(error.to_string(), "`vm / 0`: there is no parameter `vm`; known are vms");
        let error = Formula::parse("1 / 0").unwrap().entry_count(&with(&[])).unwrap_err();
        assert_eq!(error.to_string(), "`1 / 0` is inf, which is no number of entries (0 to 2^40)");
        assert!(Formula::parse("0 - 5").unwrap().entry_count(&with(&[])).is_err());
    }
}
