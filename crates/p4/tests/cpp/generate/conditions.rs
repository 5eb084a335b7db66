//! Generates conditionals and their expressions.

use super::Generator;
use super::words::*;

impl Generator<'_> {
    pub fn conditional(&mut self) {
        if self.depth >= 3 {
            return self.text();
        }
        self.depth += 1;
        match self.random.below(4) {
            0 => {
                let name = self.name();
                let word = self.random.pick(&["ifdef", "ifndef"]);
                self.directive(&format!("{word} {name}"));
            }
            _ => {
                let condition = self.condition();
                self.directive(&format!("if {condition}"));
            }
        }
        self.lines();
        for _ in 0..self.random.below(3) {
            match self.random.below(3) {
                0 => {
                    let name = self.name();
                    let word = self.random.pick(&["elifdef", "elifndef"]);
                    self.directive(&format!("{word} {name}"));
                }
                _ => {
                    let condition = self.condition();
                    self.directive(&format!("elif {condition}"));
                }
            }
            self.lines();
        }
        if self.random.once_in(2) {
            self.directive("else");
            self.lines();
        }
        if self.wrong(10) {
            let word = self.random.pick(&["else", "elif 1", "elifdef A", "endif", "ifdef", "ifndef 3", "if"]);
            self.directive(word);
        }
        if !self.wrong(15) {
            self.directive("endif");
        }
        self.depth -= 1;
    }

    fn lines(&mut self) {
        for _ in 0..self.random.below(3) {
            self.line();
        }
    }

    fn condition(&mut self) -> String {
        let outer = std::mem::take(&mut self.out);
        self.expression(0);
        if self.wrong(10) {
            let extra = self.random.pick(&[")", "(", " 1", " +", "@", "?", ":", "= 1", "\"s\"", "'", ", ,", "# a"]);
            self.push(extra);
        }
        let condition = std::mem::replace(&mut self.out, outer);
        condition.replace('\n', " ")
    }

    fn expression(&mut self, depth: usize) {
        match self.random.below(if depth < 4 { 14 } else { 5 }) {
            0..=4 => self.operand(),
            5 => {
                let prefix = self.random.pick(&["!", "~", "-", "+", "- -", "!!"]);
                self.push(prefix);
                self.expression(depth + 1);
            }
            6 | 7 => {
                self.push("(");
                self.expression(depth + 1);
                self.push(")");
            }
            8 => {
                self.expression(depth + 1);
                self.push(" ? ");
                self.expression(depth + 1);
                self.push(" : ");
                self.expression(depth + 1);
            }
            _ => {
                self.expression(depth + 1);
                let operator = self.random.pick(&[
                    "+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||", "<<", ">>",
                    ",",
                ]);
                self.push(" ");
                self.push(operator);
                self.push(" ");
                self.expression(depth + 1);
            }
        }
    }

    fn operand(&mut self) {
        match self.random.below(10) {
            0..=4 => {
                let value = self.random.pick(VALUES);
                self.push(value);
            }
            5 => {
                let name = self.name();
                let form = self.random.below(3);
                self.push(&match form {
                    0 => format!("defined {name}"),
                    1 => format!("defined({name})"),
                    _ => format!("defined ( {name} )"),
                });
            }
            6 => {
                let file = self.random.pick(&["\"h0\"", "<h4>", "<h0>", "\"h9\"", "<n>", "\"h4\""]);
                self.push(&format!("__has_include({file})"));
            }
            7 if self.broken => {
                let bad = self.random.pick(BAD);
                self.push(bad);
            }
            8 => {
                let name = self.random.pick(FUNCTIONS);
                self.push(&format!("{name}(1, 2)"));
            }
            _ => {
                let name = self.name();
                self.push(if name == "defined" { "A" } else { &name });
            }
        }
    }
}
