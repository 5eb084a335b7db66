//! `terrace show` and `terrace clear`: what a running node says of itself.

use super::failure::Failure;
use super::ui::{Ui, print, style};
use clap::{Args, Subcommand, ValueEnum};
use comfy_table::{CellAlignment, Table, presets};
use node::admin::client::AskError;
use node::admin::protocol::{Answer, EntriesOf, Request};
use node::admin::{Asking, ask};
use node::status::{CounterCell, EntryRow, Named, Quantiles};
use packet::Counter;
use std::path::{Path, PathBuf};

/// Where a node listens if its configuration says what the package's does.
pub const USUAL_SOCKET: &str = "/run/terrace/control.sock";

/// Which node.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// The node's control socket: `socket` under [control] in its configuration.
    #[arg(long = "node", value_name = "SOCKET", env = "TERRACE_NODE", default_value = USUAL_SOCKET, global = true)]
    socket: PathBuf,
    /// The gateway of this lab.
    #[arg(long = "of-lab", value_name = "NAME", conflicts_with = "socket", global = true)]
    of_lab: Option<String>,
}

impl NodeArgs {
    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.of_lab.as_deref().map_or_else(|| self.socket.clone(), crate::lab::control_socket)
    }
}

/// Show what a running node does: tables, ports, stages, drops, workers, controllers.
///
/// Counts are since the node's start, or since `terrace clear`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    node: NodeArgs,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t, global = true)]
    format: Format,
}

/// How a result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// Comma-separated values with a header (RFC 4180).
    Csv,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Tables: entries, memory, hits and misses, actions.
    Tables,
    /// What each action of each table did.
    Actions,
    /// The entries of a table.
    Table(TableArgs),
    /// Ports: received, sent, lost.
    Ports,
    /// Stages of the native code: where the time goes.
    Stages,
    /// What was dropped, and what went to the controller, by reason.
    Drops,
    /// The program's indexed counters, with what their indices stand for.
    Counters,
    /// Workers: load, batches, how long packets were with them.
    Workers,
    /// Controllers: connections, roles, requests.
    Sessions,
    /// Requests of controllers, by kind.
    Requests,
    /// Which node this is, and which program it runs.
    Version,
}

#[derive(Debug, Args)]
struct TableArgs {
    /// The table: its name, or the end of it after a dot.
    #[arg(value_name = "NAME")]
    name: String,
    /// Only entries with this text in them, as they are shown.
    #[arg(long, value_name = "TEXT")]
    containing: Option<String>,
    /// So many entries at most.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u64,
}

/// Have what `terrace show` counts begin at 0. Metrics go on.
#[derive(Debug, Args)]
pub struct ClearArgs {
    #[command(flatten)]
    node: NodeArgs,
}

impl ClearArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        match ask(&self.node.socket(), &Request::Clear).map_err(failed)? {
            Answer::Cleared => ui.result(&serde_json::json!({ "cleared": true }), || "counts begin at 0".to_owned()),
            answer => Err(unexpected(&answer)),
        }
    }
}

/// A node that can't be asked, as a failure of a command.
pub fn failed(error: AskError) -> Failure {
    match error {
        AskError::Refused(message) => Failure::Refused(message),
        other => Failure::environment(other),
    }
}

/// An answer to something else.
pub fn unexpected(answer: &Answer) -> Failure {
    let text = serde_json::to_string(answer).unwrap_or_default();
    let text: String = text.chars().take(100).collect();
    Failure::Environment(format!(
        "the node answers something else than was asked for ({text}); is it of another version?"
    ))
}

