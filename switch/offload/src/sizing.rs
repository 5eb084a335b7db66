//! The sizing file: how many entries each table must hold, in terms of what a region has. TOML; `docs/plan.schema.json` is its schema.
//!
//! ```toml
//! [parameters]            # what the formulas may name; `terrace plan --set vms=2M` changes one, `--sweep vms` walks along it
//! vms = 1146880
//! ipv6 = 0.25
//! tenants = 20000
//!
//! [tables]                # control-plane names, or their ends where those are unambiguous; others have the program's `size`
//! vm_nc_v4 = "vms * (1 - ipv6)"
//! vm_nc_v6 = "vms * ipv6"
//!
//! [objects]               # elements of counters, meters and registers; others have what the program says
//! vpc_received = "tenants"
//!
//! [values]                # different values that an argument of an action has, over all entries: they are kept once (`share` in the plan's steps)
//! "on_server_v4.server" = "vms / 20"
//!
//! [tenants]               # how the entries of some tables are spread over tenants, to count clusters
//! count = 20000
//! skew = 0.8
//! tables = ["vm_nc_v4", "vm_nc_v6"]
//! ```

use crate::formula::{Formula, FormulaError, Parameters};
use asic::rewrite::Sizes;
use asic::rewrite::results::value_names;
use ir::Pipeline;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// Greatest number of tenants.
pub const MAX_TENANTS: u64 = 1 << 24;

/// The file as it is written.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SizingFile {
    /// Values that formulas may name.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub parameters: BTreeMap<String, Spanned<f64>>,
    /// Entries of each table: a number, or a formula.
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub tables: BTreeMap<String, Spanned<Amount>>,
    /// Elements of counters, meters and registers that the program indexes: a number, or a formula.
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub objects: BTreeMap<String, Spanned<Amount>>,
    /// How many different values an argument of an action (`on_server_v4.server`) has over all entries: a number, or a formula.
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub values: BTreeMap<String, Spanned<Amount>>,
    /// How tenants share the entries.
    #[schemars(with = "Option<TenantsFile>")]
    pub tenants: Option<Spanned<TenantsFile>>,
}

/// A number of entries, or a formula for one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    /// So many.
    Number(f64),
    /// A formula over the parameters.
    Formula(String),
}

/// How tenants share the entries of some tables.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantsFile {
    /// How many tenants.
    pub count: u64,
    /// The n-th largest tenant has a share in proportion to n^-skew (Zipf); 0: all are equal.
    #[serde(default)]
    pub skew: f64,
    /// Tables whose entries belong to tenants; each cluster holds all entries of the others.
    pub tables: Vec<String>,
}

/// A sizing file that was checked against a program.
#[derive(Clone, Debug)]
pub struct Sizing {
    parameters: Parameters,
    /// Full control-plane name, formula.
    tables: Vec<(String, Formula)>,
    objects: Vec<(String, Formula)>,
    values: Vec<(String, Formula)>,
    tenants: Option<Tenants>,
}

/// What a sizing file may name: full control-plane names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Tables.
    pub tables: Vec<String>,
    /// Counters, meters and registers that the program indexes.
    pub objects: Vec<String>,
    /// Arguments of actions, [`asic::rewrite::results::value_name`].
    pub values: Vec<String>,
}

impl Names {
    /// Those of a program.
    pub fn of(pipeline: &Pipeline) -> Names {
        let indexed = pipeline.externs.values().filter(|inst| inst.kind.is_indexed());
        Names {
            tables: pipeline.tables.values().map(|table| table.preamble.name.clone()).collect(),
            objects: indexed.map(|inst| inst.preamble.name.clone()).collect(),
            values: value_names(pipeline).collect(),
        }
    }
}

/// How tenants share the entries of some tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    /// How many.
    pub count: u64,
    /// Zipf exponent of their shares.
    pub skew: f64,
    /// Full control-plane names of the tables that are split by tenant.
    pub tables: Vec<String>,
}

/// A mistake in a sizing file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{message}", place.map(|(line, column)| format!("{line}:{column}: ")).unwrap_or_default())]
pub struct Mistake {
    /// Line and column, from 1; none if it is about the whole file.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and the mend.
    pub message: String,
}

