//! Generates tables: keys of all match kinds, actions, properties, entries of the program.

use super::super::print::literal;
use super::super::tree::*;
use super::{BlockRole, ProgramGenerator, ScopeNames};
use ir::Arch;

const ALGORITHMS: [&str; 7] = ["crc32", "crc32_custom", "crc16", "crc16_custom", "identity", "csum16", "xor16"];
const PNA_ALGORITHMS: [&str; 6] = ["TARGET_DEFAULT", "IDENTITY", "CRC32", "CRC16", "CRC16_CUSTOM", "ONES_COMPLEMENT16"];

/// Special property of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableFlavor {
    Plain,
    Profile,
    Selector,
    AddOnMiss,
}

impl ProgramGenerator<'_> {
    /// Generates a table with its actions.
    pub(super) fn generate_table(&mut self, scope: &ScopeNames, control: &mut Control) {
        let name = self.fresh_name("t");
        let flavor = match self.arch() {
            Arch::Pna if self.true_with_percent(self.config.add_on_miss) => TableFlavor::AddOnMiss,
            _ if self.true_with_percent(self.config.profiles) => {
                [TableFlavor::Profile, TableFlavor::Selector][self.rng.usize(..2)]
            }
            _ => TableFlavor::Plain,
        };
        let mut table = Table {
            name: name.clone(),
            keys: self.table_keys(scope, flavor),
            actions: Vec::new(),
            properties: Vec::new(),
            entries: (false, Vec::new()),
        };
        let first_stmts = self.declare_attached(&name, scope, control, &mut table, flavor);
        if flavor == TableFlavor::AddOnMiss {
            self.learning_table(&name, scope, control, &mut table, &first_stmts);
        } else {
            self.table_actions(scope, control, &mut table, &first_stmts);
            self.default_action(control, &mut table, flavor);
            self.own_entries(control, &mut table, flavor);
        }
        if self.true_with_percent(15) {
            table.properties.push(format!("size = {}", self.rng.u32(2..40)));
        }
        let mut actions: Vec<String> = table.actions.iter().map(|(name, _)| name_without_annotations(name)).collect();
        actions.dedup();
        self.unapplied.push((name, actions));
        control.tables.push(table);
    }

    /// Generates the keys of a table: often fields of headers, of any match kind, at most one LPM.
    /// Tables with a flavor have at least one key, because some flavors need it.
    fn table_keys(&mut self, scope: &ScopeNames, flavor: TableFlavor) -> Vec<Key> {
        let count = match flavor {
            TableFlavor::Plain => self.rng.usize(..5),
            _ => self.rng.usize(1..4),
        };
        // Fields of packets come first, because entries can hit only values that packets have.
        let fields = self.header_fields();
        let mut keys: Vec<Key> = Vec::new();
        let only_exact = flavor == TableFlavor::AddOnMiss || self.true_with_percent(40);
        for number in 0..count {
            let value = match (self.rng.u8(..10), self.random_element(&fields).cloned()) {
                (0..8, Some((field, ty))) => Expr::place(ty, field),
                _ => {
                    let ty = self.random_type();
                    self.random_expr(ty, 1, scope)
                }
            };
            let has_lpm = keys.iter().any(|key| key.kind == "lpm");
            let kind = match (only_exact, self.rng.u8(..8)) {
                (true, _) => "exact",
                (_, 0) if !has_lpm && value.ty != Ty::Bool => "lpm",
                (_, 1 | 2) => "ternary",
                (_, 3) if value.ty != Ty::Bool => "range",
                (_, 4) => "optional",
                _ => "exact",
            };
            keys.push(Key { value, kind, name: format!("k{number}") });
        }
        // The classic LPM table: one prefix, optionally with an exact key before it.
        if flavor == TableFlavor::Plain && count > 0 && !only_exact && self.true_with_percent(30) {
            keys.truncate(2);
            keys.iter_mut().for_each(|key| key.kind = "exact");
            if let Some(last) = keys.last_mut().filter(|key| key.value.ty != Ty::Bool) {
                last.kind = "lpm";
            }
        }
        if flavor == TableFlavor::Selector {
            for number in 0..self.rng.usize(1..3) {
                let ty = Ty::Bit(self.width());
                let value = self.random_read(ty, scope);
                keys.push(Key { value, kind: "selector", name: format!("s{number}") });
            }
        }
        keys
    }

    /// Declares the objects of the table (counter, meter, profile, timeout). Returns statements
    /// with which its actions may start.
    fn declare_attached(
        &mut self,
        name: &str,
        scope: &ScopeNames,
        control: &mut Control,
        table: &mut Table,
        flavor: TableFlavor,
    ) -> Vec<Stmt> {
        let mut first_stmts = Vec::new();
        let is_pna = self.arch() == Arch::Pna;
        let unit = self.rng.usize(..3);
        if self.true_with_percent(25) {
            let (declaration, property) = match is_pna {
                true => (
                    format!(
                        "DirectCounter<bit<64>>(PNA_CounterType_t.{}) dc_{name}",
                        ["PACKETS", "BYTES", "PACKETS_AND_BYTES"][unit]
                    ),
                    "pna_direct_counter",
                ),
                false => (
                    format!(
                        "direct_counter(CounterType.{}) dc_{name}",
                        ["packets", "bytes", "packets_and_bytes"][unit]
                    ),
                    "counters",
                ),
            };
            control.declarations.push(declaration);
            table.properties.push(format!("{property} = dc_{name}"));
            first_stmts.push(Stmt::plain(format!("dc_{name}.count()")));
        }
        if self.true_with_percent(18) {
            self.direct_meter(name, scope, control, table, &mut first_stmts);
        }
        match flavor {
            TableFlavor::Profile | TableFlavor::Selector => {
                let (kind, args) = match (flavor, is_pna) {
                    (TableFlavor::Profile, false) => ("action_profile", "(16)".to_owned()),
                    (TableFlavor::Profile, true) => ("ActionProfile", "(16)".to_owned()),
                    (_, false) => {
                        let algorithm = ALGORITHMS[self.rng.usize(..7)];
                        ("action_selector", format!("(HashAlgorithm.{algorithm}, 16, {})", self.rng.u32(4..17)))
                    }
                    (_, true) => {
                        let algorithm = PNA_ALGORITHMS[self.rng.usize(..6)];
                        ("ActionSelector", format!("(PNA_HashAlgorithm_t.{algorithm}, 16, {})", self.rng.u32(4..17)))
                    }
                };
                control.declarations.push(format!("{kind}{args} ap_{name}"));
                let property = if is_pna { "pna_implementation" } else { "implementation" };
                table.properties.push(format!("{property} = ap_{name}"));
            }
            TableFlavor::AddOnMiss => table.properties.push("add_on_miss = true".to_owned()),
            TableFlavor::Plain => {}
        }
        if !table.keys.is_empty() && self.true_with_percent(self.config.idle) {
            if is_pna {
                let reaction = ["NOTIFY_CONTROL", "AUTO_DELETE"][self.rng.usize(..2)];
                table.properties.push(format!("pna_idle_timeout = PNA_IdleTimeout_t.{reaction}"));
                if self.true_with_percent(40) {
                    first_stmts.push(Stmt::plain(match self.true_with_percent(50) {
                        true => "restart_expire_timer()".to_owned(),
                        false => format!("set_entry_expire_time((ExpireTimeProfileId_t) 8w{})", self.rng.u8(..3)),
                    }));
                }
            } else {
                table.properties.push("support_timeout = true".to_owned());
            }
        }
        first_stmts
    }

    /// Declares a direct meter, and appends a statement that uses its colour. v1model stores the
    /// colour in a field of the metadata of at least two bits, so that there may be none.
    fn direct_meter(
        &mut self,
        name: &str,
        scope: &ScopeNames,
        control: &mut Control,
        table: &mut Table,
        first_stmts: &mut Vec<Stmt>,
    ) {
        let meters_bytes = self.true_with_percent(50);
        if self.arch() == Arch::Pna {
            let unit = if meters_bytes { "BYTES" } else { "PACKETS" };
            control.declarations.push(format!("DirectMeter(PNA_MeterType_t.{unit}) dm_{name}"));
            table.properties.push(format!("pna_direct_meter = dm_{name}"));
            if let Some((place, ty)) = self.random_element(&scope.writes).cloned() {
                let colour = format!("(dm_{name}.execute() == PNA_MeterColor_t.RED)");
                first_stmts.push(Stmt::assign(&place, Expr::place(Ty::Bool, colour).to(ty)));
            }
            return;
        }
        let is_fitting =
            |(place, ty): &&(String, Ty)| place.starts_with("meta.") && matches!(ty, Ty::Bit(w) if *w >= 2);
        let places: Vec<(String, Ty)> = scope.writes.iter().filter(is_fitting).cloned().collect();
        if let Some((place, ty)) = self.random_element(&places).cloned() {
            let unit = if meters_bytes { "bytes" } else { "packets" };
            control.declarations.push(format!("direct_meter<{ty}>(MeterType.{unit}) dm_{name}"));
            table.properties.push(format!("meters = dm_{name}"));
            first_stmts.push(Stmt::plain(format!("dm_{name}.read({place})")));
        }
    }

    pub(super) fn table_params(&mut self) -> Vec<Param> {
        (0..self.rng.usize(..4))
            .map(|_| Param { direction: "", ty: self.random_type(), name: self.fresh_name("q") })
            .collect()
    }

    /// Generates one to three actions, each with a name of its own. An action may have a parameter
    /// with a direction; the table gives its argument. `first_stmts` are the statements that use
    /// the table's objects; a random part of them starts each action.
    fn table_actions(&mut self, scope: &ScopeNames, control: &mut Control, table: &mut Table, first_stmts: &[Stmt]) {
        for _ in 0..self.rng.usize(1..4) {
            let name = self.fresh_name("a");
            let mut params = self.table_params();
            let mut bound_args = Vec::new();
            if self.true_with_percent(15)
                && let Some((place, ty)) = self.random_element(&self.block_scope(BlockRole::Ingress).writes).cloned()
                && !place.contains('[')
            {
                let direction = ["in", "inout", "out"][self.rng.usize(..3)];
                params.insert(0, Param { direction, ty, name: self.fresh_name("q") });
                bound_args = vec![text("("), text(place), text(")")];
            }
            let mut before = first_stmts.to_vec();
            before.retain(|_| self.true_with_percent(80));
            let mut body = self.action_body(&params, scope, before);
            if self.true_with_percent(20) {
                let mut inner = scope.clone();
                inner.in_action = true;
                self.destination(&inner, &mut body);
            }
            control.actions.push(Action { name: name.clone(), params, body });
            table.actions.push((name, bound_args));
        }
        if self.true_with_percent(50) {
            table.actions.push(("NoAction".to_owned(), Vec::new()));
        }
    }

    fn default_action(&mut self, control: &Control, table: &mut Table, special: TableFlavor) {
        if special == TableFlavor::Plain && self.true_with_percent(15) {
            return;
        }
        let constant = if self.true_with_percent(20) { "const " } else { "" };
        let Some((name, bound)) = self.random_element(&table.actions).cloned() else { return };
        let call = self.action_call(control, &name, &bound);
        table.properties.push(format!("{constant}default_action = {call}"));
    }

    /// Generates a call of the action with literals as action data.
    fn action_call(&mut self, control: &Control, name: &str, bound: &[TextPart]) -> String {
        let params = control.actions.iter().find(|action| action.name == name).map_or(&[][..], |action| &action.params);
        let mut args = Vec::new();
        if let Some(TextPart::Text(place)) = bound.get(1) {
            args.push(place.clone());
        }
        for param in params.iter().filter(|param| param.direction.is_empty()) {
            let value = self.random_constant() & ones(param.ty.width());
            args.push(literal(param.ty, value));
        }
        format!("{name}({})", args.join(", "))
    }

    /// Declares up to six entries in the program, of tables with bit keys only. Keys of one row
    /// prefer the same value of the pool, so that several match one packet.
    fn own_entries(&mut self, control: &Control, table: &mut Table, flavor: TableFlavor) {
        let all_bits = table.keys.iter().all(|key| matches!(key.value.ty, Ty::Bit(_)));
        if flavor != TableFlavor::Plain
            || table.keys.is_empty()
            || !all_bits
            || !self.true_with_percent(self.config.entries)
        {
            return;
        }
        table.entries.0 = self.true_with_percent(60);
        let mut seen = Vec::new();
        for _ in 0..self.rng.usize(1..7) {
            let row = self.rng.usize(..8);
            let keys: Vec<String> = table.keys.iter().map(|key| self.own_key(key, row)).collect();
            let keys = keys.join(", ");
            if seen.contains(&keys) {
                continue;
            }
            seen.push(keys.clone());
            let Some((name, bound)) = self.random_element(&table.actions).cloned() else { return };
            let call = self.action_call(control, &name, &bound);
            let keys = if table.keys.len() == 1 { keys } else { format!("({keys})") };
            table.entries.1.push(format!("{keys}: {call}"));
        }
    }

    /// Generates the match of a key in an entry. `row` chooses the value of the pool.
    fn own_key(&mut self, key: &Key, row: usize) -> String {
        let ty = key.value.ty;
        let type_mask = ones(ty.width());
        let value =
            if self.true_with_percent(70) { self.program.pool[row] } else { self.random_constant() } & type_mask;
        let literal_of = |value: u128| literal(ty, value & type_mask);
        match key.kind {
            "ternary" => {
                let mask = [type_mask, self.random_value() & type_mask, 0xff & type_mask][self.rng.usize(..3)];
                format!("{} &&& {}", literal_of(value & mask), literal_of(mask))
            }
            "lpm" => {
                let length = self.rng.u32(..=ty.width().min(128));
                let mask = type_mask & !ones(ty.width().min(128) - length);
                format!("{} &&& {}", literal_of(value & mask), literal_of(mask))
            }
            "range" => {
                let other = self.random_constant() & type_mask;
                format!("{} .. {}", literal_of(value.min(other)), literal_of(value.max(other)))
            }
            "optional" if self.true_with_percent(40) => "_".to_owned(),
            _ => literal_of(value),
        }
    }
}

/// Returns an action's name without annotations.
fn name_without_annotations(name: &str) -> String {
    name.rsplit(' ').next().unwrap_or(name).to_owned()
}
