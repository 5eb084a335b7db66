//! Diagnostics: what is wrong, where, and how to mend it.

mod render;

use crate::span::Span;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The program is not refused for it.
    Warning,
    /// The program is refused.
    Error,
}

impl Severity {
    /// `warning` or `error`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// One finding about a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A stable short name of the kind of finding, in kebab case: `syntax`, `unknown-type`, `include-not-found`.
    pub code: &'static str,
    /// One sentence without a full stop.
    pub message: String,
    /// The place that is wrong.
    pub primary: Span,
    /// Other places with what they have to do with it. A label at `primary` is the text at the caret.
    pub labels: Vec<(Span, String)>,
    /// The mend.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at `primary`.
    pub fn error(code: &'static str, primary: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, primary, message)
    }

    /// A warning at `primary`.
    pub fn warning(code: &'static str, primary: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, primary, message)
    }

    fn new(severity: Severity, code: &'static str, primary: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity, code, message: message.into(), primary, labels: Vec::new(), help: None }
    }

    /// Says that nothing is looked at after `place`, where the last of `count` findings is.
    pub(crate) fn too_many(count: usize, place: Span) -> Self {
        Self::error("limit", place, format!("{count} findings so far; what comes after this place is not looked at"))
    }

    /// Adds a labelled place.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, text.into()));
        self
    }

    /// Sets the mend.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Whether the program is refused for it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
