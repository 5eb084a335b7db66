//! Names and annotations in the control plane (specification, section "Control plane names").

use super::lowering::Lowering;
use super::type_layout::TypeLayout;
use crate::ast::{self, Annotation, AnnotationBody, Annotations};
use crate::hir::{Callee, Expr, ExprKind};
use crate::lex::{Tok, join_with_blanks};
use ir::Preamble;

/// Unstructured annotations with their own P4Info fields: name and id.
const IDENTITY: [&str; 2] = ["name", "id"];
/// Unstructured annotations that P4Info shows as documentation.
const DOCUMENTATION: [&str; 2] = ["brief", "description"];
/// Annotations that p4c parses and prints as lists of expressions, without a blank before commas.
const LISTS: [&str; 3] = ["synchronous", "field_list", "command_line"];

/// Returns the annotation with that name.
pub(super) fn find_annotation<'x>(annotations: &'x Annotations, name: &str) -> Option<&'x Annotation> {
    annotations.iter().find(|a| a.name.as_str() == name)
}

/// Returns the control-plane name of a declaration: that of `@name`, or its own. Keeps a leading
/// dot.
pub(super) fn local_name<'x>(name: &'x str, annotations: &'x Annotations) -> &'x str {
    find_annotation(annotations, "name").and_then(Annotation::single_string).unwrap_or(name)
}

/// Returns the full name of a declaration inside `prefix`. `@name(".x")` is absolute.
pub(super) fn control_plane_name(prefix: &str, name: &str, annotations: &Annotations) -> String {
    let local = local_name(name, annotations);
    match local.strip_prefix('.') {
        Some(absolute) => absolute.to_string(),
        None if prefix.is_empty() => local.to_string(),
        None => format!("{prefix}.{local}"),
    }
}

/// Returns the number in `@id(n)`, or 0.
pub(super) fn annotation_id(annotations: &Annotations) -> u32 {
    annotation_number(annotations, "id").unwrap_or(0)
}

/// Returns the number in `@name(n)` for the annotation `name`.
pub(super) fn annotation_number(annotations: &Annotations, name: &str) -> Option<u32> {
    match find_annotation(annotations, name)?.exprs()? {
        [ast::Expr { kind: ast::ExprKind::Int(n), .. }, ..] => u32::try_from(&n.value).ok(),
        _ => None,
    }
}

/// Returns an annotation as P4Info shows it, with its `@` and its body.
pub(super) fn annotation_text(annotation: &Annotation) -> String {
    let name = annotation.name.as_str();
    match &annotation.body {
        AnnotationBody::None => format!("@{name}"),
        AnnotationBody::Unstructured(body) if body.text.is_empty() => format!("@{name}"),
        AnnotationBody::Unstructured(body) => match &body.key_values {
            // Concatenations are already evaluated. Values that are not strings are reported
            // elsewhere.
            Some(pairs) if name == "pkginfo" => {
                let strings = pairs.iter().filter(|pair| matches!(pair.value.kind, ast::ExprKind::Str(_)));
                format!("@{name}({})", key_values(strings))
            }
            _ if LISTS.contains(&name) => {
                let items = body.tokens.split(|token| token.kind == Tok::Comma).map(join_with_blanks);
                format!("@{name}({})", items.collect::<Vec<_>>().join(", "))
            }
            _ => format!("@{name}({})", body.text),
        },
        AnnotationBody::List(exprs) => format!("@{name}[{}]", literals(exprs.iter())),
        AnnotationBody::KeyValues(pairs) => format!("@{name}[{}]", key_values(pairs.iter())),
    }
}

fn key_values<'x>(pairs: impl Iterator<Item = &'x ast::NamedExpr>) -> String {
    pairs.map(|p| format!("{}={}", p.name, literal(&p.value))).collect::<Vec<_>>().join(", ")
}

fn literals<'x>(exprs: impl Iterator<Item = &'x ast::Expr>) -> String {
    exprs.map(literal).collect::<Vec<_>>().join(", ")
}

fn literal(expr: &ast::Expr) -> String {
    match &expr.kind {
        ast::ExprKind::Int(n) => n.value.to_string(),
        ast::ExprKind::Bool(b) => b.to_string(),
        ast::ExprKind::Str(text) => format!("\"{text}\""),
        ast::ExprKind::Unary { op, operand } => format!("{}{}", op.as_str(), literal(operand)),
        ast::ExprKind::Binary { op, left, right, .. } => {
            format!("({} {} {})", literal(left), op.as_str(), literal(right))
        }
        _ => "...".to_string(),
    }
}

/// Returns the annotations that P4Info shows as annotations. Structured ones are always included.
pub(super) fn shown_annotations(annotations: &Annotations, except: &[&str]) -> Vec<String> {
    let hidden = [&IDENTITY[..], &DOCUMENTATION, except].concat();
    annotations_except(annotations, &hidden)
}

