//! Tests `terrace plan` as a user runs it.

mod command;

use command::run;
use serde_json::Value;

const SIZES: &str = "programs/gateway/sailfish.toml";

fn plan(arguments: &[&str]) -> (i32, Value) {
    let all: Vec<&str> = ["plan", "--json"].iter().chain(arguments).copied().collect();
    let (code, out, err) = run(&all);
    let value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{err}"));
    (code, value)
}

#[test]
fn sailfishs_gateway_fits_on_four_pipes_folded_once_it_is_compressed() {
    let (code, report) = plan(&["--sizes", SIZES]);
    assert_eq!(code, 0, "{}", report["verdict"]);
    let steps: Vec<&str> = report["steps"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(steps[0], "as written");
    assert_eq!(*steps.last().unwrap(), "folding 4 pipes", "{steps:?}");
    let share = |n: usize| report["steps"][n]["tcam"].as_f64().unwrap();
    assert!(share(steps.len() - 1) < share(0) / 4.0, "compression takes most of the TCAM away: {steps:?}");
    assert_eq!(report["performance"]["passes"], 4);
    let heat = report["steps"].as_array().unwrap().last().unwrap()["heat"].as_array().unwrap();
    assert_eq!(heat.len(), 4, "a heat map a pipe");
    assert!(heat.iter().all(|pipe| pipe["rows"][0]["used"].as_array().unwrap().len() == 12));
    assert_eq!(report["clusters"]["clusters"].as_array().unwrap().len(), 1, "what fits as a whole is one cluster");

    let (code, report) = plan(&["--sizes", SIZES, "--compress", "none"]);
    assert_eq!(code, 1, "as it is written it does not fit");
    let verdict = report["verdict"].as_str().unwrap();
    assert!(verdict.contains("TCAM") && verdict.contains("% of each table's entries fit"), "{verdict}");
    assert!(report["clusters"]["clusters"].as_array().unwrap().len() > 1);
}

/// A plan of an emitted program includes the tables that emission adds, and uses both gresses of a
/// pipe.
#[test]
fn what_is_emitted_is_planned() {
    let sizes = ["--sizes", "programs/gateway/compressed.toml", "--fold", "1", "--target", "tofino2"];
    let emitted = |compress| plan(&[&sizes[..], &["--as-emitted", "--use-egress", "--compress", compress]].concat());
    let (code, report) = emitted("auto");
    assert_eq!(code, 0, "{}", report["verdict"]);
    let names: Vec<&str> =
        report["tables"].as_array().unwrap().iter().map(|table| table["name"].as_str().unwrap()).collect();
    for name in ["parser_errors", "check_2", "bridged_headers", "route_v4_pivots", "vm_nc_v6_conflicts"] {
        assert!(names.iter().any(|table| table.ends_with(name)), "{name}: {names:?}");
    }
    let (code, report) = emitted("none");
    assert!(code == 1 && report["verdict"].as_str().unwrap().contains("SRAM is full"), "{}", report["verdict"]);
    let (code, _, err) = run(&["plan", "--target", "dpu8", "--as-emitted"]);
    assert!(code == 2 && err.contains("there is no P4 for dpu8"), "{code}: {err}");
    let (code, _, err) = run(&["plan", "--use-egress"]);
    assert!(code == 2 && err.contains("--as-emitted"), "{code}: {err}");
}

/// Zephyrus, section 2: the VM-NC table alone fills a pipe of a switch-only gateway. With that
/// table on the DPU, no pipe is nearly full.
#[test]
fn the_hot_spot_goes_with_the_vm_nc_table() {
    let fullest = |vms: &str| {
        // Its switch stores a server's address with each VM.
        let (code, report) = plan(&["--sizes", SIZES, "--fold", "4", "--set", vms, "--set", "servers=1M"]);
        assert_eq!(code, 0, "{}", report["verdict"]);
        let heat = report["steps"].as_array().unwrap().last().unwrap()["heat"].as_array().unwrap();
        let sum = |values: &Value| values.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).sum::<f64>();
        let sram = |pipe: &Value| sum(&pipe["rows"][0]["used"]) / sum(&pipe["rows"][0]["of"]);
        assert_eq!(heat[0]["rows"][0]["resource"], "SRAM blocks");
        heat.iter().map(sram).fold(0.0, f64::max)
    };
    let (alone, with_dpu) = (fullest("vms=1M"), fullest("vms=1"));
    assert!(alone > 0.95 && with_dpu < 0.6, "{alone} {with_dpu}");
}

