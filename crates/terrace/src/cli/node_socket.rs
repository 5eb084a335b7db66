//! The control socket of a node: options that name it, and errors of requests.

use super::failure::CommandError;
use clap::Args;
use node::admin::client::RequestError;
use node::admin::protocol::ControlResponse;
use std::path::PathBuf;

/// Default control socket of a node.
pub const USUAL_SOCKET: &str = "/run/terrace/control.sock";

/// Options that select a node.
#[derive(Clone, Debug, Args)]
pub struct NodeArgs {
    /// Control socket of the node: `socket` under [control] in its configuration.
    #[arg(long = "node", value_name = "SOCKET", env = "TERRACE_NODE", default_value = USUAL_SOCKET, global = true)]
    socket: PathBuf,
    /// Use the gateway of this lab.
    #[arg(long, value_name = "NAME", conflicts_with = "socket", global = true)]
    lab: Option<String>,
}

impl NodeArgs {
    /// Returns the path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.lab.as_deref().map_or_else(|| self.socket.clone(), crate::lab::control_socket)
    }
}

/// Returns the command error for a failed request to a node.
pub fn failed(error: RequestError) -> CommandError {
    match error {
        RequestError::Refused(message) => CommandError::Refused(message),
        other => CommandError::environment(other),
    }
}

/// Returns the error for a response of an unexpected type.
pub fn unexpected(answer: &ControlResponse) -> CommandError {
    let text = serde_json::to_string(answer).unwrap_or_default();
    let text: String = text.chars().take(100).collect();
    CommandError::Environment(format!("the node sent an unexpected response ({text}); is it of another version?"))
}
