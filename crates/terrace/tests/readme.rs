//! Tests README.md: runs its commands and compares their output (`BLESS=1` rewrites it), checks
//! that linked files exist and that its YAML is a region's. The lab tests compare the demo's
//! output.

#[allow(dead_code)]
mod command;

use command::{root, terrace};

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// Returns the output of a README command, on both streams.
fn output_of(command: &str) -> String {
    let mut words = command.split_whitespace();
    assert_eq!(words.next(), Some("terrace"), "{command}");
    let output = terrace(&words.collect::<Vec<_>>()).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns the README with the current output of each `$ terrace` command, and the number of
/// commands.
fn with_real_output(text: &str) -> (String, usize) {
    let (mut real, mut commands) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        real += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        for line in lines.by_ref().take_while(|line| *line != "```") {
            if let Some(command) = line.strip_prefix("$ ") {
                real += &format!("{line}\n{}", output_of(command));
                commands += 1;
            }
        }
        real += "```\n";
    }
    (real, commands)
}

#[test]
fn commands_print_what_the_readme_says() {
    let text = readme();
    let (real, commands) = with_real_output(&text);
    assert!(commands >= 3, "only {commands} commands found");
    if std::env::var("BLESS").is_ok() {
        std::fs::write(root().join("README.md"), real).unwrap();
        return;
    }
    for (line, (shown, now)) in text.lines().zip(real.lines()).enumerate() {
        assert_eq!(shown, now, "README.md:{}: BLESS=1 cargo test -p terrace --test readme rewrites it", line + 1);
    }
    assert_eq!(text, real);
}

#[test]
fn linked_files_exist() {
    let text = readme();
    let links: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 8, "{links:?}");
    for link in links.into_iter().filter(|link| !link.starts_with("http")) {
        assert!(root().join(link).is_file(), "README.md links to {link}, which is not there");
    }
}

#[test]
fn the_yaml_is_that_of_the_lab() {
    let text = readme();
    let yaml = text.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let lab = std::fs::read_to_string(root().join("examples/lab.yaml")).unwrap();
    assert!(yaml.lines().count() > 5);
    for line in yaml.lines() {
        assert!(lab.lines().any(|of_lab| of_lab == line), "examples/lab.yaml has no line `{line}`");
    }
}

#[test]
fn setup_installs_what_the_readme_says() {
    let setup = std::fs::read_to_string(root().join("scripts/setup")).unwrap();
    for package in ["iproute2", "iputils-ping", "iperf3", "ethtool", "gcc", "libc6-dev", "python3", "python3-venv"] {
        assert!(setup.contains(package) && readme().contains(package), "{package}");
    }
}
