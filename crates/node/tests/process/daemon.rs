//! A `terraced` of the test's own.

use p4runtime::client::{Client, ConnectOptions, Stream};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process; killed when dropped.
pub struct Daemon {
    pub child: Child,
    pub uri: String,
}

impl Daemon {
    /// Starts it with a store, on a port of the system's choice, and waits until it serves. Returns how long that took, too.
    pub fn start(store: &Path) -> (Daemon, Duration) {
        let folder = store.parent().expect("a folder");
        let config = folder.join("node.toml");
        let text = format!("store = {store:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n");
        std::fs::write(&config, text).expect("the folder can be written");
        let began = Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_terraced"));
        let child = command.arg("--config").arg(&config).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("terraced was built");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let line = lines.next().expect("it says where it listens").expect("it is text");
        let took = began.elapsed();
        // Whatever else it says belongs to the test's output.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("terraced: {line}")));
        let address = line.rsplit(' ').next().expect("an address");
        (Daemon { child, uri: format!("http://{address}") }, took)
    }

    /// Its only client.
    pub async fn client(&self) -> (Client, Stream) {
        let mut client = Client::connect(&self.uri, 1, &ConnectOptions::default()).await.expect("it serves");
        let (stream, _) = client.arbitrate(Some(1)).await.expect("it arbitrates");
        (client, stream)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
