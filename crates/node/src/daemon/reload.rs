//! SIGHUP: reloads the configuration, and applies the keys that can change while packets flow.

use super::notify;
use super::start::open;
use crate::config::{self, CheckedConfig, ConfigErrors, ConfigFile, PortSetting};
use crate::device::Node;
use crate::engine::SharedEngineFactory;
use crate::log::Log;
use crate::region::RegionChanges;
use p4runtime::server::Credentials;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info, warn};

/// Keys that take effect on a reload; `SECTION.KEY`, or a whole section. All others require a
/// restart.
const RELOADABLE_KEYS: [&str; 7] = [
    "log",
    "port",
    "region",
    "p4runtime.certificate",
    "p4runtime.key",
    "p4runtime.client_authority",
    "p4runtime.token",
];

/// Reloads the configuration.
pub(super) struct Reload {
    /// Path of the configuration; `None`: the node runs without one.
    pub path: Option<PathBuf>,
    /// The reloadable keys in force.
    pub file: ConfigFile,
    pub credentials: Credentials,
    pub log: Arc<Log>,
    pub node: Arc<Node>,
    /// Engine factory, which can open its own kind of ports.
    pub engine: SharedEngineFactory,
    /// Status text for the service manager.
    pub status: String,
}

impl Reload {
    /// Reloads the configuration. A file with an error changes nothing; the errors are logged.
    pub fn reload_config(&mut self) {
        notify::reloading();
        let before = self.file.region.clone();
        match &self.path {
            None if self.file.region.is_some() => {}
            None => warn!("there is no configuration to be read again: this node was started without --config"),
            Some(path) => match config::load(path, self.node.wings) {
                Ok(config) => self.apply_config(config),
                Err(bad) => refuse(&bad),
            },
        }
        self.apply_region(before.as_deref());
        notify::ready(&self.status);
    }

    /// Applies the region file again, or another one if the configuration no longer names `before`.
    fn apply_region(&self, before: Option<&Path>) {
        let Some(file) = &self.file.region else { return };
        let other = (before != Some(file)).then(|| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        match self.node.apply_region(other.as_deref()) {
            Ok(applied) => log_applied(&applied),
            Err(error) => error!("the region is refused, tables are as before: {error}"),
        }
    }

    fn apply_config(&mut self, config: CheckedConfig) {
        // Certificates are reloaded even if their paths are unchanged, because the files can
        // differ.
        self.credentials.replace(&config.serve.credentials);
        self.log.apply_settings(config.file.log);
        self.node.set_block_log(config.file.log.block_lines_per_second());
        let (now, later): (Vec<String>, Vec<String>) =
            changed_keys(&self.file, &config.file).into_iter().partition(|key| is_reloadable(key));
        for key in &later {
            warn!(key, "`{key}` changes with a restart");
        }
        self.file.ports = update_ports(&self.node, &self.engine, &self.file.ports, config.file.ports);
        self.node.port_states().set_settings(self.file.ports.clone());
        self.file.log = config.file.log;
        // Adding or removing the region requires a restart.
        if config.file.region.is_some() && self.file.region.is_some() {
            self.file.region = config.file.region;
        }
        let service = &mut self.file.p4runtime;
        service.certificate = config.file.p4runtime.certificate;
        service.key = config.file.p4runtime.key;
        service.client_authority = config.file.p4runtime.client_authority;
        service.tokens = config.file.p4runtime.tokens;
        info!(changed = now.join(","), "the configuration was read again");
    }
}

/// Logs the result of applying a region file.
pub(super) fn log_applied(applied: &RegionChanges) {
    let RegionChanges { inserted, modified, deleted, others, ms, .. } = applied;
    let region = applied.region.display();
    info!(%region, inserted, modified, deleted, others, ms, "the region is in force");
    applied.warnings.iter().for_each(|warning| warn!("{warning}"));
}

/// Logs the errors of a configuration, one line each.
pub(super) fn refuse(bad: &ConfigErrors) {
    for mistake in bad.lines() {
        error!("the configuration is refused: {mistake}");
    }
}

/// Attaches and detaches ports, and returns the ports that are attached afterwards. Logs ports that
/// fail; the other ports are not affected.
fn update_ports(
    node: &Node,
    engine: &SharedEngineFactory,
    before: &[PortSetting],
    after: Vec<PortSetting>,
) -> Vec<PortSetting> {
    let mut there: Vec<PortSetting> = Vec::new();
    for old in before {
        if after.contains(old) {
            there.push(old.clone());
            continue;
        }
        match node.detach_port(old.number) {
            Ok(_) => info!(port = old.number, device = old.device, "a port was taken away"),
            Err(error) => {
                error!(port = old.number, %error, "a port cannot be taken away");
                there.push(old.clone());
            }
        }
    }
    for new in after {
        if there.iter().any(|port| port.number == new.number) {
            continue;
        }
        match open(&new, engine).and_then(|port| Ok(node.attach_port(new.number, port)?)) {
            Ok(()) => {
                info!(port = new.number, device = new.device, "a port was added");
                there.push(new);
            }
            Err(error) => {
                let why = format!("{error:#}");
                error!(port = new.number, device = new.device, why, "a port cannot be added; fix it and reload again");
            }
        }
    }
    there
}

fn is_reloadable(key: &str) -> bool {
    RELOADABLE_KEYS
        .iter()
        .any(|at_once| key.strip_prefix(at_once).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Returns the keys whose values differ: `KEY`, or `SECTION.KEY`. Compares the serialised files, so
/// that no key is forgotten.
fn changed_keys(before: &ConfigFile, after: &ConfigFile) -> Vec<String> {
    // A file that was parsed can be serialised.
    let form = |file: &ConfigFile| serde_json::to_value(file).unwrap_or_default();
    let (before, after) = (form(before), form(after));
    let mut keys = Vec::new();
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return keys };
    for (name, old) in &before {
        match (old, after.get(name)) {
            (Value::Object(old), Some(Value::Object(new))) => {
                let changed = old.iter().filter(|(key, value)| new.get(*key) != Some(value));
                keys.extend(changed.map(|(key, _)| format!("{name}.{key}")));
            }
            (old, new) if new != Some(old) => keys.push(name.clone()),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wings::Wings;

    #[test]
    fn each_key_that_differs_is_named_and_what_needs_a_restart_is_known() {
        let file = |text: &str| config::check(text, Wings::default()).expect("it is good").file;
        let named = |text: &str| {
            let (now, later): (Vec<_>, Vec<_>) =
                changed_keys(&file(""), &file(text)).into_iter().partition(|key| is_reloadable(key));
            (now.join(" "), later.join(" "))
        };
        let pair = |now: &str, later: &str| (now.to_owned(), later.to_owned());
        assert_eq!(named(""), pair("", ""));
        assert_eq!(named("cores = [1]\ndevice_id = 2"), pair("", "cores device_id"));
        assert_eq!(named("[log]\nlevel = \"debug\""), pair("log.level", ""));
        assert_eq!(named("[p4runtime]\nlisten = [\"127.0.0.1:1\"]"), pair("", "p4runtime.listen"));
        let token = format!("[[p4runtime.token]]\nsha256 = \"{}\"\npermission = \"read-only\"", "0".repeat(64));
        assert_eq!(named(&token), pair("p4runtime.token", ""));
        assert_eq!(named("[[port]]\nnumber = 1\ndevice = \"x\""), pair("port", ""));
    }
}
