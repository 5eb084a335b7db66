//! [`LogEvent`]: an event as one line of text, with client-supplied values escaped.

use std::fmt::{self, Write};
use time::OffsetDateTime;
use tracing::Level;
use tracing::field::{Field, Visit};

/// Maximum number of characters of a value; longer values are truncated.
const MAX_VALUE_CHARS: usize = 1_000;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// The event, then `name=value` pairs.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
enum FieldValue {
    /// A JSON literal: a number, `true` or `false`.
    Plain(String),
    Text(String),
}

/// A log event with its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEvent {
    /// Severity.
    pub level: Level,
    /// Description of the event.
    pub event: String,
    fields: Vec<(&'static str, FieldValue)>,
}

impl LogEvent {
    /// Creates an event without fields.
    pub fn new(level: Level, event: impl Into<String>) -> LogEvent {
        LogEvent { level, event: event.into(), fields: Vec::new() }
    }

    /// Converts an event of `tracing`.
    pub fn from_event(event: &tracing::Event<'_>) -> LogEvent {
        let mut line = LogEvent::new(*event.metadata().level(), "");
        event.record(&mut line);
        line
    }

    /// Adds a numeric field.
    pub fn with_number(mut self, name: &'static str, number: u64) -> LogEvent {
        self.fields.push((name, FieldValue::Plain(number.to_string())));
        self
    }

    /// Formats the event as a line, with the line end. Without `time`, the line starts with the
    /// numeric level instead: a journal has its own time stamps and expects the level first.
    pub fn format_line(&self, format: LogFormat, time: Option<OffsetDateTime>) -> String {
        let mut out = String::new();
        if time.is_none() {
            let _ = write!(out, "<{}>", severity(self.level));
        }
        // Writing to a string cannot fail.
        let _ = match format {
            LogFormat::Text => self.write_text(&mut out, time),
            LogFormat::Json => self.write_json(&mut out, time),
        };
        out.push('\n');
        out
    }

    fn write_text(&self, out: &mut String, time: Option<OffsetDateTime>) -> fmt::Result {
        if let Some(time) = time {
            write!(out, "{} {:<5} ", Timestamp(time), level_name(self.level))?;
        }
        write_escaped(out, &self.event, "")?;
        for (name, value) in &self.fields {
            write!(out, " {name}=")?;
            match value {
                FieldValue::Plain(value) => out.push_str(value),
                FieldValue::Text(text) if is_word(text) => out.push_str(text),
                FieldValue::Text(text) => {
                    out.push('"');
                    write_escaped(out, text, "\"\\")?;
                    out.push('"');
                }
            }
        }
        Ok(())
    }

    fn write_json(&self, out: &mut String, time: Option<OffsetDateTime>) -> fmt::Result {
        out.push('{');
        if let Some(time) = time {
            write!(out, "\"time\":\"{}\",", Timestamp(time))?;
        }
        write!(out, "\"level\":\"{}\",\"event\":{}", level_name(self.level), json_text(&self.event))?;
        for (name, value) in &self.fields {
            match value {
                FieldValue::Plain(value) => write!(out, ",\"{name}\":{value}")?,
                FieldValue::Text(text) => write!(out, ",\"{name}\":{}", json_text(text))?,
            }
        }
        out.push('}');
        Ok(())
    }
}

impl Visit for LogEvent {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), FieldValue::Plain(value.to_string())));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), FieldValue::Plain(value.to_string())));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), FieldValue::Plain(value.to_string())));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.event = truncate_value(value),
            name => self.fields.push((name, FieldValue::Text(truncate_value(value)))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = BoundedText { text: String::new(), left: MAX_VALUE_CHARS };
        // Formatting stops with an error at the length limit.
        let _ = write!(text, "{value:?}");
        self.record_str(field, &text.text);
    }
}

/// Buffer for at most `left` characters plus one, by which [`truncate_value`] detects a longer
/// value.
struct BoundedText {
    text: String,
    left: usize,
}

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.text.push(character);
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
        }
        Ok(())
    }
}

fn truncate_value(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@%+,[]".contains(&byte))
}

