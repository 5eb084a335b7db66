//! Real pings between the VMs of a lab.

use super::command::exec;
use super::error::LabError;
use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Maximum number of concurrent pings. Each is a process that mostly waits.
const AT_ONCE: usize = 64;

/// Echo requests from one namespace to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// Namespace of the sender.
    pub namespace: String,
    /// Target address.
    pub to: IpAddr,
    /// Number of requests, 0.2 seconds apart.
    pub count: u32,
    /// Time to wait for a reply to the last request.
    pub timeout: Duration,
    /// Bytes of payload; `None`: the 56 bytes of `ping`. Packets are not fragmented, so a size
    /// above the path's MTU fails.
    pub size: Option<u16>,
}

impl Ping {
    /// Creates a ping of three requests that waits one second for the last reply.
    pub fn new(namespace: impl Into<String>, to: IpAddr) -> Ping {
        Ping { namespace: namespace.into(), to, count: 3, timeout: Duration::from_secs(1), size: None }
    }

    fn start(&self) -> Result<Child, LabError> {
        let [count, to] = [self.count.max(1).to_string(), self.to.to_string()];
        let timeout = self.timeout.as_secs_f64().max(0.1).to_string();
        let size = self.size.map(|size| size.to_string());
        let mut arguments = vec!["-n", "-q", "-i", "0.2", "-c", &count, "-W", &timeout];
        if let Some(size) = &size {
            arguments.extend(["-M", "do", "-s", size]);
        }
        arguments.push(&to);
        let mut command = exec(&self.namespace, "ping", &arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C").spawn();
        child.map_err(|source| LabError::Start { command: format!("{command:?}"), source })
    }
}

/// Result of a ping.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PingOutcome {
    /// Requests sent.
    pub sent: u32,
    /// Replies received.
    pub received: u32,
    /// Average round-trip time, in milliseconds; `None` without a reply.
    pub average_ms: Option<f64>,
}

impl PingOutcome {
    /// Returns whether there was at least one reply.
    pub fn reached(&self) -> bool {
        self.received > 0
    }

    /// Returns whether all requests were replied to.
    pub fn lossless(&self) -> bool {
        self.sent > 0 && self.received >= self.sent
    }
}

/// Runs a ping and returns its result. A missing reply is not an error.
///
/// # Errors
/// If `ping` cannot run.
pub fn ping(ping: &Ping) -> Result<PingOutcome, LabError> {
    finish_ping(ping, ping.start()?)
}

/// Runs pings concurrently and returns their results in the same order. `progress` is called with
/// the finished and the total number.
///
/// # Errors
/// If a ping cannot run.
pub fn ping_all(pings: &[Ping], progress: &mut dyn FnMut(usize, usize)) -> Result<Vec<PingOutcome>, LabError> {
    let mut outcomes = Vec::with_capacity(pings.len());
    for some in pings.chunks(AT_ONCE) {
        progress(outcomes.len(), pings.len());
        let children: Vec<_> = some.iter().map(Ping::start).collect();
        for (ping, child) in some.iter().zip(children) {
            outcomes.push(child.and_then(|child| finish_ping(ping, child)));
        }
    }
    progress(pings.len(), pings.len());
    outcomes.into_iter().collect()
}

fn finish_ping(ping: &Ping, child: Child) -> Result<PingOutcome, LabError> {
    let command = format!("ip netns exec {} ping {}", ping.namespace, ping.to);
    let output = child.wait_with_output().map_err(|source| LabError::Start { command: command.clone(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_summary(&text).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // Message of `ip netns exec` if `ping` is not installed.
        let missing = stderr.contains("exec of \"ping\" failed");
        let help = missing.then_some("install it with `apt-get install iputils-ping`");
        LabError::Command { command, stderr, help }
    })
}

/// Parses `3 packets transmitted, 2 received, ...` and `rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms`.
/// Without a reply, iputils prints no second line. If the address cannot be reached at all, it
/// prints `+3 errors` in between.
fn parse_summary(text: &str) -> Option<PingOutcome> {
    let line = text.lines().find(|line| line.contains("packets transmitted"))?;
    let number =
        |word: &str| line.split(", ").find(|part| part.contains(word))?.split_whitespace().next()?.parse().ok();
    let average = text.lines().find_map(|line| line.split_once(" = ")?.1.split('/').nth(1)?.parse().ok());
    Some(PingOutcome { sent: number("transmitted")?, received: number("received")?, average_ms: average })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_read() {
        let text = "PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.\n\n--- 10.0.0.1 ping statistics ---\n\
                    3 packets transmitted, 2 received, 33.3333% packet loss, time 401ms\n\
                    rtt min/avg/max/mdev = 0.021/0.025/0.030/0.003 ms\n";
        assert_eq!(parse_summary(text), Some(PingOutcome { sent: 3, received: 2, average_ms: Some(0.025) }));
        let text = "3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 408ms\npipe 3\n";
        let outcome = parse_summary(text).unwrap();
        assert_eq!(outcome, PingOutcome { sent: 3, received: 0, average_ms: None });
        assert!(!outcome.reached() && !outcome.lossless());
        assert_eq!(parse_summary("ping: connect: Network is unreachable\n"), None);
    }
}
