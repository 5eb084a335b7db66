//! Statement tree and its printer.

/// Statement of a control, action or parser state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum P4Stmt {
    /// One line, including its semicolon.
    Line(String),
    /// `if`.
    If { cond: String, then: Vec<P4Stmt>, els: Vec<P4Stmt> },
    /// `switch` with the labels and the code of each case.
    Switch { on: String, cases: Vec<(Vec<String>, Vec<P4Stmt>)> },
    /// Loop that ends by `break`.
    Loop(Vec<P4Stmt>),
}

/// Returns a one-line statement.
pub(super) fn line(text: impl Into<String>) -> P4Stmt {
    P4Stmt::Line(text.into())
}

/// Returns an `if` in its most readable form; no statement if both branches are empty.
pub(super) fn conditional(cond: &str, then: Vec<P4Stmt>, els: Vec<P4Stmt>) -> Vec<P4Stmt> {
    match (then.is_empty(), els.is_empty()) {
        (true, true) => Vec::new(),
        (true, false) => vec![P4Stmt::If { cond: negated(cond), then: els, els: Vec::new() }],
        // If a branch never completes, the other branch follows it without `else`.
        (false, false) if never_completes(&then) => {
            let mut all = vec![P4Stmt::If { cond: cond.to_owned(), then, els: Vec::new() }];
            all.extend(els);
            all
        }
        (false, false) if never_completes(&els) => {
            let mut all = vec![P4Stmt::If { cond: negated(cond), then: els, els: Vec::new() }];
            all.extend(then);
            all
        }
        _ => vec![P4Stmt::If { cond: cond.to_owned(), then, els }],
    }
}

/// Turns `if (!t.apply().hit)` into a test of the hit with swapped branches, because chip compilers
/// implement the negation with a variable and an additional decision.
fn hit_first<'s>(cond: &'s str, then: &'s [P4Stmt], els: &'s [P4Stmt]) -> (&'s str, &'s [P4Stmt], &'s [P4Stmt]) {
    match cond.strip_prefix('!') {
        Some(hit) if hit.ends_with(".apply().hit") && is_primary(hit) => (hit, els, then),
        _ => (cond, then, els),
    }
}

/// Returns whether the statements never complete normally.
fn never_completes(stmts: &[P4Stmt]) -> bool {
    match stmts.last() {
        Some(P4Stmt::Line(text)) => matches!(text.as_str(), "exit;" | "return;" | "break;" | "continue;"),
        Some(P4Stmt::If { then, els, .. }) => never_completes(then) && never_completes(els),
        _ => false,
    }
}

/// Negates a condition.
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

/// Returns the negation of `a == b` or `a != b`; `None` for other text.
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

/// Returns whether the text is a name, a call or a parenthesised expression.
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

/// Indented text.
#[derive(Default)]
pub(super) struct IndentedText {
    /// Text emitted so far.
    pub(super) out: String,
    depth: usize,
}

impl IndentedText {
    /// Emits a line.
    pub(super) fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.out.push_str(&"    ".repeat(self.depth));
            self.out.push_str(text);
        }
        self.out.push('\n');
    }

    /// Emits a line that opens a block.
    pub(super) fn open_block(&mut self, head: &str) {
        self.line(&format!("{head} {{"));
        self.depth += 1;
    }

    /// Closes a block.
    pub(super) fn close_block(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }

    /// Emits an empty line, except after another one or at the start of a block.
    pub(super) fn separate(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") && !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// Emits statements.
    pub(super) fn stmts(&mut self, stmts: &[P4Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    /// Prints a statement with its nested ones.
    fn stmt(&mut self, stmt: &P4Stmt) {
        match stmt {
            P4Stmt::Line(text) => self.line(text),
            P4Stmt::If { cond, then, els } => {
                let (cond, then, els) = hit_first(cond, then, els);
                self.open_block(&format!("if ({cond})"));
                self.stmts(then);
                self.end_if(els);
            }
            P4Stmt::Switch { on, cases } => {
                self.open_block(&format!("switch ({on})"));
                for (labels, body) in cases {
                    if let Some((last, first)) = labels.split_last() {
                        first.iter().for_each(|label| self.line(&format!("{label}:")));
                        self.open_block(&format!("{last}:"));
                        self.stmts(body);
                        self.close_block();
                    }
                }
                self.close_block();
            }
            P4Stmt::Loop(body) => {
                self.open_block("for (; true; )");
                self.stmts(body);
                self.close_block();
            }
        }
    }

    /// Emits the end of an `if`, as `else if` where possible.
    fn end_if(&mut self, els: &[P4Stmt]) {
        self.depth = self.depth.saturating_sub(1);
        match els {
            [] => self.line("}"),
            [P4Stmt::If { cond, then, els }] => {
                let (cond, then, els) = hit_first(cond, then, els);
                self.open_block(&format!("}} else if ({cond})"));
                self.stmts(then);
                self.end_if(els);
            }
            _ => {
                self.open_block("} else");
                self.stmts(els);
                self.close_block();
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
