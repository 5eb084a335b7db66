//! Generates programs for PNA, with the methods of its objects.

use super::super::tree::*;
use super::{BlockRole, ExternObject, ProgramGenerator, ScopeNames};

impl ProgramGenerator<'_> {
    /// Generates the blocks after the parser.
    pub(super) fn generate_pna(&mut self) {
        self.program.ingress = self.control(BlockRole::Ingress);
        let mut scope = self.block_scope(BlockRole::Deparser);
        if !self.config.plain_packets && self.true_with_percent(25) {
            self.program.deparser_declarations.push("InternetChecksum() sum".to_owned());
        }
        // The headers are `in`, so computed values go to a local copy of a header.
        let copied = self.copied_header();
        scope.writes.clear();
        self.program.deparser = self.deparser_statements(copied.as_deref(), &scope);
    }

    /// Returns the name of a header that the deparser changes before emitting it.
    fn copied_header(&mut self) -> Option<String> {
        let fits = |instance: &Instance| match instance.shape {
            Shape::Single(header) => {
                let fields = &self.program.headers[header].fields;
                fields.iter().any(|field| !field.varbit && matches!(field.ty, Ty::Bit(_)))
            }
            _ => false,
        };
        let names: Vec<String> = self.program.instances.iter().filter(|i| fits(i)).map(|i| i.name.clone()).collect();
        let picked = self.random_element(&names).cloned();
        picked.filter(|_| !self.program.deparser_declarations.is_empty())
    }

    /// Generates the deparser's statements: all headers in order, some under a condition.
    /// `copied` names the header that is emitted as a copy of another, if any.
    pub(super) fn deparser_statements(&mut self, copied: Option<&str>, scope: &ScopeNames) -> Vec<Stmt> {
        let mut out = Vec::new();
        for Instance { name, shape } in self.program.instances.clone() {
            let emit = Stmt::plain(format!("packet.emit(hdr.{name})"));
            if self.config.plain_packets {
                out.push(emit);
                continue;
            }
            if self.true_with_percent(6) {
                continue;
            }
            if copied == Some(name.as_str())
                && let Shape::Single(header) = shape
            {
                self.emit_copy(&name, header, scope, &mut out);
            } else if self.true_with_percent(15) {
                let cond = self.random_expr(Ty::Bool, 2, scope);
                out.push(Stmt::If { cond, then: vec![emit], els: Vec::new() });
            } else {
                out.push(emit);
            }
        }
        out
    }

    /// Generates statements that emit a copy of a header with a checksum in one of its fields.
    fn emit_copy(&mut self, name: &str, header: usize, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let header = self.program.headers[header].clone();
        let field = header.fields.iter().find(|field| !field.varbit && matches!(field.ty, Ty::Bit(_)));
        let Some(field) = field.cloned() else { return };
        out.push(Stmt::plain(format!("{} copy = hdr.{name}", header.name)));
        let mut add = vec![text("sum.add(")];
        add.extend(self.list_of_bits(16, scope));
        add.push(text(")"));
        out.push(Stmt::Line(add));
        out.push(Stmt::assign(&format!("copy.{}", field.name), Expr::place(Ty::Bit(16), "sum.get()").to(field.ty)));
        out.push(Stmt::plain("packet.emit(copy)"));
    }

    /// Generates a use of an object that v1model does not have.
    pub(super) fn use_pna_object(
        &mut self,
        object: ExternObject,
        place: &str,
        ty: Ty,
        scope: &ScopeNames,
        out: &mut Vec<Stmt>,
    ) {
        match object {
            ExternObject::Random { name, ty: object_ty } => {
                out.push(Stmt::assign(place, Expr::place(object_ty, format!("{name}.read()")).to(ty)));
            }
            ExternObject::Hash { name, ty: object_ty } => {
                let mut parts = vec![text(format!("{name}.get_hash("))];
                if self.true_with_percent(40) {
                    let base = self.random_expr(object_ty, 0, scope);
                    let max = Expr::lit(object_ty, [0, 1, 7, 16, 1000, u128::MAX][self.rng.usize(..6)]);
                    parts.extend([TextPart::Expr(base), text(", ")]);
                    parts.extend(self.list_of_bits(8, scope));
                    parts.extend([text(", "), TextPart::Expr(max), text(")")]);
                } else {
                    parts.extend(self.list_of_bits(8, scope));
                    parts.push(text(")"));
                }
                out.push(Stmt::assign(place, Expr { ty: object_ty, kind: ExprKind::Mixed(parts) }.to(ty)));
            }
            ExternObject::Checksum { name, ty: object_ty } => match self.rng.u8(..3) {
                0 => out.push(Stmt::assign(place, Expr::place(object_ty, format!("{name}.get()")).to(ty))),
                1 if self.true_with_percent(30) => out.push(Stmt::plain(format!("{name}.clear()"))),
                _ => self.add_data(&format!("{name}.update("), object_ty.width(), scope, out),
            },
            ExternObject::InternetChecksum { name } => match self.rng.u8(..8) {
                0 | 1 => {
                    let call = ["get()", "get_state()"][self.rng.usize(..2)];
                    out.push(Stmt::assign(place, Expr::place(Ty::Bit(16), format!("{name}.{call}")).to(ty)));
                }
                2 => out.push(Stmt::plain(format!("{name}.clear()"))),
                3 => {
                    let sum = self.random_expr(Ty::Bit(16), 1, scope);
                    out.push(Stmt::Line(vec![text(format!("{name}.set_state(")), TextPart::Expr(sum), text(")")]));
                }
                4 => self.add_data(&format!("{name}.subtract("), 16, scope, out),
                _ => self.add_data(&format!("{name}.add("), 16, scope, out),
            },
            _ => {}
        }
    }

    fn add_data(&mut self, call: &str, unit: u32, scope: &ScopeNames, out: &mut Vec<Stmt>) {
        let mut line = vec![text(call)];
        line.extend(self.list_of_bits(unit, scope));
        line.push(text(")"));
        out.push(Stmt::Line(line));
    }
}
