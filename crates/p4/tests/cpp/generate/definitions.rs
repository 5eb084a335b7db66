//! Generates definitions of macros.

use super::Generator;
use super::words::*;

impl Generator<'_> {
    pub fn define(&mut self) {
        let function = self.random.once_in(2);
        let mut text = String::from("define ");
        let mut params: Vec<&str> = Vec::new();
        let name = if self.random.once_in(6) {
            self.name()
        } else {
            self.random.pick(if function { FUNCTIONS } else { OBJECTS }).to_owned()
        };
        text.push_str(&name);
        if function {
            params = ["x", "y", "z"][..self.random.below(4)].to_vec();
            let mut listed: Vec<String> = params.iter().map(|param| (*param).to_owned()).collect();
            match self.random.below(6) {
                0 | 1 => {
                    listed.push("...".to_owned());
                    params.push("__VA_ARGS__");
                }
                2 => {
                    listed.push("r...".to_owned());
                    params.push("r");
                }
                _ => {}
            }
            if self.wrong(10) {
                listed.push(self.random.pick(&["x", "1", "", "... ", "(", "x y", "\"s\""]).to_owned());
            }
            let comma = self.random.pick(&[",", ", ", " , "]);
            text.push_str(&format!("({})", listed.join(comma)));
        }
        if self.wrong(14) {
            let glued = self.random.pick(&["+", "@", "\"s\"", "$", "é", "'"]);
            text.push_str(glued);
        } else if !function || self.random.once_in(2) {
            text.push(' ');
        }
        let outer = std::mem::take(&mut self.out);
        self.body(&params);
        let body = std::mem::replace(&mut self.out, outer);
        let body = body.replace("\n", " ");
        text.push_str(&body);
        self.directive(&text);
    }

    /// Writes the body of a macro with these parameters.
    fn body(&mut self, params: &[&str]) {
        let count = self.random.below(8);
        for at in 0..count {
            match self.random.below(12) {
                0..=3 if !params.is_empty() => {
                    let param = self.random.pick(params);
                    self.push(param);
                }
                4 if !params.is_empty() => {
                    let param = self.random.pick(params);
                    self.push("#");
                    self.gap();
                    self.push(param);
                }
                5 | 6 if (at > 0 && at + 1 < count) || self.wrong(8) => {
                    self.gap();
                    let paste = self.random.pick(&["##", "##", "##", "## ##", "#", "# ##"]);
                    self.push(paste);
                    self.gap();
                    let after = if params.is_empty() { "i" } else { self.random.pick(params) };
                    self.push(after);
                }
                7 if params.last().is_some_and(|last| matches!(*last, "__VA_ARGS__" | "r")) => self.va_opt(params),
                8 if params.len() > 1 => {
                    let last = params[params.len() - 1];
                    self.push(", ##");
                    self.gap();
                    self.push(last);
                }
                _ => self.token(),
            }
            if self.random.once_in(2) {
                self.push(" ");
            }
        }
    }

    fn va_opt(&mut self, params: &[&str]) {
        let before = self.random.pick(&["", "", "#", "x ## ", " "]);
        self.push(before);
        self.push("__VA_OPT__");
        if !self.wrong(8) {
            self.push("(");
        }
        for _ in 0..self.random.below(4) {
            match self.random.below(5) {
                0 => self.push("(x)"),
                1 => self.push(" i ## x "),
                2 if self.wrong(4) => self.push("##"),
                _ => {
                    let param = self.random.pick(params);
                    self.push(param);
                    self.gap();
                }
            }
        }
        if !self.wrong(8) {
            self.push(")");
        }
        let after = self.random.pick(&["", "", " ## y", "e"]);
        self.push(after);
    }
}
