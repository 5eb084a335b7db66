//! Text protobuf without a schema: printing and parsing of a tree of fields.

/// A message: fields in order. A repeated field is listed once for each of its values; a map is a
/// repeated message of `key` and `value`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MessageTree {
    /// Names and values.
    pub fields: Vec<(String, MessageValue)>,
}

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageValue {
    /// A string or bytes.
    Bytes(Vec<u8>),
    /// A number, a member of an enumeration, or a bool, as written.
    Word(String),
    /// A message.
    Message(MessageTree),
}

/// Message fields that protobuf treats as absent when empty.
pub(super) const OPTIONAL: [&str; 5] =
    ["doc", "pkg_info", "platform_properties", "initial_default_action", "type_info"];

impl MessageTree {
    /// Returns the first value of a field.
    pub fn get(&self, name: &str) -> Option<&MessageValue> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
    /// Adds a word, unless it is the default that text protobuf omits.
    pub(super) fn word(&mut self, name: &str, value: impl ToString) {
        let text = value.to_string();
        if !["0", "false", ""].contains(&text.as_str()) {
            self.fields.push((name.into(), MessageValue::Word(text)));
        }
    }
    /// Adds a string, unless it is empty.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.bytes(name, value.as_bytes());
        }
    }
    pub(super) fn bytes(&mut self, name: &str, value: &[u8]) {
        self.fields.push((name.into(), MessageValue::Bytes(value.to_vec())));
    }
    /// Adds a message, unless it is empty and optional.
    pub(super) fn message(&mut self, name: &str, value: MessageTree) {
        if !(value.fields.is_empty() && OPTIONAL.contains(&name)) {
            self.fields.push((name.into(), MessageValue::Message(value)));
        }
    }
}

/// Prints with the two comment lines that name the schema.
pub(super) fn print(message: &MessageTree) -> String {
    let mut out = String::from("# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n");
    print_fields(message, 0, &mut out);
    out
}

/// Appends the fields of a message, one a line, indented by `indent` blanks.
fn print_fields(message: &MessageTree, indent: usize, out: &mut String) {
    for (name, value) in &message.fields {
        out.push_str(&" ".repeat(indent));
        out.push_str(name);
        match value {
            MessageValue::Bytes(bytes) => {
                out.push_str(": ");
                out.push_str(&quote_bytes(bytes));
            }
            MessageValue::Word(word) => {
                out.push_str(": ");
                out.push_str(word);
            }
            MessageValue::Message(inner) => {
                out.push_str(" {\n");
                print_fields(inner, indent + 2, out);
                out.push_str(&" ".repeat(indent));
                out.push('}');
            }
        }
        out.push('\n');
    }
}

pub(super) fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            0x20..0x7f => out.push(char::from(*byte)),
            byte => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}

/// Maximum nesting of messages.
const MAX_DEPTH: u32 = 64;

/// Parses fields up to the end of the text.
///
/// # Errors
/// A message with the line of the error.
pub(super) fn parse(text: &str) -> Result<MessageTree, String> {
    let mut parser = TxtpbParser { text: text.as_bytes(), at: 0 };
    let message = parser.parse_fields(0)?;
    if parser.at < parser.text.len() {
        return Err(parser.error_at_line("a `}` too many"));
    }
    Ok(message)
}

struct TxtpbParser<'a> {
    text: &'a [u8],
    at: usize,
}

impl TxtpbParser<'_> {
    fn error_at_line(&self, what: &str) -> String {
        let line = self.text[..self.at.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        format!("line {line}: {what}")
    }
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'#' => {
                    while self.text.get(self.at).is_some_and(|b| *b != b'\n') {
                        self.at += 1;
                    }
                }
                b' ' | b'\t' | b'\r' | b'\n' | b',' | b';' => self.at += 1,
                _ => return,
            }
        }
    }
    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.get(self.at).copied()
    }
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }
    fn word(&mut self) -> Result<String, String> {
        self.skip_blanks();
        let start = self.at;
        let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'+' | b'/');
        while self.text.get(self.at).is_some_and(part) {
            self.at += 1;
        }
        if start == self.at {
            return Err(self.error_at_line("a name or a value is missing"));
        }
        Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned())
    }
    /// Parses fields up to a `}` or the end, neither of which is consumed. `depth` is the number of
    /// messages around them. A list `name: [a, b]` gives one field for each value.
    fn parse_fields(&mut self, depth: u32) -> Result<MessageTree, String> {
        if depth > MAX_DEPTH {
            return Err(self.error_at_line("messages are nested too deep"));
        }
        let mut message = MessageTree::default();
        loop {
            match self.peek() {
                None | Some(b'}') => return Ok(message),
                Some(b'[') => {
                    // `[type.googleapis.com/...] { }`: the payload of an Any.
                    self.at += 1;
                    let name = self.word()?;
                    self.eat(b']').then_some(()).ok_or_else(|| self.error_at_line("`]` is missing"))?;
                    let value = self.parse_value(depth)?;
                    message.fields.push((format!("[{name}]"), value));
                }
                Some(_) => {
                    let name = self.word()?;
                    let has_colon = self.eat(b':');
                    if has_colon && self.eat(b'[') {
                        while !self.eat(b']') {
                            message.fields.push((name.clone(), self.parse_value(depth)?));
                        }
                    } else {
                        message.fields.push((name, self.parse_value(depth)?));
                    }
                }
            }
        }
    }
    /// Parses the value of a field: a message in braces, strings, or a word such as a number.
    fn parse_value(&mut self, depth: u32) -> Result<MessageValue, String> {
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                let inner = self.parse_fields(depth + 1)?;
                if !self.eat(b'}') {
                    return Err(self.error_at_line("`}` is missing"));
                }
                Ok(MessageValue::Message(inner))
            }
            Some(quote @ (b'"' | b'\'')) => {
                let mut bytes = Vec::new();
                // Adjacent strings are concatenated.
                while self.eat(quote) {
                    self.parse_string(quote, &mut bytes)?;
                }
                Ok(MessageValue::Bytes(bytes))
            }
            Some(_) => self.word().map(MessageValue::Word),
            None => Err(self.error_at_line("a value is missing")),
        }
    }
    fn parse_string(&mut self, quote: u8, bytes: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let Some(byte) = self.text.get(self.at).copied() else {
                return Err(self.error_at_line("a string has no end"));
            };
            self.at += 1;
            match byte {
                b if b == quote => return Ok(()),
                b'\\' => self.parse_escape(bytes)?,
                b => bytes.push(b),
            }
        }
    }
    fn parse_escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let Some(byte) = self.text.get(self.at).copied() else { return Err(self.error_at_line("a string has no end")) };
        self.at += 1;
        bytes.push(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => self.parse_digits(2, 16, 0),
            b'0'..=b'7' => self.parse_digits(2, 8, u32::from(byte - b'0')),
            b => b,
        });
        Ok(())
    }
    fn parse_digits(&mut self, max_digits: u32, radix: u32, mut value: u32) -> u8 {
        for _ in 0..max_digits {
            let Some(digit) = self.text.get(self.at).and_then(|b| char::from(*b).to_digit(radix)) else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        (value & 0xff) as u8
    }
}