impl Sizing {
    /// Nothing but what the program says.
    pub fn empty() -> Sizing {
        Sizing {
            parameters: Parameters::new(),
            tables: Vec::new(),
            objects: Vec::new(),
            values: Vec::new(),
            tenants: None,
        }
    }

    /// Reads a file for a program with these names.
    ///
    /// # Errors
    /// All mistakes that were found.
    pub fn parse(text: &str, names: &Names) -> Result<Sizing, Vec<Mistake>> {
        let file: SizingFile = toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| place(text, span));
            let message = format!("{}; docs/plan.md has all keys", error.message().trim_end());
            vec![Mistake { place, message }]
        })?;
        let mut checker = Checker { text, names, mistakes: Vec::new() };
        let sizing = checker.check(file);
        match checker.mistakes.is_empty() {
            true => Ok(sizing),
            false => Err(checker.mistakes),
        }
    }

    /// The same with another value of a parameter.
    ///
    /// # Errors
    /// The parameters that there are, if this is none of them.
    pub fn with(&self, parameter: &str, value: f64) -> Result<Sizing, String> {
        let mut changed = self.clone();
        match changed.parameters.get_mut(parameter) {
            Some(place) => *place = value,
            None => {
                let known: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(format!("there is no parameter `{parameter}`; the sizing file has {known}"));
            }
        }
        Ok(changed)
    }

    /// Value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.get(name).copied()
    }

    /// Entries of the tables that the file names, and values of arguments.
    ///
    /// # Errors
    /// A formula that is no number of entries.
    pub fn sizes(&self) -> Result<Sizes, FormulaError> {
        let one = |(name, formula): &(String, Formula)| Ok((name.clone(), formula.entries(&self.parameters)?));
        self.tables.iter().chain(&self.values).map(one).collect()
    }

    /// Elements of the objects that the file names.
    ///
    /// # Errors
    /// A formula that is no number of elements.
    pub fn objects(&self) -> Result<Sizes, FormulaError> {
        let one = |(name, formula): &(String, Formula)| Ok((name.clone(), formula.entries(&self.parameters)?));
        self.objects.iter().map(one).collect()
    }

    /// How tenants share them.
    pub fn tenants(&self) -> Option<&Tenants> {
        self.tenants.as_ref()
    }
}

/// The schema of sizing files (JSON Schema).
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(SizingFile).to_value()
}

/// Line and column (from 1, in characters) of the start of a span of bytes.
fn place(text: &str, span: Range<usize>) -> (usize, usize) {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1)
}

struct Checker<'a> {
    text: &'a str,
    names: &'a Names,
    mistakes: Vec<Mistake>,
}

