//! Executes conditional directives (`#if` and related ones), which select the lines that are read.

use super::buffer::OpenConditional;
use super::directive::Directive;
use super::preprocessor::{DirectiveContext, Preprocessor};
use crate::diag::Diagnostic;

/// Maximum nesting of conditionals.
const MAX_NESTING: usize = 10_000;

impl Preprocessor<'_> {
    pub(super) fn execute_if(&mut self) {
        let mut holds = false;
        if !self.state.is_skipping {
            self.state.directive = DirectiveContext::Condition;
            holds = self.condition_holds("if");
        }
        self.begin_condition("if", holds);
    }

    pub(super) fn execute_ifdef(&mut self, name: &'static str, defined: bool) {
        let mut holds = false;
        if !self.state.is_skipping
            && let Some(macro_name) = self.macro_name(name, false)
        {
            holds = self.names.is_defined(macro_name.value) == defined;
            self.check_end(name, false);
        }
        self.begin_condition(name, holds);
    }

    fn begin_condition(&mut self, directive: &'static str, holds: bool) {
        let was_skipping = self.state.is_skipping;
        let span = self.directive_span;
        let skip_others = was_skipping || holds;
        self.counts.branches += usize::from(holds && !was_skipping);
        self.buffer.conditions.push(OpenConditional { span, directive, skip_others, was_skipping });
        self.state.is_skipping = was_skipping || !holds;
        if self.buffer.conditions.len() > MAX_NESTING {
            let message = format!("conditionals nest deeper than {MAX_NESTING}");
            self.stop_with(Diagnostic::error("limit", span, message));
        }
    }

    /// Executes `#elif`, `#elifdef` or `#elifndef`, spelled `name`. Its condition is evaluated only
    /// if no branch before it was taken; otherwise its text is skipped.
    pub(super) fn execute_elif(&mut self, directive: Directive, name: &str) {
        let Some(condition) = self.buffer.conditions.last_mut() else { return self.report_unopened(name) };
        let is_after_else = std::mem::replace(&mut condition.directive, "elif") == "else";
        let skip_others = condition.skip_others;
        if is_after_else {
            self.report_after_else(name);
        }
        if skip_others {
            self.state.is_skipping = true;
            return;
        }
        if directive == Directive::Elif {
            self.state.directive = DirectiveContext::Condition;
            let holds = self.condition_holds("elif");
            self.state.is_skipping = !holds;
        } else if let Some(macro_name) = self.macro_name(name, false) {
            let is_defined = self.names.is_defined(macro_name.value);
            self.check_end(name, false);
            self.state.is_skipping = is_defined != (directive == Directive::Elifdef);
        } else {
            self.state.is_skipping = true;
        }
        let is_skipping = self.state.is_skipping;
        self.counts.branches += usize::from(!is_skipping);
        if let Some(condition) = self.buffer.conditions.last_mut() {
            condition.skip_others = !is_skipping;
        }
    }

    pub(super) fn execute_else(&mut self) {
        let Some(condition) = self.buffer.conditions.last_mut() else { return self.report_unopened("else") };
        let after_else = std::mem::replace(&mut condition.directive, "else") == "else";
        let skip = std::mem::replace(&mut condition.skip_others, true);
        let was_skipping = condition.was_skipping;
        if after_else {
            self.report_after_else("else");
        }
        self.state.is_skipping = skip;
        self.counts.branches += usize::from(!skip);
        if !was_skipping {
            self.check_end("else", false);
        }
    }

    pub(super) fn execute_endif(&mut self) {
        let Some(condition) = self.buffer.conditions.last() else { return self.report_unopened("endif") };
        let was_skipping = condition.was_skipping;
        if !was_skipping {
            self.check_end("endif", false);
        }
        self.buffer.conditions.pop();
        self.state.is_skipping = was_skipping;
    }

    fn report_unopened(&mut self, name: &str) {
        let message = format!("`#{name}` without `#if` in this file");
        self.report(Diagnostic::error("unbalanced-conditional", self.directive_span, message));
    }

    fn report_after_else(&mut self, name: &str) {
        let message = format!("`#{name}` after `#else`");
        let mut diagnostic = Diagnostic::error("unbalanced-conditional", self.directive_span, message);
        if let Some(condition) = self.buffer.conditions.last() {
            diagnostic = diagnostic.label(condition.span, "the conditional began here");
        }
        self.report(diagnostic);
    }

    /// Reports the conditionals that are open at the end of the file.
    pub(super) fn close_conditions(&mut self) {
        let open = std::mem::take(&mut self.buffer.conditions);
        for condition in open.iter().rev() {
            let message = "this conditional is never closed";
            let diagnostic = Diagnostic::error("unbalanced-conditional", condition.span, message);
            self.report(diagnostic.help("add `#endif`"));
        }
        self.state.is_skipping = false;
    }
}
