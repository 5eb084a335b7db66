//! Declarations of tables and actions.

use super::expr;
use super::names::to_identifier;
use super::text::IndentedText;
use super::{EmitResult, P4Emitter};
use crate::transform::alpm;
use ir::*;
use num_bigint::BigUint;

impl P4Emitter<'_> {
    /// Returns the annotations of a declaration: its control-plane name if that is not
    /// `control.local`, its id, and those of the program.
    pub(super) fn annotations(&self, preamble: &Preamble, control: &str, local: &str) -> Vec<String> {
        let mut annotations = Vec::new();
        let default_name = if control.is_empty() { local.to_owned() } else { format!("{control}.{local}") };
        if preamble.name != default_name {
            annotations.push(format!("@name(\".{}\")", preamble.name));
        }
        if preamble.id != 0 {
            annotations.push(format!("@id({})", preamble.id));
        }
        for (name, text) in [("brief", &preamble.brief), ("description", &preamble.description)] {
            if !text.is_empty() {
                annotations.push(format!("@{name}(\"{text}\")"));
            }
        }
        if preamble.hidden && !preamble.annotations.iter().any(|a| a.starts_with("@hidden")) {
            annotations.push("@hidden".into());
        }
        annotations.extend(preamble.annotations.iter().cloned());
        annotations
    }

    /// Emits a comment with the declaration's source location.
    fn write_origin(&self, lines: &mut IndentedText, loc: SourceLoc) {
        if let Some(file) = self.p.file_of(loc) {
            let name = file.rsplit('/').next().unwrap_or(file);
            lines.line(&format!("// {name}:{}", loc.line));
        }
    }

    /// Emits an action with the code that its arms recorded.
    pub(super) fn write_action(&self, lines: &mut IndentedText, id: ActionId, control: &str) {
        let action = &self.p.actions[id];
        let local = &self.names.actions[id.index()];
        if local == "NoAction" {
            return;
        }
        lines.separate();
        self.write_origin(lines, action.loc);
        self.annotations(&action.preamble, control, local).iter().for_each(|a| lines.line(a));
        let param_text = |(n, param_text): (usize, &Param)| {
            let name = self.param_name(id, n);
            let mut text = String::new();
            if name != param_text.name {
                text.push_str(&format!("@name(\"{}\") ", param_text.name));
            }
            if param_text.id != 0 {
                text.push_str(&format!("@id({}) ", param_text.id));
            }
            param_text.annotations.iter().for_each(|a| text.push_str(&format!("{a} ")));
            let type_name = param_text.type_name.clone().filter(|_| !self.target.is_tofino());
            let ty = type_name.unwrap_or_else(|| expr::type_text(self.p, param_text.ty));
            format!("{text}{ty} {name}")
        };
        let params: Vec<String> = action.params.iter().enumerate().map(param_text).collect();
        let code = self.actions.get(&id).map_or(&[][..], Vec::as_slice);
        if code.is_empty() {
            lines.line(&format!("action {local}({}) {{ }}", params.join(", ")));
            return;
        }
        lines.open_block(&format!("action {local}({})", params.join(", ")));
        lines.stmts(code);
        lines.close_block();
    }

    /// Emits a table.
    pub(super) fn write_table(
        &self,
        lines: &mut IndentedText,
        id: TableId,
        control: &str,
        decls: &[String],
    ) -> EmitResult<()> {
        let table = &self.p.tables[id];
        let local = &self.names.tables[id.index()];
        let _ = decls;
        lines.separate();
        self.write_origin(lines, table.loc);
        if let Some((partitions, _)) = self.atcam(table) {
            lines.line(&format!("Atcam({partitions}) {local}_atcam;"));
        }
        self.annotations(&table.preamble, control, local).iter().for_each(|a| lines.line(a));
        lines.open_block(&format!("table {local}"));
        if !table.keys.is_empty() {
            lines.open_block("key =");
            for (n, key) in table.keys.iter().enumerate() {
                lines.line(&self.key_line(id, n, key));
            }
            lines.close_block();
        }
        lines.open_block("actions =");
        for action in &table.actions {
            let mut text = String::new();
            for (set, name) in [(action.table_only, "@tableonly "), (action.default_only, "@defaultonly ")] {
                let is_listed = action.annotations.iter().any(|a| a == name.trim());
                text.push_str(if set && !is_listed { name } else { "" });
            }
            action.annotations.iter().for_each(|a| text.push_str(&format!("{a} ")));
            lines.line(&format!("{text}{};", self.names.actions[action.action.index()]));
        }
        lines.close_block();
        let default = self.action_call(&table.default_action)?;
        lines.line(&format!("{}default_action = {default};", if table.const_default { "const " } else { "" }));
        self.write_entries(lines, table)?;
        if let Some(size) = self.sizes.get(&table.preamble.name).copied().or(table.size) {
            lines.line(&format!("size = {size};"));
        }
        if self.atcam(table).is_some() {
            lines.line(&format!("atcam = {local}_atcam;"));
        }
        self.write_properties(lines, table);
        lines.close_block();
        Ok(())
    }

    /// Returns the number and the depth of partitions of a table that the chip implements as
    /// algorithmic TCAM.
    fn atcam(&self, table: &Table) -> Option<(u32, u32)> {
        alpm::partition_dimensions(table).filter(|_| self.target.is_tofino())
    }

    /// Returns the line of key `n` in a table's `key`: expression, match kind and annotations.
    fn key_line(&self, table: TableId, n: usize, key: &MatchKey) -> String {
        let text = self.keys.get(&table).and_then(|keys| keys.get(n)).cloned();
        // A table without applications has no key expressions.
        let text = text.unwrap_or_else(|| match &key.type_name {
            Some(named) if !matches!(key.ty, Type::Enum(_)) => format!("({named}) ({})", self.zero_text(key.ty)),
            _ => self.zero_text(key.ty),
        });
        let kind = match key.kind {
            MatchKind::Exact if n == 0 && self.atcam(&self.p.tables[table]).is_some() => "atcam_partition_index",
            MatchKind::Optional if self.target.is_tofino() => "ternary",
            kind => kind.keyword(),
        };
        let mut line = format!("{text}: {kind}");
        if text != key.name {
            line.push_str(&format!(" @name(\"{}\")", key.name));
        }
        if key.id != 0 {
            line.push_str(&format!(" @id({})", key.id));
        }
        key.annotations.iter().for_each(|a| line.push_str(&format!(" {a}")));
        line + ";"
    }

    /// Returns the zero value of a type.
    pub(super) fn zero_text(&self, ty: Type) -> String {
        let zero = expr::constant(self.p, &Const::new(ty, 0u8));
        zero.map(|e| e.typed_text().to_owned()).unwrap_or_default()
    }

    /// Returns a constant of control-plane data, in its type in the program.
    pub(super) fn data_text(&self, ty: Type, type_name: Option<&String>, bits: &BigUint) -> EmitResult<String> {
        let Some(expr) = expr::constant(self.p, &Const::new(ty, bits.clone())) else {
            return self.unsupported(SourceLoc::default(), "a constant of a type without constants");
        };
        Ok(match type_name {
            Some(name) if !self.target.is_tofino() && !matches!(ty, Type::Enum(_)) => {
                format!("({name}) {}", expr.typed_text())
            }
            _ => expr.typed_text().to_owned(),
        })
    }

    pub(super) fn action_call(&self, call: &ActionCall) -> EmitResult<String> {
        let params = &self.p.actions[call.action].params;
        let args: EmitResult<Vec<String>> =
            params.iter().zip(&call.args).map(|(p, bits)| self.data_text(p.ty, p.type_name.as_ref(), bits)).collect();
        Ok(format!("{}({})", self.names.actions[call.action.index()], args?.join(", ")))
    }

    /// Writes the declared entries. Their order expresses their priorities if each priority is one
    /// less than the one before; otherwise each entry states its own.
    fn write_entries(&self, lines: &mut IndentedText, table: &Table) -> EmitResult<()> {
        if table.entries.is_empty() && !table.const_entries {
            return Ok(());
        }
        let count = table.entries.len();
        let follows_order = |(n, e): (usize, &ConstEntry)| i32::try_from(count - n).is_ok_and(|p| e.priority == p);
        let is_ordered = table.entries.iter().enumerate().all(follows_order);
        let greatest = table.entries.iter().map(|e| e.priority).max().unwrap_or(0);
        lines.open_block(if table.const_entries { "const entries =" } else { "entries =" });
        for entry in &table.entries {
            let keys: EmitResult<Vec<String>> =
                table.match_keys().zip(&entry.keys).map(|((_, key), m)| self.key_match(key, m)).collect();
            let keys = keys?;
            let keys = if keys.len() == 1 { keys[0].clone() } else { format!("({})", keys.join(", ")) };
            let has_number = table.has_priority() && !is_ordered;
            let prefix = match (table.const_entries, has_number) {
                (true, _) | (false, false) => String::new(),
                (false, true) => format!("priority = {}: ", entry.priority),
            };
            let const_word = if entry.is_const && !table.const_entries { "const " } else { "" };
            let suffix = if table.const_entries && has_number {
                format!(" @priority({})", i64::from(greatest) - i64::from(entry.priority) + 1)
            } else {
                String::new()
            };
            lines.line(&format!("{const_word}{prefix}{keys}: {}{suffix};", self.action_call(&entry.action)?));
        }
        lines.close_block();
        Ok(())
    }

    /// Returns the match of an entry's key as P4 text.
    fn key_match(&self, key: &MatchKey, m: &KeyMatch) -> EmitResult<String> {
        let value_text = |bits: &BigUint| self.data_text(key.ty, key.type_name.as_ref(), bits);
        let width = key.ty.width();
        let all_ones = (BigUint::from(1u8) << width) - 1u8;
        Ok(match m {
            KeyMatch::Exact(bits) | KeyMatch::Optional(Some(bits)) => value_text(bits)?,
            KeyMatch::Optional(None) => "_".into(),
            KeyMatch::Ternary { mask, .. } if *mask == BigUint::ZERO => "_".into(),
            KeyMatch::Ternary { value, mask } if *mask == all_ones => value_text(value)?,
            KeyMatch::Ternary { value, mask } => format!("{} &&& {}", value_text(value)?, value_text(mask)?),
            KeyMatch::Lpm { prefix_len: 0, .. } => "_".into(),
            KeyMatch::Lpm { value, prefix_len } if *prefix_len == width => value_text(value)?,
            KeyMatch::Lpm { value, prefix_len } => {
                let host_bits = (BigUint::from(1u8) << (width - prefix_len)) - 1u8;
                format!("{} &&& {}", value_text(value)?, value_text(&(all_ones - host_bits))?)
            }
            KeyMatch::Range { lo, hi } if lo == hi => value_text(lo)?,
            KeyMatch::Range { lo, hi } => format!("{} .. {}", value_text(lo)?, value_text(hi)?),
        })
    }

    /// Writes the properties of a table: its objects, under the names of the architecture, and
    /// those of the program.
    fn write_properties(&self, lines: &mut IndentedText, table: &Table) {
        if self.target.is_tofino() {
            let objects = [
                (table.implementation, "implementation"),
                (table.direct_counter, "counters"),
                (table.direct_meter, "meters"),
            ];
            for (object, property) in objects.iter().filter_map(|(object, property)| Some(((*object)?, property))) {
                lines.line(&format!("{property} = {};", self.names.externs[object.index()]));
            }
            return;
        }
        let v1model = self.p.arch == Arch::V1Model;
        let attached = [
            (table.implementation, if v1model { "implementation" } else { "pna_implementation" }),
            (table.direct_counter, if v1model { "counters" } else { "pna_direct_counter" }),
            (table.direct_meter, if v1model { "meters" } else { "pna_direct_meter" }),
        ];
        for (object, name) in attached {
            if let Some(object) = object {
                lines.line(&format!("{name} = {};", self.names.externs[object.index()]));
            }
        }
        for (name, text) in &table.properties {
            // The priorities of the entries already express these properties.
            if !matches!(name.as_str(), "largest_priority_wins" | "priority_delta") && !text.is_empty() {
                lines.line(&format!("{} = {text};", to_identifier(name)));
            }
        }
    }
}
