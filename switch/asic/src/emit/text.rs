//! Statements as a tree, and how they are printed.

/// A statement of a control, action or parser state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Stmt {
    /// One line, with its semicolon.
    Line(String),
    /// `if`.
    If { cond: String, then: Vec<Stmt>, els: Vec<Stmt> },
    /// `switch`: labels and what is done for them.
    Switch { on: String, cases: Vec<(Vec<String>, Vec<Stmt>)> },
    /// A loop that is left by `break`.
    Loop(Vec<Stmt>),
}

/// A statement of one line.
pub(super) fn line(text: impl Into<String>) -> Stmt {
    Stmt::Line(text.into())
}

/// An `if`, in the form that reads best; nothing if it would do nothing.
pub(super) fn conditional(cond: &str, then: Vec<Stmt>, els: Vec<Stmt>) -> Vec<Stmt> {
    match (then.is_empty(), els.is_empty()) {
        (true, true) => Vec::new(),
        (true, false) => vec![Stmt::If { cond: negated(cond), then: els, els: Vec::new() }],
        // What follows a branch that does not come back needs no `else`.
        (false, false) if leaves(&then) => {
            let mut all = vec![Stmt::If { cond: cond.to_owned(), then, els: Vec::new() }];
            all.extend(els);
            all
        }
        (false, false) if leaves(&els) => {
            let mut all = vec![Stmt::If { cond: negated(cond), then: els, els: Vec::new() }];
            all.extend(then);
            all
        }
        _ => vec![Stmt::If { cond: cond.to_owned(), then, els }],
    }
}

/// A lookup that must miss is one that hits with its branches the other way round: compilers for chips make a variable and one more
/// decision of the opposite of a hit.
fn hit_first<'s>(cond: &'s str, then: &'s [Stmt], els: &'s [Stmt]) -> (&'s str, &'s [Stmt], &'s [Stmt]) {
    match cond.strip_prefix('!') {
        Some(hit) if hit.ends_with(".apply().hit") && is_primary(hit) => (hit, els, then),
        _ => (cond, then, els),
    }
}

/// Whether nothing that follows these statements is reached from them.
fn leaves(stmts: &[Stmt]) -> bool {
    match stmts.last() {
        Some(Stmt::Line(text)) => matches!(text.as_str(), "exit;" | "return;" | "break;" | "continue;"),
        Some(Stmt::If { then, els, .. }) => leaves(then) && leaves(els),
        _ => false,
    }
}

/// The opposite of a condition.
pub(super) fn negated(cond: &str) -> String {
    if let Some(opposite) = opposite(cond) {
        return opposite;
    }
    match cond.strip_prefix('!') {
        Some(inner) if is_primary(inner) => inner.to_owned(),
        _ if is_primary(cond) => format!("!{cond}"),
        _ => format!("!({cond})"),
    }
}

/// The opposite of `a == b` or `a != b`; `None` if the text is more than that.
fn opposite(cond: &str) -> Option<String> {
    let mut depth = 0;
    let mut found = Vec::new();
    for (at, c) in cond.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '&' | '|' | '?' | '<' | '>' if depth == 0 => return None,
            '=' | '!' if depth == 0 && (cond[at..].starts_with("== ") || cond[at..].starts_with("!= ")) => {
                found.push(at)
            }
            _ => {}
        }
    }
    let [at] = found[..] else { return None };
    let sign = if cond[at..].starts_with("==") { "!=" } else { "==" };
    Some(format!("{}{sign}{}", &cond[..at], &cond[at + 2..]))
}

/// Whether the text is a name, a call, or something in parentheses of its own.
fn is_primary(text: &str) -> bool {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => {
                depth -= 1;
                if depth == 0 && text.starts_with('(') && at + 1 < text.len() {
                    return false;
                }
            }
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' => {}
            _ if depth > 0 => {}
            _ => return false,
        }
    }
    true
}

/// Indented lines.
#[derive(Default)]
pub(super) struct Lines {
    /// What was written.
    pub(super) out: String,
    depth: usize,
}

impl Lines {
    /// Writes one line.
    pub(super) fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.out.push_str(&"    ".repeat(self.depth));
            self.out.push_str(text);
        }
        self.out.push('\n');
    }

    /// Writes a line that opens a block.
    pub(super) fn open(&mut self, head: &str) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
    }

    /// Closes a block.
    pub(super) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }

    /// An empty line, except behind another one or at the beginning of a block.
    pub(super) fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") && !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// Writes statements.
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Line(text) => self.line(text),
            Stmt::If { cond, then, els } => {
                let (cond, then, els) = hit_first(cond, then, els);
                self.open(&format!("if ({cond})"));
                self.stmts(then);
                self.els(els);
            }
            Stmt::Switch { on, cases } => {
                self.open(&format!("switch ({on})"));
                for (labels, body) in cases {
                    if let Some((last, first)) = labels.split_last() {
                        first.iter().for_each(|label| self.line(&format!("{label}:")));
                        self.open(&format!("{last}:"));
                        self.stmts(body);
                        self.close();
                    }
                }
                self.close();
            }
            Stmt::Loop(body) => {
                self.open("for (; true; )");
                self.stmts(body);
                self.close();
            }
        }
    }

    /// What follows the body of an `if`: `else if` as far as it goes.
    fn els(&mut self, els: &[Stmt]) {
        self.depth = self.depth.saturating_sub(1);
        match els {
            [] => self.line("}"),
            [Stmt::If { cond, then, els }] => {
                let (cond, then, els) = hit_first(cond, then, els);
                self.open(&format!("}} else if ({cond})"));
                self.stmts(then);
                self.els(els);
            }
            _ => {
                self.open("} else");
                self.stmts(els);
                self.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::negated;

    #[test]
    fn conditions_are_negated_at_the_top_only() {
        for (cond, expected) in [
            ("a == b", "a != b"),
            ("a != (b == c)", "a == (b == c)"),
            ("(bool) (a == b) < c", "!((bool) (a == b) < c)"),
            ("a == b && c", "!(a == b && c)"),
            ("!hdr.h.isValid()", "hdr.h.isValid()"),
            ("hdr.h.isValid()", "!hdr.h.isValid()"),
            ("(a) == (b)", "(a) != (b)"),
            ("(a && b)", "!(a && b)"),
        ] {
            assert_eq!(negated(cond), expected, "{cond}");
        }
    }
}
