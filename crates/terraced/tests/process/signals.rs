//! Tests signals of a service manager, its notifications, and settings that an operator changes
//! while the node runs.

use crate::daemon::{Daemon, config_in};
use p4runtime::Code;
use p4runtime::client::{Client, ClientTls, ConnectOptions};
use p4runtime::proto::v1::CapabilitiesRequest;
use p4runtime::server::TokenHash;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

/// Socket of a service manager.
pub struct Manager(UnixDatagram);

impl Manager {
    /// Returns the next message that has this word. Skips watchdog messages unless the word
    /// requests one.
    pub fn next_message_with(&self, word: &str) -> String {
        self.messages_up_to(word).pop().expect("it is the last")
    }

    /// Returns the next message that has this word, with all messages before it.
    pub fn messages_up_to(&self, word: &str) -> Vec<String> {
        let mut bytes = [0; 4096];
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut all = Vec::new();
        while Instant::now() < deadline {
            let Ok(length) = self.0.recv(&mut bytes) else { continue };
            let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
            let found = message.lines().any(|line| line.starts_with(word));
            all.push(message);
            if found {
                return all;
            }
        }
        panic!("{word} is not told, but {all:?}");
    }
}

pub fn manager(folder: &Path) -> (Manager, String) {
    let path = folder.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
    (Manager(socket), path.display().to_string())
}

/// Returns a configuration with a token.
fn with_token(token: &str, rest: &str) -> String {
    let hash = TokenHash::of(token);
    format!(
        "{rest}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[[p4runtime.token]]\nsha256 = \"{hash}\"\npermission = \"table-writer\"\n"
    )
}

async fn client(daemon: &Daemon, token: &str) -> Client {
    let options = ConnectOptions { token: Some(token.to_owned()), ..ConnectOptions::default() };
    Client::connect(&daemon.uri, 1, &options).await.expect("it serves")
}

async fn answer(client: &mut Client) -> Result<(), Code> {
    client.rpc.capabilities(CapabilitiesRequest::default()).await.map(drop).map_err(|status| status.code())
}

#[tokio::test]
async fn the_service_manager_is_told_and_a_hang_up_reads_the_configuration_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (manager, socket) = manager(folder.path());
    let config = config_in(folder.path(), &with_token("first", "[log]\nformat = \"json\"\n"));
    let daemon = Daemon::with(&config, &[("NOTIFY_SOCKET", &socket), ("WATCHDOG_USEC", "300000")]);
    let ready = manager.next_message_with("READY=1");
    assert!(ready.contains("STATUS=no ports; P4Runtime on 127.0.0.1:"), "{ready}");
    manager.next_message_with("WATCHDOG=1");
    manager.next_message_with("WATCHDOG=1");

    let mut first = client(&daemon, "first").await;
    assert_eq!(answer(&mut first).await, Ok(()));
    let (mut stream, _) = first.arbitrate(Some(1)).await.expect("it may");
    daemon.wait_for_log(&["\"event\":\"a controller is primary\"", "\"election\":\"1\""]);

    // A mistake: nothing changes.
    config_in(folder.path(), &with_token("second", "device_id = \"x\"\n[log]\nlevel = \"error\"\n"));
    daemon.signal("HUP");
    assert!(manager.next_message_with("RELOADING=1").contains("MONOTONIC_USEC="));
    manager.next_message_with("READY=1");
    daemon.wait_for_log(&["refused", &format!("{}:1:13: ", config.display())]);
    assert_eq!(answer(&mut first).await, Ok(()));

    // Another token, another log; settings that need a restart are named.
    config_in(folder.path(), &with_token("second", "cores = [0]\nstore = \"elsewhere\"\n[log]\nlevel = \"debug\"\n"));
    daemon.signal("HUP");
    manager.next_message_with("RELOADING=1");
    manager.next_message_with("READY=1");
    daemon.wait_for_log(&["`cores` changes with a restart"]);
    daemon.wait_for_log(&["`store` changes with a restart"]);
    daemon.wait_for_log(&["info  the configuration was read again", "log.format", "p4runtime.token"]);
    assert_eq!(answer(&mut first).await, Err(Code::Unauthenticated));
    assert_eq!(answer(&mut client(&daemon, "second").await).await, Ok(()));
    let end = tokio::time::timeout(Duration::from_secs(10), async { while let Ok(Some(_)) = stream.next().await {} });
    end.await.expect("the stream of a token that is gone ends");
    daemon.wait_for_log(&["a controller has left", "the token is not known"]);

    daemon.signal("TERM");
    manager.next_message_with("STOPPING=1");
    daemon.wait_for_log(&["ending signal=SIGTERM"]);
    daemon.wait_for_log(&["info  ended"]);
    let mut daemon = daemon;
    assert!(daemon.child.wait().expect("it ends").success());
}

