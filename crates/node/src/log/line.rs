//! [`Line`]: an event as one line of text, whatever clients have put into it.

use std::fmt::{self, Write};
use time::OffsetDateTime;
use tracing::Level;
use tracing::field::{Field, Visit};

/// Characters of a value that are written.
const LONGEST: usize = 1_000;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// The event, then `name=value`.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// As JSON has it: a number, `true` or `false`.
    Plain(String),
    Text(String),
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// How bad it is.
    pub level: Level,
    /// What happened.
    pub event: String,
    fields: Vec<(&'static str, Value)>,
}

impl Line {
    /// Without fields.
    pub fn new(level: Level, event: impl Into<String>) -> Line {
        Line { level, event: event.into(), fields: Vec::new() }
    }

    /// Of an event.
    pub fn of(event: &tracing::Event<'_>) -> Line {
        let mut line = Line::new(*event.metadata().level(), "");
        event.record(&mut line);
        line
    }

    /// With a number.
    pub fn with(mut self, name: &'static str, number: u64) -> Line {
        self.fields.push((name, Value::Plain(number.to_string())));
        self
    }

    /// Written, with the end of the line. `time` is left out for a journal, which has its own, and wants the level in front, by number.
    pub fn write(&self, format: LogFormat, time: Option<OffsetDateTime>) -> String {
        let mut out = String::new();
        if time.is_none() {
            let _ = write!(out, "<{}>", severity(self.level));
        }
        // Nothing fails that is written into memory.
        let _ = match format {
            LogFormat::Text => self.text(&mut out, time),
            LogFormat::Json => self.json(&mut out, time),
        };
        out.push('\n');
        out
    }

    fn text(&self, out: &mut String, time: Option<OffsetDateTime>) -> fmt::Result {
        if let Some(time) = time {
            write!(out, "{} {:<5} ", Stamp(time), name(self.level))?;
        }
        escape(out, &self.event, "")?;
        for (name, value) in &self.fields {
            write!(out, " {name}=")?;
            match value {
                Value::Plain(value) => out.push_str(value),
                Value::Text(text) if is_word(text) => out.push_str(text),
                Value::Text(text) => {
                    out.push('"');
                    escape(out, text, "\"\\")?;
                    out.push('"');
                }
            }
        }
        Ok(())
    }

    fn json(&self, out: &mut String, time: Option<OffsetDateTime>) -> fmt::Result {
        out.push('{');
        if let Some(time) = time {
            write!(out, "\"time\":\"{}\",", Stamp(time))?;
        }
        write!(out, "\"level\":\"{}\",\"event\":{}", name(self.level), json_text(&self.event))?;
        for (name, value) in &self.fields {
            match value {
                Value::Plain(value) => write!(out, ",\"{name}\":{value}")?,
                Value::Text(text) => write!(out, ",\"{name}\":{}", json_text(text))?,
            }
        }
        out.push('}');
        Ok(())
    }
}

impl Visit for Line {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), Value::Plain(value.to_string())));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), Value::Plain(value.to_string())));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), Value::Plain(value.to_string())));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.event = cut(value),
            name => self.fields.push((name, Value::Text(cut(value)))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded { text: String::new(), left: LONGEST };
        // It stops when there is enough.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text.text);
    }
}

/// Takes no more than it has room for, and one character, by which [`cut`] sees that there was more.
struct Bounded {
    text: String,
    left: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.text.push(character);
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@%+,[]".contains(&byte))
}

/// Without what would end the line, or tell a terminal to do something; `also` gets a backslash in front.
fn escape(out: &mut String, text: &str, also: &str) -> fmt::Result {
    for character in text.chars() {
        match character {
            '\'' | '"' | '\\' if !also.contains(character) => out.push(character),
            _ => write!(out, "{}", character.escape_debug())?,
        }
    }
    Ok(())
}

/// A JSON string of characters that can all be seen.
fn json_text(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        // What JSON has to escape is already.
        let hidden = !character.is_ascii() && character.escape_debug().len() > 1 || character == '\u{7f}';
        match hidden {
            true => out.extend(character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
            false => out.push(character),
        }
    }
    out
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// As syslog (RFC 5424, section 6.2.1) and sd-daemon(3) number it.
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// RFC 3339, in milliseconds.
struct Stamp(OffsetDateTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0;
        write!(f, "{:04}-{:02}-{:02}", time.year(), u8::from(time.month()), time.day())?;
        write!(f, "T{:02}:{:02}:{:02}.{:03}Z", time.hour(), time.minute(), time.second(), time.millisecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(value: &str) -> Line {
        let fields = vec![("who", Value::Text(value.to_owned())), ("ms", Value::Plain("7".to_owned()))];
        Line { fields, ..Line::new(Level::INFO, "pipeline set") }
    }

    #[test]
    fn text_and_json_say_the_same() {
        let time = OffsetDateTime::from_unix_timestamp(1_700_000_000).ok();
        let text = line("127.0.0.1:9").write(LogFormat::Text, time);
        assert_eq!(text, "2023-11-14T22:13:20.000Z info  pipeline set who=127.0.0.1:9 ms=7\n");
        let json = line("127.0.0.1:9").write(LogFormat::Json, time);
        let wanted =
            r#"{"time":"2023-11-14T22:13:20.000Z","level":"info","event":"pipeline set","who":"127.0.0.1:9","ms":7}"#;
        assert_eq!(json.trim_end(), wanted);
        assert_eq!(line("x").write(LogFormat::Text, None), "<6>pipeline set who=x ms=7\n");
        assert!(line("x").write(LogFormat::Json, None).starts_with("<6>{\"level\":"));
    }

    #[test]
    fn hostile_text_stays_in_its_value() {
        let hostile = "a\nb\r\0\u{1b}[31m\u{9b}1m\u{202e}\u{2028}\"\\' level=error é";
        let text = line(hostile).write(LogFormat::Text, None);
        assert_eq!(
            text,
            "<6>pipeline set who=\"a\\nb\\r\\0\\u{1b}[31m\\u{9b}1m\\u{202e}\\u{2028}\\\"\\\\' level=error é\" ms=7\n"
        );
        let json = line(hostile).write(LogFormat::Json, None);
        let visible = |line: &str| {
            line.trim_end_matches('\n')
                .chars()
                .all(|c| c == '\'' || c == '"' || c == '\\' || c.escape_debug().len() == 1)
        };
        assert!(visible(&text) && visible(&json), "{json}");
        let object: serde_json::Value = serde_json::from_str(&json[3..]).expect("it is JSON");
        assert_eq!(object["who"], hostile);
        let event = Line::new(Level::WARN, "x\n<0>y\u{7}").write(LogFormat::Text, None);
        assert_eq!(event, "<4>x\\n<0>y\\u{7}\n");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(cut(&"é".repeat(LONGEST)).chars().count(), LONGEST);
        assert_eq!(cut(&"é".repeat(LONGEST + 1)), "é".repeat(LONGEST) + "…");
        let mut bounded = Bounded { text: String::new(), left: LONGEST };
        assert!(write!(bounded, "{}", "x".repeat(5 * LONGEST)).is_err());
        assert_eq!(cut(&bounded.text), "x".repeat(LONGEST) + "…");
    }
}
