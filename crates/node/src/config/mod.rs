//! The configuration file: TOML, checked as a whole before anything of it is used. `docs/node.schema.json` is its schema.

mod model;
mod tiers;

pub use model::{
    Attach, CacheKind, CacheSetting, ConfigFile, Control, CounterSetting, Engine, IdleSetting, Leads, Means,
    MetricsSetting, PortSetting, Service, SwitchEngine, SwitchSetting, Tier, TiersSetting, TokenSetting,
    TranslationSetting,
};

use crate::engine::{CachePlan, Choice, Compress, Room, SwitchPlan, XdpPlan};
use asic::target::Target;
use flowcache::admission::Budget;
use flowcache::pace::Spare;
use flowcache::{CacheConfig, Kind};
use p4runtime::server::{Access, Credentials, Power, ServeOptions, Tls, TlsWhere, TokenHash};
use p4runtime::{Translation, Translations};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::Range;
use std::path::{Path, PathBuf};

impl CacheKind {
    /// Whether it is a model of a SmartNIC's cache.
    fn is_model(self) -> bool {
        match self {
            CacheKind::None | CacheKind::Rewrites | CacheKind::Xdp => false,
            CacheKind::Exact | CacheKind::Megaflow | CacheKind::SubTraversal | CacheKind::Adaptive => true,
        }
    }
}

impl From<Attach> for io::xdp::Mode {
    fn from(attach: Attach) -> io::xdp::Mode {
        match attach {
            Attach::Native => io::xdp::Mode::Native,
            Attach::Generic => io::xdp::Mode::Generic,
        }
    }
}

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
    pub engine: Choice,
    /// How strings of controllers are translated.
    pub translations: Translations,
    /// The program of a region's gateway, if it is not the one that the node brings along.
    pub program: Option<Vec<u8>>,
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
pub fn load(path: &Path) -> Result<Config, BadConfig> {
    let bad = |mistakes| BadConfig { path: path.to_owned(), mistakes };
    let whole = |message: String| bad(vec![Mistake { place: None, message }]);
    let text =
        std::fs::read_to_string(path).map_err(|error| whole(format!("cannot be read: {error}; check the path")))?;
    check(&text).map_err(bad)
}

/// The schema of the file (JSON Schema).
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ConfigFile).to_value()
}