impl Checker<'_> {
    fn wrong(&mut self, span: Range<usize>, message: String) {
        self.mistakes.push(Mistake { place: Some(place(self.text, span)), message });
    }

    fn check(&mut self, file: SizingFile) -> Sizing {
        let parameters: Parameters =
            file.parameters.iter().map(|(name, value)| (name.clone(), *value.get_ref())).collect();
        let names = self.names;
        let tables = self.amounts(file.tables, &names.tables, "table", &parameters);
        let objects = self.amounts(file.objects, &names.objects, "counter, meter or register", &parameters);
        let values = self.amounts(file.values, &names.values, "argument of an action", &parameters);
        let tenants = file.tenants.map(|tenants| self.tenants(tenants));
        Sizing { parameters, tables, objects, values, tenants }
    }

    fn amounts(
        &mut self,
        given: BTreeMap<String, Spanned<Amount>>,
        known: &[String],
        what: &str,
        parameters: &Parameters,
    ) -> Vec<(String, Formula)> {
        let mut amounts: Vec<(String, Formula)> = Vec::new();
        for (name, amount) in given {
            let span = amount.span();
            let Some(full) = self.name(&name, known, what, span.clone()) else { continue };
            if amounts.iter().any(|(other, _)| *other == full) {
                self.wrong(span, format!("`{name}` is `{full}`, which stands here twice; take one line away"));
                continue;
            }
            let formula = match amount.into_inner() {
                Amount::Number(value) => Ok(Formula::number(value)),
                Amount::Formula(text) => Formula::parse(&text),
            };
            match formula.and_then(|formula| formula.entries(parameters).map(|_| formula)) {
                Ok(formula) => amounts.push((full, formula)),
                Err(error) => self.wrong(span, error.to_string()),
            }
        }
        amounts
    }

    fn tenants(&mut self, given: Spanned<TenantsFile>) -> Tenants {
        let span = given.span();
        let TenantsFile { count, skew, tables } = given.into_inner();
        if !(1..=MAX_TENANTS).contains(&count) {
            self.wrong(span.clone(), format!("count is 1 to {MAX_TENANTS}"));
        }
        if !(0.0..=4.0).contains(&skew) {
            self.wrong(span.clone(), "skew is 0 (all tenants are equal) to 4".to_owned());
        }
        let known = &self.names.tables;
        let tables = tables.iter().filter_map(|name| self.name(name, known, "table", span.clone())).collect();
        Tenants { count, skew, tables }
    }

    /// The full name of something.
    fn name(&mut self, name: &str, known: &[String], what: &str, span: Range<usize>) -> Option<String> {
        match entries::find_name(known.iter().map(String::as_str), name) {
            Ok(at) => return known.get(at).cloned(),
            Err(ends) if ends.is_empty() => {
                self.wrong(span, format!("the program has no {what} `{name}`; it has {}", known.join(", ")));
            }
            Err(ends) => {
                let ends = ends.join(", ");
                self.wrong(span, format!("`{name}` is the end of several names: {ends}; write more of it"));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [&str; 4] = ["gateway.route_v4", "gateway.vm_nc_v4", "gateway.acl_in.v4", "gateway.acl_out.v4"];

    fn read(text: &str) -> Result<Sizing, Vec<String>> {
        let names = Names {
            tables: TABLES.map(String::from).to_vec(),
            objects: vec!["gateway.vpc_received".to_owned()],
            values: vec!["gateway.on_server.server".to_owned(), "gateway.on_server.vm_mac".to_owned()],
        };
        Sizing::parse(text, &names).map_err(|m| m.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn formulas_follow_their_parameters() {
        let sizing = read("[parameters]\nvms = 1000\n[tables]\nvm_nc_v4 = \"vms * 3\"\nroute_v4 = 7\n").unwrap();
        let sizes = sizing.sizes().unwrap();
        assert_eq!(sizes["gateway.vm_nc_v4"], 3_000);
        assert_eq!(sizes["gateway.route_v4"], 7);
        assert_eq!(sizing.with("vms", 5.0).unwrap().sizes().unwrap()["gateway.vm_nc_v4"], 15);
        assert_eq!(sizing.with("vm", 5.0).unwrap_err(), "there is no parameter `vm`; the sizing file has vms");
    }

    #[test]
    fn values_stand_beside_entries() {
        let sizing = read("[parameters]\nvms = 1000\n[values]\n\"on_server.server\" = \"vms / 20\"\n").unwrap();
        assert_eq!(sizing.sizes().unwrap()["gateway.on_server.server"], 50);
        let wrong = read("[values]\nserver = 1\nvm = 2\n").unwrap_err();
        assert!(
            wrong.len() == 1 && wrong[0].starts_with("3:6: the program has no argument of an action `vm`"),
            "{wrong:?}"
        );
    }

    #[test]
    fn mistakes_have_places_and_mends() {
        let all =
            read("[tables]\nroute_v5 = 1\nv4 = 2\nvm_nc_v4 = \"vms +\"\n\"gateway.route_v4\" = 1\nroute_v4 = 2\n")
                .unwrap_err();
        assert_eq!(all.len(), 4, "{all:#?}");
        assert!(
            all.iter().any(|m| m.starts_with("2:12: the program has no table `route_v5`; it has gateway.route_v4,"))
        );
        assert!(all.iter().any(|m| m.starts_with("3:6: `v4` is the end of several names")));
        assert!(all.iter().any(|m| m.starts_with("4:12: column 6 of `vms +`")));
        assert!(all.iter().any(|m| m.contains("which stands here twice")));
        assert!(read("[table]\n").unwrap_err()[0].contains("unknown field `table`"));
        let all = read("[tenants]\ncount = 0\nskew = 9\ntables = [\"nope\"]\n").unwrap_err();
        assert_eq!(all.len(), 3, "{all:#?}");
    }
}
