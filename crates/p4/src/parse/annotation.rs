//! Annotations.

use super::cursor::{Parse, Parser};
use crate::ast::{Annotation, AnnotationBody, Annotations, BinaryOp, Expr, ExprKind, Ident, NamedExpr, Unstructured};
use crate::diag::Diagnostic;
use crate::lex::{Tok, separated};

impl Parser<'_> {
    /// All annotations here.
    pub fn annotations(&mut self) -> Parse<Annotations> {
        let mut annotations = Vec::new();
        while self.is(Tok::At) {
            annotations.push(self.annotation()?);
        }
        Ok(annotations)
    }

    fn annotation(&mut self) -> Parse<Annotation> {
        let start = self.expect(Tok::At)?;
        let pragma = &*self.token().text == "pragma" && !self.token().spaced && !self.peek_at(1).line_start;
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
        let annotation = Annotation { name, body, span: self.since(start) };
        self.check_known(&annotation);
        Ok(annotation)
    }

    /// Reports an annotation with a meaning of its own whose body is not of the form that the meaning needs.
    fn check_known(&mut self, annotation: &Annotation) {
        let (fits, form) = match annotation.name.as_str() {
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
                let fits = |expr: &Expr| matches!(&expr.kind, ExprKind::Int(n) if u32::try_from(&n.value).is_ok());
                let fits = matches!(annotation.exprs(), Some([number]) if fits(number));
                (fits, format!("@{}(7), with a number of 32 bits", annotation.name))
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
        if !fits {
            let message = format!("the body of `@{}` has the wrong form", annotation.name);
            let diagnostic = Diagnostic::error("bad-annotation", annotation.span, message);
            self.report(diagnostic.help(format!("write {form}")));
        }
    }

    /// An expression; a concatenation of string literals becomes one literal, since no checker evaluates annotations.
    fn annotation_expr(&mut self) -> Parse<Expr> {
        let expr = self.expr()?;
        Ok(match concatenated(&expr) {
            Some(text) => Expr { kind: ExprKind::Str(text.into()), span: expr.span },
            None => expr,
        })
    }

    /// `key = value`, with concatenated strings as one.
    fn annotation_pair(&mut self) -> Parse<NamedExpr> {
        let mut pair = self.named_expr()?;
        if let Some(text) = concatenated(&pair.value) {
            pair.value.kind = ExprKind::Str(text.into());
        }
        Ok(pair)
    }

    /// Any word, keywords too.
    fn annotation_name(&mut self) -> Parse<Ident> {
        if !self.is(Tok::Ident) && !self.kind().is_keyword() {
            return self.fail_expected("the annotation's name");
        }
        let name = Ident::new(self.token().text.clone(), self.span());
        self.bump();
        Ok(name)
    }

    /// The rest of an `@pragma` line.
    fn pragma_body(&mut self) -> Parse<AnnotationBody> {
        let from = self.at;
        while !self.token().line_start {
            self.bump();
        }
        let to = self.at;
        Ok(self.unstructured(from, to))
    }

    /// `(...)` with balanced parentheses.
    fn unstructured_body(&mut self) -> Parse<AnnotationBody> {
        let open = self.expect(Tok::LParen)?;
        let from = self.at;
        let mut depth = 0usize;
        loop {
            match self.kind() {
                Tok::RParen if depth == 0 => break,
                Tok::RParen => depth -= 1,
                Tok::LParen => depth += 1,
                Tok::Eof => {
                    let message = "the annotation's `(` is never closed";
                    return self.fail_with(Diagnostic::error("syntax", open, message).help("add `)`"));
                }
                _ => {}
            }
            self.bump();
        }
        let to = self.at;
        let body = self.unstructured(from, to);
        self.at = to + 1;
        Ok(body)
    }

    /// The body of the tokens `from..to`, read as expressions and as pairs where it can be. Leaves the parser at `to`.
    fn unstructured(&mut self, from: usize, to: usize) -> AnnotationBody {
        let tokens = self.tokens_between(from, to).to_vec();
        let text = separated(&tokens).into();
        let exprs = self.attempt(from, to, Self::annotation_expr);
        let key_values = if exprs.is_some() { None } else { self.attempt(from, to, Self::annotation_pair) };
        self.at = to;
        AnnotationBody::Unstructured(Unstructured { tokens, text, exprs, key_values })
    }

    /// The tokens `from..to` as items with commas between them, if that is what they are. Reports nothing.
    fn attempt<T>(&mut self, from: usize, to: usize, item: fn(&mut Self) -> Parse<T>) -> Option<Vec<T>> {
        let found = self.diagnostics.len();
        let unknown = self.unknown_types.len();
        let outer = std::mem::replace(&mut self.gt_closes, false);
        self.at = from;
        let mut items = Vec::new();
        let mut whole = from == to;
        while self.at < to {
            match item(self) {
                Ok(parsed) => items.push(parsed),
                Err(_) => break,
            }
            whole = self.at == to;
            if whole || !self.eat(Tok::Comma) {
                break;
            }
        }
        let clean = self.diagnostics.len() == found;
        self.diagnostics.truncate(found);
        self.unknown_types.truncate(unknown);
        self.gt_closes = outer;
        (whole && clean).then_some(items)
    }

    /// `[a, b]` or `[k = a, l = b]`
    fn structured_body(&mut self) -> Parse<AnnotationBody> {
        self.expect(Tok::LBracket)?;
        if self.is_name_at(0) && self.kind_at(1) == Tok::Assign {
            let pairs: Vec<NamedExpr> = self.comma_list(Tok::RBracket, true, Self::annotation_pair)?;
            return Ok(AnnotationBody::KeyValues(pairs));
        }
        let exprs: Vec<Expr> = self.comma_list(Tok::RBracket, true, Self::annotation_expr)?;
        Ok(AnnotationBody::List(exprs))
    }
}

/// The text of a string literal or a concatenation of them.
fn concatenated(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Str(text) => Some(text.to_string()),
        ExprKind::Binary { op: BinaryOp::Concat, left, right, .. } => Some(concatenated(left)? + &concatenated(right)?),
        _ => None,
    }
}

/// Whether the body is a string and `string`, `bit<N>` or `N` (P4Runtime specification, section "Translation of
/// Port Numbers" and its kin).
fn is_translation(annotation: &Annotation) -> bool {
    let AnnotationBody::Unstructured(body) = &annotation.body else { return false };
    let kinds: Vec<Tok> = body.tokens.iter().map(|token| token.kind).collect();
    matches!(
        kinds.as_slice(),
        [Tok::Str, Tok::Comma, Tok::Int | Tok::String] | [Tok::Str, Tok::Comma, Tok::Bit, Tok::Lt, Tok::Int, Tok::Gt]
    )
}