#[tokio::test]
async fn many_refused_requests_are_few_lines_and_none_of_them_shows_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = config_in(folder.path(), &with_token("first", ""));
    let daemon = Daemon::with(&config, &[]);
    let secret = "guessed-8f2e";
    let mut stranger = client(&daemon, secret).await;
    for _ in 0..300 {
        assert_eq!(answer(&mut stranger).await, Err(Code::Unauthenticated));
    }
    let line = daemon.wait_for_log(&["suppressed", "refused a client"]);
    assert!(line.contains(" lines like: refused a client left_out="), "{line}");
    let mut count = 0;
    while daemon
        .take_log_line(&["refused a client"])
        .inspect(|line| assert!(!line.contains(secret), "{line}"))
        .is_some()
    {
        count += 1;
    }
    assert!((50..200).contains(&count), "{count} lines");
}

/// Signer of certificates.
struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(vec![]).expect("a name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

/// Writes the node's certificate, its key and the clients' authority.
fn install(folder: &Path, servers: &Authority, clients: &Authority) {
    let (certificate, key) = servers.sign("node.test");
    for (name, text) in [("node.pem", &certificate), ("node.key", &key), ("clients.pem", &clients.certificate)] {
        std::fs::write(folder.join(name), text).expect("written");
    }
}

/// Returns whether a client that trusts `servers` and presents this certificate gets a response.
async fn gets_in(daemon: &Daemon, servers: &Authority, identity: (String, String)) -> bool {
    let (authority, server_name) = (servers.certificate.clone(), Some("node.test".to_owned()));
    let tls = Some(ClientTls { authority, identity: Some(identity), server_name });
    let options = ConnectOptions { tls, ..ConnectOptions::default() };
    match Client::connect(&format!("https://{}", daemon.address), 1, &options).await {
        Ok(mut client) => answer(&mut client).await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn certificates_are_exchanged_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let text = format!(
        "[p4runtime]\nlisten = [\"127.0.0.1:0\"]\nrequire_tls_on_loopback = true\ncertificate = {:?}\nkey = {:?}\nclient_authority = {:?}\n",
        path("node.pem"),
        path("node.key"),
        path("clients.pem")
    );
    let (servers, old, new) = (Authority::new("servers"), Authority::new("old"), Authority::new("new"));
    install(folder.path(), &servers, &old);
    let config = config_in(folder.path(), &text);
    let daemon = Daemon::with(&config, &[]);
    assert!(gets_in(&daemon, &servers, old.sign("controller\nof old")).await);
    assert!(!gets_in(&daemon, &servers, new.sign("controller")).await);
    daemon.wait_for_log(&["its TLS handshake failed"]);

    install(folder.path(), &servers, &new);
    // A key of another certificate is rejected, and nothing changes.
    let other = std::fs::read_to_string(path("node.key")).expect("written");
    std::fs::write(path("node.key"), servers.sign("node.test").1).expect("written");
    daemon.signal("HUP");
    daemon.wait_for_log(&["the configuration is refused", "the certificate with this key cannot be used"]);
    assert!(gets_in(&daemon, &servers, old.sign("controller")).await);

    std::fs::write(path("node.key"), other).expect("written");
    daemon.signal("HUP");
    daemon.wait_for_log(&["the configuration was read again"]);
    assert!(!gets_in(&daemon, &servers, old.sign("controller")).await);
    assert!(gets_in(&daemon, &servers, new.sign("controller")).await);
}
