//! Renders diagnostics as text with a source excerpt, as one line, and as JSON.

use super::{Diagnostic, Severity};
use crate::span::{FileId, SourceFile, SourceMap, Span};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::{Value, json};

/// Longest source line in an excerpt, in bytes. Longer lines are omitted, because they are
/// machine-made and unreadable.
const MAX_SHOWN_LINE: usize = 4096;

impl Diagnostic {
    /// Renders the message with file, line, column, source line, caret, labels and help. The text
    /// has several lines and no final newline. `colour` adds terminal colors.
    pub fn render(&self, map: &SourceMap, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level.primary_title(self.message.as_str()).id(self.code).elements(self.snippets(map));
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let report: &[Group<'_>] = &[group];
        let text = renderer.render(report);
        match self.unshown_location(map) {
            Some(place) => format!("{text}\n  --> {place}"),
            None => text,
        }
    }

    /// Renders the diagnostic as `file:line:column: error[code]: message; help: fix`.
    pub fn one_line(&self, map: &SourceMap) -> String {
        let place = map.location(self.primary).map_or_else(String::new, |at| format!("{at}: "));
        let help = self.help.as_ref().map_or_else(String::new, |help| format!("; help: {help}"));
        format!("{place}{}[{}]: {}{help}", self.severity.as_str(), self.code, self.message)
    }

    /// Returns a JSON object with `severity`, `code`, `message`, `file`, `line`, `column`,
    /// `end_line`, `end_column`, `labels` and `help`.
    pub fn to_json(&self, map: &SourceMap) -> Value {
        let mut object = place_json(map, self.primary);
        let labels: Vec<Value> = self.labels.iter().map(|(span, text)| label_json(map, *span, text)).collect();
        object["severity"] = json!(self.severity.as_str());
        object["code"] = json!(self.code);
        object["message"] = json!(self.message);
        object["labels"] = json!(labels);
        object["help"] = json!(self.help);
        object
    }

    /// Returns the position as text if the excerpt cannot show it.
    fn unshown_location(&self, map: &SourceMap) -> Option<String> {
        let shown = map.file(self.primary.file).and_then(|file| excerpt(file, &[self.primary]));
        if shown.is_some() { None } else { map.location(self.primary).map(|at| at.to_string()) }
    }

    /// Returns one excerpt per file, starting with the file of `primary`. Each marks the primary
    /// span and the labels in that file.
    fn snippets<'a>(&'a self, map: &'a SourceMap) -> Vec<Snippet<'a, Annotation<'a>>> {
        let mut marks: Vec<(Span, AnnotationKind, Option<&str>)> = Vec::new();
        let primary_label = self.labels.iter().find(|(span, _)| *span == self.primary);
        marks.push((self.primary, AnnotationKind::Primary, primary_label.map(|(_, text)| text.as_str())));
        let other_labels = self.labels.iter().filter(|(span, _)| *span != self.primary);
        marks.extend(other_labels.map(|(span, text)| (*span, AnnotationKind::Context, Some(text.as_str()))));

        let mut files: Vec<FileId> = Vec::new();
        for (span, ..) in &marks {
            if !files.contains(&span.file) {
                files.push(span.file);
            }
        }
        let mut snippets = Vec::new();
        for id in files {
            let Some(file) = map.file(id) else { continue };
            let file_marks: Vec<_> = marks.iter().filter(|(span, ..)| span.file == id).collect();
            let spans: Vec<Span> = file_marks.iter().map(|(span, ..)| *span).collect();
            // The window is the byte range of the lines that are shown.
            let Some(window) = excerpt(file, &spans) else { continue };
            let location = map.location(Span::new(id, window.start as u32, window.start as u32));
            let Some(location) = location else { continue };
            let text = &file.text[window.clone()];
            let annotations = file_marks.iter().filter_map(|(span, kind, label)| {
                let range = within_line(file, *span, &window)?;
                Some(kind.span(range).label(*label))
            });
            snippets.push(
                Snippet::source(text)
                    .line_start(location.line as usize)
                    .path(location.file.to_string())
                    .annotations(annotations),
            );
        }
        snippets
    }
}

/// Returns the byte range of the lines on which the spans start. Returns `None` if a line is too
/// long to be shown, or the spans are not of this file.
fn excerpt(file: &SourceFile, spans: &[Span]) -> Option<std::ops::Range<usize>> {
    let low = spans.iter().map(|span| span.lo).min()?;
    let high = spans.iter().map(|span| span.lo).max()?;
    let start = file.line_range(low)?.start;
    let end = file.line_range(high)?.end;
    let text = file.text.get(start..end)?;
    text.lines().all(|line| line.len() <= MAX_SHOWN_LINE).then_some(start..end)
}

/// Returns the part of the span on its first line, relative to the start of `window` and on
/// character boundaries.
fn within_line(file: &SourceFile, span: Span, window: &std::ops::Range<usize>) -> Option<std::ops::Range<usize>> {
    let line_end = file.line_range(span.lo)?.end.min(window.end);
    let mut lo = (span.lo as usize).clamp(window.start, line_end);
    let mut hi = (span.hi as usize).clamp(lo, line_end);
    while !file.text.is_char_boundary(lo) {
        lo -= 1;
    }
    while !file.text.is_char_boundary(hi) {
        hi -= 1;
    }
    Some(lo - window.start..hi.max(lo) - window.start)
}

fn place_json(map: &SourceMap, span: Span) -> Value {
    match (map.location(span), map.location(span.end())) {
        (Some(start), Some(end)) => json!({
            "file": &*start.file,
            "line": start.line,
            "column": start.column,
            "end_line": end.line,
            "end_column": end.column,
        }),
        _ => json!({ "file": null, "line": null, "column": null, "end_line": null, "end_column": null }),
    }
}

fn label_json(map: &SourceMap, span: Span, text: &str) -> Value {
    let mut object = place_json(map, span);
    object["text"] = json!(text);
    object
}
