//! `terrace show` and `terrace reset-counters`: print and reset the status of a running node.

use super::failure::CommandError;
use super::nat::NatViewArgs;
pub use super::node_socket::{NodeArgs, USUAL_SOCKET, failed, unexpected};
use super::services::show_services;
use super::sessions::SessionsViewArgs;
use super::text_table::{OutputFormat, TextTable, format_optional, numeric_sort_key, print_json};
use super::ui::{OutputSettings, print_line};
use clap::{Args, Subcommand};
use node::admin::protocol::{ControlRequest, ControlResponse, EntriesRequest};
use node::admin::{ResponseStream, ask};
use node::status::{CounterCell, EntryRow, FlowTableStatus, LatencyQuantiles, PortState, ShownValue};
use packet::Counter;
use std::path::Path;

/// Show the state of a running node: tables, ports, stages, drops, workers, controllers.
///
/// Counts are since the start of the node, or since the last `terrace reset-counters`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(subcommand)]
    what: ShowSubject,
    #[command(flatten)]
    node: NodeArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, global = true)]
    format: OutputFormat,
}

#[derive(Debug, Subcommand)]
enum ShowSubject {
    /// Tables: entries, memory, hits and misses, actions.
    Tables,
    /// Actions of each table: packets and bytes.
    Actions,
    /// Entries of a table.
    Table(TableArgs),
    /// Sessions: entries that packets have added, with their idle times.
    Sessions(SessionsViewArgs),
    /// NATs: public addresses and ports in use, and the machines that use them.
    Nat(NatViewArgs),
    /// Services: their backends, and the connections of each.
    Services,
    /// Ports: received, sent, lost.
    Ports,
    /// Stages of the native code with their share of the time.
    Stages,
    /// Dropped packets, and packets to the controller, by reason.
    Drops,
    /// Indexed counters of the program, with the meaning of their indices.
    Counters,
    /// Workers: load, batches, packet latency.
    Workers,
    /// Controllers: connections, roles, requests.
    Controllers,
    /// Requests of controllers, by kind.
    Requests,
    /// Versions, identity and program of the node.
    Version,
}

#[derive(Debug, Args)]
struct TableArgs {
    /// Name of the table, or the end of it after a dot.
    #[arg(value_name = "NAME")]
    name: String,
    /// Show only entries that contain this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Maximum number of entries to show.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u64,
}

/// Reset the counts of `terrace show` to 0. Metrics are not affected.
#[derive(Debug, Args)]
pub struct ResetCountersArgs {
    #[command(flatten)]
    node: NodeArgs,
}

impl ResetCountersArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        match ask(&self.node.socket(), &ControlRequest::ResetCounters).map_err(failed)? {
            ControlResponse::CountersReset => {
                ui.result(&serde_json::json!({ "counters_reset": true }), || "counts begin at 0".to_owned())
            }
            answer => Err(unexpected(&answer)),
        }
    }
}

