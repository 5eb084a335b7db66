//! Text protobuf, without a schema: printing and parsing a tree of fields.

/// A message: fields in order; a repeated field is listed once for each of its values, a map is a repeated message of
/// `key` and `value`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// Names and values.
    pub fields: Vec<(String, Value)>,
}

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A string or bytes.
    Bytes(Vec<u8>),
    /// A number, an enumeration's member, a bool: as written.
    Word(String),
    /// A message.
    Message(Message),
}

/// Messages that say nothing when they are empty, so that protobuf takes them for absent.
pub(super) const OPTIONAL: [&str; 5] =
    ["doc", "pkg_info", "platform_properties", "initial_default_action", "type_info"];

impl Message {
    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
    /// Adds a word, unless it is the default that text protobuf leaves out.
    pub(super) fn word(&mut self, name: &str, value: impl ToString) {
        let text = value.to_string();
        if !["0", "false", ""].contains(&text.as_str()) {
            self.fields.push((name.into(), Value::Word(text)));
        }
    }
    /// Adds a string, unless it is empty.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.bytes(name, value.as_bytes());
        }
    }
    pub(super) fn bytes(&mut self, name: &str, value: &[u8]) {
        self.fields.push((name.into(), Value::Bytes(value.to_vec())));
    }
    /// Adds a message, unless it is empty and says nothing then.
    pub(super) fn message(&mut self, name: &str, value: Message) {
        if !(value.fields.is_empty() && OPTIONAL.contains(&name)) {
            self.fields.push((name.into(), Value::Message(value)));
        }
    }
}

/// Prints with the two comment lines that name the schema.
pub(super) fn print(message: &Message) -> String {
    let mut out = String::from("# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n");
    print_fields(message, 0, &mut out);
    out
}

fn print_fields(message: &Message, indent: usize, out: &mut String) {
    for (name, value) in &message.fields {
        out.push_str(&" ".repeat(indent));
        out.push_str(name);
        match value {
            Value::Bytes(bytes) => {
                out.push_str(": ");
                out.push_str(&quoted(bytes));
            }
            Value::Word(word) => {
                out.push_str(": ");
                out.push_str(word);
            }
            Value::Message(inner) => {
                out.push_str(" {\n");
                print_fields(inner, indent + 2, out);
                out.push_str(&" ".repeat(indent));
                out.push('}');
            }
        }
        out.push('\n');
    }
}

pub(super) fn quoted(bytes: &[u8]) -> String {
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

/// How deep messages may nest.
const MAX_DEPTH: u32 = 64;

/// Parses fields up to the end.
///
/// # Errors
/// What is wrong, with the line.
pub(super) fn parse(text: &str) -> Result<Message, String> {
    let mut parser = Parser { text: text.as_bytes(), at: 0 };
    let message = parser.fields(0)?;
    if parser.at < parser.text.len() {
        return Err(parser.error("a `}` too many"));
    }
    Ok(message)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn error(&self, what: &str) -> String {
        let line = self.text[..self.at.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        format!("line {line}: {what}")
    }
    fn skip(&mut self) {
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
        self.skip();
        self.text.get(self.at).copied()
    }
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }
    fn word(&mut self) -> Result<String, String> {
        self.skip();
        let start = self.at;
        let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'+' | b'/');
        while self.text.get(self.at).is_some_and(part) {
            self.at += 1;
        }
        if start == self.at {
            return Err(self.error("a name or a value is missing"));
        }
        Ok(String::from_utf8_lossy(&self.text[start..self.at]).into_owned())
    }
    fn fields(&mut self, depth: u32) -> Result<Message, String> {
        if depth > MAX_DEPTH {
            return Err(self.error("messages are nested too deep"));
        }
        let mut message = Message::default();
        loop {
            match self.peek() {
                None | Some(b'}') => return Ok(message),
                Some(b'[') => {
                    // `[type.googleapis.com/...] { }`: the payload of an Any.
                    self.at += 1;
                    let name = self.word()?;
                    self.eat(b']').then_some(()).ok_or_else(|| self.error("`]` is missing"))?;
                    let value = self.value(depth)?;
                    message.fields.push((format!("[{name}]"), value));
                }
                Some(_) => {
                    let name = self.word()?;
                    let colon = self.eat(b':');
                    if colon && self.eat(b'[') {
                        while !self.eat(b']') {
                            message.fields.push((name.clone(), self.value(depth)?));
                        }
                    } else {
                        message.fields.push((name, self.value(depth)?));
                    }
                }
            }
        }
    }
    fn value(&mut self, depth: u32) -> Result<Value, String> {
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                let inner = self.fields(depth + 1)?;
                if !self.eat(b'}') {
                    return Err(self.error("`}` is missing"));
                }
                Ok(Value::Message(inner))
            }
            Some(quote @ (b'"' | b'\'')) => {
                let mut bytes = Vec::new();
                // Strings that follow each other are one.
                while self.eat(quote) {
                    self.string(quote, &mut bytes)?;
                }
                Ok(Value::Bytes(bytes))
            }
            Some(_) => self.word().map(Value::Word),
            None => Err(self.error("a value is missing")),
        }
    }
    fn string(&mut self, quote: u8, bytes: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let Some(byte) = self.text.get(self.at).copied() else {
                return Err(self.error("a string has no end"));
            };
            self.at += 1;
            match byte {
                b if b == quote => return Ok(()),
                b'\\' => self.escape(bytes)?,
                b => bytes.push(b),
            }
        }
    }
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let Some(byte) = self.text.get(self.at).copied() else { return Err(self.error("a string has no end")) };
        self.at += 1;
        bytes.push(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => self.digits(2, 16, 0),
            b'0'..=b'7' => self.digits(2, 8, u32::from(byte - b'0')),
            b => b,
        });
        Ok(())
    }
    fn digits(&mut self, most: u32, radix: u32, mut value: u32) -> u8 {
        for _ in 0..most {
            let Some(digit) = self.text.get(self.at).and_then(|b| char::from(*b).to_digit(radix)) else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        (value & 0xff) as u8
    }
}
