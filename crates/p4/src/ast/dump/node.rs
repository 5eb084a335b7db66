//! Nested lists of words, and how they are broken into lines.

/// A word, or a list in parentheses.
pub(super) enum Node {
    Word(String),
    List(Vec<Node>),
}

/// Lists that fit are on one line.
const WIDTH: usize = 100;

impl Node {
    /// A word.
    pub fn word(text: impl Into<String>) -> Node {
        Node::Word(text.into())
    }

    /// `(head)`, to which children are added.
    pub fn list(head: impl Into<String>) -> Node {
        Node::List(vec![Node::word(head)])
    }

    /// With one child more.
    pub fn with(mut self, child: Node) -> Node {
        if let Node::List(children) = &mut self {
            children.push(child);
        }
        self
    }

    /// With these children more.
    pub fn with_all(mut self, more: impl IntoIterator<Item = Node>) -> Node {
        if let Node::List(children) = &mut self {
            children.extend(more);
        }
        self
    }

    /// `(head children...)`, left out if there are no children.
    pub fn with_group(self, head: &str, more: impl IntoIterator<Item = Node>) -> Node {
        let group = Node::list(head).with_all(more);
        match &group {
            Node::List(children) if children.len() > 1 => self.with(group),
            _ => self,
        }
    }

    /// The node on one line, if it takes no more than `room` bytes.
    fn flat(&self, room: usize) -> Option<String> {
        match self {
            Node::Word(text) => (text.len() <= room).then(|| text.clone()),
            Node::List(children) => {
                let mut line = String::from("(");
                for (at, child) in children.iter().enumerate() {
                    if at > 0 {
                        line.push(' ');
                    }
                    line.push_str(&child.flat(room.checked_sub(line.len())?)?);
                }
                line.push(')');
                (line.len() <= room).then_some(line)
            }
        }
    }

    /// Appends the text, which begins at that column.
    pub fn write(&self, indent: usize, out: &mut String) {
        if let Some(line) = self.flat(WIDTH.saturating_sub(indent)) {
            out.push_str(&line);
            return;
        }
        match self {
            Node::Word(text) => out.push_str(text),
            Node::List(children) => {
                out.push('(');
                // Words at the start say what it is: they stay on its line.
                let words = children.iter().take_while(|child| matches!(child, Node::Word(_))).count();
                for (at, child) in children.iter().enumerate() {
                    if at >= words.max(1) {
                        out.push('\n');
                        out.extend(std::iter::repeat_n(' ', indent + 2));
                    } else if at > 0 {
                        out.push(' ');
                    }
                    child.write(indent + 2, out);
                }
                out.push(')');
            }
        }
    }
}
