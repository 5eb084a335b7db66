//! Diagnostics: fault, source position and fix.

mod render;

use crate::span::Span;

/// Severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The program is accepted.
    Warning,
    /// The program is rejected.
    Error,
}

impl Severity {
    /// Returns `warning` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// An error or warning about a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Whether the program is rejected.
    pub severity: Severity,
    /// Stable short name of the fault in kebab case: `syntax`, `unknown-type`, `include-not-found`.
    pub code: &'static str,
    /// One sentence without a full stop.
    pub message: String,
    /// Span of the faulty text.
    pub primary: Span,
    /// Further spans, each with its relation to the fault. The label at `primary` is printed at the
    /// caret.
    pub labels: Vec<(Span, String)>,
    /// The suggested fix.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Creates an error at `primary`.
    pub fn error(code: &'static str, primary: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, primary, message)
    }

    /// Creates a warning at `primary`.
    pub fn warning(code: &'static str, primary: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, primary, message)
    }

    fn new(severity: Severity, code: &'static str, primary: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity, code, message: message.into(), primary, labels: Vec::new(), help: None }
    }

    /// Creates the error that ends reporting after `count` diagnostics, of which the last is at
    /// `place`.
    pub(crate) fn limit_reached(count: usize, place: Span) -> Self {
        Self::error("limit", place, format!("{count} errors and warnings; the text after this position is not checked"))
    }

    /// Adds a labelled span.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, text.into()));
        self
    }

    /// Sets the suggested fix.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Returns whether the program is rejected.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
