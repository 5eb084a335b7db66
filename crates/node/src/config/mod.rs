//! The configuration file in TOML, checked completely before any of it is used.
//! `docs/reference/node.schema.json` is its schema.

mod engine;
mod model;
mod tiers;

pub use model::{
    CacheKind, CacheSetting, ConfigFile, ControlSetting, CounterSetting, EngineSetting, IdleSetting, KernelHook,
    LOWER_PORT, MetricsSetting, P4RuntimeSetting, PortDriver, PortSetting, SwitchEngine, SwitchSetting, TIERS_KEY,
    Tier, TierLink, TiersSetting, TokenSetting, TranslationSetting, XdpAttachMode,
};

use crate::engine::SharedEngineFactory;
use crate::wings::Wings;
use p4runtime::server::{AccessList, ClientPermission, Credentials, ServeOptions, Tls, TlsWhere, TokenHash};
use p4runtime::{Translation, Translations};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct CheckedConfig {
    /// Contents of the file.
    pub file: ConfigFile,
    /// Listen addresses for controllers.
    pub listen: Vec<SocketAddr>,
    /// Listen addresses for Prometheus.
    pub metrics: Vec<SocketAddr>,
    /// Options of the P4Runtime server.
    pub serve: ServeOptions,
    /// Factory of engines for programs.
    pub engine: SharedEngineFactory,
    /// Translations of controllers' strings.
    pub translations: Translations,
    /// Gateway program for a region, if it is not the built-in one.
    pub program: Option<Vec<u8>>,
    /// Optional engines that the binary adds.
    pub wings: Wings,
}

/// An error in a configuration, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Line and column, from 1; `None` for errors about the whole file.
    pub location: Option<(usize, usize)>,
    /// Description and fix.
    pub message: String,
}

/// An invalid configuration. Displays one line for each error, `FILE:LINE:COLUMN: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// Path of the file.
    pub path: PathBuf,
    /// The errors, at least one.
    pub mistakes: Vec<ConfigError>,
}

impl std::fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for ConfigError { location, message } in &self.mistakes {
            let _ = write!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, self.path.display());
            if let Some((line, column)) = location {
                let _ = write!(text, ":{line}:{column}");
            }
            let _ = write!(text, ": {message}");
        }
        f.write_str(&text)
    }
}

impl std::error::Error for ConfigErrors {}

impl ConfigErrors {
    /// Returns `FILE:LINE:COLUMN: MESSAGE` for each error.
    pub fn lines(&self) -> Vec<String> {
        let one = |mistake: &ConfigError| {
            ConfigErrors { path: self.path.clone(), mistakes: vec![mistake.clone()] }.to_string()
        };
        self.mistakes.iter().map(one).collect()
    }
}

/// Reads and checks a file.
///
/// # Errors
/// Returns all errors in the file.
pub fn load(path: &Path, wings: Wings) -> Result<CheckedConfig, ConfigErrors> {
    let bad = |mistakes| ConfigErrors { path: path.to_owned(), mistakes };
    let whole = |message: String| bad(vec![ConfigError { location: None, message }]);
    let text =
        std::fs::read_to_string(path).map_err(|error| whole(format!("cannot be read: {error}; check the path")))?;
    check(&text, wings).map_err(bad)
}

/// Returns the JSON Schema of the file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ConfigFile).to_value()
}

/// Checks a configuration.
///
/// # Errors
/// Returns all errors in the text.
pub fn check(text: &str, wings: Wings) -> Result<CheckedConfig, Vec<ConfigError>> {
    let file: ConfigFile = toml::from_str(text).map_err(|error| {
        let location = error.span().map(|span| line_and_column(text, span));
        vec![ConfigError {
            location,
            message: format!("{}; docs/reference/node.md has all keys", error.message().trim_end()),
        }]
    })?;
    let mut checker = ConfigChecker { text, mistakes: Vec::new(), wings };
    let listen = checker.check_addresses(&file.p4runtime.listen, "127.0.0.1:9559");
    let metrics = checker.check_addresses(&file.metrics.listen, "127.0.0.1:9560");
    checker.check_counters(&file.metrics.counters);
    checker.check_ports(&file);
    checker.check_log(&file);
    let serve = checker.check_service(&file.p4runtime, &listen, &metrics);
    let engine = checker.check_engine(&file);
    let translations = checker.check_translations(&file);
    let program = checker.check_program(&file);
    match checker.mistakes.is_empty() {
        true => Ok(CheckedConfig { file, listen, metrics, serve, engine, translations, program, wings }),
        false => {
            // In the order of the file.
            checker.mistakes.sort_by_key(|mistake| mistake.location);
            Err(checker.mistakes)
        }
    }
}

