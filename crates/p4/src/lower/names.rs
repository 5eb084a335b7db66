//! Names and annotations as the control plane sees them (specification, section "Control plane names").

use super::lowering::Lower;
use super::shape::Shape;
use crate::ast::{self, Annotation, AnnotationBody, Annotations};
use crate::hir::{Callee, Expr, ExprKind};
use crate::lex::{Tok, separated};
use ir::Preamble;

/// Unstructured annotations that P4Info shows in fields of their own: a name and an id.
const IDENTITY: [&str; 2] = ["name", "id"];
/// Unstructured annotations that P4Info shows as documentation.
const DOCUMENTATION: [&str; 2] = ["brief", "description"];
/// Annotations that p4c reads as lists of expressions and writes as such: without a blank in front of a comma.
const LISTS: [&str; 3] = ["synchronous", "field_list", "command_line"];

/// The annotation of that name.
pub(super) fn annotation<'x>(annotations: &'x Annotations, name: &str) -> Option<&'x Annotation> {
    annotations.iter().find(|a| a.name.as_str() == name)
}

/// The name a declaration has for the control plane: its own or that of `@name`; a leading dot stands.
pub(super) fn local_name<'x>(name: &'x str, annotations: &'x Annotations) -> &'x str {
    annotation(annotations, "name").and_then(Annotation::single_string).unwrap_or(name)
}

/// The full name of a declaration inside `prefix`; `@name(".x")` is absolute.
pub(super) fn control_plane_name(prefix: &str, name: &str, annotations: &Annotations) -> String {
    let local = local_name(name, annotations);
    match local.strip_prefix('.') {
        Some(absolute) => absolute.to_string(),
        None if prefix.is_empty() => local.to_string(),
        None => format!("{prefix}.{local}"),
    }
}

/// The number in `@id(n)`, or 0.
pub(super) fn id(annotations: &Annotations) -> u32 {
    number(annotations, "id").unwrap_or(0)
}

/// The number in `@name(n)`.
pub(super) fn number(annotations: &Annotations, name: &str) -> Option<u32> {
    match annotation(annotations, name)?.exprs()? {
        [ast::Expr { kind: ast::ExprKind::Int(n), .. }, ..] => u32::try_from(&n.value).ok(),
        _ => None,
    }
}

/// An annotation as P4Info shows it.
pub(super) fn annotation_text(annotation: &Annotation) -> String {
    let name = annotation.name.as_str();
    match &annotation.body {
        AnnotationBody::None => format!("@{name}"),
        AnnotationBody::Unstructured(body) if body.text.is_empty() => format!("@{name}"),
        AnnotationBody::Unstructured(body) => match &body.key_values {
            // Values that are concatenations have been computed; those that are no strings are reported elsewhere.
            Some(pairs) if name == "pkginfo" => {
                let strings = pairs.iter().filter(|pair| matches!(pair.value.kind, ast::ExprKind::Str(_)));
                format!("@{name}({})", key_values(strings))
            }
            _ if LISTS.contains(&name) => {
                let items = body.tokens.split(|token| token.kind == Tok::Comma).map(separated);
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

/// The annotations that P4Info shows as such. A structured annotation is shown whatever its name.
pub(super) fn told(annotations: &Annotations, except: &[&str]) -> Vec<String> {
    let hidden = [&IDENTITY[..], &DOCUMENTATION, except].concat();
    told_but(annotations, &hidden)
}

/// The annotations of an action in a table's list, without a `@tableonly` or `@defaultonly` in front, which has a field of
/// its own. One behind others stays, so that P4Info shows it there.
pub(super) fn of_listed_action(annotations: &Annotations) -> Vec<String> {
    let mut listed = told(annotations, &[]);
    if listed.first().is_some_and(|first| matches!(first.as_str(), "@tableonly" | "@defaultonly")) {
        listed.remove(0);
    }
    listed
}

/// As [`told`], with `@brief` and `@description`: for what has no [`Preamble`] to keep them in.
pub(super) fn described(annotations: &Annotations, except: &[&str]) -> Vec<String> {
    told_but(annotations, &[&IDENTITY[..], except].concat())
}

fn told_but(annotations: &Annotations, hidden: &[&str]) -> Vec<String> {
    let structured = |a: &Annotation| matches!(a.body, AnnotationBody::List(_) | AnnotationBody::KeyValues(_));
    let keep = |a: &&Annotation| structured(a) || !hidden.contains(&a.name.as_str());
    annotations.iter().filter(keep).map(annotation_text).collect()
}

/// The control-plane identity of a declaration with that full name.
pub(super) fn preamble(name: String, annotations: &Annotations) -> Preamble {
    let text = |name: &str| {
        let text = annotation(annotations, name).and_then(Annotation::single_string);
        text.unwrap_or_default().to_string()
    };
    Preamble {
        name,
        id: id(annotations),
        annotations: told(annotations, &[]),
        brief: text("brief"),
        description: text("description"),
        hidden: annotation(annotations, "hidden").is_some(),
    }
}

impl Lower<'_> {
    /// The name that P4Runtime gives to a key; `None` if the expression is too complex for one.
    pub(super) fn key_name(&mut self, expr: &Expr) -> Option<String> {
        Some(match &expr.kind {
            ExprKind::Local(id) => {
                let local = self.local(*id);
                let name = local_name(&local.name, &local.annotations);
                name.strip_prefix('.').unwrap_or(name).to_string()
            }
            ExprKind::Field(base, n) => {
                let (name, annotations) = self.field_name(base, *n)?;
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
            ExprKind::Int(n) => {
                let text = self.sources.text(expr.span).trim();
                if text.is_empty() { n.to_string() } else { literal_name(text, n) }
            }
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Call(call) => match &call.callee {
                Callee::IsValid(header) => format!("{}.$valid$", self.key_name(header)?),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Name and annotations of field `n` of a struct, header or union.
    fn field_name(&mut self, base: &Expr, n: usize) -> Option<(String, Annotations)> {
        let ty = self.ty(base.ty);
        if let crate::hir::TyKind::Struct(id, _) = self.types.kind(ty) {
            let field = self.hir.structs[id.index()].fields.get(n)?;
            return Some((field.name.to_string(), field.annotations.clone()));
        }
        match self.shape(ty) {
            Shape::Struct(members) => Some((members.get(n)?.name.to_string(), Annotations::new())),
            _ => None,
        }
    }
}

/// A number as other compilers name it: in its base, without width and underscores.
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