/// Writes `text` with line ends and control characters escaped; characters in `also` get a
/// backslash.
fn write_escaped(out: &mut String, text: &str, also: &str) -> fmt::Result {
    for character in text.chars() {
        match character {
            '\'' | '"' | '\\' if !also.contains(character) => out.push(character),
            _ => write!(out, "{}", character.escape_debug())?,
        }
    }
    Ok(())
}

/// Formats a JSON string of visible characters only.
fn json_text(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        // Characters that JSON requires to be escaped are already escaped.
        let hidden = !character.is_ascii() && character.escape_debug().len() > 1 || character == '\u{7f}';
        match hidden {
            true => out.extend(character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
            false => out.push(character),
        }
    }
    out
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// Returns the level number of syslog (RFC 5424, section 6.2.1) and sd-daemon(3).
fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// Formats a time in nanoseconds since the Unix epoch as the time stamps of lines.
pub fn format_time(ns: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(ns.into());
    time.map_or_else(|_| ns.to_string(), |time| Timestamp(time).to_string())
}

/// Time in the format of RFC 3339, with milliseconds.
struct Timestamp(OffsetDateTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.0;
        write!(f, "{:04}-{:02}-{:02}", time.year(), u8::from(time.month()), time.day())?;
        write!(f, "T{:02}:{:02}:{:02}.{:03}Z", time.hour(), time.minute(), time.second(), time.millisecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(value: &str) -> LogEvent {
        let fields = vec![("who", FieldValue::Text(value.to_owned())), ("ms", FieldValue::Plain("7".to_owned()))];
        LogEvent { fields, ..LogEvent::new(Level::INFO, "pipeline set") }
    }

    #[test]
    fn text_and_json_say_the_same() {
        let time = OffsetDateTime::from_unix_timestamp(1_700_000_000).ok();
        let text = line("127.0.0.1:9").format_line(LogFormat::Text, time);
        assert_eq!(text, "2023-11-14T22:13:20.000Z info  pipeline set who=127.0.0.1:9 ms=7\n");
        let json = line("127.0.0.1:9").format_line(LogFormat::Json, time);
        let wanted =
            r#"{"time":"2023-11-14T22:13:20.000Z","level":"info","event":"pipeline set","who":"127.0.0.1:9","ms":7}"#;
        assert_eq!(json.trim_end(), wanted);
        assert_eq!(line("x").format_line(LogFormat::Text, None), "<6>pipeline set who=x ms=7\n");
        assert!(line("x").format_line(LogFormat::Json, None).starts_with("<6>{\"level\":"));
    }

    #[test]
    fn hostile_text_stays_in_its_value() {
        let hostile = "a\nb\r\0\u{1b}[31m\u{9b}1m\u{202e}\u{2028}\"\\' level=error é";
        let text = line(hostile).format_line(LogFormat::Text, None);
        assert_eq!(
            text,
            "<6>pipeline set who=\"a\\nb\\r\\0\\u{1b}[31m\\u{9b}1m\\u{202e}\\u{2028}\\\"\\\\' level=error é\" ms=7\n"
        );
        let json = line(hostile).format_line(LogFormat::Json, None);
        let visible = |line: &str| {
            line.trim_end_matches('\n')
                .chars()
                .all(|c| c == '\'' || c == '"' || c == '\\' || c.escape_debug().len() == 1)
        };
        assert!(visible(&text) && visible(&json), "{json}");
        let object: serde_json::Value = serde_json::from_str(&json[3..]).expect("it is JSON");
        assert_eq!(object["who"], hostile);
        let event = LogEvent::new(Level::WARN, "x\n<0>y\u{7}").format_line(LogFormat::Text, None);
        assert_eq!(event, "<4>x\\n<0>y\\u{7}\n");
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(truncate_value(&"é".repeat(MAX_VALUE_CHARS)).chars().count(), MAX_VALUE_CHARS);
        assert_eq!(truncate_value(&"é".repeat(MAX_VALUE_CHARS + 1)), "é".repeat(MAX_VALUE_CHARS) + "…");
        let mut bounded = BoundedText { text: String::new(), left: MAX_VALUE_CHARS };
        assert!(write!(bounded, "{}", "x".repeat(5 * MAX_VALUE_CHARS)).is_err());
        assert_eq!(truncate_value(&bounded.text), "x".repeat(MAX_VALUE_CHARS) + "…");
    }
}
