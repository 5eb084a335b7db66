//! Annotations: the rules that hold for all of them.

use super::Checker;
use crate::ast::{self, Annotation, AnnotationBody, Annotations, IntLiteral};
use crate::diag::Diagnostic;
use crate::hir::{ExprKind, Types};
use num_traits::ToPrimitive;

impl Checker<'_> {
    /// Checks the annotations in front of something, and gives them back with the values of the structured ones computed.
    pub(super) fn annotations(&mut self, annotations: &Annotations) -> Annotations {
        self.repeated(annotations);
        let mut computed = annotations.clone();
        for annotation in &mut computed {
            match &mut annotation.body {
                AnnotationBody::List(values) => values.iter_mut().for_each(|value| self.annotation_value(value)),
                AnnotationBody::KeyValues(pairs) => {
                    self.distinct(pairs.iter().map(|p| &p.name));
                    pairs.iter_mut().for_each(|pair| self.annotation_value(&mut pair.value));
                }
                AnnotationBody::None | AnnotationBody::Unstructured(_) => {}
            }
            self.text_annotation(annotation);
        }
        computed
    }

    /// A structured annotation is the only one of its name.
    fn repeated(&mut self, annotations: &Annotations) {
        let structured = |a: &Annotation| matches!(a.body, AnnotationBody::List(_) | AnnotationBody::KeyValues(_));
        for (at, second) in annotations.iter().enumerate() {
            let first = annotations[..at].iter().find(|a| a.name.name == second.name.name);
            if let Some(first) = first.filter(|f| structured(f) || structured(second)) {
                self.error(
                    Diagnostic::error("annotation", second.span, format!("`@{}` is given twice", second.name))
                        .label(first.span, "the first")
                        .help("a structured annotation can be given only once"),
                );
            }
        }
    }

    /// The value of a structured annotation, which becomes the literal that it amounts to: a constant integer, string or
    /// bool.
    fn annotation_value(&mut self, value: &mut ast::Expr) {
        let checked = self.expr(value, None);
        match checked.kind {
            ExprKind::Int(n) => {
                if i64::try_from(&n).is_err() {
                    let message = "an integer in a structured annotation has to fit 64 bits with sign";
                    let error = Diagnostic::error("annotation", value.span, message);
                    self.error(error.help("write it as a string"));
                }
                value.kind = ast::ExprKind::Int(IntLiteral { value: n, width: None, base: 10 });
            }
            ExprKind::Str(text) => value.kind = ast::ExprKind::Str(text),
            ExprKind::Bool(known) => value.kind = ast::ExprKind::Bool(known),
            _ if checked.ty == Types::UNKNOWN => {}
            _ => {
                let message = "this is no value for a structured annotation";
                let error = Diagnostic::error("annotation", value.span, message);
                self.error(error.help("use constant integers, strings and bools"));
            }
        }
    }

    /// Annotations whose body is one string.
    fn text_annotation(&mut self, annotation: &Annotation) {
        if annotation.name.as_str() == "match" {
            return self.match_annotation(annotation);
        }
        if !matches!(annotation.name.as_str(), "name" | "deprecated") {
            return;
        }
        let AnnotationBody::Unstructured(body) = &annotation.body else { return };
        let text = match &body.exprs {
            Some(exprs) => match exprs.as_slice() {
                [one] => {
                    let value = self.expr(one, None);
                    value.ty == Types::UNKNOWN || matches!(value.kind, ExprKind::Str(_))
                }
                _ => false,
            },
            None => false,
        };
        if !text {
            let message = format!("`@{}` needs one string", annotation.name);
            self.fail("annotation", annotation.span, message);
        }
    }

    /// The numbers in `@field_list(1, KEEP + 1)`, which v1model's `clone_preserving_field_list`
    /// and its kind name: constant integers, evaluated where the annotation is.
    pub(super) fn field_lists(&mut self, annotations: &Annotations) -> Vec<u32> {
        let mut lists = Vec::new();
        for annotation in annotations.iter().filter(|a| a.name.as_str() == "field_list") {
            let Some(exprs) = annotation.exprs().filter(|exprs| !exprs.is_empty()) else {
                self.error(
                    Diagnostic::error("annotation", annotation.span, "`@field_list` needs the numbers of the lists")
                        .help("write `@field_list(1)`, or `@field_list(1, 2)` for several lists"),
                );
                continue;
            };
            for expr in exprs {
                let Some(number) = self.const_int(expr, "the number of a field list") else { continue };
                let Some(list) = number.to_u8().map(u32::from) else {
                    let message = format!("there is no field list {number}");
                    self.error(
                        Diagnostic::error("annotation", expr.span, message)
                            .help("field lists have numbers from 0 to 255"),
                    );
                    continue;
                };
                if !lists.contains(&list) {
                    lists.push(list);
                }
            }
        }
        lists
    }

    /// `@match(kind)` of a field of a value set's type.
    fn match_annotation(&mut self, annotation: &Annotation) {
        let [kind] = annotation.exprs().unwrap_or(&[]) else { return };
        let value = self.expr(kind, None);
        if value.ty != Types::UNKNOWN && value.ty != Types::MATCH_KIND {
            self.fail("annotation", kind.span, "`@match` needs a match kind, such as `exact` or `ternary`");
        }
    }
}
