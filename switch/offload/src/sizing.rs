//! Sizing file: the number of entries of each table, in terms of parameters of a region. TOML; the
//! schema is `docs/reference/plan.schema.json`.
//!
//! ```toml
//! [parameters]            # names for formulas; see `terrace plan --set vms=2M` and `--sweep`
//! vms = 1146880
//! ipv6 = 0.25
//! tenants = 20000
//!
//! [tables]                # control-plane names or ends of them; others have the program's `size`
//! vm_nc_v4 = "vms * (1 - ipv6)"
//! vm_nc_v6 = "vms * ipv6"
//!
//! [objects]               # elements of counters, meters, registers; others as in the program
//! vpc_received = "tenants"
//!
//! [values]                # different values of an action's argument, for sharing results
//! "on_server_v4.server" = "vms / 20"
//!
//! [tenants]               # distribution of entries over tenants, to count clusters
//! count = 20000
//! skew = 0.8
//! tables = ["vm_nc_v4", "vm_nc_v6"]
//! ```

use crate::formula::{Formula, FormulaError, Parameters};
use asic::transform::TableSizes;
use asic::transform::share_results::value_names;
use ir::Pipeline;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

/// Maximum number of tenants.
pub const MAX_TENANTS: u64 = 1 << 24;

/// Content of a sizing file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SizingFile {
    /// Parameters of formulas.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub parameters: BTreeMap<String, Spanned<f64>>,
    /// Entries of each table: a number or a formula.
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub tables: BTreeMap<String, Spanned<Amount>>,
    /// Elements of indexed counters, meters and registers: a number or a formula.
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub objects: BTreeMap<String, Spanned<Amount>>,
    /// Different values of an action's argument (`on_server_v4.server`): a number or a formula.
    #[schemars(with = "BTreeMap<String, Amount>")]
    pub values: BTreeMap<String, Spanned<Amount>>,
    /// Distribution of entries over tenants.
    #[schemars(with = "Option<TenantsFile>")]
    pub tenants: Option<Spanned<TenantsFile>>,
}

/// Number of entries, or a formula for it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Amount {
    /// A number.
    Number(f64),
    /// A formula over the parameters.
    Formula(String),
}

/// Distribution of the entries of some tables over tenants.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantsFile {
    /// Number of tenants.
    pub count: u64,
    /// Zipf exponent: the n-th largest tenant's share is proportional to n^-skew; 0: all are equal.
    #[serde(default)]
    pub skew: f64,
    /// Tables with entries of tenants; each cluster holds all entries of the other tables.
    pub tables: Vec<String>,
}

/// Sizing file that was checked against a program.
#[derive(Clone, Debug)]
pub struct Sizing {
    parameters: Parameters,
    /// Full control-plane names with formulas.
    tables: Vec<(String, Formula)>,
    objects: Vec<(String, Formula)>,
    values: Vec<(String, Formula)>,
    tenants: Option<Tenants>,
}

/// Full control-plane names that a sizing file may use.
#[derive(Clone, Debug, Default)]
pub struct AllowedNames {
    /// Tables.
    pub tables: Vec<String>,
    /// Indexed counters, meters and registers.
    pub objects: Vec<String>,
    /// Arguments of actions, as in [`asic::transform::share_results::value_name`].
    pub values: Vec<String>,
}

impl AllowedNames {
    /// Returns the names of a program.
    pub fn from_pipeline(pipeline: &Pipeline) -> AllowedNames {
        let indexed = pipeline.externs.values().filter(|inst| inst.kind.is_indexed());
        AllowedNames {
            tables: pipeline.tables.values().map(|table| table.preamble.name.clone()).collect(),
            objects: indexed.map(|inst| inst.preamble.name.clone()).collect(),
            values: value_names(pipeline).collect(),
        }
    }
}

/// Distribution of the entries of some tables over tenants.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    /// Number of tenants.
    pub count: u64,
    /// Zipf exponent of their shares.
    pub skew: f64,
    /// Full control-plane names of the tables that are split by tenant.
    pub tables: Vec<String>,
}

/// Error in a sizing file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{message}", location.map(|(line, column)| format!("{line}:{column}: ")).unwrap_or_default())]
pub struct SizingError {
    /// Line and column, from 1; `None` if the error concerns the whole file.
    pub location: Option<(usize, usize)>,
    /// Error and help.
    pub message: String,
}

impl Sizing {
    /// Returns a sizing without values.
    pub fn empty() -> Sizing {
        Sizing {
            parameters: Parameters::new(),
            tables: Vec::new(),
            objects: Vec::new(),
            values: Vec::new(),
            tenants: None,
        }
    }

    /// Parses a file for a program with these names.
    ///
    /// # Errors
    /// All errors that were found.
    pub fn parse(text: &str, names: &AllowedNames) -> Result<Sizing, Vec<SizingError>> {
        let file: SizingFile = toml::from_str(text).map_err(|error| {
            let place = error.span().map(|span| line_and_column(text, span));
            let message = format!("{}; docs/reference/plan.md has all keys", error.message().trim_end());
            vec![SizingError { location: place, message }]
        })?;
        let mut checker = SizingChecker { text, names, mistakes: Vec::new() };
        let sizing = checker.check_file(file);
        match checker.mistakes.is_empty() {
            true => Ok(sizing),
            false => Err(checker.mistakes),
        }
    }

    /// Returns the sizing with another value of a parameter.
    ///
    /// # Errors
    /// Message with the known parameters, if the parameter is unknown.
    pub fn with_parameter(&self, parameter: &str, value: f64) -> Result<Sizing, String> {
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

    /// Returns the value of a parameter.
    pub fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.get(name).copied()
    }

