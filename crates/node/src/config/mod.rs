//! The configuration file: TOML, checked as a whole before anything of it is used. `docs/node.schema.json` is its schema.

mod engine;
mod model;
mod tiers;

pub use model::{
    Attach, CacheKind, CacheSetting, ConfigFile, Control, CounterSetting, DOWN_PORT, Engine, IdleSetting, Leads, Means,
    MetricsSetting, PortSetting, Service, SwitchEngine, SwitchSetting, TIERS_KEY, Tier, TiersSetting, TokenSetting,
    TranslationSetting,
};

use crate::engine::Factory;
use crate::wings::Wings;
use p4runtime::server::{Access, Credentials, Power, ServeOptions, Tls, TlsWhere, TokenHash};
use p4runtime::{Translation, Translations};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the file says.
    pub file: ConfigFile,
    /// Where to listen for controllers.
    pub listen: Vec<SocketAddr>,
    /// Where to listen for Prometheus.
    pub metrics: Vec<SocketAddr>,
    /// How to serve.
    pub serve: ServeOptions,
    /// What runs programs.
    pub engine: Factory,
    /// How strings of controllers are translated.
    pub translations: Translations,
    /// The program of a region's gateway, if it is not the one that the node brings along.
    pub program: Option<Vec<u8>>,
    /// What this binary has besides native code and the reference engine.
    pub wings: Wings,
}

/// Something wrong with a configuration, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line and column, from 1; none if it is about the whole file.
    pub place: Option<(usize, usize)>,
    /// What is wrong, and the mend.
    pub message: String,
}

/// A configuration that cannot be used. Displayed with a line for each mistake, `FILE:LINE:COLUMN: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadConfig {
    /// The file.
    pub path: PathBuf,
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

impl std::fmt::Display for BadConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for Mistake { place, message } in &self.mistakes {
            let _ = write!(text, "{}{}", if text.is_empty() { "" } else { "\n" }, self.path.display());
            if let Some((line, column)) = place {
                let _ = write!(text, ":{line}:{column}");
            }
            let _ = write!(text, ": {message}");
        }
        f.write_str(&text)
    }
}

impl std::error::Error for BadConfig {}

impl BadConfig {
    /// `FILE:LINE:COLUMN: MESSAGE` for each mistake.
    pub fn lines(&self) -> Vec<String> {
        let one =
            |mistake: &Mistake| BadConfig { path: self.path.clone(), mistakes: vec![mistake.clone()] }.to_string();
        self.mistakes.iter().map(one).collect()
    }
}

/// Reads and checks a file.
///
/// # Errors
/// All mistakes that were found.
pub fn load(path: &Path, wings: Wings) -> Result<Config, BadConfig> {
    let bad = |mistakes| BadConfig { path: path.to_owned(), mistakes };
    let whole = |message: String| bad(vec![Mistake { place: None, message }]);
    let text =
        std::fs::read_to_string(path).map_err(|error| whole(format!("cannot be read: {error}; check the path")))?;
    check(&text, wings).map_err(bad)
}

/// The schema of the file (JSON Schema).
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ConfigFile).to_value()
}

/// Checks a configuration.
///
/// # Errors
/// All mistakes that were found.
pub fn check(text: &str, wings: Wings) -> Result<Config, Vec<Mistake>> {
    let file: ConfigFile = toml::from_str(text).map_err(|error| {
        let place = error.span().map(|span| place(text, span));
        vec![Mistake { place, message: format!("{}; docs/node.md has all keys", error.message().trim_end()) }]
    })?;
    let mut checker = Checker { text, mistakes: Vec::new(), wings };
    let listen = checker.addresses(&file.p4runtime.listen, "127.0.0.1:9559");
    let metrics = checker.addresses(&file.metrics.listen, "127.0.0.1:9560");
    checker.counters(&file.metrics.counters);
    checker.ports(&file);
    let serve = checker.serve(&file.p4runtime, &listen, &metrics);
    let engine = checker.engine(&file);
    let translations = checker.translations(&file);
    let program = checker.program(&file);
    match checker.mistakes.is_empty() {
        true => Ok(Config { file, listen, metrics, serve, engine, translations, program, wings }),
        false => {
            // As they come in the file.
            checker.mistakes.sort_by_key(|mistake| mistake.place);
            Err(checker.mistakes)
        }
    }
}

fn place(text: &str, span: Range<usize>) -> (usize, usize) {
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1)
}

struct Checker<'a> {
    text: &'a str,
    mistakes: Vec<Mistake>,
    wings: Wings,
}

