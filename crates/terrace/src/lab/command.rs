//! Runs the external programs that build a lab.

use super::error::LabError;
use super::steps::{LabStep, WIRE_FORM};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Debian packages of the external programs.
const PACKAGES: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("bridge", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("iperf3", "iperf3"),
];

/// Returns a command that is not started yet. It gets its own process group, because a Ctrl-C at
/// the terminal must not stop the commands that clean up.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    command
}

/// Returns a command inside a namespace of a lab, not started yet: for example `iperf3` on a VM.
pub fn exec(namespace: &str, name: &str, arguments: &[&str]) -> Command {
    let mut all = vec!["netns", "exec", namespace, name];
    all.extend_from_slice(arguments);
    program("ip", &all)
}

/// Formats the command as a shell command line.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end and returns its output.
pub(crate) fn run(mut command: Command) -> Result<String, LabError> {
    let typed = command_line(&command);
    let output = command.output().map_err(|source| {
        let tool = command.get_program().to_string_lossy().into_owned();
        match PACKAGES.iter().find(|(name, _)| *name == tool) {
            Some((_, package)) if source.kind() == io::ErrorKind::NotFound => LabError::Missing { tool, package },
            _ => LabError::Start { command: typed.clone(), source },
        }
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", ");
    let help = error_hint(&stderr);
    let stderr = if stderr.is_empty() { output.status.to_string() } else { stderr };
    Err(LabError::Command { command: typed, stderr, help })
}

/// Returns a hint for the typical errors of machines that are not set up for labs.
fn error_hint(stderr: &str) -> Option<&'static str> {
    let hints = [
        ("Operation not permitted", "run as root, or with the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        ("Permission denied", "run as root, or with the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        (
            "Unknown device type",
            "this kernel has no such device; load the module (modprobe veth vxlan bridge) or take another kernel",
        ),
        (
            "Operation not supported",
            "this kernel cannot do that; load the module (modprobe veth vxlan bridge) or take another kernel",
        ),
        ("File exists", "something is left of an earlier lab; remove it with `terrace lab down`"),
        ("No such file or directory", "install the package that has the program, and iproute2"),
    ];
    hints.iter().find(|(sign, _)| stderr.contains(sign)).map(|(_, help)| *help)
}

/// Executes one step.
pub(super) fn carry_out(step: &LabStep) -> Result<(), LabError> {
    match step {
        LabStep::Namespace(name) => run(program("ip", &["netns", "add", name])).map(drop),
        LabStep::Run { tool, namespace, arguments } => {
            let mut all = vec!["-n", namespace];
            all.extend(arguments.iter().map(String::as_str));
            run(program(tool, &all)).map(drop)
        }
        LabStep::Sysctl { namespace, path, value } => {
            let file = format!("/proc/sys/{path}");
            match ::io::Namespace::open(namespace)?.run(|| std::fs::write(file, value))? {
                // A missing parameter is ignored: a kernel without IPv6, or without this parameter,
                // does not need it.
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    Err(LabError::Start { command: step.to_string(), source })
                }
                _ => Ok(()),
            }
        }
        LabStep::WireForm { namespace, interface } => {
            let mut arguments = vec!["-K", interface];
            arguments.extend(WIRE_FORM);
            run(exec(namespace, "ethtool", &arguments)).map(drop)
        }
    }
}
