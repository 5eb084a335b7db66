//! Generates programs for v1model, with their checksums.

use super::super::tree::*;
use super::{BlockRole, ProgramGenerator, ScopeNames};

impl ProgramGenerator<'_> {
    /// Generates the blocks after the parser.
    pub(super) fn generate_v1model(&mut self) {
        self.program.ingress = self.control(BlockRole::Ingress);
        if self.true_with_percent(70) {
            self.program.egress = self.control(BlockRole::Egress);
        }
        // The checksum blocks have no standard metadata.
        let scope = ScopeNames { writes: Vec::new(), ..self.block_scope(BlockRole::Deparser) };
        if self.true_with_percent(30) {
            self.program.verify = vec![self.checksum("verify", &scope)];
        }
        if self.true_with_percent(40) {
            self.program.compute = vec![self.checksum("update", &scope)];
        }
        let mut fields = scope;
        fields.reads = self.header_fields();
        self.program.deparser = self.deparser_statements(None, &fields);
    }

    fn checksum(&mut self, call: &str, scope: &ScopeNames) -> Stmt {
        let fields = self.header_fields();
        let bits: Vec<&(String, Ty)> = fields.iter().filter(|(_, ty)| matches!(ty, Ty::Bit(_))).collect();
        let Some((place, ty)) = self.random_element(&bits).map(|field| (*field).clone()) else {
            return Stmt::plain("");
        };
        let cond = self.random_expr(Ty::Bool, 1, scope);
        let payload = if self.true_with_percent(30) { "_with_payload" } else { "" };
        let algorithm = ["csum16", "csum16", "crc16", "crc32", "xor16", "identity"][self.rng.usize(..6)];
        let mut line = vec![text(format!("{call}_checksum{payload}(")), TextPart::Expr(cond), text(", ")];
        let _ = ty;
        line.extend(self.list_of_bits(16, scope));
        line.push(text(format!(", {place}, HashAlgorithm.{algorithm})")));
        Stmt::Line(line)
    }
}
