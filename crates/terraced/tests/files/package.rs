//! Compares the Debian package with docs/how-to/install.md, and checks that its programs accept its
//! configuration.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; scripts/setup test installs it"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// Creates a folder with both programs; a stand-in replaces the CLI where it was not built.
fn programs(folder: &Path) -> PathBuf {
    let terraced = Path::new(env!("CARGO_BIN_EXE_terraced"));
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::fs::copy(terraced, bin.join("terraced")).expect("terraced was built");
    if std::fs::copy(terraced.with_file_name("terrace"), bin.join("terrace")).is_err() {
        std::fs::write(bin.join("terrace"), "#!/bin/sh\necho \"# $*\"\n").expect("written");
        run(Command::new("chmod").arg("755").arg(bin.join("terrace")));
    }
    bin
}

#[test]
fn the_package_holds_a_node_that_takes_its_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = programs(folder.path());
    let make = |out: &str| {
        let mut command = Command::new(root().join("packaging/deb"));
        let path = run(command.arg(&bin).arg(folder.path().join(out)).env("DEB_FLAGS", "-Zgzip -z1"));
        PathBuf::from(path.trim_end())
    };
    let package = make("first");
    let field = |name: &str| run(Command::new("dpkg-deb").arg("-f").arg(&package).arg(name)).trim_end().to_owned();
    assert_eq!((field("Package"), field("Version")), ("terrace".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    assert!(
        field("Depends").starts_with("libc6 (>= ") || field("Depends").contains(", libc6 (>= "),
        "{}",
        field("Depends")
    );
    assert!(field("Depends").contains("adduser"));

    let unpacked = folder.path().join("unpacked");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked));
    let there = [
        "usr/bin/terraced",
        "usr/bin/terrace",
        "lib/systemd/system/terraced.service",
        "etc/terrace/node.toml",
        "usr/share/doc/terrace/how-to/install.md",
        "usr/share/doc/terrace/reference/node.md",
        "usr/share/doc/terrace/reference/node.schema.json",
        "usr/share/doc/terrace/copyright",
        "usr/share/terrace/programs/gateway/gateway.p4",
        "usr/share/terrace/grafana/terrace.json",
        "usr/share/terrace/prometheus/terrace.rules.yml",
        "usr/share/bash-completion/completions/terrace",
    ];
    for file in there {
        let length = std::fs::metadata(unpacked.join(file)).map(|found| found.len());
        assert!(length.as_ref().is_ok_and(|length| *length > 0), "{file}: {length:?}");
    }
    let mut check = Command::new(unpacked.join("usr/bin/terraced"));
    let said = run(check.args(["--check", "--config"]).arg(unpacked.join("etc/terrace/node.toml")));
    assert!(said.ends_with("accepted (0 ports, 1 workers)\n"), "{said}");
    let control = folder.path().join("control");
    run(Command::new("dpkg-deb").arg("-e").arg(&package).arg(&control));
    let conffiles = std::fs::read_to_string(control.join("conffiles")).expect("it has some");
    assert_eq!(conffiles, "/etc/terrace/node.toml\n");
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(control.join(script)));
    }

    let same = std::fs::read(make("second")).expect("written") == std::fs::read(&package).expect("written");
    assert!(same, "the same programs make another package");
}

/// Returns systemd's complaint about a unit, if any.
fn verify(unit: &Path) -> Option<String> {
    let mut command = Command::new("systemd-analyze");
    let output = command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(unit).output();
    match output {
        Ok(output) => Some(
            String::from_utf8_lossy(&output.stderr).into_owned() + if output.status.success() { "" } else { "refused" },
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{command:?}: {error}"),
    }
}

#[test]
fn systemd_takes_the_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(root().join("packaging/terraced.service")).expect("it is there");
    // systemd checks that the programs exist; here they have other paths.
    let text = text.replace("/usr/bin/terraced", env!("CARGO_BIN_EXE_terraced"));
    let unit = folder.path().join("terraced.service");
    std::fs::write(&unit, &text).expect("written");
    let Some(said) = verify(&unit) else {
        eprintln!(
            "SKIPPED, nothing was checked: there is no systemd-analyze; scripts/setup test installs it (package systemd)"
        );
        return;
    };
    assert_eq!(said, "");
    // The program notifies when it serves, and after a take-over another process does.
    for line in ["Type=notify", "NotifyAccess=all"] {
        assert!(text.lines().any(|other| other == line), "{line}");
    }
    std::fs::write(&unit, text.replace("Type=notify\n", "Type=notified\n")).expect("written");
    assert!(verify(&unit).expect("it was there").contains("notified"), "a mistake is found");
}

#[test]
fn what_is_commented_out_in_the_packages_configuration_is_taken_too() {
    let text = std::fs::read_to_string(root().join("packaging/node.toml")).expect("it is there");
    let hash = "0".repeat(64);
    let mut keys = 0;
    let all = text.lines().filter_map(|line| {
        // The tables of the file stay, because keys of theirs are commented out.
        if line.starts_with('[') {
            return Some(line.to_owned());
        }
        let shown = line.strip_prefix("# ")?;
        let is_key =
            shown.starts_with("[[") || shown.split_once(" = ").is_some_and(|(key, _)| !key.contains([' ', '`']));
        // Certificates would have to exist.
        let needs_files = ["certificate", "key", "client_authority", "listen"].iter().any(|key| shown.starts_with(key));
        keys += usize::from(is_key);
        (is_key && !needs_files).then(|| match shown.starts_with("sha256") {
            true => format!("sha256 = \"{hash}\""),
            false => shown.to_owned(),
        })
    });
    // Top-level keys come first in the file.
    let text = all.collect::<Vec<_>>().join("\n");
    let config =
        node::config::check(&text, terraced::wings()).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
    assert_eq!((config.file.ports.len(), config.file.p4runtime.tokens.len(), config.file.cores.len()), (1, 1, 2));
    assert!(keys >= 11, "{keys}");
}