impl ShowArgs {
    /// Asks the node for the subject of the command and prints it as text tables, CSV or JSON.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let format = if ui.json { OutputFormat::Json } else { self.format };
        let request = match &self.what {
            ShowSubject::Table(args) => return self.entries(args, format),
            ShowSubject::Sessions(args) => return args.run(&self.node.socket(), format),
            ShowSubject::Nat(args) => return args.run(&self.node.socket(), format),
            ShowSubject::Services => return show_services(&self.node.socket(), format),
            ShowSubject::Counters => return self.counters(format),
            ShowSubject::Tables | ShowSubject::Actions => ControlRequest::Tables,
            ShowSubject::Ports => ControlRequest::Ports,
            ShowSubject::Stages => ControlRequest::Stages,
            ShowSubject::Drops => ControlRequest::Drops,
            ShowSubject::Workers => ControlRequest::Workers,
            ShowSubject::Controllers | ShowSubject::Requests => ControlRequest::Controllers,
            ShowSubject::Version => ControlRequest::Version,
        };
        let answer = ask(&self.node.socket(), &request).map_err(failed)?;
        if format == OutputFormat::Json {
            return print_json(&answer);
        }
        let sheets = text_tables(answer)?;
        let printed = match (&self.what, format) {
            (ShowSubject::Actions | ShowSubject::Requests, _) => 1..2,
            // A CSV file has only one header, so only the first table is printed.
            (_, OutputFormat::Csv) => 0..1,
            _ => 0..sheets.len(),
        };
        sheets.get(printed).unwrap_or_default().iter().try_for_each(|sheet| sheet.print(format))
    }

    fn counters(&self, format: OutputFormat) -> Result<(), CommandError> {
        let counters = counters(&self.node.socket())?;
        if format == OutputFormat::Json {
            return print_json(&serde_json::json!({ "counters": counters }));
        }
        let row = |cell: &CounterCell| {
            let [packets, bytes] = format_counter(&cell.count);
            vec![cell.counter.clone(), cell.index.to_string(), format_optional(cell.label.as_ref()), packets, bytes]
        };
        TextTable::new(&["counter", "index", "of", "packets", "bytes"], &[0, 2], counters.iter().map(row)).print(format)
    }

    /// Prints the entries of a table that pass the filter, at most `--limit`. Answers come in
    /// parts; the last says how many entries pass the filter.
    fn entries(&self, args: &TableArgs, format: OutputFormat) -> Result<(), CommandError> {
        let TableArgs { name, filter, limit } = args;
        let request = EntriesRequest { table: name.clone(), filter: filter.clone(), limit: *limit };
        let mut stream =
            ResponseStream::begin(&self.node.socket(), &ControlRequest::Entries(request)).map_err(failed)?;
        let mut rows: Vec<EntryRow> = Vec::new();
        let matching = loop {
            match stream.answer().map_err(failed)? {
                ControlResponse::Entries { entries } => rows.extend(entries),
                ControlResponse::End { matching } => break matching,
                answer => return Err(unexpected(&answer)),
            }
        };
        // Entries are sorted, because the order of a hash table is random.
        rows.sort_by_cached_key(|row| (std::cmp::Reverse(row.priority), numeric_sort_key(&row.keys)));
        let shown = rows.len() as u64;
        if format == OutputFormat::Json {
            return print_json(&serde_json::json!({ "entries": rows, "matching": matching }));
        }
        entry_sheet(&rows).print(format)?;
        if format == OutputFormat::Text && shown < matching {
            print_line(&format!("{shown} of {matching} entries; --limit shows more, --filter finds some"))?;
        }
        Ok(())
    }
}

/// Returns the indexed counters that are not 0.
pub fn counters(socket: &Path) -> Result<Vec<CounterCell>, CommandError> {
    let mut asking = ResponseStream::begin(socket, &ControlRequest::Counters).map_err(failed)?;
    let mut all = Vec::new();
    loop {
        match asking.answer().map_err(failed)? {
            ControlResponse::Counters { counters } => all.extend(counters),
            ControlResponse::End { .. } => return Ok(all),
            answer => return Err(unexpected(&answer)),
        }
    }
}

fn format_counter(count: &Counter) -> [String; 2] {
    [count.packets.to_string(), count.bytes.to_string()]
}

fn format_percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn microseconds(nanoseconds: u64) -> String {
    format!("{:.1}", nanoseconds as f64 / 1000.0)
}

fn format_latencies(times: &LatencyQuantiles) -> [String; 4] {
    [times.p50, times.p99, times.p999, times.max].map(microseconds)
}

/// Returns the state of a port: why it is down, or its link's state, and how often it was down.
fn describe_port_state(port: &node::status::PortStatus) -> String {
    let state = match (&port.fault, port.state) {
        (Some(fault), _) => fault.clone(),
        (None, Some(PortState::Missing)) => {
            format!("missing: there is no interface `{}`; the port is opened when there is one", port.name)
        }
        (None, state) => {
            let hook = port.path.as_ref().map_or(String::new(), |hook| format!(" ({hook})"));
            format!("{}{hook}", state.unwrap_or_default().name())
        }
    };
    match port.changes {
        0 => state,
        changes => format!("{state} ({changes} changes, down for {:.1} s)", port.down_seconds),
    }
}

/// Returns a table of the ports' host sides, if there are any: what passed and what was lost, by kind.
fn host_sheets(ports: &[node::status::PortStatus]) -> Option<TextTable> {
    let head = ["PORT", "HOST", "KIND", "PACKETS", "BYTES", "LOST BECAUSE"];
    let of = |port: &node::status::PortStatus| -> Vec<Vec<String>> {
        let Some(host) = &port.host else { return Vec::new() };
        let start = || vec![port.number.to_string(), host.interface.clone()];
        let row = |kind: &str, count: &packet::Counter, reason: &str| {
            let values = [vec![kind.to_owned()], format_counter(count).to_vec(), vec![reason.to_owned()]];
            start().into_iter().chain(values.concat()).collect::<Vec<String>>()
        };
        let sent = std::iter::once(row("from_host", &host.from_host, "-"));
        let received = host.to_host.iter().map(|one| row(&format!("to_host: {}", one.kind), &one.count, "-"));
        let lost = host.drops.iter().map(|one| row(&one.kind, &one.count, &one.reason));
        sent.chain(received).chain(lost).collect()
    };
    let rows: Vec<Vec<String>> = ports.iter().flat_map(of).collect();
    (!rows.is_empty()).then(|| TextTable::new(&head, &[1, 2, 5], rows.into_iter()))
}

