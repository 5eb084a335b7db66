//! Runs the `sh` blocks of the tutorial's pages as a newcomer would, in an empty folder, one page
//! after the other.

#[allow(dead_code)]
mod command;

use command::root;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Pages with commands that run on any machine, in reading order. Later pages use files of earlier
/// ones.
const PAGES: [&str; 3] = ["first-region.md", "first-program.md", "controller.md"];

/// Commands that remove the remains of a failed page.
const CLEAN_UP: &str = "terrace lab down --name first
test -f node.pid && kill $(cat node.pid)
ip netns del station1
ip netns del station2
true";

/// Returns the commands of a page: its `sh` blocks in order.
fn commands_of(page: &str) -> String {
    let text = std::fs::read_to_string(root().join("docs/tutorial").join(page)).expect("a page of the tutorial");
    let blocks = text.split("\n```sh\n").skip(1).filter_map(|after| after.split("\n```\n").next());
    blocks.map(|block| format!("{block}\n")).collect()
}

/// Returns `PATH` with the binaries of this build and the Python packages of `make test` first.
fn search_path() -> OsString {
    let binaries = Path::new(env!("CARGO_BIN_EXE_terrace")).parent().expect("a folder");
    assert!(binaries.join("terraced").exists(), "`cargo build -p terraced` makes the daemon that the tutorial starts");
    let python = root().join(".venv/bin").canonicalize().ok();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(binaries.to_owned()).chain(python);
    std::env::join_paths(own.chain(std::env::split_paths(&inherited))).expect("folders without a colon")
}

/// Runs a script in a folder. Returns its success with both outputs.
fn run_script(folder: &Path, options: &str, script: &str) -> (bool, String) {
    let mut command = Command::new("bash");
    command.args([options, "-c", script]).current_dir(folder).env("PATH", search_path());
    let output = command.output().expect("bash runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn the_tutorial_works_in_an_empty_folder() {
    let folder = std::env::temp_dir().join(format!("terrace-tutorial-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the tutorial");
    for page in PAGES {
        let commands = commands_of(page);
        assert!(commands.lines().count() > 10, "{page} has commands");
        let (is_ok, printed) = run_script(&folder, "-ex", &commands);
        if !is_ok {
            run_script(&folder, "-x", CLEAN_UP);
        }
        assert!(is_ok, "docs/tutorial/{page} does not work:\n{printed}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
