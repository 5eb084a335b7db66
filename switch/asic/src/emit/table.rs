//! Declarations of tables and actions.

use super::expr;
use super::names::flat;
use super::text::Lines;
use super::{Emitter, Res};
use crate::rewrite::alpm;
use ir::*;
use num_bigint::BigUint;

impl Emitter<'_> {
    /// The annotations of a declaration inside a control: its control-plane name where it is not `control.local`, and what was written.
    pub(super) fn annotations(&self, preamble: &Preamble, control: &str, local: &str) -> Vec<String> {
        let mut all = Vec::new();
        let plain = if control.is_empty() { local.to_owned() } else { format!("{control}.{local}") };
        if preamble.name != plain {
            all.push(format!("@name(\".{}\")", preamble.name));
        }
        if preamble.id != 0 {
            all.push(format!("@id({})", preamble.id));
        }
        for (name, text) in [("brief", &preamble.brief), ("description", &preamble.description)] {
            if !text.is_empty() {
                all.push(format!("@{name}(\"{text}\")"));
            }
        }
        if preamble.hidden && !preamble.annotations.iter().any(|a| a.starts_with("@hidden")) {
            all.push("@hidden".into());
        }
        all.extend(preamble.annotations.iter().cloned());
        all
    }

    /// Says where something is declared in the program.
    fn origin(&self, lines: &mut Lines, loc: Loc) {
        if let Some(file) = self.p.file_of(loc) {
            let name = file.rsplit('/').next().unwrap_or(file);
            lines.line(&format!("// {name}:{}", loc.line));
        }
    }

    /// Writes an action with the code that its arms have.
    pub(super) fn action(&self, lines: &mut Lines, id: ActionId, control: &str) {
        let action = &self.p.actions[id];
        let local = &self.names.actions[id.index()];
        if local == "NoAction" {
            return;
        }
        lines.gap();
        self.origin(lines, action.loc);
        self.annotations(&action.preamble, control, local).iter().for_each(|a| lines.line(a));
        let param = |(n, param): (usize, &Param)| {
            let name = self.param_name(id, n);
            let mut text = String::new();
            if name != param.name {
                text.push_str(&format!("@name(\"{}\") ", param.name));
            }
            if param.id != 0 {
                text.push_str(&format!("@id({}) ", param.id));
            }
            param.annotations.iter().for_each(|a| text.push_str(&format!("{a} ")));
            let named = param.type_name.clone().filter(|_| !self.target.is_tofino());
            let ty = named.unwrap_or_else(|| expr::type_text(self.p, param.ty));
            format!("{text}{ty} {name}")
        };
        let params: Vec<String> = action.params.iter().enumerate().map(param).collect();
        let code = self.actions.get(&id).map_or(&[][..], Vec::as_slice);
        if code.is_empty() {
            lines.line(&format!("action {local}({}) {{ }}", params.join(", ")));
            return;
        }
        lines.open(&format!("action {local}({})", params.join(", ")));
        lines.stmts(code);
        lines.close();
    }

    /// Writes a table.
    pub(super) fn table(&self, lines: &mut Lines, id: TableId, control: &str, decls: &[String]) -> Res<()> {
        let table = &self.p.tables[id];
        let local = &self.names.tables[id.index()];
        let _ = decls;
        lines.gap();
        self.origin(lines, table.loc);
        if let Some((partitions, _)) = self.atcam(table) {
            lines.line(&format!("Atcam({partitions}) {local}_atcam;"));
        }
        self.annotations(&table.preamble, control, local).iter().for_each(|a| lines.line(a));
        lines.open(&format!("table {local}"));
        if !table.keys.is_empty() {
            lines.open("key =");
            for (n, key) in table.keys.iter().enumerate() {
                lines.line(&self.key_line(id, n, key));
            }
            lines.close();
        }
        lines.open("actions =");
        for action in &table.actions {
            let mut text = String::new();
            for (set, name) in [(action.table_only, "@tableonly "), (action.default_only, "@defaultonly ")] {
                let is_listed = action.annotations.iter().any(|a| a == name.trim());
                text.push_str(if set && !is_listed { name } else { "" });
            }
            action.annotations.iter().for_each(|a| text.push_str(&format!("{a} ")));
            lines.line(&format!("{text}{};", self.names.actions[action.action.index()]));
        }
        lines.close();
        let default = self.action_call(&table.default_action)?;
        lines.line(&format!("{}default_action = {default};", if table.const_default { "const " } else { "" }));
        self.entries(lines, table)?;
        if let Some(size) = self.sizes.get(&table.preamble.name).copied().or(table.size) {
            lines.line(&format!("size = {size};"));
        }
        if self.atcam(table).is_some() {
            lines.line(&format!("atcam = {local}_atcam;"));
        }
        self.properties(lines, table);
        lines.close();
        Ok(())
    }

    /// Partitions and their depth of a table that the chip has as algorithmic TCAM.
    fn atcam(&self, table: &Table) -> Option<(u32, u32)> {
        alpm::partitioned(table).filter(|_| self.target.is_tofino())
    }

    fn key_line(&self, table: TableId, n: usize, key: &Key) -> String {
        let text = self.keys.get(&table).and_then(|keys| keys.get(n)).cloned();
        // A table that is never applied has no values for its keys.
        let text = text.unwrap_or_else(|| match &key.type_name {
            Some(named) if !matches!(key.ty, Type::Enum(_)) => format!("({named}) ({})", self.zero(key.ty)),
            _ => self.zero(key.ty),
        });
        let kind = match key.kind {
            MatchKind::Exact if n == 0 && self.atcam(&self.p.tables[table]).is_some() => "atcam_partition_index",
            MatchKind::Optional if self.target.is_tofino() => "ternary",
            kind => kind.word(),
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

    /// The value of a type that is all zeros.
    pub(super) fn zero(&self, ty: Type) -> String {
        let zero = expr::constant(self.p, &Const::new(ty, 0u8));
        zero.map(|e| e.typed().to_owned()).unwrap_or_default()
    }

    /// A constant of control-plane data, in the type that it has in the program.
    pub(super) fn data(&self, ty: Type, type_name: Option<&String>, bits: &BigUint) -> Res<String> {
        let Some(expr) = expr::constant(self.p, &Const::new(ty, bits.clone())) else {
            return self.unsupported(Loc::default(), "a constant of a type without constants");
        };
        Ok(match type_name {
            Some(name) if !self.target.is_tofino() && !matches!(ty, Type::Enum(_)) => {
                format!("({name}) {}", expr.typed())
            }
            _ => expr.typed().to_owned(),
        })
    }

    pub(super) fn action_call(&self, call: &ActionCall) -> Res<String> {
        let params = &self.p.actions[call.action].params;
        let args: Res<Vec<String>> =
            params.iter().zip(&call.args).map(|(p, bits)| self.data(p.ty, p.type_name.as_ref(), bits)).collect();
        Ok(format!("{}({})", self.names.actions[call.action.index()], args?.join(", ")))
    }

    fn entries(&self, lines: &mut Lines, table: &Table) -> Res<()> {
        if table.entries.is_empty() && !table.const_entries {
            return Ok(());
        }
        let count = table.entries.len();
        let by_order = |(n, e): (usize, &ConstEntry)| i32::try_from(count - n).is_ok_and(|p| e.priority == p);
        let ordered = table.entries.iter().enumerate().all(by_order);
        let greatest = table.entries.iter().map(|e| e.priority).max().unwrap_or(0);
        lines.open(if table.const_entries { "const entries =" } else { "entries =" });
        for entry in &table.entries {
            let keys: Res<Vec<String>> =
                table.match_keys().zip(&entry.keys).map(|((_, key), m)| self.key_match(key, m)).collect();
            let keys = keys?;
            let keys = if keys.len() == 1 { keys[0].clone() } else { format!("({})", keys.join(", ")) };
            let numbered = table.has_priority() && !ordered;
            let before = match (table.const_entries, numbered) {
                (true, _) | (false, false) => String::new(),
                (false, true) => format!("priority = {}: ", entry.priority),
            };
            let word = if entry.is_const && !table.const_entries { "const " } else { "" };
            let after = if table.const_entries && numbered {
                format!(" @priority({})", i64::from(greatest) - i64::from(entry.priority) + 1)
            } else {
                String::new()
            };
            lines.line(&format!("{word}{before}{keys}: {}{after};", self.action_call(&entry.action)?));
        }
        lines.close();
        Ok(())
    }

    fn key_match(&self, key: &Key, m: &KeyMatch) -> Res<String> {
        let data = |bits: &BigUint| self.data(key.ty, key.type_name.as_ref(), bits);
        let width = key.ty.width();
        let ones = (BigUint::from(1u8) << width) - 1u8;
        Ok(match m {
            KeyMatch::Exact(bits) | KeyMatch::Optional(Some(bits)) => data(bits)?,
            KeyMatch::Optional(None) => "_".into(),
            KeyMatch::Ternary { mask, .. } if *mask == BigUint::ZERO => "_".into(),
            KeyMatch::Ternary { value, mask } if *mask == ones => data(value)?,
            KeyMatch::Ternary { value, mask } => format!("{} &&& {}", data(value)?, data(mask)?),
            KeyMatch::Lpm { prefix_len: 0, .. } => "_".into(),
            KeyMatch::Lpm { value, prefix_len } if *prefix_len == width => data(value)?,
            KeyMatch::Lpm { value, prefix_len } => {
                let low = (BigUint::from(1u8) << (width - prefix_len)) - 1u8;
                format!("{} &&& {}", data(value)?, data(&(ones - low))?)
            }
            KeyMatch::Range { lo, hi } if lo == hi => data(lo)?,
            KeyMatch::Range { lo, hi } => format!("{} .. {}", data(lo)?, data(hi)?),
        })
    }

    fn properties(&self, lines: &mut Lines, table: &Table) {
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
            // The entries' own priorities say the same.
            if !matches!(name.as_str(), "largest_priority_wins" | "priority_delta") && !text.is_empty() {
                lines.line(&format!("{} = {text};", flat(name)));
            }
        }
    }
}