fn line_and_column(text: &str, span: Range<usize>) -> (usize, usize) {
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1)
}

struct ConfigChecker<'a> {
    text: &'a str,
    mistakes: Vec<ConfigError>,
    wings: Wings,
}

impl ConfigChecker<'_> {
    /// Adds an error at the first occurrence of `near` in the file.
    fn add_error(&mut self, near: &str, message: String) {
        let start = self.text.find(near);
        let location = start.map(|start| line_and_column(self.text, start..start));
        self.mistakes.push(ConfigError { location, message });
    }

    fn check_addresses(&mut self, listen: &[String], example: &str) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for address in listen {
            match address.to_socket_addrs() {
                Ok(found) => addresses.extend(found),
                Err(error) => self.add_error(
                    address,
                    format!("`{address}` is no address to listen on ({error}); write ADDRESS:PORT, as in {example}"),
                ),
            }
        }
        addresses
    }

    fn check_program(&mut self, file: &ConfigFile) -> Option<Vec<u8>> {
        if file.region.is_none() && file.program.is_some() {
            let message =
                "`program` is that of a region's gateway: give `region`, too; other programs are set by controllers";
            self.add_error("program", message.to_owned());
        }
        self.read_file("program", file.program.as_ref()).map(String::into_bytes)
    }

    fn check_counters(&mut self, counters: &[CounterSetting]) {
        for counter in counters {
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if counter.label.is_empty() || !counter.label.chars().all(good) {
                let message = format!("`{}` is no label; use letters, digits and _, as in \"vpc\"", counter.label);
                self.add_error(&counter.label, message);
            }
            if counter.max_series > 1000 {
                let message = format!(
                    "`max_series` of {} is {}: each element is a time series; 1000 at most",
                    counter.counter, counter.max_series
                );
                self.add_error(&counter.counter, message);
            }
        }
    }

    fn check_log(&mut self, file: &ConfigFile) {
        let rate = file.log.nat_blocks_per_second;
        if !(1..=10_000).contains(&rate) {
            let message = format!(
                "`nat_blocks_per_second` is {rate}: 1 to 10000 lines a second; without lines, `nat_blocks = false`"
            );
            self.add_error("nat_blocks_per_second", message);
        }
    }

    fn check_ports(&mut self, file: &ConfigFile) {
        let mut numbers: BTreeMap<u32, &str> = BTreeMap::new();
        for port in &file.ports {
            if port.number == file.cpu_port {
                let message = format!(
                    "port {} is the CPU port; give `{}` another number, or `cpu_port`",
                    port.number, port.device
                );
                self.add_error(&port.device, message);
            }
            if let Some(first) = numbers.insert(port.number, &port.device) {
                let message =
                    format!("port {} is both `{first}` and `{}`; give each its own number", port.number, port.device);
                self.add_error(&port.device, message);
            }
            if port.device.is_empty() {
                self.add_error("device", format!("port {} has no device; name a network interface", port.number));
            }
        }
        let mut cores = file.cores.clone();
        cores.sort_unstable();
        if let Some(pair) = cores.windows(2).find(|pair| pair[0] == pair[1]) {
            self.add_error("cores", format!("processor {} is named twice; each worker needs its own", pair[0]));
        }
    }

    fn check_translations(&mut self, file: &ConfigFile) -> Translations {
        let mut translations = Translations::new();
        let mut of_ports: Option<&str> = None;
        for setting in &file.translations {
            let TranslationSetting { of, values, ports, allocate } = setting;
            let mut strings: BTreeMap<u64, &str> = BTreeMap::new();
            for (string, value) in values {
                if let Some(other) = strings.insert(*value, string) {
                    let message =
                        format!("`{other}` and `{string}` both stand for {value} of `{of}`; give each its own");
                    self.add_error(string, message);
                }
            }
            if let Some(other) = of_ports.filter(|_| *ports) {
                self.add_error(
                    of,
                    format!("both `{other}` and `{of}` are the names of ports; one type's strings can be"),
                );
            }
            of_ports = of_ports.or(ports.then_some(of));
            let (values, ports, allocate) = (values.clone(), *ports, *allocate);
            if translations.insert(of.clone(), Translation { values, ports, allocate }).is_some() {
                self.add_error(
                    of,
                    format!("`{of}` is translated twice; put all that is said of it in one [[translation]]"),
                );
            }
        }
        translations
    }

    fn read_file(&mut self, key: &str, path: Option<&PathBuf>) -> Option<String> {
        let path = path?;
        match std::fs::read_to_string(path) {
            Ok(text) => Some(text),
            Err(error) => {
                let message = format!("`{key}`: {} cannot be read: {error}; check the path", path.display());
                self.add_error(key, message);
                None
            }
        }
    }

    fn check_service(
        &mut self,
        service: &P4RuntimeSetting,
        listen: &[SocketAddr],
        metrics: &[SocketAddr],
    ) -> ServeOptions {
        let certificate = self.read_file("certificate", service.certificate.as_ref());
        let key = self.read_file("key", service.key.as_ref());
        let authority = self.read_file("client_authority", service.client_authority.as_ref());
        let tls_where = if service.require_tls_on_loopback { TlsWhere::Everywhere } else { TlsWhere::BeyondLoopback };
        let tls = match (certificate, key, authority) {
            (Some(certificate), Some(key), Some(client_authority)) => Some(Tls { certificate, key, client_authority }),
            _ => None,
        };
        if let (None, Some(address)) = (&tls, listen.iter().chain(metrics).find(|address| tls_where.is_at(**address))) {
            let message = format!(
                "on {address}, clients need TLS: give `certificate`, `key` and `client_authority`, or listen on loopback alone"
            );
            self.add_error("listen", message);
        }
        let mut tokens = Vec::new();
        for token in &service.tokens {
            match (token.sha256.parse::<TokenHash>(), token.permission.parse::<ClientPermission>()) {
                (Ok(hash), Ok(power)) => tokens.push((hash, power)),
                (hash, power) => {
                    hash.err().into_iter().for_each(|message| self.add_error(&token.sha256, message));
                    power.err().into_iter().for_each(|message| self.add_error(&token.permission, message));
                }
            }
        }
        let credentials = Credentials::new(tls.as_ref(), AccessList { tokens }).unwrap_or_else(|error| {
            self.add_error("certificate", error.to_string());
            Credentials::default()
        });
        ServeOptions { tls_where, credentials, ..ServeOptions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(text: &str) -> Vec<String> {
        let found = check(text, Wings::default()).err().unwrap_or_default();
        let line = |mistake: ConfigError| format!("{:?} {}", mistake.location.unwrap_or_default(), mistake.message);
        found.into_iter().map(line).collect()
    }

    #[test]
    fn an_empty_file_is_a_node_on_loopback() {
        let config = check("", Wings::default()).expect("good");
        assert_eq!(config.listen, ["127.0.0.1:9559".parse().expect("an address")]);
        assert_eq!((config.file.device_id, config.file.cpu_port, config.file.ports.len()), (1, 510, 0));
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_a_mend() {
        let text = "device_id = 1\n[[port]]\nnumber = 1\ndevice = \"eth0\"\n[[port]]\nnumber = 1\ndevice = \"eth1\"\n";
        assert_eq!(mistakes(text), ["(7, 11) port 1 is both `eth0` and `eth1`; give each its own number"]);
        let found = mistakes("devise_id = 1\n");
        assert!(found[0].starts_with("(1, 1) unknown field `devise_id`"), "{found:?}");
        let found = mistakes("[p4runtime]\nlisten = [\"0.0.0.0:9559\"]\n");
        assert!(found[0].starts_with("(2, 1) on 0.0.0.0:9559, clients need TLS"), "{found:?}");
        let twice = "[[translation]]\nof = \"port_t\"\nvalues = { a = 1, b = 1 }\n[[translation]]\nof = \"port_t\"\n";
        let found = mistakes(twice);
        assert!(found[0].contains("`port_t` is translated twice"), "{found:?}");
        assert_eq!(found[1], "(3, 19) `a` and `b` both stand for 1 of `port_t`; give each its own");
        let found = mistakes("[log]\nnat_blocks_per_second = 0\n");
        assert!(found[0].starts_with("(2, 1) `nat_blocks_per_second` is 0: 1 to 10000"), "{found:?}");
        let found = mistakes("[p4runtime]\nlisten = [\"somewhere\"]\n");
        assert!(found[0].starts_with("(2, 12) `somewhere` is no address"), "{found:?}");
        let found = mistakes("[p4runtime]\n[[p4runtime.token]]\nsha256 = \"ab\"\npermission = \"root\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
        let found = mistakes("cores = [1, 2, 1]\n[[port]]\nnumber = 510\ndevice = \"x\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