    /// Returns the entries of the tables in the file, and the values of arguments.
    ///
    /// # Errors
    /// The value of a formula is not a number of entries.
    pub fn sizes(&self) -> Result<TableSizes, FormulaError> {
        let one = |(name, formula): &(String, Formula)| Ok((name.clone(), formula.entry_count(&self.parameters)?));
        self.tables.iter().chain(&self.values).map(one).collect()
    }

    /// Returns the elements of the objects in the file.
    ///
    /// # Errors
    /// The value of a formula is not a number of elements.
    pub fn objects(&self) -> Result<TableSizes, FormulaError> {
        let one = |(name, formula): &(String, Formula)| Ok((name.clone(), formula.entry_count(&self.parameters)?));
        self.objects.iter().map(one).collect()
    }

    /// Returns the distribution over tenants.
    pub fn tenants(&self) -> Option<&Tenants> {
        self.tenants.as_ref()
    }
}

/// Returns the JSON schema of sizing files.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(SizingFile).to_value()
}

/// Returns line and column (from 1, in characters) of the start of a byte span.
fn line_and_column(text: &str, span: Range<usize>) -> (usize, usize) {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1)
}

struct SizingChecker<'a> {
    text: &'a str,
    names: &'a AllowedNames,
    mistakes: Vec<SizingError>,
}

impl SizingChecker<'_> {
    fn report_error(&mut self, span: Range<usize>, message: String) {
        self.mistakes.push(SizingError { location: Some(line_and_column(self.text, span)), message });
    }

    fn check_file(&mut self, file: SizingFile) -> Sizing {
        let parameters: Parameters =
            file.parameters.iter().map(|(name, value)| (name.clone(), *value.get_ref())).collect();
        let names = self.names;
        let tables = self.check_amounts(file.tables, &names.tables, "table", &parameters);
        let objects = self.check_amounts(file.objects, &names.objects, "counter, meter or register", &parameters);
        let values = self.check_amounts(file.values, &names.values, "argument of an action", &parameters);
        let tenants = file.tenants.map(|tenants| self.check_tenants(tenants));
        Sizing { parameters, tables, objects, values, tenants }
    }

    /// Resolves the names of a section (`kind_name`) among the known ones, and evaluates each
    /// amount once with the parameters. Errors are reported; their lines are left out.
    fn check_amounts(
        &mut self,
        amounts_by_name: BTreeMap<String, Spanned<Amount>>,
        known: &[String],
        kind_name: &str,
        parameters: &Parameters,
    ) -> Vec<(String, Formula)> {
        let mut amounts: Vec<(String, Formula)> = Vec::new();
        for (name, amount) in amounts_by_name {
            let span = amount.span();
            let Some(full_name) = self.resolve_name(&name, known, kind_name, span.clone()) else { continue };
            if amounts.iter().any(|(other, _)| *other == full_name) {
                self.report_error(span, format!("`{name}` is `{full_name}`, which is listed twice; remove one line"));
                continue;
            }
            let formula = match amount.into_inner() {
                Amount::Number(value) => Ok(Formula::from_number(value)),
                Amount::Formula(text) => Formula::parse(&text),
            };
            match formula.and_then(|formula| formula.entry_count(parameters).map(|_| formula)) {
                Ok(formula) => amounts.push((full_name, formula)),
                Err(error) => self.report_error(span, error.to_string()),
            }
        }
        amounts
    }

    fn check_tenants(&mut self, given: Spanned<TenantsFile>) -> Tenants {
        let span = given.span();
        let TenantsFile { count, skew, tables } = given.into_inner();
        if !(1..=MAX_TENANTS).contains(&count) {
            self.report_error(span.clone(), format!("count is 1 to {MAX_TENANTS}"));
        }
        if !(0.0..=4.0).contains(&skew) {
            self.report_error(span.clone(), "skew is 0 (all tenants are equal) to 4".to_owned());
        }
        let known = &self.names.tables;
        let tables = tables.iter().filter_map(|name| self.resolve_name(name, known, "table", span.clone())).collect();
        Tenants { count, skew, tables }
    }

    /// Resolves a name or the end of one to the full name.
    fn resolve_name(&mut self, name: &str, known: &[String], what: &str, span: Range<usize>) -> Option<String> {
        match entries::find_name(known.iter().map(String::as_str), name) {
            Ok(at) => return known.get(at).cloned(),
            Err(ends) if ends.is_empty() => {
                self.report_error(span, format!("the program has no {what} `{name}`; it has {}", known.join(", ")));
            }
            Err(ends) => {
                let ends = ends.join(", ");
                self.report_error(span, format!("`{name}` is the end of several names: {ends}; write more of it"));
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
        let names = AllowedNames {
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
        assert_eq!(sizing.with_parameter("vms", 5.0).unwrap().sizes().unwrap()["gateway.vm_nc_v4"], 15);
        assert_eq!(
            sizing.with_parameter("vm", 5.0).unwrap_err(),
            "there is no parameter `vm`; the sizing file has vms"
        );
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
        assert!(all.iter().any(|m| m.contains("which is listed twice")));
        assert!(read("[table]\n").unwrap_err()[0].contains("unknown field `table`"));
        let all = read("[tenants]\ncount = 0\nskew = 9\ntables = [\"nope\"]\n").unwrap_err();
        assert_eq!(all.len(), 3, "{all:#?}");
    }
}