/// Returns the annotations of an action in a table's list. Omits `@tableonly` or `@defaultonly` if
/// it comes first, because it has its own field. As in p4c, P4Info shows a later one.
pub(super) fn listed_action_annotations(annotations: &Annotations) -> Vec<String> {
    let mut listed = shown_annotations(annotations, &[]);
    if listed.first().is_some_and(|first| matches!(first.as_str(), "@tableonly" | "@defaultonly")) {
        listed.remove(0);
    }
    listed
}

/// Returns the annotations including `@brief` and `@description`, for declarations without a
/// [`Preamble`] to store these.
pub(super) fn documented_annotations(annotations: &Annotations, except: &[&str]) -> Vec<String> {
    annotations_except(annotations, &[&IDENTITY[..], except].concat())
}

fn annotations_except(annotations: &Annotations, hidden: &[&str]) -> Vec<String> {
    let structured = |a: &Annotation| matches!(a.body, AnnotationBody::List(_) | AnnotationBody::KeyValues(_));
    let keep = |a: &&Annotation| structured(a) || !hidden.contains(&a.name.as_str());
    annotations.iter().filter(keep).map(annotation_text).collect()
}

/// Builds the control-plane identity of a declaration with that full name.
pub(super) fn build_preamble(name: String, annotations: &Annotations) -> Preamble {
    let text = |name: &str| {
        let text = find_annotation(annotations, name).and_then(Annotation::single_string);
        text.unwrap_or_default().to_string()
    };
    Preamble {
        name,
        id: annotation_id(annotations),
        annotations: shown_annotations(annotations, &[]),
        brief: text("brief"),
        description: text("description"),
        hidden: find_annotation(annotations, "hidden").is_some(),
    }
}

impl Lowering<'_> {
    /// Returns the P4Runtime name of a key: the path of its expression, such as `hdr.ipv4.dst`, or
    /// its `@name`. A name that begins with a dot replaces the whole path. `None` if the expression
    /// is too complex.
    pub(super) fn key_name(&mut self, expr: &Expr) -> Option<String> {
        Some(match &expr.kind {
            ExprKind::Local(id) => {
                let local = self.local_decl(*id);
                let name = local_name(&local.name, &local.annotations);
                name.strip_prefix('.').unwrap_or(name).to_string()
            }
            ExprKind::Field(base, field_index) => {
                let (name, annotations) = self.field_name(base, *field_index)?;
                match local_name(&name, &annotations).strip_prefix('.') {
                    Some(absolute) => absolute.to_string(),
                    None => format!("{}.{}", self.key_name(base)?, local_name(&name, &annotations)),
                }
            }
            ExprKind::Index(base, index) => format!("{}[{}]", self.key_name(base)?, self.key_name(index)?),
            ExprKind::StackNext(base) => format!("{}.next", self.key_name(base)?),
            ExprKind::StackLast(base) => format!("{}.last", self.key_name(base)?),
            ExprKind::Slice { base, hi, lo } => format!("{}[{hi}:{lo}]", self.key_name(base)?),
            ExprKind::Binary(ast::BinaryOp::BitAnd, left, right) => {
                format!("{} & {}", self.key_name(left)?, self.key_name(right)?)
            }
            ExprKind::Int(number) => {
                let text = self.sources.text(expr.span).trim();
                if text.is_empty() { number.to_string() } else { literal_name(text, number) }
            }
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Call(call) => match &call.callee {
                Callee::IsValid(header) => format!("{}.$valid$", self.key_name(header)?),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Returns name and annotations of field `n` of a struct, header or union.
    fn field_name(&mut self, base: &Expr, n: usize) -> Option<(String, Annotations)> {
        let ty = self.substitute_scope_params(base.ty);
        if let crate::hir::TyKind::Struct(id, _) = self.types.kind(ty) {
            let field = self.hir.structs[id.index()].fields.get(n)?;
            return Some((field.name.to_string(), field.annotations.clone()));
        }
        match self.layout(ty) {
            TypeLayout::Struct(members) => Some((members.get(n)?.name.to_string(), Annotations::new())),
            _ => None,
        }
    }
}

/// Formats a number like p4c: in its base, without width and underscores.
fn literal_name(text: &str, n: &num_bigint::BigInt) -> String {
    let digits = text.split_once(['w', 's']).map_or(text, |(_, digits)| digits);
    let base = digits.get(..2).unwrap_or("").to_ascii_lowercase();
    match base.as_str() {
        "0x" => format!("0x{n:x}"),
        "0b" => format!("0b{n:b}"),
        "0o" => format!("0o{n:o}"),
        _ => n.to_string(),
    }
}
