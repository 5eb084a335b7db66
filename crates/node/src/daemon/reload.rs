//! SIGHUP: the configuration is read again, and what can change while packets flow does.

use super::notify;
use super::start::open;
use crate::config::{self, BadConfig, Config, ConfigFile, PortSetting};
use crate::device::Node;
use crate::engine::Factory;
use crate::log::Log;
use crate::region::Applied;
use p4runtime::server::Credentials;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{error, info, warn};

/// Keys that take effect when the configuration is read again; `SECTION.KEY`, or a whole section. All others need a restart.
const AT_ONCE: [&str; 7] = [
    "log",
    "port",
    "region",
    "p4runtime.certificate",
    "p4runtime.key",
    "p4runtime.client_authority",
    "p4runtime.token",
];

/// Reads the configuration again.
pub(super) struct Reload {
    /// Where it is; none: the node runs without one.
    pub path: Option<PathBuf>,
    /// What is in force, as far as it can be changed.
    pub file: ConfigFile,
    pub credentials: Credentials,
    pub log: Arc<Log>,
    pub node: Arc<Node>,
    /// Ports are opened as it takes them.
    pub engine: Factory,
    /// For the service manager.
    pub status: String,
}

impl Reload {
    /// Reads it once more. A file with a mistake changes nothing; what was found is in the log.
    pub fn again(&mut self) {
        notify::reloading();
        let before = self.file.region.clone();
        match &self.path {
            None if self.file.region.is_some() => {}
            None => warn!("there is no configuration to be read again: this node was started without --config"),
            Some(path) => match config::load(path, self.node.wings) {
                Ok(config) => self.change(config),
                Err(bad) => refuse(&bad),
            },
        }
        self.apply_region(before.as_deref());
        notify::ready(&self.status);
    }

    /// The region file that is in force is read again, too; or another one, if the configuration names another than `before`.
    fn apply_region(&self, before: Option<&Path>) {
        let Some(file) = &self.file.region else { return };
        let other = (before != Some(file)).then(|| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        match self.node.apply_region(other.as_deref()) {
            Ok(applied) => log_applied(&applied),
            Err(error) => error!("the region is refused, tables are as before: {error}"),
        }
    }

    fn change(&mut self, config: Config) {
        // Certificates are others if their files are, whether their names are or not.
        self.credentials.replace(&config.serve.credentials);
        self.log.set(config.file.log);
        let (now, later): (Vec<String>, Vec<String>) =
            differences(&self.file, &config.file).into_iter().partition(|key| is_at_once(key));
        for key in &later {
            warn!(key, "`{key}` changes with a restart");
        }
        self.file.ports = ports(&self.node, &self.engine, &self.file.ports, config.file.ports);
        self.file.log = config.file.log;
        // A node that serves a region goes on with it: what takes it away is a restart.
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

/// What an application of the region file came to.
pub(super) fn log_applied(applied: &Applied) {
    let Applied { inserted, modified, deleted, others, ms, .. } = applied;
    let region = applied.region.display();
    info!(%region, inserted, modified, deleted, others, ms, "the region is in force");
    applied.warnings.iter().for_each(|warning| warn!("{warning}"));
}

/// What a mistake in the configuration leads to, line by line.
pub(super) fn refuse(bad: &BadConfig) {
    for mistake in bad.lines() {
        error!("the configuration is refused: {mistake}");
    }
}

/// Ports come and go: what there is afterwards. A port that cannot be had is named; the others go on whatever happens to it.
fn ports(node: &Node, engine: &Factory, before: &[PortSetting], after: Vec<PortSetting>) -> Vec<PortSetting> {
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
                error!(port = new.number, device = new.device, why, "a port cannot be added; mend it and reload again");
            }
        }
    }
    there
}

fn is_at_once(key: &str) -> bool {
    AT_ONCE.iter().any(|at_once| key.strip_prefix(at_once).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// Keys whose values differ, as they are written: `KEY`, or `SECTION.KEY`. Taken from the file's form, so that none can be forgotten.
fn differences(before: &ConfigFile, after: &ConfigFile) -> Vec<String> {
    // What was read from text can be written.
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
                differences(&file(""), &file(text)).into_iter().partition(|key| is_at_once(key));
            (now.join(" "), later.join(" "))
        };
        let pair = |now: &str, later: &str| (now.to_owned(), later.to_owned());
        assert_eq!(named(""), pair("", ""));
        assert_eq!(named("cores = [1]\ndevice_id = 2"), pair("", "cores device_id"));
        assert_eq!(named("[log]\nlevel = \"debug\""), pair("log.level", ""));
        assert_eq!(named("[p4runtime]\nlisten = [\"127.0.0.1:1\"]"), pair("", "p4runtime.listen"));
        let token = format!("[[p4runtime.token]]\nsha256 = \"{}\"\npower = \"read-only\"", "0".repeat(64));
        assert_eq!(named(&token), pair("p4runtime.token", ""));
        assert_eq!(named("[[port]]\nnumber = 1\ndevice = \"x\""), pair("port", ""));
    }
}
