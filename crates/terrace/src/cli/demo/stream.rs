//! Packet streams: iperf3 over TCP and UDP, and fast pings.

use super::report::Stream;
use crate::cli::failure::CommandError;
use crate::lab::{Topology, exec};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time that a stream may take beyond its planned duration.
const GRACE: Duration = Duration::from_secs(10);

/// Parameters of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamSpec {
    /// Name of the sender.
    pub from: &'static str,
    /// Name of the receiver.
    pub to: &'static str,
    /// Address of the receiver.
    pub address: &'static str,
    /// Special property of the stream.
    pub what: &'static str,
    /// Traffic of the stream.
    pub kind: StreamKind,
    /// Duration, in seconds.
    pub seconds: u32,
}

/// Traffic of a stream.
#[derive(Clone, Copy, Debug)]
pub enum StreamKind {
    /// TCP at full speed.
    Tcp,
    /// TCP, limited to this rate in megabits per second.
    PacedTcp(u32),
    /// UDP at this rate in megabits per second.
    Udp(u32),
    /// ICMP echo at this rate in packets per second.
    Ping(u32),
}

impl StreamKind {
    fn protocol(self) -> &'static str {
        match self {
            StreamKind::Tcp | StreamKind::PacedTcp(_) => "tcp",
            StreamKind::Udp(_) => "udp",
            StreamKind::Ping(_) => "icmp",
        }
    }
}

/// A running stream. Dropping it ends its processes.
#[derive(Debug)]
pub struct RunningStream {
    plan: StreamSpec,
    sender: Child,
    receiver: Option<Child>,
    deadline: Instant,
}

/// Starts a stream between two machines of the lab: the receiver first, then the sender once the
/// receiver listens. A ping needs no receiver.
pub fn start_stream(topology: &Topology, plan: StreamSpec) -> Result<RunningStream, CommandError> {
    let namespace_of = |name: &str| {
        let endpoint =
            topology.endpoint(name).ok_or_else(|| CommandError::Bug(format!("the lab has no machine `{name}`")));
        endpoint.map(|endpoint| endpoint.namespace)
    };
    let (from, to) = (namespace_of(plan.from)?, namespace_of(plan.to)?);
    let seconds = plan.seconds.to_string();
    let spawn = |namespace: &str, tool: &str, arguments: &[&str]| {
        let mut command = exec(namespace, tool, arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).env("LC_ALL", "C").spawn();
        child.map_err(|error| {
            CommandError::Environment(format!("cannot start {tool}: {error}; install it (apt-get install {tool})"))
        })
    };
    let deadline = Instant::now() + Duration::from_secs(plan.seconds.into()) + GRACE;
    if let StreamKind::Ping(rate) = plan.kind {
        let interval = format!("{:.3}", 1.0 / f64::from(rate));
        let count = (rate * plan.seconds).to_string();
        let sender = spawn(&from, "ping", &["-n", "-q", "-i", &interval, "-c", &count, "-W", "1", plan.address])?;
        return Ok(RunningStream { plan, sender, receiver: None, deadline });
    }
    let mut receiver = spawn(&to, "iperf3", &["-s", "-1", "--forceflush"])?;
    if let Err(failure) = wait_until_it_listens(&mut receiver) {
        kill_child(&mut receiver);
        return Err(failure);
    }
    let rate;
    let mut arguments = vec!["-c", plan.address, "-J", "-t", &seconds];
    match plan.kind {
        StreamKind::Udp(megabits) => {
            rate = format!("{megabits}M");
            arguments.extend(["-u", "-l", "1000", "-b", &rate]);
        }
        StreamKind::PacedTcp(megabits) => {
            rate = format!("{megabits}M");
            arguments.extend(["-b", &rate]);
        }
        StreamKind::Tcp | StreamKind::Ping(_) => {}
    }
    let sender = spawn(&from, "iperf3", &arguments);
    match sender {
        Ok(sender) => Ok(RunningStream { plan, sender, receiver: Some(receiver), deadline }),
        Err(failure) => {
            kill_child(&mut receiver);
            Err(failure)
        }
    }
}

/// Waits until the receiver reports that it listens, because earlier connections are refused.
fn wait_until_it_listens(receiver: &mut Child) -> Result<(), CommandError> {
    let missing = || CommandError::Environment("iperf3 does not start; install it (apt-get install iperf3)".to_owned());
    let Some(stdout) = receiver.stdout.take() else { return Err(missing()) };
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    loop {
        line.clear();
        match lines.read_line(&mut line) {
            Ok(0) | Err(_) => return Err(missing()),
            Ok(_) if line.contains("listening") => break,
            Ok(_) => {}
        }
    }
    // Later output is drained, so that it cannot fill the pipe and block the receiver.
    std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
    Ok(())
}