impl ShowArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        let format = if ui.json { Format::Json } else { self.format };
        let request = match &self.what {
            What::Table(args) => return self.entries(args, format),
            What::Counters => return self.counters(format),
            What::Tables | What::Actions => Request::Tables,
            What::Ports => Request::Ports,
            What::Stages => Request::Stages,
            What::Drops => Request::Drops,
            What::Workers => Request::Workers,
            What::Sessions | What::Requests => Request::Sessions,
            What::Version => Request::Version,
        };
        let answer = ask(&self.node.socket(), &request).map_err(failed)?;
        if format == Format::Json {
            return json(&answer);
        }
        let sheets = sheets(answer)?;
        let wanted = match (&self.what, format) {
            (What::Actions | What::Requests, _) => 1..2,
            // A file of values has one header.
            (_, Format::Csv) => 0..1,
            _ => 0..sheets.len(),
        };
        sheets.get(wanted).unwrap_or_default().iter().try_for_each(|sheet| sheet.print(format))
    }

    fn counters(&self, format: Format) -> Result<(), Failure> {
        let counters = counters(&self.node.socket())?;
        if format == Format::Json {
            return json(&serde_json::json!({ "counters": counters }));
        }
        let row = |cell: &CounterCell| {
            let [packets, bytes] = packets(&cell.count);
            vec![cell.counter.clone(), cell.index.to_string(), maybe(cell.label.as_ref()), packets, bytes]
        };
        Sheet::new(&["counter", "index", "of", "packets", "bytes"], &[0, 2], counters.iter().map(row)).print(format)
    }

    fn entries(&self, args: &TableArgs, format: Format) -> Result<(), Failure> {
        let TableArgs { name, containing, limit } = args;
        let of = EntriesOf { table: name.clone(), containing: containing.clone(), limit: *limit };
        let mut asking = Asking::begin(&self.node.socket(), &Request::Entries(of)).map_err(failed)?;
        let mut rows: Vec<EntryRow> = Vec::new();
        let matching = loop {
            match asking.answer().map_err(failed)? {
                Answer::Entries { entries } => rows.extend(entries),
                Answer::End { matching } => break matching,
                answer => return Err(unexpected(&answer)),
            }
        };
        // A hash table has no order; a person wants one.
        rows.sort_by_cached_key(|row| (std::cmp::Reverse(row.priority), natural(&row.keys)));
        let shown = rows.len() as u64;
        if format == Format::Json {
            return json(&serde_json::json!({ "entries": rows, "matching": matching }));
        }
        entry_sheet(&rows).print(format)?;
        if format == Format::Text && shown < matching {
            print(&format!("{shown} of {matching} entries; --limit shows more, --containing finds some"))?;
        }
        Ok(())
    }
}