/// Converts a node's answer to the tables of its text form.
fn text_tables(answer: ControlResponse) -> Result<Vec<TextTable>, CommandError> {
    Ok(match answer {
        ControlResponse::Tables { tables } => table_sheets(&tables),
        ControlResponse::Ports { ports } => {
            let head = ["PORT", "DEVICE", "IN", "IN BYTES", "OUT", "OUT BYTES", "LOST", "STATE"];
            let row = |port: &node::status::PortStatus| {
                let lost: u64 = port.drops.iter().map(|drop| drop.count.packets).sum();
                let state = describe_port_state(port);
                let mut row = vec![port.number.to_string(), port.name.clone()];
                row.extend(format_counter(&port.received).into_iter().chain(format_counter(&port.sent)));
                row.extend([lost.to_string(), state]);
                row
            };
            let mut sheets = vec![TextTable::new(&head, &[1, 7], ports.iter().map(row))];
            sheets.extend(host_sheets(&ports));
            sheets
        }
        ControlResponse::Stages { stages, interpreted } => {
            if let Some(reason) = interpreted {
                let row = vec![format!("there is no native code: {reason}")];
                return Ok(vec![TextTable::new(&["STAGES"], &[0], std::iter::once(row))]);
            }
            let head = ["STAGE", "PACKETS", "BYTES", "% OF TIME", "NS A PACKET"];
            let row = |stage: &node::status::StageStatus| {
                let (packets, bytes) = (stage.packets.to_string(), format_optional(stage.bytes));
                vec![
                    stage.name.clone(),
                    packets,
                    bytes,
                    format_percent(stage.share),
                    format!("{:.1}", stage.nanoseconds),
                ]
            };
            vec![TextTable::new(&head, &[0], stages.iter().map(row))]
        }
        ControlResponse::Drops { drops } => {
            let row = |drop: &node::status::DropRow| {
                let [packets, bytes] = format_counter(&drop.count);
                vec![drop.reason.clone(), drop.by.clone(), packets, bytes]
            };
            vec![TextTable::new(&["REASON", "BY", "PACKETS", "BYTES"], &[0, 1], drops.iter().map(row))]
        }
        ControlResponse::Workers { workers } => {
            let head = [
                "WORKER", "CORE", "PORTS", "PACKETS", "BATCHES", "% BUSY", "LAG", "P50 US", "P99 US", "P99.9 US",
                "MAX US",
            ];
            let row = |worker: &node::status::WorkerStatus| {
                let ports: Vec<String> = worker.ports.iter().map(u32::to_string).collect();
                let mut row = vec![worker.number.to_string(), format_optional(worker.core), ports.join(" ")];
                row.extend([worker.received.packets.to_string(), worker.batches.to_string()]);
                row.extend([format_percent(worker.busy), worker.lag.to_string()]);
                row.extend(format_latencies(&worker.latency));
                row
            };
            vec![TextTable::new(&head, &[2], workers.iter().map(row))]
        }
        ControlResponse::Controllers(status) => controller_sheets(&status),
        ControlResponse::Version(version) => vec![version_sheet(&version)],
        answer => return Err(unexpected(&answer)),
    })
}

/// Returns a table with the size and hits of each table, and one with the actions that packets
/// took.
fn table_sheets(tables: &[node::status::TableStatus]) -> Vec<TextTable> {
    let head = ["TABLE", "ENTRIES", "MOST", "SIZE", "MEMORY", "HITS", "HIT BYTES", "MISSES", "MISS BYTES"];
    let row = |table: &node::status::TableStatus| {
        let mut row = vec![
            table.name.clone(),
            table.entries.to_string(),
            table.high_water.to_string(),
            format_optional(table.size),
        ];
        row.push(table.memory_bytes.to_string());
        row.extend(format_counter(&table.hits).into_iter().chain(format_counter(&table.misses)));
        row
    };
    let actions = tables.iter().flat_map(|table| {
        table.actions.iter().filter(|action| action.hits.packets + action.misses.packets > 0).map(|action| {
            let [hits, _] = format_counter(&action.hits);
            let [misses, _] = format_counter(&action.misses);
            let bytes = action.hits.bytes + action.misses.bytes;
            vec![table.name.clone(), action.name.clone(), hits, misses, bytes.to_string()]
        })
    });
    let actions =
        TextTable::new(&["TABLE", "ACTION", "BY HIT", "BY MISS", "BYTES"], &[0, 1], actions).titled("actions");
    let mut sheets = vec![TextTable::new(&head, &[0], tables.iter().map(row)), actions];
    sheets.extend(flow_table_sheet(tables));
    sheets
}