fn kill_child(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for RunningStream {
    fn drop(&mut self) {
        kill_child(&mut self.sender);
        if let Some(receiver) = &mut self.receiver {
            kill_child(receiver);
        }
    }
}

impl RunningStream {
    /// Waits for the end of the stream and returns its result.
    ///
    /// # Errors
    /// If the stream was aborted, or `stop` became true.
    pub fn finish(mut self, stop: &AtomicBool) -> Result<Stream, CommandError> {
        let stdout = self.sender.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.map(|mut stdout| stdout.read_to_string(&mut text));
            text
        });
        let mut is_over = false;
        while matches!(self.sender.try_wait(), Ok(None)) && !is_over {
            is_over = Instant::now() > self.deadline || stop.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_child(&mut self.sender);
        let text = reader.join().unwrap_or_default();
        if stop.load(Ordering::Relaxed) {
            return Err(CommandError::stopped());
        }
        let parsed = match self.plan.kind {
            StreamKind::Ping(_) => read_ping(&text),
            _ => read_iperf3(&text),
        };
        let StreamResult { bits_per_second, retransmits, packets, lost } = parsed.map_err(|problem| {
            let StreamSpec { from, to, address, .. } = self.plan;
            CommandError::Environment(format!("{from} to {to} ({address}), {}: {problem}", self.plan.kind.protocol()))
        })?;
        let StreamSpec { from, to, address, what, kind, .. } = self.plan;
        Ok(Stream { from, to, address, protocol: kind.protocol(), what, bits_per_second, retransmits, packets, lost })
    }
}

#[derive(Debug, Default, PartialEq)]
struct StreamResult {
    bits_per_second: f64,
    retransmits: Option<u64>,
    packets: Option<u64>,
    lost: Option<u64>,
}

fn read_iperf3(text: &str) -> Result<StreamResult, String> {
    let value: Value = serde_json::from_str(text).map_err(|_| "iperf3 was broken off".to_owned())?;
    if let Some(error) = value["error"].as_str() {
        return Err(error.to_owned());
    }
    let end = &value["end"];
    let udp = end["sum"]["packets"].as_u64();
    let received = if udp.is_some() { &end["sum"] } else { &end["sum_received"] };
    Ok(StreamResult {
        bits_per_second: received["bits_per_second"].as_f64().ok_or("iperf3 measured nothing")?,
        retransmits: end["sum_sent"]["retransmits"].as_u64(),
        packets: udp,
        lost: end["sum"]["lost_packets"].as_u64(),
    })
}

/// Parses `300 packets transmitted, 299 received, ...`.
fn read_ping(text: &str) -> Result<StreamResult, String> {
    let line = text.lines().find(|line| line.contains("packets transmitted")).ok_or("ping was broken off")?;
    let number = |word: &str| -> Option<u64> {
        line.split(", ").find(|part| part.contains(word))?.split_whitespace().next()?.parse().ok()
    };
    let (sent, received) = number("transmitted").zip(number("received")).ok_or("ping says nothing of its packets")?;
    Ok(StreamResult { packets: Some(sent), lost: Some(sent.saturating_sub(received)), ..StreamResult::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let tcp =
            r#"{"end":{"sum_sent":{"retransmits":3,"bits_per_second":2e6},"sum_received":{"bits_per_second":1.5e6}}}"#;
        let expected = StreamResult { bits_per_second: 1.5e6, retransmits: Some(3), ..StreamResult::default() };
        assert_eq!(read_iperf3(tcp), Ok(expected));
        let udp = r#"{"end":{"sum":{"packets":100,"lost_packets":2,"bits_per_second":1e6}}}"#;
        let expected =
            StreamResult { bits_per_second: 1e6, packets: Some(100), lost: Some(2), ..StreamResult::default() };
        assert_eq!(read_iperf3(udp), Ok(expected));
        let refused = r#"{"end":{},"error":"unable to connect to server: Connection refused"}"#;
        assert!(read_iperf3(refused).unwrap_err().contains("Connection refused"));
        assert!(read_iperf3("").is_err());
        let ping =
            "--- 10.0.0.1 ping statistics ---\n300 packets transmitted, 298 received, 0.6% packet loss, time 3000ms\n";
        assert_eq!(read_ping(ping), Ok(StreamResult { packets: Some(300), lost: Some(2), ..StreamResult::default() }));
        assert!(read_ping("").is_err());
    }
}
