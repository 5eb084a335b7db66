//! Diagnostics of P4 programs, for people and as JSON.

use anstyle::Style;
use p4::diag::{Diagnostic, Severity};
use p4::span::{SourceMap, Span};
use serde::Serialize;
use std::fmt::Write;

const BAD: Style = anstyle::AnsiColor::Red.on_default().bold();
const WARN: Style = anstyle::AnsiColor::Yellow.on_default().bold();
const PLACE: Style = anstyle::AnsiColor::Blue.on_default().bold();
const HEAD: Style = Style::new().bold();

/// The longest source line that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// A place in a program.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct PlaceJson {
    /// The file, as it was opened.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What this place has to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A diagnostic as JSON.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct DiagnosticJson {
    /// `error` or `warning`.
    pub severity: &'static str,
    /// Stable short name of the kind of finding.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// The place that is wrong.
    #[serde(flatten)]
    pub place: PlaceJson,
    /// Other places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<PlaceJson>,
    /// The mend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

fn place(map: &SourceMap, span: Span, label: Option<&str>) -> PlaceJson {
    let label = label.map(str::to_owned);
    match map.location(span) {
        Some(at) => PlaceJson { file: at.file.to_string(), line: at.line, column: at.column, label },
        None => PlaceJson { file: String::new(), line: 0, column: 0, label },
    }
}

/// The diagnostic as JSON.
pub fn to_json(diagnostic: &Diagnostic, map: &SourceMap) -> DiagnosticJson {
    let at_primary = diagnostic.labels.iter().find(|(span, _)| *span == diagnostic.primary);
    let others = diagnostic.labels.iter().filter(|(span, _)| *span != diagnostic.primary);
    DiagnosticJson {
        severity: diagnostic.severity.as_str(),
        code: diagnostic.code,
        message: diagnostic.message.clone(),
        place: place(map, diagnostic.primary, at_primary.map(|(_, text)| text.as_str())),
        related: others.map(|(span, text)| place(map, *span, Some(text))).collect(),
        help: diagnostic.help.clone(),
    }
}

/// The diagnostic with its source line, a caret, other places and the mend; colours as escape sequences, which the caller's
/// stream strips if nobody can see them.
pub fn render(diagnostic: &Diagnostic, map: &SourceMap) -> String {
    let style = match diagnostic.severity {
        Severity::Error => BAD,
        Severity::Warning => WARN,
    };
    let (severity, code) = (diagnostic.severity.as_str(), diagnostic.code);
    let mut out = format!("{style}{severity}[{code}]{style:#}{HEAD}: {}{HEAD:#}\n", diagnostic.message);
    let at_primary = diagnostic.labels.iter().find(|(span, _)| *span == diagnostic.primary);
    excerpt(&mut out, map, diagnostic.primary, at_primary.map_or("", |(_, text)| text), style, '^');
    for (span, text) in diagnostic.labels.iter().filter(|(span, _)| *span != diagnostic.primary) {
        excerpt(&mut out, map, *span, text, PLACE, '-');
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "  {HEAD}help{HEAD:#}: {help}");
    }
    out
}

/// Place, line and marks under what the span covers of it.
fn excerpt(out: &mut String, map: &SourceMap, span: Span, label: &str, style: Style, mark: char) {
    let Some(at) = map.location(span) else {
        return;
    };
    let number = at.line.to_string();
    let gutter = " ".repeat(number.len());
    let line: String = map.line(span).chars().map(|c| if c == '\t' { ' ' } else { c }).take(MAX_SHOWN).collect();
    let width = line.chars().count();
    let start = (at.column as usize - 1).min(width);
    let marks = map.text(span).chars().take_while(|c| *c != '\n').count().clamp(1, (width - start).max(1));
    let _ = writeln!(out, "{gutter}{PLACE}-->{PLACE:#} {at}");
    let _ = writeln!(out, "{PLACE}{number} |{PLACE:#} {line}");
    let _ = write!(out, "{PLACE}{gutter} |{PLACE:#} {}{style}{}", " ".repeat(start), mark.to_string().repeat(marks));
    let _ = writeln!(out, "{}{label}{style:#}", if label.is_empty() { "" } else { " " });
}