/// Checks a configuration.
///
/// # Errors
/// All mistakes that were found.
pub fn check(text: &str) -> Result<Config, Vec<Mistake>> {
    let file: ConfigFile = toml::from_str(text).map_err(|error| {
        let place = error.span().map(|span| place(text, span));
        vec![Mistake { place, message: format!("{}; docs/node.md has all keys", error.message().trim_end()) }]
    })?;
    let mut checker = Checker { text, mistakes: Vec::new() };
    let listen = checker.addresses(&file.p4runtime.listen, "127.0.0.1:9559");
    let metrics = checker.addresses(&file.metrics.listen, "127.0.0.1:9560");
    checker.counters(&file.metrics.counters);
    checker.ports(&file);
    let serve = checker.serve(&file.p4runtime, &listen, &metrics);
    let engine = checker.engine(&file);
    let translations = checker.translations(&file);
    let program = checker.program(&file);
    match checker.mistakes.is_empty() {
        true => Ok(Config { file, listen, metrics, serve, engine, translations, program }),
        false => Err(checker.mistakes),
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

    fn engine(&mut self, file: &ConfigFile) -> Choice {
        let SwitchSetting { target, fold, compress, sizes, room } = &file.switch;
        let chip = self.target(target);
        if fold.is_some_and(|pipes| ![1, 2, 4].contains(&pipes)) {
            self.wrong("fold", "`fold` is 1, 2 or 4; without it, the fewest with which a program fits".to_owned());
        }
        if *room == 0 {
            self.wrong("room", "`room` is 1 at least; without it, tables have room for 1024 entries".to_owned());
        }
        let text = self.file("sizes", sizes.as_ref());
        let sizing = sizes.as_ref().zip(text).map(|(path, text)| (path.display().to_string(), text));
        let chip = chip.map(|target| {
            let room = Room { sizing, others: *room, ..Room::default() };
            Choice::Asic(Box::new(SwitchPlan { target, fold: *fold, compress: Compress(compress.clone()), room }))
        });
        let Some(tiers) = &file.tiers else { return self.whole(file, chip) };
        let above = match tiers.switch {
            SwitchEngine::Asic => chip.unwrap_or_default(),
            SwitchEngine::Jit => Choice::Jit,
            SwitchEngine::Interp => Choice::Interp,
        };
        Choice::Tiers(Box::new(self.tiers(file, tiers, above)))
    }

    /// The engine of a program that is not divided.
    fn whole(&mut self, file: &ConfigFile, chip: Option<Choice>) -> Choice {
        let CacheSetting { kind, attach, .. } = file.cache;
        let cache = self.cache(&file.cache, kind);
        match (file.engine, kind) {
            (Engine::Jit, CacheKind::None) => Choice::Jit,
            (Engine::Interp, CacheKind::None) => Choice::Interp,
            (Engine::Asic, CacheKind::None) => chip.unwrap_or_default(),
            (Engine::Jit, CacheKind::Rewrites) => Choice::FlowCache(cache),
            (Engine::Jit, CacheKind::Xdp) => {
                let flows = u32::try_from(cache.cache.entries).unwrap_or(u32::MAX);
                Choice::Xdp(XdpPlan::new(flows).with(cache).attached(attach.into()))
            }
            (Engine::Interp, kind) if kind.is_model() => Choice::FlowCache(cache),
            (engine, kind) => {
                let message = match (engine, kind.is_model()) {
                    (Engine::Asic, _) => {
                        "an emulated switch has no cache in front of it; take it away, or divide programs with [tiers]"
                    }
                    (_, true) => {
                        "the model of a SmartNIC's cache is in front of the reference engine: set engine = \"interp\"; for speed, take `rewrites` or `xdp`"
                    }
                    (_, false) => "`rewrites` and `xdp` are in front of native code: set engine = \"jit\"",
                };
                self.wrong("kind", message.to_owned());
                Choice::default()
            }
        }
    }

    /// A cache of the kind; what it is in front of is looked at elsewhere.
    fn cache(&mut self, setting: &CacheSetting, kind: CacheKind) -> CachePlan {
        let CacheSetting { tables, entries, idle_ms, slow_path_pps, slow_path_least_percent, tenant, .. } = setting;
        let usual = if kind == CacheKind::Xdp { XdpPlan::FLOWS as usize } else { 8_000 };
        let (tables, entries) = (tables.unwrap_or(4), entries.unwrap_or(usual));
        if !(1..=8).contains(&tables) {
            self.wrong("tables", "`tables` is 1 to 8; without it, a chain has 4".to_owned());
        }
        if kind == CacheKind::Xdp && !(1..=1 << 22).contains(&entries) {
            self.wrong("entries", "`entries` of the kernel's cache is 1 to 4194304; without it, 16384".to_owned());
        }
        for (name, zero) in [("entries", entries == 0), ("slow_path_pps", *slow_path_pps == Some(0))] {
            if zero && kind != CacheKind::Xdp {
                self.wrong(name, format!("`{name}` is 1 at least"));
            }
        }
        if slow_path_least_percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            self.wrong("slow_path_least_percent", "`slow_path_least_percent` is 1 to 100".to_owned());
        }
        let spare = slow_path_least_percent.map(|least_percent| Spare { least_percent });
        // A pace without another bound has one that no core reaches.
        let slow_path_pps = slow_path_pps.or(spare.map(|_| 1_000_000_000));
        let rewrites = !kind.is_model();
        let kind = match kind {
            CacheKind::None | CacheKind::Rewrites | CacheKind::Xdp | CacheKind::Exact => Kind::Exact,
            CacheKind::Megaflow => Kind::Megaflow,
            CacheKind::SubTraversal => Kind::SubTraversal { tables },
            CacheKind::Adaptive => Kind::Adaptive { tables },
        };
        let cache = CacheConfig {
            kind,
            entries,
            idle_ns: idle_ms.map(|ms| ms.saturating_mul(1_000_000)),
            slow_path: slow_path_pps.map(Budget::per_second),
            ..CacheConfig::default()
        };
        CachePlan { cache, spare, rewrites, tenant: tenant.clone() }
    }

    /// A chip that is shipped, or that of a file.
    fn target(&mut self, name: &str) -> Option<Target> {
        if let Some(target) = Target::shipped(name) {
            return Some(target);
        }
        let known = Target::SHIPPED.join(", ");
        let read = std::fs::read_to_string(name)
            .map_err(|error| format!("{name}: {error}; give a target file, or one of {known}"))
            .and_then(|text| Target::from_toml(&text, name).map_err(|error| error.to_string()));
        read.map_err(|message| self.wrong("target", message)).ok()
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
        let found = check(text).err().unwrap_or_default();
        let line = |mistake: Mistake| format!("{:?} {}", mistake.place.unwrap_or_default(), mistake.message);
        found.into_iter().map(line).collect()
    }

    #[test]
    fn an_empty_file_is_a_node_on_loopback() {
        let config = check("").expect("good");
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
        assert_eq!(found[0], "(3, 19) `a` and `b` both stand for 1 of `port_t`; give each its own");
        assert!(found[1].contains("`port_t` is translated twice"), "{found:?}");
        let found = mistakes("[p4runtime]\nlisten = [\"somewhere\"]\n");
        assert!(found[0].starts_with("(2, 12) `somewhere` is no address"), "{found:?}");
        let found = mistakes("[p4runtime]\n[[p4runtime.token]]\nsha256 = \"ab\"\npower = \"root\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
        let found = mistakes("cores = [1, 2, 1]\n[[port]]\nnumber = 510\ndevice = \"x\"\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn the_cache() {
        let text = "engine = \"interp\"\n[cache]\nkind = \"sub-traversal\"\ntables = 3\nentries = 50\nidle_ms = 7\nslow_path_pps = 1000\ntenant = \"meta.vpc\"\n";
        let Ok(Choice::FlowCache(plan)) = check(text).map(|config| config.engine) else { panic!("not the cache") };
        assert_eq!((plan.cache.kind, plan.cache.entries), (Kind::SubTraversal { tables: 3 }, 50));
        assert_eq!((plan.cache.idle_ns, plan.tenant.as_deref()), (Some(7_000_000), Some("meta.vpc")));
        assert_eq!(plan.cache.slow_path, Some(Budget::per_second(1_000)));
        assert_eq!(plan.spare, None);
        let paced = "engine = \"interp\"\n[cache]\nkind = \"adaptive\"\nslow_path_least_percent = 7\n";
        let Ok(Choice::FlowCache(plan)) = check(paced).map(|config| config.engine) else { panic!("not the cache") };
        assert!(plan.spare == Some(Spare { least_percent: 7 }) && plan.cache.slow_path.is_some());
        assert!(!plan.rewrites);
        let rewrites = "[cache]\nkind = \"rewrites\"\nentries = 50\n";
        let Ok(Choice::FlowCache(plan)) = check(rewrites).map(|config| config.engine) else { panic!("not the cache") };
        assert!(plan.rewrites && plan.cache.entries == 50);
        let wrong = "tables = 9\nentries = 0\nslow_path_pps = 0\nslow_path_least_percent = 0\n";
        let wrong = check(&format!("engine = \"interp\"\n[cache]\nkind = \"exact\"\n{wrong}")).map(|_| ());
        let places: Vec<_> = wrong.unwrap_err().into_iter().filter_map(|mistake| mistake.place).collect();
        assert_eq!(places, [(4, 1), (5, 1), (6, 1), (7, 1)]);
    }

    #[test]
    fn a_cache_is_in_front_of_the_engine_that_it_is_made_for() {
        let engine = |text: &str| check(text).map(|config| config.engine.name());
        assert_eq!(engine("[cache]\nkind = \"none\"\n"), Ok("jit"), "nothing is slower by a default");
        for (engine, kind, mend) in [
            ("jit", "adaptive", "engine = \"interp\""),
            ("jit", "exact", "engine = \"interp\""),
            ("interp", "rewrites", "engine = \"jit\""),
            ("interp", "xdp", "engine = \"jit\""),
            ("asic", "rewrites", "[tiers]"),
        ] {
            let found = mistakes(&format!("engine = \"{engine}\"\n[cache]\nkind = \"{kind}\"\n"));
            assert!(found.len() == 1 && found[0].starts_with("(3, 1) ") && found[0].contains(mend), "{found:?}");
        }
    }

    #[test]
    fn the_flow_cache_in_the_kernel() {
        let flows = |text: &str| match check(text).map(|config| config.engine) {
            Ok(Choice::Xdp(plan)) => {
                assert_eq!(plan.cache.cache.slow_path, Some(Budget::per_second(7)));
                plan.flows
            }
            other => panic!("{other:?}"),
        };
        let slow = "[cache]\nkind = \"xdp\"\nslow_path_pps = 7\n";
        assert_eq!(flows(slow), XdpPlan::FLOWS);
        assert_eq!(flows(&format!("{slow}entries = 77\n")), 77);
        let found = mistakes("[cache]\nkind = \"xdp\"\nentries = 0\n");
        assert!(found[0].starts_with("(3, 1) `entries` of the kernel's cache is 1 to 4194304"), "{found:?}");
    }

    #[test]
    fn the_engine_and_its_chip_are_checked_as_a_whole() {
        let engine = |text: &str| check(text).map(|config| config.engine).unwrap_or_else(|found| panic!("{found:?}"));
        assert_eq!(engine("").name(), "jit");
        assert_eq!(engine("engine = \"interp\"\n").name(), "interp");
        let Choice::Asic(plan) = engine("engine = \"asic\"\n[switch]\ntarget = \"tofino2\"\nfold = 2\nroom = 7\n")
        else {
            panic!("not the switch")
        };
        assert_eq!((plan.target.name.as_str(), plan.fold, plan.room.others), ("tofino2", Some(2), 7));
        let wrong =
            "engine = \"asic\"\n[switch]\ntarget = \"tofino9\"\nfold = 3\nroom = 0\nsizes = \"/nowhere.toml\"\n";
        let found = mistakes(wrong);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("give a target file, or one of tofino1, tofino2, dpu8"), "{found:?}");
        assert!(mistakes("engine = \"npu\"\n")[0].contains("unknown variant `npu`"));
    }
}
