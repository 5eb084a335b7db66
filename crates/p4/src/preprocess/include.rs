//! Executes `#include`, `#include_next` and `#import`.

use super::buffer::{LineBuffer, SearchLocation};
use super::directive::Directive;
use super::loader::normalize_path;
use super::preprocessor::{DirectiveContext, Preprocessor};
use super::token::PpTokenKind;
use crate::diag::Diagnostic;
use crate::span::Span;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Diagnostic code: an included file does not exist.
pub(crate) const INCLUDE_NOT_FOUND: &str = "include-not-found";

/// A file found by the search.
pub(super) struct FoundFile {
    path: PathBuf,
    text: String,
    found_in: SearchLocation,
}

impl Preprocessor<'_> {
    /// Executes a directive that includes a file: finds the file and makes it the text that is read
    /// next. `#import` skips a file that was entered before.
    pub(super) fn execute_include(&mut self, directive: Directive) {
        self.state.directive = DirectiveContext::Include;
        let mut starts_after_current = directive == Directive::IncludeNext;
        if starts_after_current && self.outer.is_empty() {
            let message = "`#include_next` in the main file is an `#include`";
            self.report(Diagnostic::warning("include-next", self.directive_span, message));
            starts_after_current = false;
        }
        let Some((name, is_quoted, span)) = self.included_name() else { return };
        if name.is_empty() {
            self.report(Diagnostic::error("bad-directive", span, "the file's name is empty"));
            return;
        }
        let limits = &self.options.limits;
        if self.outer.len() >= limits.include_depth {
            let message = format!("`#include` nests deeper than {}", limits.include_depth);
            let diagnostic = Diagnostic::error("limit", span, message);
            self.stop_with(diagnostic.help("guard the file with `#ifndef` or `#pragma once`"));
            return;
        }
        self.skip_rest_of_line();
        let Some(found) = self.find_include(&name, is_quoted, starts_after_current, span) else { return };
        if directive == Directive::Import {
            let was_entered = self.entered_files.contains(&normalize_path(&found.path));
            self.once_files.insert(normalize_path(&found.path));
            if was_entered {
                return;
            }
        }
        self.enter_file(found, span);
    }

    /// Makes a file the text that is read next, unless `#pragma once` excludes it. Reading
    /// continues in the current file after its end. `span` is the directive, for errors.
    fn enter_file(&mut self, found: FoundFile, span: Span) {
        let normalized = normalize_path(&found.path);
        if self.once_files.contains(&normalized) && self.entered_files.contains(&normalized) {
            return;
        }
        if self.map.files().count() >= self.options.limits.files {
            let message = format!("more than {} files are included", self.options.limits.files);
            return self.stop_with(Diagnostic::error("limit", span, message));
        }
        if !self.spend_bytes(found.text.len(), span) {
            return;
        }
        self.entered_files.insert(normalized);
        let name = found.path.display().to_string();
        let new_buffer = |file| LineBuffer::new(file, found.path.clone(), found.found_in, &name, &found.text);
        let file = self.map.add(name.clone(), found.text.as_str());
        let new_buffer = new_buffer(file);
        self.mark_entry();
        let outer_buffer = std::mem::replace(&mut self.buffer, new_buffer);
        self.outer.push(outer_buffer);
        self.counts.includes += 1;
        self.mark_file(" 1");
    }

    /// Returns to the file that included this one.
    pub(super) fn leave_file(&mut self) {
        self.close_conditions();
        if let Some(outer) = self.outer.pop() {
            self.buffer = outer;
            self.mark_file(" 2");
        }
    }

    /// Returns the file name, whether it is in quotes, and its span.
    fn included_name(&mut self) -> Option<(String, bool, Span)> {
        let token = self.get_solid_token();
        let name = match token.kind {
            PpTokenKind::Str | PpTokenKind::Header => {
                let text = token.spelling();
                text.get(1..text.len() - 1).unwrap_or("").to_owned()
            }
            PpTokenKind::Less => self.glue_header(),
            _ => {
                let span = if token.kind == PpTokenKind::End { self.directive_span } else { token.span };
                let diagnostic = Diagnostic::error("bad-directive", span, "`#include` needs a file name");
                self.report(diagnostic.help("write `#include <core.p4>` or `#include \"my.p4\"`"));
                return None;
            }
        };
        let span = token.span.to(self.last_span);
        self.check_included_end();
        Some((name, token.kind == PpTokenKind::Str, span))
    }

    /// Warns about each token after the file name.
    fn check_included_end(&mut self) {
        while !self.has_seen_end && !self.is_stopped {
            let token = self.lex_token();
            if !matches!(token.kind, PpTokenKind::End | PpTokenKind::Comment) {
                let message = "text after the file name of `#include` is ignored";
                self.report(Diagnostic::warning("extra-tokens", token.span, message));
            }
        }
    }

    /// Joins the tokens up to `>` into a file name; `<` has been read. White space between tokens
    /// becomes one blank.
    pub(super) fn glue_header(&mut self) -> String {
        let mut name = String::new();
        loop {
            let token = self.get_solid_token();
            match token.kind {
                PpTokenKind::Greater => return name,
                PpTokenKind::End => {
                    if !self.is_stopped {
                        let diagnostic = Diagnostic::error("bad-directive", token.span, "the `>` is missing");
                        self.report(diagnostic.help("add it after the file name"));
                    }
                    return name;
                }
                _ => {
                    if token.is_white() {
                        name.push(' ');
                    }
                    name.push_str(token.spelling());
                    self.spend_tokens(1 + token.spelling().len() / 8, token.span);
                }
            }
        }
    }

    /// Returns the directories to search, in order.
    fn search_path(&self, quoted: bool, next: bool) -> Vec<(PathBuf, SearchLocation)> {
        let dirs = self.options.include_dirs.iter().cloned().enumerate();
        let dirs = dirs.map(|(at, dir)| (dir, SearchLocation::Directory(at)));
        if next {
            let from = match self.buffer.found_in {
                SearchLocation::Here => 0,
                SearchLocation::Directory(at) => at + 1,
            };
            return dirs.skip(from).collect();
        }
        let here = self.buffer.path.parent().map(Path::to_path_buf).unwrap_or_default();
        quoted.then_some((here, SearchLocation::Here)).into_iter().chain(dirs).collect()
    }

    /// Returns the file of that name, if it exists.
    pub(super) fn find_file(&mut self, name: &str, quoted: bool, next: bool) -> Option<FoundFile> {
        let next = next && !self.outer.is_empty();
        self.search_file(name, &self.search_path(quoted, next)).ok().flatten()
    }

    fn search_file(
        &self,
        name: &str,
        dirs: &[(PathBuf, SearchLocation)],
    ) -> Result<Option<FoundFile>, (PathBuf, std::io::Error)> {
        for (dir, found_in) in dirs {
            let path = dir.join(name);
            match self.loader.load(&path, self.options.limits.file_bytes) {
                Ok(text) => return Ok(Some(FoundFile { path, text, found_in: *found_in })),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err((path, error)),
            }
        }
        Ok(None)
    }

    /// Searches the file `name` in the directories for its form: `"name"` if `is_quoted`, otherwise
    /// `<name>`. With `starts_after_current`, the search starts after the directory of the current
    /// file. Reports a missing file at `span` and returns `None`.
    fn find_include(
        &mut self,
        name: &str,
        is_quoted: bool,
        starts_after_current: bool,
        span: Span,
    ) -> Option<FoundFile> {
        let dirs = self.search_path(is_quoted, starts_after_current);
        match self.search_file(name, &dirs) {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {}
            Err((path, error)) => {
                let message = format!("cannot read `{}`: {error}", path.display());
                self.report(Diagnostic::error("cannot-read", span, message));
                return None;
            }
        }
        let mut help = String::from("no include directory was given; give one with -I");
        if !dirs.is_empty() {
            let shown: Vec<String> = dirs.iter().map(|(dir, _)| format!("`{}`", shown_dir(dir))).collect();
            help = format!("searched in {}; give a directory with -I", shown.join(", "));
        }
        if let Some(unsupported) = crate::architectures::unsupported_include_help(name) {
            help = unsupported;
        }
        let message = format!("there is no file `{name}`");
        self.report(Diagnostic::error(INCLUDE_NOT_FOUND, span, message).help(help));
        None
    }
}

fn shown_dir(dir: &Path) -> String {
    if dir.as_os_str().is_empty() { ".".to_owned() } else { dir.display().to_string() }
}
