//! How fast a node's tables are written and read over P4Runtime, and what an entry costs: `rates URI PID ENTRIES BATCH`. The node has `marks.p4` (or
//! any program with a table `forward` from one exact key to a port).

use p4runtime::client::{Client, ConnectOptions};
use p4runtime::proto::v1::{Entity, TableEntry, entity, update, write_request::Atomicity};
use std::time::Instant;

#[path = "../tests/process/forward.rs"]
#[allow(dead_code)]
mod forward;

fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Rss:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn cpu(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [uri, pid, entries, batch] = &arguments[..] else { anyhow::bail!("rates URI PID ENTRIES BATCH") };
    let (pid, entries, batch): (u32, u64, u64) = (pid.parse()?, entries.parse()?, batch.parse()?);
    let pipeline = forward::pipeline();
    let mut client = Client::connect(uri, 1, &ConnectOptions::default()).await?;
    let (_stream, _) = client.arbitrate(Some(1)).await?;
    forward::commit(&mut client, &pipeline).await;
    let forward = forward::Forward::new(&pipeline);
    let requests: Vec<Vec<_>> = (0..entries.div_ceil(batch))
        .map(|first| {
            let all = first * batch..((first + 1) * batch).min(entries);
            all.map(|n| forward.update(update::Type::Insert, n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16, n % 500))
                .collect()
        })
        .collect();
    let (memory, before, began) = (resident(pid), cpu(pid), Instant::now());
    for updates in requests {
        client.write(updates, Atomicity::ContinueOnError).await?;
    }
    let (time, used) = (began.elapsed().as_secs_f64(), cpu(pid) - before);
    println!("write: {:.0} entries/s, {:.2} us of processor each", entries as f64 / time, used / entries as f64 * 1e6);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    println!("memory: {:.0} bytes an entry", (resident(pid) - memory) as f64 / entries as f64);
    let (before, began) = (cpu(pid), Instant::now());
    let all = TableEntry { table_id: forward.entry(0, 0).table_id, ..TableEntry::default() };
    let mut parts = client.read(vec![Entity { entity: Some(entity::Entity::TableEntry(all)) }]).await?;
    let mut count = 0;
    while let Some(part) = parts.message().await? {
        count += part.entities.len() as u64;
    }
    anyhow::ensure!(count == entries, "{count} of {entries} entries came back");
    let (time, used) = (began.elapsed().as_secs_f64(), cpu(pid) - before);
    println!("read: {:.0} entries/s, {:.2} us of processor each", entries as f64 / time, used / entries as f64 * 1e6);
    println!("memory: {:.0} bytes an entry after the read", (resident(pid) - memory) as f64 / entries as f64);
    Ok(())
}
