//! Server on loopback, its clients, and messages for its program.

pub use crate::device::{DEVICE, TestDevice};
use ir::Pipeline;
pub use p4runtime::Code;
use p4runtime::client::{Client, ConnectOptions, Stream, forwarding};
use p4runtime::proto::config;
use p4runtime::proto::google::rpc;
use p4runtime::proto::v1::entity::Entity as E;
use p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::proto::v1::stream_message_response::Update as In;
use p4runtime::proto::v1::update::Type;
pub use p4runtime::proto::v1::write_request::Atomicity;
pub use p4runtime::proto::v1::{self, *};
use p4runtime::server::{ServeOptions, serve};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::Status;

/// Time-out for any event; a test that waits for it fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for a future, for at most [`PATIENCE`].
pub async fn within_patience<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens soon")
}

/// Waits until a condition holds.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    within_patience(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

fn compile(path: PathBuf) -> Arc<Pipeline> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root.join("programs/include")], ..Default::default() };
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &path, &options);
    Arc::new(compiled.pipeline.expect("the program compiles"))
}

/// Returns the program of these tests.
pub fn program() -> Arc<Pipeline> {
    static PROGRAM: OnceLock<Arc<Pipeline>> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/program.p4"))).clone()
}

/// Returns another program.
pub fn other_program() -> Arc<Pipeline> {
    compile(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/v1model/drop.p4"))
}

/// Returns the P4Info of a program.
pub fn p4info(pipeline: &Pipeline) -> config::P4Info {
    p4runtime::p4info::to_message(&ir::p4info::generate(pipeline))
}

/// Returns a config for a program.
pub fn config_of(pipeline: &Pipeline, cookie: u64) -> ForwardingPipelineConfig {
    forwarding(p4info(pipeline), ir::text::print(pipeline).into_bytes(), cookie)
}

/// Server that ends when dropped.
pub struct Served {
    pub device: Arc<TestDevice>,
    pub uri: String,
    pub port: u16,
    end: Option<oneshot::Sender<()>>,
    pub task: Option<tokio::task::JoinHandle<()>>,
}

impl Served {
    /// Starts the shutdown.
    pub fn end(&mut self) {
        drop(self.end.take());
    }
}

/// Starts a server on loopback for a device without a program.
pub async fn serve_bare(options: ServeOptions) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let device = Arc::new(TestDevice::default());
    let (end, ended) = oneshot::channel::<()>();
    let served = device.clone();
    let task = tokio::spawn(async move {
        serve(vec![listener], served, options, async { drop(ended.await) }).await.unwrap();
    });
    Served { device, uri: format!("http://127.0.0.1:{port}"), port, end: Some(end), task: Some(task) }
}

/// Starts a server on loopback for a device with the program.
pub async fn serve_program(options: ServeOptions) -> Served {
    let served = serve_bare(options).await;
    let config = config_of(&program(), 1);
    let forwarding = p4runtime::PipelineConfig {
        pipeline: program(),
        p4info: prost::Message::encode_to_vec(&config.p4info.unwrap()).into(),
        device_config: config.p4_device_config,
        cookie: Some(1),
    };
    p4runtime::Device::commit(&*served.device, &forwarding, p4runtime::ReconcileMode::Nothing).unwrap();
    served
}

/// Starts a server with the program and default options.
pub async fn served() -> Served {
    serve_program(ServeOptions::default()).await
}

impl Served {
    /// Connects a client of the default role.
    pub async fn client(&self) -> Client {
        within_patience(Client::connect(&self.uri, DEVICE, &ConnectOptions::default())).await.unwrap()
    }

    /// Connects a client of a role.
    pub async fn client_of(&self, name: &str) -> Client {
        let role = Role { name: name.into(), ..Role::default() };
        Client { role, ..self.client().await }
    }

    /// Connects a client and makes it primary. Returns it with its stream.
    pub async fn primary(&self) -> (Client, Stream) {
        let mut client = self.client().await;
        let stream = become_primary(&mut client, 1).await;
        (client, stream)
    }
}

/// Makes a client primary. Returns its stream.
pub async fn become_primary(client: &mut Client, election: u128) -> Stream {
    let (stream, update) = within_patience(client.arbitrate(Some(election))).await.unwrap();
    assert_eq!(update.status.unwrap().code, rpc::Code::Ok as i32);
    stream
}

/// Returns the next message of a stream.
pub async fn next(stream: &mut Stream) -> In {
    within_patience(stream.next())
        .await
        .expect("the stream goes on")
        .expect("the stream goes on")
        .update
        .expect("it says something")
}

/// Returns the code with which a stream ends.
pub async fn end_of(stream: &mut Stream) -> Option<Code> {
    loop {
        match within_patience(stream.next()).await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status.code()),
        }
    }
}

/// Returns the id of an object in the program's P4Info.
pub fn id(alias: &str) -> u32 {
    let info = p4info(&program());
    let tables = info.tables.iter().map(|t| &t.preamble);
    let actions = info.actions.iter().map(|a| &a.preamble);
    let counters = info.counters.iter().map(|c| &c.preamble);
    let digests = info.digests.iter().map(|d| &d.preamble);
    let all = tables.chain(actions).chain(counters).chain(digests).flatten();
    all.into_iter().find(|p| p.alias == alias).unwrap_or_else(|| panic!("there is {alias}")).id
}

/// Returns an entry of `types`.
pub fn type_entry(value: u16) -> TableEntry {
    entry("types", &value.to_be_bytes())
}

/// Returns an entry of `hosts`, which can hold 4.
pub fn host_entry(value: u8) -> TableEntry {
    entry("hosts", &[value])
}

fn entry(table: &str, value: &[u8]) -> TableEntry {
    let first = value.iter().position(|byte| *byte != 0).unwrap_or(value.len() - 1);
    let exact = field_match::Exact { value: value[first..].to_vec().into() };
    let field = FieldMatch { field_id: 1, field_match_type: Some(field_match::FieldMatchType::Exact(exact)) };
    let action =
        v1::Action { action_id: id("forward"), params: vec![action::Param { param_id: 1, value: vec![1].into() }] };
    TableEntry {
        table_id: id(table),
        r#match: vec![field],
        action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
        ..TableEntry::default()
    }
}

/// Returns the entity of an entry.
pub fn entity_of(entry: TableEntry) -> Entity {
    Entity { entity: Some(E::TableEntry(entry)) }
}

/// Returns an update of an entry.
pub fn update(kind: Type, entry: TableEntry) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(entity_of(entry)) }
}

/// Returns an insertion.
pub fn insert(entry: TableEntry) -> v1::Update {
    update(Type::Insert, entry)
}

/// Returns the code of an error.
pub fn code<T: std::fmt::Debug>(result: Result<T, Status>) -> Code {
    result.expect_err("it is refused").code()
}

/// Sets a pipeline. Returns the warnings.
pub async fn set(
    client: &mut Client,
    action: Action,
    config: Option<ForwardingPipelineConfig>,
) -> Result<Vec<String>, Status> {
    within_patience(client.set_pipeline(action, config)).await
}
