//! `terraced` process of a test.

use p4runtime::client::{Client, ConnectOptions, Stream};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Process that is killed when dropped.
pub struct Daemon {
    pub child: Child,
    /// Address of its service.
    pub address: String,
    /// Address with `http://` before it.
    pub uri: String,
    /// Lines of its log.
    said: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// Starts it with a store, on a port of the system's choice, and waits until it serves. Also
    /// returns the duration.
    pub fn start(store: &Path) -> (Daemon, Duration) {
        let folder = store.parent().expect("a folder");
        let control = Daemon::control(store);
        let text =
            format!("store = {store:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[control]\nsocket = {control:?}\n");
        let began = Instant::now();
        let daemon = Daemon::with(&config_in(folder, &text), &[]);
        (daemon, began.elapsed())
    }

    /// Starts it with a configuration file and environment variables, and waits until it serves. It
    /// logs as text or JSON.
    pub fn with(config: &Path, environment: &[(&str, &str)]) -> Daemon {
        Daemon::run(config, environment, &[])
    }

    /// Starts it with a configuration file, environment variables and options.
    pub fn run(config: &Path, environment: &[(&str, &str)], options: &[&str]) -> Daemon {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terraced"));
        command.arg("--config").arg(config).args(options).envs(environment.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("terraced was built");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut address = None;
        for line in lines.by_ref().map_while(Result::ok) {
            address =
                ["listen=", "\"listen\":\""].iter().find_map(|before| Some(line.split_once(before)?.1.to_owned()));
            said.lock().expect("nobody fails").push(line);
            if address.is_some() {
                break;
            }
        }
        let Some(address) = address else { panic!("it does not serve: {:?}", said.lock()) };
        let address = address.trim_end_matches(['"', '}']).to_owned();
        let hears = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Copied to the test's output.
                eprintln!("terraced: {line}");
                hears.lock().expect("nobody fails").push(line);
            }
        });
        Daemon { child, uri: format!("http://{address}"), address, said }
    }

    /// Returns its control socket.
    pub fn control(store: &Path) -> PathBuf {
        store.with_file_name("control.sock")
    }

    /// Connects its only client.
    pub async fn client(&self) -> (Client, Stream) {
        let mut client = Client::connect(&self.uri, 1, &ConnectOptions::default()).await.expect("it serves");
        let (stream, _) = client.arbitrate(Some(1)).await.expect("it arbitrates");
        (client, stream)
    }

    /// Returns the address of its metrics.
    pub fn metrics(&self) -> String {
        let line = self.wait_for_log(&["metrics="]);
        let address = line.split_once("metrics=").and_then(|(_, rest)| rest.split(' ').next());
        address.expect("an address").trim_matches('"').to_owned()
    }

    /// Sends it a signal, by name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("there is kill");
        assert!(sent.success());
    }

    /// Takes the first line of its log that has all of these words.
    pub fn take_log_line(&self, words: &[&str]) -> Option<String> {
        let mut said = self.said.lock().expect("nobody fails");
        let at = said.iter().position(|line| words.iter().all(|word| line.contains(word)))?;
        Some(said.remove(at))
    }

    /// Waits for a line of its log with all of these words, and takes it.
    pub fn wait_for_log(&self, words: &[&str]) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(line) = self.take_log_line(words) {
                return line;
            }
            assert!(Instant::now() < deadline, "it does not say {words:?}, but {:#?}", self.said.lock());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Writes a configuration file to a folder.
pub fn config_in(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("node.toml");
    std::fs::write(&path, text).expect("the folder can be written");
    path
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
