//! The whole of a program for v1model, and its checksums.

use super::super::tree::*;
use super::{Maker, Role, Scope};

impl Maker<'_> {
    /// Makes the blocks behind the parser.
    pub(super) fn v1model(&mut self) {
        self.program.ingress = self.control(Role::Ingress);
        if self.chance(70) {
            self.program.egress = self.control(Role::Egress);
        }
        // The checksum blocks see no standard metadata.
        let scope = Scope { writes: Vec::new(), ..self.scope(Role::Deparser) };
        if self.chance(30) {
            self.program.verify = vec![self.checksum("verify", &scope)];
        }
        if self.chance(40) {
            self.program.compute = vec![self.checksum("update", &scope)];
        }
        let mut fields = scope;
        fields.reads = self.fields();
        self.program.deparser = self.emits(None, &fields);
    }

    fn checksum(&mut self, call: &str, scope: &Scope) -> Stmt {
        let fields = self.fields();
        let bits: Vec<&(String, Ty)> = fields.iter().filter(|(_, ty)| matches!(ty, Ty::Bit(_))).collect();
        let Some((place, ty)) = self.one(&bits).map(|field| (*field).clone()) else { return Stmt::plain("") };
        let cond = self.expr(Ty::Bool, 1, scope);
        let payload = if self.chance(30) { "_with_payload" } else { "" };
        let algorithm = ["csum16", "csum16", "crc16", "crc32", "xor16", "identity"][self.rng.usize(..6)];
        let mut line = vec![text(format!("{call}_checksum{payload}(")), Part::Expr(cond), text(", ")];
        let _ = ty;
        line.extend(self.data(16, scope));
        line.push(text(format!(", {place}, HashAlgorithm.{algorithm})")));
        Stmt::Line(line)
    }
}
