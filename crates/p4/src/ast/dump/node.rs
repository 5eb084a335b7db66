//! S-expressions and their layout in lines.

/// An S-expression: a word, or a list in parentheses.
pub(super) enum SExpr {
    Word(String),
    List(Vec<SExpr>),
}

/// Maximum line width in bytes; a list that fits is written on one line.
const WIDTH: usize = 100;

impl SExpr {
    /// Creates a word.
    pub fn word(text: impl Into<String>) -> SExpr {
        SExpr::Word(text.into())
    }

    /// Creates the list `(head)`.
    pub fn list(head: impl Into<String>) -> SExpr {
        SExpr::List(vec![SExpr::word(head)])
    }

    /// Appends a child.
    pub fn with(mut self, child: SExpr) -> SExpr {
        if let SExpr::List(children) = &mut self {
            children.push(child);
        }
        self
    }

    /// Appends several children.
    pub fn with_all(mut self, more: impl IntoIterator<Item = SExpr>) -> SExpr {
        if let SExpr::List(children) = &mut self {
            children.extend(more);
        }
        self
    }

    /// Appends the list `(head children...)`, unless there are no children.
    pub fn with_group(self, head: &str, more: impl IntoIterator<Item = SExpr>) -> SExpr {
        let group = SExpr::list(head).with_all(more);
        match &group {
            SExpr::List(children) if children.len() > 1 => self.with(group),
            _ => self,
        }
    }

    /// Returns the expression on one line if it takes at most `room` bytes.
    fn to_line(&self, max_bytes: usize) -> Option<String> {
        match self {
            SExpr::Word(text) => (text.len() <= max_bytes).then(|| text.clone()),
            SExpr::List(children) => {
                let mut line = String::from("(");
                for (at, child) in children.iter().enumerate() {
                    if at > 0 {
                        line.push(' ');
                    }
                    line.push_str(&child.to_line(max_bytes.checked_sub(line.len())?)?);
                }
                line.push(')');
                (line.len() <= max_bytes).then_some(line)
            }
        }
    }

    /// Appends the text to `out`, starting at column `indent`: in one line if it fits, otherwise
    /// with one child a line.
    pub fn write(&self, indent: usize, out: &mut String) {
        if let Some(line) = self.to_line(WIDTH.saturating_sub(indent)) {
            out.push_str(&line);
            return;
        }
        match self {
            SExpr::Word(text) => out.push_str(text),
            SExpr::List(children) => {
                out.push('(');
                // Leading words stay on the first line, because they name the node.
                let leading_words = children.iter().take_while(|child| matches!(child, SExpr::Word(_))).count();
                for (index, child) in children.iter().enumerate() {
                    if index >= leading_words.max(1) {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', indent + 2));
                    } else if index > 0 {
                        out.push(' ');
                    }
                    child.write(indent + 2, out);
                }
                out.push(')');
            }
        }
    }
}
