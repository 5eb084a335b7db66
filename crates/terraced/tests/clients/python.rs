//! `terraced` as a process, and Python programs of `.venv` that are its controllers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// Compiled programs of `tests/programs`, which the node gets by P4Runtime.
pub struct Compiled {
    dir: tempfile::TempDir,
}

impl Compiled {
    /// Compiles each as `NAME.ir` and `NAME.p4info.txtpb` into one directory.
    pub fn new(programs: &[&str]) -> Compiled {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for program in programs {
            let options = p4::compile::CompileOptions {
                include_dirs: vec![root.join("../../programs/include")],
                ..Default::default()
            };
            let file = root.join(format!("tests/programs/{program}.p4"));
            let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options);
            let errors: Vec<String> =
                compiled.diagnostics.iter().map(|d| d.render(&compiled.source_map, false)).collect();
            let pipeline = compiled.pipeline.unwrap_or_else(|| panic!("{}", errors.join("\n")));
            let info = ir::p4info::to_txtpb(&ir::p4info::generate(&pipeline));
            std::fs::write(dir.path().join(format!("{program}.ir")), ir::text::print(&pipeline)).expect("written");
            std::fs::write(dir.path().join(format!("{program}.p4info.txtpb")), info).expect("written");
        }
        Compiled { dir }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Running node that ends with the test.
pub struct Terraced {
    child: Child,
    /// Address for controllers.
    pub address: String,
    said: Arc<Mutex<String>>,
    _config: tempfile::NamedTempFile,
}

impl Terraced {
    /// Runs `prefix... terraced -c FILE` with this configuration, after prepending a service
    /// address.
    pub fn start(prefix: &[&str], config: &str) -> Terraced {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text = format!("{config}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n");
        std::fs::write(file.path(), text).expect("written");
        let words: Vec<&str> = prefix.iter().copied().chain([env!("CARGO_BIN_EXE_terraced"), "-c"]).collect();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .arg(file.path())
            .stderr(Stdio::piped())
            .spawn()
            .expect("terraced starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let mut address = None;
        for line in lines.by_ref().map_while(Result::ok) {
            said.lock().expect("said").push_str(&format!("{line}\n"));
            address = line.split_once(" listen=").map(|(_, address)| address.to_owned());
            if address.is_some() {
                break;
            }
        }
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                heard.lock().expect("said").push_str(&format!("{line}\n"));
            }
        });
        let Some(address) = address else {
            let _ = child.wait();
            panic!("terraced does not run:\n{}", said.lock().expect("said"));
        };
        Terraced { child, address, said, _config: file }
    }

    /// Returns its standard error so far.
    pub fn stderr_text(&self) -> String {
        self.said.lock().expect("said").clone()
    }
}

impl Drop for Terraced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of `.venv`'s Python.
pub fn interpreter() -> PathBuf {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "there is no .venv with ptf and p4runtime-shell: run scripts/setup test");
    python
}

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Sets the environment so that the command finds the suites' modules and parameters.
pub fn with_modules(mut command: Command, node: &Terraced, programs: &Compiled) -> Command {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    command
        .env("PYTHONPATH", tests.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("NODE", &node.address)
        .env("PROGRAMS", programs.path())
        .current_dir(programs.path());
    command
}

/// Fails unless the suite succeeded, ran at least `least` tests, and skipped none.
pub fn judge(output: &Output, node: &Terraced, least: usize) {
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{said}\nterraced said:\n{}", node.stderr_text());
    let ran = said.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok()).unwrap_or(0);
    assert!(ran >= least, "{ran} tests ran, of at least {least}:\n{said}");
    assert!(!said.contains("skipped="), "tests were skipped:\n{said}");
}
