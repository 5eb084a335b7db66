//! `terrace show sessions` and `terrace sessions delete`: entries that packets have added.

use super::failure::CommandError;
use super::node_socket::{NodeArgs, failed, unexpected};
use super::text_table::{OutputFormat, TextTable, format_optional, numeric_sort_key, print_json};
use super::ui::{OutputSettings, print_line};
use clap::{Args, Subcommand};
use node::admin::ResponseStream;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::sessions::{SessionRow, SessionSelection};
use node::status::ShownValue;
use std::path::Path;

/// Conditions on sessions.
#[derive(Clone, Debug, Args)]
struct ConditionArgs {
    /// Select sessions by a key: KEY=VALUE, or KEY=PREFIX/LENGTH. KEY is the name of a key of the
    /// table, or the end of it after a dot. All conditions have to hold.
    #[arg(long = "match", value_name = "KEY=VALUE")]
    matches: Vec<String>,
    /// Select sessions without a packet for longer than this.
    #[arg(long, value_name = "SECONDS")]
    idle_longer_than: Option<f64>,
}

impl ConditionArgs {
    fn selection(&self, table: Option<&str>) -> Result<SessionSelection, CommandError> {
        let nanoseconds = |seconds: f64| match seconds {
            0.0..=9e9 => Ok((seconds * 1e9) as u64),
            _ => Err(CommandError::Usage("--idle-longer-than: write a number of seconds, 0 or more".to_owned())),
        };
        Ok(SessionSelection {
            table: table.map(str::to_owned),
            matches: self.matches.clone(),
            idle_longer_than_ns: self.idle_longer_than.map(nanoseconds).transpose()?,
        })
    }
}

/// Arguments of `terrace show sessions`.
#[derive(Debug, Args)]
pub(super) struct SessionsViewArgs {
    /// Name of a table to which packets add entries, or the end of it after a dot. Default: all such
    /// tables that have the keys of the conditions.
    #[arg(value_name = "TABLE")]
    table: Option<String>,
    #[command(flatten)]
    conditions: ConditionArgs,
    /// Print only the number of sessions.
    #[arg(long)]
    count: bool,
    /// Maximum number of sessions to show.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
}

impl SessionsViewArgs {
    /// Asks the node for the sessions and prints them.
    pub(super) fn run(&self, socket: &Path, format: OutputFormat) -> Result<(), CommandError> {
        let selection = self.conditions.selection(self.table.as_deref())?;
        let limit = if self.count { 0 } else { self.limit };
        let (mut rows, matching) = read_sessions(socket, selection, limit)?;
        match (self.count, format) {
            (true, OutputFormat::Json) => return print_json(&serde_json::json!({ "matching": matching })),
            (true, OutputFormat::Csv) => return print_line(&format!("sessions\n{matching}")),
            (true, OutputFormat::Text) => return print_line(&format!("{matching} sessions")),
            (false, _) => {}
        }
        rows.sort_by_cached_key(|row| (row.table.clone(), numeric_sort_key(&row.keys)));
        if format == OutputFormat::Json {
            return print_json(&serde_json::json!({ "sessions": rows, "matching": matching }));
        }
        session_sheet(&rows).print(format)?;
        let shown = rows.len() as u64;
        if format == OutputFormat::Text && shown < matching {
            let more = matching - shown;
            print_line(&format!("{more} more sessions; --limit shows more, --match and --idle-longer-than select"))?;
        }
        Ok(())
    }
}

/// Reads at most `limit` sessions. Returns them with the number of all that match.
pub(super) fn read_sessions(
    socket: &Path,
    selection: SessionSelection,
    limit: u64,
) -> Result<(Vec<SessionRow>, u64), CommandError> {
    let request = ControlRequest::Sessions { selection, limit };
    let mut stream = ResponseStream::begin(socket, &request).map_err(failed)?;
    let mut rows: Vec<SessionRow> = Vec::new();
    loop {
        match stream.answer().map_err(failed)? {
            ControlResponse::Sessions { sessions } => rows.extend(sessions),
            ControlResponse::End { matching } => return Ok((rows, matching)),
            answer => return Err(unexpected(&answer)),
        }
    }
}

fn session_sheet(rows: &[SessionRow]) -> TextTable {
    let list =
        |all: &[ShownValue]| all.iter().map(|one| format!("{}={}", one.name, one.value)).collect::<Vec<_>>().join(", ");
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    let row = |row: &SessionRow| {
        let action = match row.arguments.is_empty() {
            true => row.action.clone(),
            false => format!("{}({})", row.action, list(&row.arguments)),
        };
        let (idle, left) = (seconds(row.idle_ns), format_optional(row.left_ns.map(seconds)));
        let [packets, bytes] =
            [row.counter.map(|counter| counter.packets), row.counter.map(|counter| counter.bytes)].map(format_optional);
        vec![row.table.clone(), list(&row.keys), action, idle, left, packets, bytes]
    };
    let head = ["TABLE", "SESSION", "ACTION", "IDLE S", "LEFT S", "PACKETS", "BYTES"];
    TextTable::new(&head, &[0, 1, 2], rows.iter().map(row))
}

/// Delete sessions of a running node: entries that packets have added to its tables.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// Delete the sessions of a table that match all conditions. Packets go on meanwhile; the next
    /// packet of a deleted session is treated as that of a new one.
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// Name of a table to which packets add entries, or the end of it after a dot.
    #[arg(value_name = "TABLE")]
    table: String,
    #[command(flatten)]
    conditions: ConditionArgs,
    /// Delete all sessions of the table.
    #[arg(long)]
    all: bool,
}

impl SessionsArgs {
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let SessionsCommand::Delete(args) = &self.command;
        let has_condition = !args.conditions.matches.is_empty() || args.conditions.idle_longer_than.is_some();
        if args.all == has_condition {
            let message =
                "write conditions (--match, --idle-longer-than) or --all, to delete all sessions of the table";
            return Err(CommandError::Usage(message.to_owned()));
        }
        let selection = args.conditions.selection(Some(&args.table))?;
        let request = ControlRequest::DeleteSessions { selection };
        let mut stream = ResponseStream::begin(&self.node.socket(), &request).map_err(failed)?;
        let deleted = loop {
            match stream.answer().map_err(failed)? {
                ControlResponse::SessionsDeleted { deleted } => ui.note(format!("{deleted} sessions so far")),
                ControlResponse::End { matching } => break matching,
                answer => return Err(unexpected(&answer)),
            }
        };
        ui.result(&serde_json::json!({ "deleted": deleted }), || format!("{deleted} sessions deleted"))
    }
}
