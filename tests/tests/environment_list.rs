//! `PROBES=list` and `PROBES=help`: checks the output to the letter, and that the program then goes
//! on as if nothing was set. Children of this process, with the variable, are the program.

use std::env;
use std::fs;
use std::process::{Command, Output};

use probe_runtime::registry::ProbeState;
use probe_runtime::{init_from_env, probe, probes};
use probe_tests::scenario;

mod net {
    #[probe_runtime::probe(group = "net")]
    #[inline(never)]
    pub(crate) fn handle(request: &str) -> usize {
        probe!("parsed", bytes = request.len(), ?request);
        request.len()
    }
}

enum Store {}

#[probe]
impl Store {
    #[inline(never)]
    fn put(key: usize) -> usize {
        if key == 0 { 1 } else { key }
    }

    #[probe(skip)]
    fn count() {}
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let _ = scenario::to_play();
    match init_from_env() {
        Ok(_probes) => {
            Store::count();
            assert_eq!(net::handle("hello") + Store::put(0), 6);
            assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
            println!("went on");
        }
        Err(error) => {
            eprintln!("Error: {error:?}");
            std::process::exit(1);
        }
    }
}

fn run(probes: &str, out: &str) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["scenario", "--exact", "--ignored", "--nocapture"]);
    command.envs([("PROBE_TEST_SCENARIO", "list"), ("PROBES", probes), ("PROBES_OUT", out)]);
    command.output().unwrap()
}

/// Returns the stderr of a program that continues.
#[track_caller]
fn said(probes: &str, out: &str) -> String {
    let output = run(probes, out);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stdout.contains("went on\n"), "{stdout}{stderr}");
    stderr
}

#[test]
fn all_probes_are_listed() {
    let file = file!();
    for probes in ["list", " list "] {
        let text = said(probes, "");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let place = |line: u32| format!("{file}:{line}");
        let (put, handle, parsed) = (place(26), place(15), place(16));
        assert_eq!(lines[0], ["probe", "kind", "sites", "place", "fields", "group"]);
        assert_eq!(
            lines[1..],
            [
                vec!["environment_list::Store::put", "entry", "1", &put],
                vec!["environment_list::Store::put", "exit", "1", &put],
                vec!["environment_list::net::handle", "entry", "1", &handle, "net"],
                vec!["environment_list::net::handle", "exit", "1", &handle, "net"],
                vec!["environment_list::net::parsed", "point", "1", &parsed, "bytes,", "request", "net"],
                vec!["5", "probes,", "5", "sites"],
                vec!["1", "function", "was", "left", "out:"],
                vec!["environment_list::Store::count", "(asked)"],
            ],
            "{text}"
        );
        assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }
}

#[test]
fn so_are_those_of_a_selector() {
    let text = said("**::net::* kind=point=list", "");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[1].starts_with("environment_list::net::parsed  point      1  "), "{text}");
    assert_eq!(lines[2], "1 probe, 1 site");
}

#[test]
fn a_list_goes_where_reports_would() {
    let folder = env::temp_dir().join(format!("probes-list-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    let read = |name: &str, probes: &str| {
        let path = folder.join(name);
        assert_eq!(said(probes, &path.display().to_string()), "");
        fs::read_to_string(path.with_file_name(name.replace("%c", "list").replace("%n", "1"))).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&read("%c-%n.json", "**::net::*=list")).unwrap();
    assert_eq!((&json["schema"], &json["consumer"]), (&1.into(), &"list".into()));
    let json = &json["rows"];
    assert_eq!(json.as_array().unwrap().len(), 3);
    assert_eq!(json[2]["probe"], "environment_list::net::parsed");
    assert_eq!(
        (&json[2]["kind"], &json[2]["sites"], &json[2]["group"]),
        (&"point".into(), &1.into(), &"net".into())
    );
    assert_eq!(json[2]["fields"][0]["name"], "bytes");
    let csv = read("list.csv", "**::parsed=list");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines[0], "probe,kind,file,line,sites,fields,group");
    assert!(
        lines[1].starts_with("environment_list::net::parsed,point,")
            && lines[1].ends_with(",1,bytes request,net")
    );
    assert!(read("list", "list").starts_with("probe "));
    let output = run("list", &folder.join("list.svg").display().to_string());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("`list` has no report as .svg; it has txt, json, csv"), "{stderr}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn mistakes_are_pointed_at() {
    let output = run("**=count, **::net::*=list", "");
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "Error: PROBES, column 3: `list` stands alone: nothing is attached where probes are listed\n  \
         **=count, **::net::*=list\n  \
         \x20 ^\n"
    );
    assert!(said("zzz=list", "").starts_with("PROBES: no probe matches `zzz`; "));
}

#[test]
fn help_says_what_the_variable_takes() {
    let text = said("help", "/nowhere/to/be.svg");
    assert!(text.starts_with("PROBES='SELECTOR=CONSUMER, …' attaches consumers to probes."), "{text}");
    assert!(text.contains("\n  profile(budget=1%)"), "{text}");
    assert!(!text.contains("Not in this program"), "all features are on: {text}");
}
