//! Names and annotations as the control plane sees them (specification, section "Control plane names").

use super::types::Shape;
use super::{Lower, Res};
use crate::ast::{self, Annotation, AnnotationBody, Annotations};
use crate::diag::Diagnostic;
use crate::hir::{Callee, Expr, ExprKind};
use crate::span::Span;
use ir::Preamble;

/// Annotations that the compiler reads and that are told to the control plane in other ways.
const READ_HERE: [&str; 5] = ["name", "id", "brief", "description", "pkginfo"];

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

/// An annotation as it was written.
pub(super) fn annotation_text(annotation: &Annotation) -> String {
    let name = annotation.name.as_str();
    match &annotation.body {
        AnnotationBody::None => format!("@{name}"),
        AnnotationBody::Unstructured(body) => format!("@{name}({})", body.text.trim()),
        AnnotationBody::List(exprs) => format!("@{name}[{}]", literals(exprs.iter())),
        AnnotationBody::KeyValues(pairs) => {
            let pair = |p: &ast::NamedExpr| format!("{}={}", p.name, literal(&p.value));
            format!("@{name}[{}]", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
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

/// The annotations that the control plane is told, as written.
pub(super) fn told(annotations: &Annotations, except: &[&str]) -> Vec<String> {
    let keep = |a: &&Annotation| !READ_HERE.contains(&a.name.as_str()) && !except.contains(&a.name.as_str());
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
    /// Takes a control-plane name; complains if another object of the kind has it.
    pub(super) fn take_name(&mut self, kind: &'static str, name: &str, span: Span) -> Res<()> {
        if self.taken.insert((kind, name.to_string())) {
            return Ok(());
        }
        let message = format!("two {kind}s have the control-plane name `{name}`");
        let help = "give one of them another name with `@name`, or instantiate what declares it once only";
        self.report(Diagnostic::error("duplicate-name", span, message).help(help))
    }

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
