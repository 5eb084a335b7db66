//! Tests `terraced` with a region file: applied at the start, at SIGHUP, by the control socket, and
//! by the process that takes over.

use crate::daemon::{Daemon, config_in};
use node::admin::ask;
use node::admin::client::RequestError;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::region::{RegionChanges, RegionStatus};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Additional VM, for the last list of the lab's region.
const MORE: &str = "  - {name: red-z, vpc: red, server: s2, mac: 02:00:00:10:00:77, addresses: [10.0.0.77]}\n";

fn lab_region() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/regions/plain.yaml"))
        .expect("the file")
}

/// Folder with a region file and a configuration.
struct Home {
    folder: tempfile::TempDir,
    config: PathBuf,
}

impl Home {
    fn new(more: &str) -> Home {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let text = format!(
            "region = {:?}\n{more}[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[control]\nsocket = {:?}\n",
            path("region.yaml"),
            path("control.sock")
        );
        let config = config_in(folder.path(), &text);
        let home = Home { folder, config };
        home.write(&lab_region());
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, region: &str) {
        std::fs::write(self.path("region.yaml"), region).expect("the folder can be written");
    }

    fn status(&self) -> RegionStatus {
        let Ok(ControlResponse::Region(status)) = ask(&self.path("control.sock"), &ControlRequest::Region) else {
            panic!("no status")
        };
        status
    }

    fn apply(&self) -> Result<RegionChanges, String> {
        match ask(&self.path("control.sock"), &ControlRequest::RegionApply { file: None }) {
            Ok(ControlResponse::RegionApplied(applied)) => Ok(applied),
            Err(RequestError::Refused(message)) => Err(message),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_region_is_served_from_the_start_and_read_again_at_sighup() {
    let home = Home::new("");
    let daemon = Daemon::with(&home.config, &[]);
    daemon.wait_for_log(&["the region is in force", "inserted="]);
    let entries = home.status().entries;
    assert!(entries > 50, "{entries}");

    home.write(&(lab_region() + MORE));
    daemon.signal("HUP");
    daemon.wait_for_log(&["the region is in force", "inserted=1", "deleted=0"]);
    assert_eq!(home.status().entries, entries + 1);

    home.write("region: [");
    daemon.signal("HUP");
    daemon.wait_for_log(&["the region is refused", "region.yaml:1"]);
    assert!(home.apply().is_err_and(|message| message.contains("region.yaml:1")));
    assert_eq!(home.status().entries, entries + 1, "what runs stays");
    home.write(&lab_region());
    assert_eq!(home.apply().map(|applied| applied.deleted), Ok(1));
}

#[test]
fn a_wrong_file_stops_a_start_without_a_store_and_not_one_with_tables() {
    let start = |home: &Home| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terraced"));
        command.arg("--config").arg(&home.config).stderr(Stdio::piped());
        command.output().expect("terraced was built")
    };
    let home = Home::new("");
    home.write("region: [");
    let output = start(&home);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("region.yaml:1"), "{said}");

    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::new(&format!("store = {:?}\n", folder.path().join("store")));
    let entries = {
        let _daemon = Daemon::with(&home.config, &[]);
        home.status().entries
    };
    home.write("region: [");
    let daemon = Daemon::with(&home.config, &[]);
    assert!(home.status().refused.is_some());
    home.write(&lab_region());
    let applied = home.apply().expect("it is right again");
    assert_eq!((applied.inserted, applied.modified, applied.deleted), (0, 0, 0), "the store had all of it");
    assert_eq!(home.status().entries, entries);
    drop(daemon);
}

#[test]
fn the_process_that_takes_over_goes_on_with_the_same_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = Home::new(&format!("takeover_socket = {:?}\n", folder.path().join("takeover.sock")));
    let first = Daemon::with(&home.config, &[]);
    // `aaa` would get the first id if the others did not have theirs already.
    home.write(&lab_region().replacen("vpcs:\n", "vpcs:\n  - {name: aaa, vni: 4242}\n", 1));
    let applied = home.apply().expect("it is right");
    assert!(applied.inserted > 0 && applied.modified == 0, "{applied}");
    let second = Daemon::run(&home.config, &[], &["--takeover"]);
    second.wait_for_log(&["the region is in force", "inserted=0", "modified=0", "deleted=0"]);
    assert_eq!(home.status().vpcs, 4);
    drop(first);
}

/// File system of a few megabytes. Dropping this unmounts it.
struct Small(tempfile::TempDir);

impl Small {
    /// Mounts the file system. Returns `None` if this user may not mount.
    fn new() -> Option<Small> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(folder.path());
        mount.status().is_ok_and(|status| status.success()).then_some(Small(folder))
    }

    fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.path().join("filler")).expect("a file");
        while std::io::Write::write(&mut filler, &[1; 4096]).is_ok_and(|written| written > 0) {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.path().join("filler")).expect("it was filled");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.0.path()).status();
    }
}

#[test]
fn a_store_that_was_full_is_no_reason_to_start_again() {
    let Some(small) = Small::new() else {
        println!("SKIPPED: needs the right to mount a file system");
        return;
    };
    let home = Home::new(&format!("store = {:?}\n", small.0.path().join("store")));
    let daemon = Daemon::with(&home.config, &[]);
    let machine = |number: u32| {
        let mac = format!("02:00:00:77:{:02x}:{:02x}", number >> 8, number & 255);
        format!("  - {{name: z{number}, vpc: red, server: s2, mac: '{mac}', addresses: ['fd00:100::1:{number:x}']}}\n")
    };
    small.fill();
    home.write(&(lab_region() + &(0..20_000).map(machine).collect::<String>()));
    let refused = home.apply().expect_err("there is no room for so many");
    assert!(refused.contains("store"), "{refused}");
    assert!(home.apply().is_err(), "nor is there now");
    small.make_room();
    home.write(&(lab_region() + MORE));
    home.apply().expect("there is room again");
    let entries = home.status().entries;
    drop(daemon);
    let _daemon = Daemon::with(&home.config, &[]);
    assert_eq!(home.apply().map(|applied| (applied.inserted, applied.deleted)), Ok((0, 0)), "the store has all of it");
    assert_eq!(home.status().entries, entries);
}