/// The program's indexed counters that have counted something.
pub fn counters(socket: &Path) -> Result<Vec<CounterCell>, Failure> {
    let mut asking = Asking::begin(socket, &Request::Counters).map_err(failed)?;
    let mut all = Vec::new();
    loop {
        match asking.answer().map_err(failed)? {
            Answer::Counters { counters } => all.extend(counters),
            Answer::End { .. } => return Ok(all),
            answer => return Err(unexpected(&answer)),
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string_pretty(value).map_err(|error| Failure::Bug(error.to_string()))?)
}

/// Keys such that numbers in them are in the order of numbers.
fn natural(keys: &[Named]) -> Vec<(u128, String)> {
    let parts = keys.iter().flat_map(|key| key.value.split(['.', '/', ':', ' ']));
    parts.map(|part| (part.parse().unwrap_or(u128::MAX), part.to_owned())).collect()
}

/// Rows under headings.
struct Sheet {
    title: Option<&'static str>,
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Columns of text, which stand at the left; numbers stand at the right.
    left: Vec<usize>,
}

impl Sheet {
    fn new(head: &[&'static str], left: &[usize], rows: impl Iterator<Item = Vec<String>>) -> Sheet {
        Sheet { title: None, head: head.to_vec(), rows: rows.collect(), left: left.to_vec() }
    }

    fn titled(self, title: &'static str) -> Sheet {
        Sheet { title: Some(title), ..self }
    }

    fn print(&self, format: Format) -> Result<(), Failure> {
        if format == Format::Csv {
            let mut writer = csv::Writer::from_writer(Vec::new());
            let failed = |error: csv::Error| Failure::Bug(error.to_string());
            writer.write_record(&self.head).map_err(failed)?;
            self.rows.iter().try_for_each(|row| writer.write_record(row)).map_err(failed)?;
            let bytes = writer.into_inner().map_err(|error| Failure::Bug(error.to_string()))?;
            return print(&String::from_utf8_lossy(&bytes));
        }
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(self.head.clone()).add_rows(self.rows.clone());
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if !self.left.contains(&index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let (head, rows) = lines.split_first().map_or(("", &[][..]), |(head, rows)| (head.as_str(), rows));
        let (bold, name) = (style::HEAD, style::NAME);
        let title = self.title.map(|title| format!("{name}{title}{name:#}\n")).unwrap_or_default();
        print(&format!("{title}{bold}{head}{bold:#}\n{}", rows.join("\n")))
    }
}

fn packets(count: &Counter) -> [String; 2] {
    [count.packets.to_string(), count.bytes.to_string()]
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1000.0)
}

fn times(times: &Quantiles) -> [String; 4] {
    [times.p50, times.p99, times.p999, times.max].map(microseconds)
}

fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn sheets(answer: Answer) -> Result<Vec<Sheet>, Failure> {
    Ok(match answer {
        Answer::Tables { tables } => table_sheets(&tables),
        Answer::Ports { ports } => {
            let head = ["PORT", "DEVICE", "IN", "IN BYTES", "OUT", "OUT BYTES", "LOST", "STATE"];
            let row = |port: &node::status::Port| {
                let lost: u64 = port.drops.iter().map(|drop| drop.count.packets).sum();
                let state = port.trouble.clone().unwrap_or_else(|| "up".to_owned());
                let mut row = vec![port.number.to_string(), port.name.clone()];
                row.extend(packets(&port.received).into_iter().chain(packets(&port.sent)));
                row.extend([lost.to_string(), state]);
                row
            };
            vec![Sheet::new(&head, &[1, 7], ports.iter().map(row))]
        }
        Answer::Stages { stages, interpreted } => {
            if let Some(why) = interpreted {
                let row = vec![format!("there is no native code: {why}")];
                return Ok(vec![Sheet::new(&["STAGES"], &[0], std::iter::once(row))]);
            }
            let head = ["STAGE", "PACKETS", "BYTES", "% OF TIME", "NS A PACKET"];
            let row = |stage: &node::status::Stage| {
                let (packets, bytes) = (stage.packets.to_string(), maybe(stage.bytes));
                vec![stage.name.clone(), packets, bytes, percent(stage.share), format!("{:.1}", stage.nanoseconds)]
            };
            vec![Sheet::new(&head, &[0], stages.iter().map(row))]
        }
        Answer::Drops { drops } => {
            let row = |drop: &node::status::Dropped| {
                let [packets, bytes] = packets(&drop.count);
                vec![drop.reason.clone(), drop.by.clone(), packets, bytes]
            };
            vec![Sheet::new(&["REASON", "BY", "PACKETS", "BYTES"], &[0, 1], drops.iter().map(row))]
        }
        Answer::Workers { workers } => {
            let head = [
                "WORKER", "CORE", "PORTS", "PACKETS", "BATCHES", "% BUSY", "BEHIND", "P50 US", "P99 US", "P99.9 US",
                "MAX US",
            ];
            let row = |worker: &node::status::Worker| {
                let ports: Vec<String> = worker.ports.iter().map(u32::to_string).collect();
                let mut row = vec![worker.number.to_string(), maybe(worker.core), ports.join(" ")];
                row.extend([worker.received.packets.to_string(), worker.batches.to_string()]);
                row.extend([percent(worker.busy), worker.behind.to_string()]);
                row.extend(times(&worker.residence));
                row
            };
            vec![Sheet::new(&head, &[2], workers.iter().map(row))]
        }
        Answer::Sessions(sessions) => session_sheets(&sessions),
        Answer::Version(version) => vec![version_sheet(&version)],
        answer => return Err(unexpected(&answer)),
    })
}

fn table_sheets(tables: &[node::status::Table]) -> Vec<Sheet> {
    let head = ["TABLE", "ENTRIES", "MOST", "SIZE", "MEMORY", "HITS", "HIT BYTES", "MISSES", "MISS BYTES"];
    let row = |table: &node::status::Table| {
        let mut row =
            vec![table.name.clone(), table.entries.to_string(), table.high_water.to_string(), maybe(table.size)];
        row.push(table.memory_bytes.to_string());
        row.extend(packets(&table.hits).into_iter().chain(packets(&table.misses)));
        row
    };
    let actions = tables.iter().flat_map(|table| {
        table.actions.iter().filter(|action| action.hits.packets + action.misses.packets > 0).map(|action| {
            let [hits, _] = packets(&action.hits);
            let [misses, _] = packets(&action.misses);
            let bytes = action.hits.bytes + action.misses.bytes;
            vec![table.name.clone(), action.name.clone(), hits, misses, bytes.to_string()]
        })
    });
    let actions = Sheet::new(&["TABLE", "ACTION", "BY HIT", "BY MISS", "BYTES"], &[0, 1], actions).titled("actions");
    vec![Sheet::new(&head, &[0], tables.iter().map(row)), actions]
}

fn session_sheets(sessions: &node::status::Sessions) -> Vec<Sheet> {
    let controller = |one: &node::status::Controller| {
        let standing = if one.primary { "primary" } else { "backup" };
        let (who, election) = (one.who.clone(), maybe(one.election_id.as_ref()));
        let role = if one.role.is_empty() { "(default)".to_owned() } else { one.role.clone() };
        let since = format!("{:.0}", one.seconds);
        vec![who, role, election, standing.to_owned(), since, one.waiting.to_string()]
    };
    let head = ["CONTROLLER", "ROLE", "ELECTION ID", "STANDING", "SECONDS", "WAITING"];
    let controllers = Sheet::new(&head, &[0, 1, 3], sessions.controllers.iter().map(controller));
    let requests = sessions.requests.iter().map(|one| {
        let mut row = vec![one.kind.clone(), one.ok.to_string(), one.refused.to_string()];
        row.extend(times(&one.time));
        row
    });
    let head = ["REQUEST", "OK", "REFUSED", "P50 US", "P99 US", "P99.9 US", "MAX US"];
    let requests = Sheet::new(&head, &[0], requests).titled("requests");
    let of = [
        ("connections", sessions.connections),
        ("refused connections", sessions.refused_connections),
        ("lost messages", sessions.lost_messages),
    ];
    let counts = of.iter().map(|(what, count)| vec![(*what).to_owned(), count.to_string()]);
    vec![controllers, requests, Sheet::new(&["WHAT", "COUNT"], &[0], counts).titled("server")]
}

fn version_sheet(version: &node::status::Version) -> Sheet {
    let mut rows = vec![
        ("terraced", version.terraced.clone()),
        ("P4Runtime", version.p4runtime.clone()),
        ("device", version.device_id.to_string()),
        ("process", version.pid.to_string()),
        ("seconds up", format!("{:.0}", version.uptime_seconds)),
    ];
    match &version.program {
        None => rows.push(("program", "none; a controller sets one by P4Runtime".to_owned())),
        Some(program) => {
            rows.push(("program", format!("{} ({})", program.name, program.architecture)));
            rows.push(("cookie", program.cookie.map_or_else(|| "-".to_owned(), |cookie| format!("{cookie:#x}"))));
            rows.push(("writes to tables", program.tables_version.to_string()));
            let engine = match &program.interpreted {
                Some(why) => format!("{}: {why}", program.engine),
                None => format!("{}: native code, {} bytes", program.engine, program.native_code_bytes),
            };
            rows.push(("engine", engine));
            let fallback = "native code does not take the program: it runs at about a tenth of the speed";
            rows.extend(program.falls_back.then(|| ("fallback", fallback.to_owned())));
            rows.push(("cache", program.cache.clone()));
            rows.extend(program.tiers.iter().map(|tiers| ("tiers", tiers.clone())));
            rows.extend(program.notes.iter().map(|note| ("", note.clone())));
        }
    }
    Sheet::new(&["WHAT", "VALUE"], &[0, 1], rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]))
}

fn entry_sheet(rows: &[EntryRow]) -> Sheet {
    let list = |all: &[Named]| all.iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>().join(", ");
    let row = |row: &EntryRow| {
        let action = match row.arguments.is_empty() {
            true => row.action.clone(),
            false => format!("{}({})", row.action, list(&row.arguments)),
        };
        let priority = if row.priority == 0 { "-".to_owned() } else { row.priority.to_string() };
        let idle = match row.idle_timeout_ns {
            0 => "-".to_owned(),
            ns => format!("{}s", ns as f64 / 1e9),
        };
        let counter = row.counter.as_ref().map(packets);
        let [packets, bytes] = counter.unwrap_or_else(|| ["-".to_owned(), "-".to_owned()]);
        vec![list(&row.keys), action, priority, idle, packets, bytes]
    };
    Sheet::new(&["ENTRY", "ACTION", "PRIORITY", "IDLE", "PACKETS", "BYTES"], &[0, 1], rows.iter().map(row))
}
