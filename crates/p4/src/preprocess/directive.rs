//! Directives.

use super::condition::Unbalanced;
use super::expand::span_of;
use super::loader::normal;
use super::{OpenFile, Preprocessor};
use crate::diag::Diagnostic;
use crate::lex::{Tok, Token, spell};
use crate::span::Span;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Preprocessor<'_> {
    /// A directive, of which `hash` has been read.
    pub(super) fn directive(&mut self, hash: Token, open: &mut OpenFile) {
        let active = open.conditions.active();
        open.scanner.lenient = !active;
        let line = self.directive_line(open);
        let span = span_of(&line, hash.span);
        let Some((name, rest)) = line.split_first() else { return };
        let at = hash.span.to(name.span);
        match &*name.text {
            "if" => {
                let holds = active && self.condition_holds(rest, at);
                self.begin_condition(open, at, holds);
            }
            "ifdef" | "ifndef" => {
                let defined = active && self.is_defined(rest, at);
                self.begin_condition(open, at, defined == (&*name.text == "ifdef"));
            }
            "elif" => {
                let holds = open.conditions.elif_matters() && self.condition_holds(rest, at);
                let result = open.conditions.elif(holds);
                self.balance(result, at, "#elif");
            }
            "else" => {
                let result = open.conditions.otherwise();
                self.balance(result, at, "#else");
            }
            "endif" => {
                let result = open.conditions.end();
                self.balance(result, at, "#endif");
            }
            _ if !active => {}
            "define" => self.define(rest, at),
            "undef" => self.undef(rest, at),
            "include" => self.include(rest, at, open),
            "error" => {
                let message = self.message_text(rest);
                self.report(Diagnostic::error("error-directive", span, message));
            }
            "warning" => {
                let message = self.message_text(rest);
                self.report(Diagnostic::warning("warning-directive", span, message));
            }
            "line" => self.line_directive(rest, at),
            "pragma" => {
                if rest.first().is_some_and(|t| &*t.text == "once") {
                    self.once.insert(normal(&open.path));
                }
            }
            _ if name.kind == Tok::Int => self.line_directive(&line, at),
            unknown => {
                let message = format!("unknown directive `#{unknown}` is ignored");
                self.report(Diagnostic::warning("unknown-directive", at, message));
            }
        }
        open.scanner.lenient = !open.conditions.active();
        // The first token of the next line was read before it was known how to read it.
        if let Some(peeked) = open.peeked.take() {
            open.scanner.unread(&peeked);
        }
    }

    /// The tokens up to the end of the line.
    fn directive_line(&mut self, open: &mut OpenFile) -> Vec<Token> {
        let mut line = Vec::new();
        while !open.peek(&mut self.interner).line_start && self.spend(1, Span::default()) {
            line.push(open.next_token(&mut self.interner));
        }
        line
    }

    fn begin_condition(&mut self, open: &mut OpenFile, at: Span, holds: bool) {
        if !open.conditions.begin(at, holds) {
            self.report(Diagnostic::error("limit", at, "conditionals nest too deep"));
            self.stopped = true;
        }
    }

    fn balance(&mut self, result: Result<(), Unbalanced>, at: Span, name: &str) {
        let diagnostic = match result {
            Ok(()) => return,
            Err(Unbalanced::NotOpen) => {
                Diagnostic::error("unbalanced-conditional", at, format!("`{name}` without `#if` in this file"))
            }
            Err(Unbalanced::AfterElse) => {
                Diagnostic::error("unbalanced-conditional", at, format!("`{name}` after `#else`"))
            }
        };
        self.report(diagnostic);
    }

    fn is_defined(&mut self, rest: &[Token], at: Span) -> bool {
        match rest.first() {
            Some(name) => self.names_macro(name.kind, &name.text),
            None => {
                self.report(Diagnostic::error("bad-directive", at.end(), "the macro's name is missing"));
                false
            }
        }
    }

    fn undef(&mut self, rest: &[Token], at: Span) {
        match rest.first() {
            Some(name) => {
                self.macros.remove(&name.text);
            }
            None => self.report(Diagnostic::error("bad-directive", at.end(), "the macro's name is missing")),
        }
    }

    /// The rest of the line as written.
    fn message_text(&self, rest: &[Token]) -> String {
        let text = self.map.text(span_of(rest, Span::default())).trim();
        if rest.is_empty() || text.is_empty() { "(no message)".to_owned() } else { text.to_owned() }
    }

    /// `#line 12` or `#line 12 "file"`: the next line is line 12.
    fn line_directive(&mut self, rest: &[Token], at: Span) {
        let rest = self.expand_all(rest.to_vec());
        let number = rest.iter().find(|t| t.kind == Tok::Int).and_then(|t| t.text.parse::<u32>().ok());
        let Some(number) = number else {
            self.report(Diagnostic::error("bad-directive", at, "`#line` needs a line number"));
            return;
        };
        let path: Option<Arc<str>> = rest.iter().find(|t| t.kind == Tok::Str).map(|t| t.text.trim_matches('"').into());
        let text = self.map.file(at.file).map(|f| f.text.clone()).unwrap_or_default();
        let tail = text.get(at.hi as usize..).unwrap_or("");
        let next_line = tail.find('\n').map_or(text.len(), |newline| at.hi as usize + newline + 1);
        self.map.renumber(at.file, next_line as u32, number, path);
    }

    fn include(&mut self, rest: &[Token], at: Span, open: &OpenFile) {
        let expanded;
        let names_file = |t: &Token| matches!(t.kind, Tok::Str | Tok::Lt);
        let as_written = rest.first().is_some_and(names_file);
        let rest = if as_written {
            rest
        } else {
            expanded = self.expand_all(rest.to_vec());
            &expanded
        };
        let span = span_of(rest, at);
        let Some((name, quoted)) = self.include_name(rest, as_written) else {
            let diagnostic = Diagnostic::error("bad-directive", span, "`#include` needs a file name");
            self.report(diagnostic.help("write `#include <core.p4>` or `#include \"my.p4\"`"));
            return;
        };
        if self.include_depth >= self.options.limits.include_depth {
            let message = format!("`#include` nests deeper than {}", self.options.limits.include_depth);
            self.report(
                Diagnostic::error("limit", span, message).help("guard the file with `#ifndef` or `#pragma once`"),
            );
            self.stopped = true;
            return;
        }
        let Some((path, text)) = self.find_include(&name, quoted, &open.path, span) else { return };
        if self.once.contains(&normal(&path)) {
            return;
        }
        if self.map.files().count() >= self.options.limits.files {
            let message = format!("more than {} files are included", self.options.limits.files);
            self.report(Diagnostic::error("limit", span, message));
            self.stopped = true;
            return;
        }
        let file = self.map.add(path.display().to_string(), text);
        self.include_depth += 1;
        self.run_file(file, &path);
        self.include_depth -= 1;
    }

    /// The file's name, and whether it is in quotes.
    fn include_name(&self, rest: &[Token], as_written: bool) -> Option<(String, bool)> {
        let first = rest.first()?;
        if first.kind == Tok::Str {
            let name = first.text.trim_matches('"');
            return (!name.is_empty()).then(|| (name.to_owned(), true));
        }
        if first.kind != Tok::Lt {
            return None;
        }
        // Between angle brackets the text counts as it is written; the tokens are only how it was read.
        let spelled = spell(rest);
        let text = if as_written { self.map.text(span_of(rest, first.span)) } else { &spelled };
        let name = text.strip_prefix('<')?.split('>').next()?.trim();
        (text.contains('>') && !name.is_empty()).then(|| (name.to_owned(), false))
    }

    fn find_include(&mut self, name: &str, quoted: bool, from: &Path, span: Span) -> Option<(PathBuf, String)> {
        let here = from.parent().map(Path::to_path_buf).unwrap_or_default();
        let dirs: Vec<PathBuf> =
            quoted.then_some(here).into_iter().chain(self.options.include_dirs.iter().cloned()).collect();
        for dir in &dirs {
            let path = dir.join(name);
            match self.loader.load(&path, self.options.limits.file_bytes) {
                Ok(text) => return Some((path, text)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let message = format!("cannot read `{}`: {error}", path.display());
                    self.report(Diagnostic::error("cannot-read", span, message));
                    return None;
                }
            }
        }
        let mut help = String::from("no include directory was given; give one with -I");
        if !dirs.is_empty() {
            let shown: Vec<String> = dirs.iter().map(|dir| format!("`{}`", shown_dir(dir))).collect();
            help = format!("searched in {}; give a directory with -I", shown.join(", "));
        }
        if let Some(foreign) = crate::architectures::explain_include(name) {
            help = foreign;
        }
        let message = format!("there is no file `{name}`");
        self.report(Diagnostic::error(super::INCLUDE_NOT_FOUND, span, message).help(help));
        None
    }
}

fn shown_dir(dir: &Path) -> String {
    if dir.as_os_str().is_empty() { ".".to_owned() } else { dir.display().to_string() }
}
