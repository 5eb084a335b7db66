//! Checks the rules that hold for all annotations.

use super::Checker;
use crate::ast::{self, Annotation, AnnotationBody, Annotations, IntLiteral};
use crate::diag::Diagnostic;
use crate::hir::{ExprKind, Types};
use num_traits::ToPrimitive;

impl Checker<'_> {
    /// Checks the annotations of a declaration and returns them with the values of the structured
    /// ones computed.
    pub(super) fn check_annotations(&mut self, annotations: &Annotations) -> Annotations {
        self.check_repeated_annotations(annotations);
        let mut computed = annotations.clone();
        for annotation in &mut computed {
            match &mut annotation.body {
                AnnotationBody::List(values) => values.iter_mut().for_each(|value| self.eval_annotation_value(value)),
                AnnotationBody::KeyValues(pairs) => {
                    self.check_distinct_names(pairs.iter().map(|p| &p.name));
                    pairs.iter_mut().for_each(|pair| self.eval_annotation_value(&mut pair.value));
                }
                AnnotationBody::None | AnnotationBody::Unstructured(_) => {}
            }
            self.check_text_annotation(annotation);
        }
        computed
    }

    /// Reports a structured annotation with a name that occurs twice.
    fn check_repeated_annotations(&mut self, annotations: &Annotations) {
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

    /// Replaces a value of a structured annotation by the literal that it evaluates to: an integer,
    /// string or bool.
    fn eval_annotation_value(&mut self, value: &mut ast::Expr) {
        let checked = self.check_expr(value, None);
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
                let message = "this is not a valid value for a structured annotation";
                let error = Diagnostic::error("annotation", value.span, message);
                self.error(error.help("use constant integers, strings and bools"));
            }
        }
    }

    /// Checks annotations with a body that must be a single string (`@name`, `@deprecated`) or a
    /// match kind (`@match`).
    fn check_text_annotation(&mut self, annotation: &Annotation) {
        if annotation.name.as_str() == "match" {
            return self.check_match_annotation(annotation);
        }
        if !matches!(annotation.name.as_str(), "name" | "deprecated") {
            return;
        }
        let AnnotationBody::Unstructured(body) = &annotation.body else { return };
        let is_text = match &body.exprs {
            Some(exprs) => match exprs.as_slice() {
                [single] => {
                    let value = self.check_expr(single, None);
                    value.ty == Types::UNKNOWN || matches!(value.kind, ExprKind::Str(_))
                }
                _ => false,
            },
            None => false,
        };
        if !is_text {
            let message = format!("`@{}` needs one string", annotation.name);
            self.fail("annotation", annotation.span, message);
        }
    }

    /// Returns the numbers in `@field_list(1, KEEP + 1)`, to which v1model's
    /// `clone_preserving_field_list` and related functions refer. The numbers are constant
    /// integers, evaluated in the scope of the annotation. A wrong one is reported and left out.
    pub(super) fn annotated_field_lists(&mut self, annotations: &Annotations) -> Vec<u32> {
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
                let Some(number) = self.eval_const_int(expr, "the number of a field list") else { continue };
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

    /// Checks `@match(kind)` of a field of a value set's type.
    fn check_match_annotation(&mut self, annotation: &Annotation) {
        let [kind] = annotation.exprs().unwrap_or(&[]) else { return };
        let value = self.check_expr(kind, None);
        if value.ty != Types::UNKNOWN && value.ty != Types::MATCH_KIND {
            self.fail("annotation", kind.span, "`@match` needs a match kind, such as `exact` or `ternary`");
        }
    }
}