impl Checker<'_> {
    /// `near` is text of the file by which its place is found.
    fn wrong(&mut self, near: &str, message: String) {
        let start = self.text.find(near);
        let place = start.map(|start| place(self.text, start..start));
        self.mistakes.push(Mistake { place, message });
    }

    fn addresses(&mut self, listen: &[String], example: &str) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for address in listen {
            match address.to_socket_addrs() {
                Ok(found) => addresses.extend(found),
                Err(error) => self.wrong(
                    address,
                    format!("`{address}` is no address to listen on ({error}); write ADDRESS:PORT, as in {example}"),
                ),
            }
        }
        addresses
    }

    fn program(&mut self, file: &ConfigFile) -> Option<Vec<u8>> {
        if file.region.is_none() && file.program.is_some() {
            let message =
                "`program` is that of a region's gateway: give `region`, too; other programs are set by controllers";
            self.wrong("program", message.to_owned());
        }
        self.file("program", file.program.as_ref()).map(String::into_bytes)
    }

    fn counters(&mut self, counters: &[CounterSetting]) {
        for counter in counters {
            let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if counter.label.is_empty() || !counter.label.chars().all(good) {
                let message = format!("`{}` is no label; use letters, digits and _, as in \"vpc\"", counter.label);
                self.wrong(&counter.label, message);
            }
            if counter.top > 1000 {
                let message = format!(
                    "`top` of {} is {}: each element is a time series for who scrapes; 1000 at most",
                    counter.counter, counter.top
                );
                self.wrong(&counter.counter, message);
            }
        }
    }

    fn ports(&mut self, file: &ConfigFile) {
        let mut numbers: BTreeMap<u32, &str> = BTreeMap::new();
        for port in &file.ports {
            if port.number == file.cpu_port {
                let message = format!(
                    "port {} is the CPU port; give `{}` another number, or `cpu_port`",
                    port.number, port.device
                );
                self.wrong(&port.device, message);
            }
            if let Some(first) = numbers.insert(port.number, &port.device) {
                let message =
                    format!("port {} is both `{first}` and `{}`; give each its own number", port.number, port.device);
                self.wrong(&port.device, message);
            }
            if port.device.is_empty() {
                self.wrong("device", format!("port {} has no device; name a network interface", port.number));
            }
        }
        let mut cores = file.cores.clone();
        cores.sort_unstable();
        if let Some(pair) = cores.windows(2).find(|pair| pair[0] == pair[1]) {
            self.wrong("cores", format!("processor {} is named twice; each worker needs its own", pair[0]));
        }
    }

    fn translations(&mut self, file: &ConfigFile) -> Translations {
        let mut translations = Translations::new();
        let mut of_ports: Option<&str> = None;
        for setting in &file.translations {
            let TranslationSetting { of, values, ports, allocate } = setting;
            let mut strings: BTreeMap<u64, &str> = BTreeMap::new();
            for (string, value) in values {
                if let Some(other) = strings.insert(*value, string) {
                    let message =
                        format!("`{other}` and `{string}` both stand for {value} of `{of}`; give each its own");
                    self.wrong(string, message);
                }
            }
            if let Some(other) = of_ports.filter(|_| *ports) {
                self.wrong(of, format!("both `{other}` and `{of}` are the names of ports; one type's strings can be"));
            }
            of_ports = of_ports.or(ports.then_some(of));
            let (values, ports, allocate) = (values.clone(), *ports, *allocate);
            if translations.insert(of.clone(), Translation { values, ports, allocate }).is_some() {
                self.wrong(
                    of,
                    format!("`{of}` is translated twice; put all that is said of it in one [[translation]]"),
                );
            }
        }
        translations
    }

    fn file(&mut self, key: &str, path: Option<&PathBuf>) -> Option<String> {
        let path = path?;
        match std::fs::read_to_string(path) {
            Ok(text) => Some(text),
            Err(error) => {
                let message = format!("`{key}`: {} cannot be read: {error}; check the path", path.display());
                self.wrong(key, message);
                None
            }
        }
    }

    fn serve(&mut self, service: &Service, listen: &[SocketAddr], metrics: &[SocketAddr]) -> ServeOptions {
        let certificate = self.file("certificate", service.certificate.as_ref());
        let key = self.file("key", service.key.as_ref());
        let authority = self.file("client_authority", service.client_authority.as_ref());
        let tls_where = if service.tls_on_loopback { TlsWhere::Everywhere } else { TlsWhere::BeyondLoopback };
        let tls = match (certificate, key, authority) {
            (Some(certificate), Some(key), Some(client_authority)) => Some(Tls { certificate, key, client_authority }),
            _ => None,
        };
        if let (None, Some(address)) = (&tls, listen.iter().chain(metrics).find(|address| tls_where.is_at(**address))) {
            let message = format!(
                "on {address}, clients need TLS: give `certificate`, `key` and `client_authority`, or listen on loopback alone"
            );
            self.wrong("listen", message);
        }
        let mut tokens = Vec::new();
        for token in &service.tokens {
            match (token.sha256.parse::<TokenHash>(), token.power.parse::<Power>()) {
                (Ok(hash), Ok(power)) => tokens.push((hash, power)),
                (hash, power) => {
                    hash.err().into_iter().for_each(|message| self.wrong(&token.sha256, message));
                    power.err().into_iter().for_each(|message| self.wrong(&token.power, message));
                }
            }
        }
        let credentials = Credentials::new(tls.as_ref(), Access { tokens }).unwrap_or_else(|error| {
            self.wrong("certificate", error.to_string());
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
        let line = |mistake: Mistake| format!("{:?} {}", mistake.place.unwrap_or_default(), mistake.message);
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
        let found = mistakes("[p4runtime]\nlisten = [\"somewhere\"]\n");
        assert!(found[0].starts_with("(2, 12) `somewhere` is no address"), "{found:?}");
        let found = mistakes("[p4runtime]\n[[p4runtime.token]]\nsha256 = \"ab\"\npower = \"root\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
        let found = mistakes("cores = [1, 2, 1]\n[[port]]\nnumber = 510\ndevice = \"x\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
