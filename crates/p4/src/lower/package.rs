//! Reads the annotations of `main`: `@pkginfo`, `@platform_property`.
//! See the P4Runtime specification, section "PkgInfo".

use super::lowering::Lowering;
use super::names;
use crate::ast::{self, ExprKind, NamedExpr};
use crate::diag::Diagnostic;
use std::collections::HashSet;

/// Keys of `@pkginfo`.
const PKGINFO: [&str; 6] = ["name", "version", "organization", "contact", "url", "arch"];
/// Keys of `@platform_property`.
const PLATFORM: [&str; 3] = [
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
];

impl Lowering<'_> {
    /// Reads the annotations of `main`. The pipeline takes the name in `@pkginfo`.
    pub(super) fn package_info(&mut self, annotations: &ast::Annotations) {
        self.pipeline.annotations = annotations.iter().map(names::annotation_text).collect();
        for pair in self.package_pairs("pkginfo", annotations, &PKGINFO) {
            self.check_pkginfo(pair);
        }
        for pair in self.package_pairs("platform_property", annotations, &PLATFORM) {
            self.platform_property(pair);
        }
    }

    /// Returns the `key = value` pairs with the known keys `keys` of all annotations `@name`.
    /// Reports repeated and unknown keys, and annotations without pairs.
    fn package_pairs<'x>(
        &mut self,
        name: &str,
        annotations: &'x ast::Annotations,
        keys: &[&str],
    ) -> Vec<&'x NamedExpr> {
        let mut pairs = Vec::new();
        for annotation in annotations.iter().filter(|a| a.name.as_str() == name) {
            match annotation.key_values() {
                Some(written) => pairs.extend(written),
                None => {
                    let error = Diagnostic::error("bad-annotation", annotation.span, format!("`@{name}` needs pairs"));
                    self.diagnostics.push(error.help(format!("write @{name}({} = ...)", keys[0])));
                }
            }
        }
        let mut seen = HashSet::new();
        let mut known_pairs = Vec::new();
        for pair in pairs {
            let key = pair.name.as_str();
            if !seen.insert(key) {
                let message = format!("`{key}` is given twice in `@{name}`");
                let error = Diagnostic::error("bad-annotation", pair.span, message);
                self.diagnostics.push(error.help("remove one of them"));
            } else if keys.contains(&key) {
                known_pairs.push(pair);
            } else {
                let message = format!("`@{name}` has no key `{key}`; it is not shown in P4Info");
                let warning = Diagnostic::warning("bad-annotation", pair.span, message);
                self.diagnostics.push(warning.help(format!("the keys are {}", keys.join(", "))));
            }
        }
        known_pairs
    }

    fn check_pkginfo(&mut self, pair: &NamedExpr) {
        let key = pair.name.as_str();
        match &pair.value.kind {
            ExprKind::Str(name) if key == "name" => self.pipeline.name = name.to_string(),
            ExprKind::Str(_) if key == "arch" => {
                let message = "the compiler sets `arch`; this value replaces it in P4Info";
                let warning = Diagnostic::warning("bad-annotation", pair.span, message);
                self.diagnostics.push(warning.help("leave it out"));
            }
            ExprKind::Str(_) => {}
            _ => {
                let message = format!("the value of `{key}` in `@pkginfo` is not a string");
                let error = Diagnostic::error("bad-annotation", pair.value.span, message);
                self.diagnostics.push(error.help(format!("write {key} = \"...\"")));
            }
        }
    }

    fn platform_property(&mut self, pair: &NamedExpr) {
        let fits = matches!(&pair.value.kind, ExprKind::Int(n) if i32::try_from(&n.value).is_ok());
        if !fits {
            let key = pair.name.as_str();
            let message = format!("the value of `{key}` in `@platform_property` is not an integer of 31 bits");
            let error = Diagnostic::error("bad-annotation", pair.value.span, message);
            self.diagnostics.push(error.help(format!("write {key} = 1024")));
        }
    }
}