#[test]
fn a_page_and_a_picture_need_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (page, picture) = (path("plan.html"), path("plan.svg"));
    let small = ["--set", "vms=20k", "--set", "routes=4096"];
    let mut arguments = vec!["plan", "--sizes", SIZES, "--html", &page, "--svg", &picture];
    arguments.extend(small);
    let (code, out, err) = run(&arguments);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("SRAM blocks") && out.contains("gateway.vm_nc.vm_nc_v4"), "{out}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.ends_with("</html>\n"));
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http") && !outside.contains("src="), "the page asks for something outside of itself");
    assert!(std::fs::read_to_string(picture).unwrap().contains("<rect"));
}

#[test]
fn a_sweep_says_how_far_a_parameter_goes() {
    let folder = tempfile::tempdir().unwrap();
    let plot = folder.path().join("sweep.svg").display().to_string();
    let sweep = "vms=10k..400k/ipv6=0,1";
    let (code, report) = plan(&[
        "--sizes",
        SIZES,
        "--set",
        "vms=10k",
        "--set",
        "routes=2048",
        "--compress",
        "none",
        "--fold",
        "2",
        "--sweep",
        sweep,
        "--svg",
        &plot,
    ]);
    assert_eq!(code, 0, "{}", report["verdict"]);
    let lines = report["sweeps"][0]["lines"].as_array().unwrap();
    let reached: Vec<f64> = lines.iter().map(|line| line["reach"]["fits"].as_f64().unwrap()).collect();
    assert!(reached[0] > reached[1] * 1.5, "IPv6 addresses take more room: {reached:?}");
    assert!(std::fs::read_to_string(plot).unwrap().contains("<polyline"));
}

#[test]
fn what_cannot_be_is_named() {
    let refused = |arguments: &[&str]| {
        let all: Vec<&str> = ["plan"].iter().chain(arguments).copied().collect();
        let (code, _, err) = run(&all);
        (code, err)
    };
    let (code, text) = refused(&["--target", "tofino9"]);
    assert!(code == 2 && text.contains("there are tofino1, tofino2, dpu8"), "{text}");
    let (code, text) = refused(&["--sizes", SIZES, "--set", "vm=3"]);
    assert!(code == 2 && text.contains("there is no parameter `vm`"), "{text}");
    let (code, text) = refused(&["--sizes", SIZES, "--compress", "shrink:x"]);
    assert!(code == 2 && text.contains("`shrink:x` is no step"), "{text}");
    let (code, text) = refused(&["--sizes", SIZES, "--compress", "alpm:vm_nc_v4"]);
    assert!(code == 3 && text.contains("gateway.vm_nc.vm_nc_v4"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    std::fs::write(&path, "[tables]\nroutes = 5\n").unwrap();
    let (code, text) = refused(&["--sizes", &path.display().to_string()]);
    assert!(code == 3 && text.contains("wrong.toml:2:10: the program has no table `routes`"), "{text}");
    std::fs::write(&path, "name = \"x\"\nstages = -1\n").unwrap();
    let (code, text) = refused(&["--target", &path.display().to_string()]);
    assert!(code == 3 && text.contains("wrong.toml"), "{text}");
}

#[test]
fn a_region_says_what_its_tenants_take() {
    let (code, report) = plan(&["--region", "examples/lab.yaml", "--sizes", SIZES]);
    assert_eq!(code, 0, "{}", report["verdict"]);
    let clusters = report["clusters"]["clusters"].as_array().unwrap();
    assert_eq!(clusters.len(), 1);
    assert!(clusters[0]["tenants"].as_u64().unwrap() >= 2, "{}", clusters[0]);
}

#[test]
fn the_schema_is_that_of_the_files() {
    let made = serde_json::to_string_pretty(&offload::sizing::schema()).unwrap() + "\n";
    let path = command::root().join("docs/reference/plan.schema.json");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(made == kept, "docs/reference/plan.schema.json is not what the program reads; BLESS=1 writes it");
}
