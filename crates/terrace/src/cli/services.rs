//! `terrace show services`: backends of services, and the connections that each has.

use super::failure::CommandError;
use super::node_socket::{failed, unexpected};
use super::text_table::{OutputFormat, TextTable, format_optional, print_json};
use super::ui::print_line;
use node::admin::ask;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::services::{BackendUse, ServiceStatus, ServiceUse};
use region::{Affinity, BackendState};
use std::path::Path;

/// Asks the node and prints the answer.
pub(super) fn show_services(socket: &Path, format: OutputFormat) -> Result<(), CommandError> {
    let answer = ask(socket, &ControlRequest::Services).map_err(failed)?;
    if format == OutputFormat::Json {
        return print_json(&answer);
    }
    let ControlResponse::Services(status) = answer else { return Err(unexpected(&answer)) };
    if status.services.is_empty() && format == OutputFormat::Text {
        return print_line("the region has no service (`services` of a VPC)");
    }
    if format == OutputFormat::Csv {
        // A CSV file has only one header.
        return backend_sheet(&status.services).print(format);
    }
    service_sheet(&status.services).print(format)?;
    backend_sheet(&status.services).titled("backends").print(format)?;
    let refusals = refusal_sheet(&status);
    if !refusals.is_empty() {
        refusals.print(format)?;
    }
    status.notes.iter().try_for_each(|note| print_line(note))
}

fn service_sheet(services: &[ServiceUse]) -> TextTable {
    let row = |service: &ServiceUse| {
        let with_port = |address| format!("{address}:{}", service.port);
        let affinity = match service.affinity {
            Affinity::Connection => "connection",
            Affinity::Client => "client",
        };
        let count_in = |state| service.backends.iter().filter(|backend| backend.state == state).count().to_string();
        let mut row = vec![service.vpc.clone(), service.name.clone(), service.protocol.to_string()];
        row.extend([service.address, service.public].map(|address| format_optional(address.map(with_port))));
        row.push(affinity.to_owned());
        row.extend([BackendState::Up, BackendState::Draining, BackendState::Down].map(count_in));
        row.extend([service.connections, service.stale_connections].map(|count| count.to_string()));
        row
    };
    let head = [
        "VPC",
        "SERVICE",
        "PROTOCOL",
        "ADDRESS",
        "PUBLIC",
        "AFFINITY",
        "UP",
        "DRAINING",
        "DOWN",
        "CONNECTIONS",
        "OF REMOVED BACKENDS",
    ];
    TextTable::new(&head, &[0, 1, 2, 3, 4, 5], services.iter().map(row))
}

fn backend_sheet(services: &[ServiceUse]) -> TextTable {
    let row = |(service, backend): (&ServiceUse, &BackendUse)| {
        let state = match backend.state {
            BackendState::Up => "up",
            BackendState::Draining => "draining",
            BackendState::Down => "down",
        };
        let share_now = backend.connections as f64 / service.connections.max(1) as f64;
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let mut row = vec![service.vpc.clone(), service.name.clone(), format_optional(backend.machine.as_ref())];
        row.extend([format!("{}:{}", backend.address, backend.port), state.to_owned(), backend.weight.to_string()]);
        row.extend([backend.connections.to_string(), percent(share_now), percent(backend.share)]);
        row
    };
    let backends = services.iter().flat_map(|service| service.backends.iter().map(move |backend| (service, backend)));
    let head = ["VPC", "SERVICE", "MACHINE", "BACKEND", "STATE", "WEIGHT", "CONNECTIONS", "% NOW", "% OF NEW"];
    TextTable::new(&head, &[0, 1, 2, 3, 4], backends.map(row))
}

fn refusal_sheet(status: &ServiceStatus) -> TextTable {
    let rows = status.refused.iter().map(|(reason, count)| vec![reason.clone(), count.to_string()]);
    TextTable::new(&["REASON", "PACKETS"], &[0], rows).titled("refused")
}
