//! Names and ids that the program gives to what the control plane sees: no two objects have the same (P4Runtime
//! specification, section "ID Allocation").

use super::lowering::{Lower, Res};
use super::names;
use crate::ast::Annotations;
use crate::diag::Diagnostic;
use crate::span::Span;
use ir::Preamble;
use std::collections::HashSet;

/// The highest byte of the ids of a kind of objects; `None` if P4Info has no such objects.
fn prefix(kind: &str) -> Option<u32> {
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

impl Lower<'_> {
    /// Takes the control-plane name of an object, and its id if it has one; complains if another object has it.
    pub(super) fn take_identity(&mut self, kind: &'static str, preamble: &Preamble, span: Span) -> Res<()> {
        if !self.taken.insert((kind, preamble.name.clone())) {
            let message = format!("two {kind}s have the control-plane name `{}`", preamble.name);
            let help = "give one of them another name with `@name`, or instantiate what declares it once only";
            return self.report(Diagnostic::error("duplicate-name", span, message).help(help));
        }
        let id = preamble.id;
        let Some(prefix) = prefix(kind).filter(|_| id != 0) else { return Ok(()) };
        if id >> 24 != 0 && id >> 24 != prefix {
            let message = format!("the highest byte of `@id({id:#x})` is not that of a {kind}");
            let help = format!("write @id({:#010x}), or leave the byte 0", prefix << 24 | id & 0xff_ffff);
            return self.report(Diagnostic::error("bad-id", span, message).help(help));
        }
        if !self.taken_ids.insert(prefix << 24 | id) {
            let message = format!("two {kind}s have the id {id:#x}");
            let help = "give one of them another `@id`, or none: then it has one made of its name";
            return self.report(Diagnostic::error("bad-id", span, message).help(help));
        }
        Ok(())
    }

    /// Complains about ids of match fields, parameters or fields of a header that are 0 or given twice.
    pub(super) fn check_field_ids<'x>(&mut self, fields: impl Iterator<Item = (&'x Annotations, Span)>) -> Res<()> {
        let mut taken = HashSet::new();
        for (annotations, span) in fields {
            let Some(id) = names::number(annotations, "id") else { continue };
            let message = match id {
                0 => "0 is no id".to_owned(),
                id if !taken.insert(id) => format!("the id {id} is given twice"),
                _ => continue,
            };
            let error = Diagnostic::error("bad-id", span, message);
            return self.report(error.help("give another `@id`, or none: then it is a number that is free"));
        }
        Ok(())
    }
}