/// Returns a table of entries that came and went, of the tables to which packets add entries.
fn flow_table_sheet(tables: &[node::status::TableStatus]) -> Option<TextTable> {
    let row = |table: &node::status::TableStatus| {
        let FlowTableStatus { has_default_size, counts } = table.flows.as_ref()?;
        let size = format_optional(table.size);
        let size = if *has_default_size { format!("{size} (default)") } else { size };
        let refused = counts.refused.iter().filter(|(_, count)| **count != 0);
        let refused: Vec<String> = refused.map(|(reason, count)| format!("{reason} {count}")).collect();
        let refused = if refused.is_empty() { "-".to_owned() } else { refused.join(", ") };
        let counts = [counts.added_by_packets, counts.added_by_control, counts.expired, counts.removed];
        let mut row = vec![table.name.clone(), size];
        row.extend(counts.map(|count| count.to_string()).into_iter().chain([refused]));
        Some(row)
    };
    let rows: Vec<Vec<String>> = tables.iter().filter_map(row).collect();
    let head = ["TABLE", "SIZE", "ADDED BY PACKETS", "BY CONTROLLER", "EXPIRED", "REMOVED", "REFUSED"];
    let sheet = TextTable::new(&head, &[0, 6], rows.into_iter()).titled("sessions");
    (!sheet.is_empty()).then_some(sheet)
}

/// Returns the tables of controllers, requests and the server's counts.
fn controller_sheets(status: &node::status::ControllersStatus) -> Vec<TextTable> {
    let controller = |row: &node::status::ControllerRow| {
        let standing = if row.primary { "primary" } else { "backup" };
        let (client, election) = (row.client.clone(), format_optional(row.election_id.as_ref()));
        let role = if row.role.is_empty() { "(default)".to_owned() } else { row.role.clone() };
        let since = format!("{:.0}", row.seconds);
        vec![client, role, election, standing.to_owned(), since, row.waiting.to_string()]
    };
    let head = ["CONTROLLER", "ROLE", "ELECTION ID", "STANDING", "SECONDS", "WAITING"];
    let controllers = TextTable::new(&head, &[0, 1, 3], status.controllers.iter().map(controller));
    let requests = status.requests.iter().map(|request| {
        let mut row = vec![request.kind.clone(), request.ok.to_string(), request.refused.to_string()];
        row.extend(format_latencies(&request.time));
        row
    });
    let head = ["REQUEST", "OK", "REFUSED", "P50 US", "P99 US", "P99.9 US", "MAX US"];
    let requests = TextTable::new(&head, &[0], requests).titled("requests");
    let server_counts = [
        ("connections", status.connections),
        ("refused connections", status.refused_connections),
        ("lost messages", status.lost_messages),
    ];
    let counts = server_counts.iter().map(|(name, count)| vec![(*name).to_owned(), count.to_string()]);
    vec![controllers, requests, TextTable::new(&["WHAT", "COUNT"], &[0], counts).titled("server")]
}

/// Returns the table of the node's version, program and engine.
fn version_sheet(version: &node::status::NodeVersion) -> TextTable {
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
                Some(reason) => format!("{}: {reason}", program.engine),
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
    TextTable::new(&["WHAT", "VALUE"], &[0, 1], rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]))
}

fn entry_sheet(rows: &[EntryRow]) -> TextTable {
    let list =
        |all: &[ShownValue]| all.iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>().join(", ");
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
        let counter = row.counter.as_ref().map(format_counter);
        let [packets, bytes] = counter.unwrap_or_else(|| ["-".to_owned(), "-".to_owned()]);
        vec![list(&row.keys), action, priority, idle, packets, bytes]
    };
    TextTable::new(&["ENTRY", "ACTION", "PRIORITY", "IDLE", "PACKETS", "BYTES"], &[0, 1], rows.iter().map(row))
}
