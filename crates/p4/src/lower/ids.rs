//! Checks that control-plane names and ids given by the program are unique.
//! See the P4Runtime specification, section "ID Allocation".

use super::lowering::{LowerResult, Lowering};
use super::names;
use crate::ast::Annotations;
use crate::diag::Diagnostic;
use crate::span::Span;
use ir::Preamble;
use std::collections::HashSet;

/// Returns the highest byte of the ids of a kind of object; `None` if P4Info has no such objects.
fn id_prefix(kind: &str) -> Option<u32> {
    Some(match kind {
        "action" => 0x01,
        "table" => 0x02,
        "value set" => 0x03,
        "packet header" => 0x04,
        "action profile" => 0x11,
        "counter" => 0x12,
        "direct counter" => 0x13,
        "meter" => 0x14,
        "direct meter" => 0x15,
        "register" => 0x16,
        "digest" => 0x17,
        _ => return None,
    })
}

impl Lowering<'_> {
    /// Reserves the control-plane name of an object, and its id if given. Reports an error if
    /// another object has it.
    pub(super) fn take_identity(&mut self, kind: &'static str, preamble: &Preamble, span: Span) -> LowerResult<()> {
        if !self.used_names.insert((kind, preamble.name.clone())) {
            let message = format!("two {kind}s have the control-plane name `{}`", preamble.name);
            let help =
                "give one of them another name with `@name`, or instantiate the object that declares it only once";
            return self.report(Diagnostic::error("duplicate-name", span, message).help(help));
        }
        // The highest byte of a P4Runtime id tells the kind of object (P4Runtime specification, "ID
        // Allocation"). The program may leave it 0.
        let id = preamble.id;
        let Some(kind_byte) = id_prefix(kind).filter(|_| id != 0) else { return Ok(()) };
        if id >> 24 != 0 && id >> 24 != kind_byte {
            let message = format!("the highest byte of `@id({id:#x})` is not that of a {kind}");
            let help = format!("write @id({:#010x}), or leave the byte 0", kind_byte << 24 | id & 0xff_ffff);
            return self.report(Diagnostic::error("bad-id", span, message).help(help));
        }
        if !self.used_ids.insert(kind_byte << 24 | id) {
            let message = format!("two {kind}s have the id {id:#x}");
            let help = "give one of them another `@id`, or none: then the id is derived from the name";
            return self.report(Diagnostic::error("bad-id", span, message).help(help));
        }
        Ok(())
    }

    /// Reports ids of match fields, parameters or header fields that are 0 or used twice.
    pub(super) fn check_field_ids<'x>(
        &mut self,
        fields: impl Iterator<Item = (&'x Annotations, Span)>,
    ) -> LowerResult<()> {
        let mut taken = HashSet::new();
        for (annotations, span) in fields {
            let Some(id) = names::annotation_number(annotations, "id") else { continue };
            let message = match id {
                0 => "0 is not a valid id".to_owned(),
                id if !taken.insert(id) => format!("the id {id} is given twice"),
                _ => continue,
            };
            let error = Diagnostic::error("bad-id", span, message);
            return self.report(error.help("give another `@id`, or none: then an unused number is assigned"));
        }
        Ok(())
    }
}
