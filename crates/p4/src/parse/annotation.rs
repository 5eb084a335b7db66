//! Parses annotations.

use super::cursor::{P4Parser, ParseResult};
use crate::ast::{Annotation, AnnotationBody, Annotations, BinaryOp, Expr, ExprKind, Ident, NamedExpr, Unstructured};
use crate::diag::Diagnostic;
use crate::lex::{Tok, join_with_blanks};

impl P4Parser<'_> {
    /// Parses all annotations at the current position.
    pub fn parse_annotations(&mut self) -> ParseResult<Annotations> {
        let mut annotations = Vec::new();
        while self.is(Tok::At) {
            annotations.push(self.parse_annotation()?);
        }
        Ok(annotations)
    }

    fn parse_annotation(&mut self) -> ParseResult<Annotation> {
        let start = self.expect(Tok::At)?;
        let pragma =
            &*self.token().text == "pragma" && !self.token().has_space_before && !self.peek_at(1).is_line_start;
        if pragma {
            self.bump();
        }
        let name = self.annotation_name()?;
        let body = match self.kind() {
            _ if pragma => self.pragma_body()?,
            Tok::LParen => self.unstructured_body()?,
            Tok::LBracket => self.structured_body()?,
            _ => AnnotationBody::None,
        };
        let annotation = Annotation { name, body, span: self.span_since(start) };
        self.check_annotation_form(&annotation);
        Ok(annotation)
    }

    /// Reports a well-known annotation with a body of the wrong form, and shows the right one.
    /// Unknown annotations can have any body.
    fn check_annotation_form(&mut self, annotation: &Annotation) {
        let (is_valid, form) = match annotation.name.as_str() {
            "name"
            | "deprecated"
            | "noWarn"
            | "brief"
            | "description"
            | "controller_header"
            | "selector_size_semantics" => {
                (annotation.single_string().is_some(), format!("@{}(\"...\")", annotation.name))
            }
            "id" | "max_group_size" | "max_member_weight" => {
                let is_u32 = |expr: &Expr| matches!(&expr.kind, ExprKind::Int(n) if u32::try_from(&n.value).is_ok());
                let is_valid = matches!(annotation.exprs(), Some([number]) if is_u32(number));
                (is_valid, format!("@{}(7), with a number of 32 bits", annotation.name))
            }
            "tableonly" | "defaultonly" | "hidden" => {
                let is_empty = match &annotation.body {
                    AnnotationBody::None => true,
                    AnnotationBody::Unstructured(body) => body.tokens.is_empty(),
                    AnnotationBody::List(_) | AnnotationBody::KeyValues(_) => false,
                };
                (is_empty, format!("@{}", annotation.name))
            }
            "pkginfo" => (annotation.key_values().is_some(), "@pkginfo(name = \"...\", version = \"...\")".to_owned()),
            "length" => (annotation.exprs().is_some_and(|exprs| exprs.len() == 1), "@length(expression)".to_owned()),
            "p4runtime_translation" => {
                (is_translation(annotation), "@p4runtime_translation(\"uri\", bit<32>) or (\"uri\", string)".to_owned())
            }
            "p4runtime_translation_mappings" => (
                annotation.mappings().is_some(),
                "@p4runtime_translation_mappings({ {\"name\", 1}, {\"other\", 2} })".to_owned(),
            ),
            _ => return,
        };
        if !is_valid {
            let message = format!("the body of `@{}` has the wrong form", annotation.name);
            let diagnostic = Diagnostic::error("bad-annotation", annotation.span, message);
            self.report(diagnostic.help(format!("write {form}")));
        }
    }

    /// Parses an expression. Concatenated string literals become one literal, because the checker
    /// does not evaluate annotations.
    fn annotation_expr(&mut self) -> ParseResult<Expr> {
        let expr = self.parse_expr()?;
        Ok(match concatenate_strings(&expr) {
            Some(text) => Expr { kind: ExprKind::Str(text.into()), span: expr.span },
            None => expr,
        })
    }

    /// Parses `key = value`; concatenated string literals become one.
    fn annotation_pair(&mut self) -> ParseResult<NamedExpr> {
        let mut pair = self.parse_named_expr()?;
        if let Some(text) = concatenate_strings(&pair.value) {
            pair.value.kind = ExprKind::Str(text.into());
        }
        Ok(pair)
    }

    /// Parses any word, including keywords.
    fn annotation_name(&mut self) -> ParseResult<Ident> {
        if !self.is(Tok::Ident) && !self.kind().is_keyword() {
            return self.fail_expected("the annotation's name");
        }
        let name = Ident::new(self.token().text.clone(), self.span());
        self.bump();
        Ok(name)
    }

    /// Parses the remaining tokens of an `@pragma` line.
    fn pragma_body(&mut self) -> ParseResult<AnnotationBody> {
        let from = self.at;
        while !self.token().is_line_start {
            self.bump();
        }
        let to = self.at;
        Ok(self.build_unstructured(from, to))
    }

    /// Parses `(...)` with balanced parentheses, as the body of an annotation. Its tokens are kept,
    /// and parsed as a list of expressions or of `name = value` where they form one.
    fn unstructured_body(&mut self) -> ParseResult<AnnotationBody> {
        let open_paren = self.expect(Tok::LParen)?;
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.kind() {
                Tok::RParen if depth == 0 => break,
                Tok::RParen => depth -= 1,
                Tok::LParen => depth += 1,
                Tok::Eof => {
                    let message = "the annotation's `(` is never closed";
                    return self.fail_with(Diagnostic::error("syntax", open_paren, message).help("add `)`"));
                }
                _ => {}
            }
            self.bump();
        }
        let end = self.at;
        let body = self.build_unstructured(start, end);
        self.at = end + 1;
        Ok(body)
    }

    /// Builds the body of the tokens `from..to` and tries to parse it as expressions and as pairs.
    /// Leaves the parser at `to`.
    fn build_unstructured(&mut self, from: usize, to: usize) -> AnnotationBody {
        let tokens = self.tokens_between(from, to).to_vec();
        let text = join_with_blanks(&tokens).into();
        let exprs = self.try_comma_list(from, to, Self::annotation_expr);
        let key_values = if exprs.is_some() { None } else { self.try_comma_list(from, to, Self::annotation_pair) };
        self.at = to;
        AnnotationBody::Unstructured(Unstructured { tokens, text, exprs, key_values })
    }

    /// Parses the tokens `from..to` (indices) as comma-separated items with the parser `item`;
    /// `None` if they are not. Reports no errors, because the tokens can have any other form.
    fn try_comma_list<T>(&mut self, start: usize, end: usize, item: fn(&mut Self) -> ParseResult<T>) -> Option<Vec<T>> {
        let diagnostics_before = self.diagnostics.len();
        let unknown_before = self.unknown_types.len();
        let was_gt_closing = std::mem::replace(&mut self.is_gt_closing, false);
        self.at = start;
        let mut items = Vec::new();
        let mut is_complete = start == end;
        while self.at < end {
            match item(self) {
                Ok(parsed) => items.push(parsed),
                Err(_) => break,
            }
            is_complete = self.at == end;
            if is_complete || !self.eat(Tok::Comma) {
                break;
            }
        }
        let has_no_errors = self.diagnostics.len() == diagnostics_before;
        self.diagnostics.truncate(diagnostics_before);
        self.unknown_types.truncate(unknown_before);
        self.is_gt_closing = was_gt_closing;
        (is_complete && has_no_errors).then_some(items)
    }

    /// Parses `[a, b]` or `[k = a, l = b]`.
    fn structured_body(&mut self) -> ParseResult<AnnotationBody> {
        self.expect(Tok::LBracket)?;
        if self.is_name_at(0) && self.kind_at(1) == Tok::Assign {
            let pairs: Vec<NamedExpr> = self.parse_comma_list(Tok::RBracket, true, Self::annotation_pair)?;
            return Ok(AnnotationBody::KeyValues(pairs));
        }
        let exprs: Vec<Expr> = self.parse_comma_list(Tok::RBracket, true, Self::annotation_expr)?;
        Ok(AnnotationBody::List(exprs))
    }
}

/// Returns the text of a string literal or of concatenated string literals.
fn concatenate_strings(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Str(text) => Some(text.to_string()),
        ExprKind::Binary { op: BinaryOp::Concat, left, right, .. } => {
            Some(concatenate_strings(left)? + &concatenate_strings(right)?)
        }
        _ => None,
    }
}

/// Returns whether the body is a string followed by `string`, `bit<N>` or `N` (P4Runtime
/// specification, section "Translation of Port Numbers" and related sections).
fn is_translation(annotation: &Annotation) -> bool {
    let AnnotationBody::Unstructured(body) = &annotation.body else { return false };
    let kinds: Vec<Tok> = body.tokens.iter().map(|token| token.kind).collect();
    matches!(
        kinds.as_slice(),
        [Tok::Str, Tok::Comma, Tok::Int | Tok::String] | [Tok::Str, Tok::Comma, Tok::Bit, Tok::Lt, Tok::Int, Tok::Gt]
    )
}
