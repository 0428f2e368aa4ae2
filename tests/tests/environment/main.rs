//! `PROBES`: a program attaches the consumers that its environment asks for. Checks its stderr to
//! the letter. Also checks the mistakes that `select` explains.
//! Children of this process are the program, since the variable is read in a process that was
//! started with it.

mod expressions;
mod rules;

use std::env;
use std::ffi::OsStr;
use std::process::{Command, Output};

use probe_runtime::{Error, Selector, init_from_env, probe, probes, select};

mod net {
    #[probe_runtime::probe]
    #[inline(never)]
    pub(crate) fn accept() {}

    #[probe_runtime::probe]
    #[inline(never)]
    pub(crate) fn handle(request: &str) -> usize {
        probe!("parsed", bytes = request.len());
        request.len()
    }
}

#[probe]
#[inline(never)]
fn store() {}

/// The children's scenario: an error ends the process as if `main` returned it.
#[test]
#[ignore = "other tests play it, in children"]
fn program() {
    let probes = match init_from_env() {
        Ok(probes) => probes,
        Err(error) => {
            eprintln!("Error: {error:?}");
            std::process::exit(1);
        }
    };
    net::accept();
    assert_eq!(net::handle("hello"), 5);
    assert_eq!(net::handle(""), 0);
    store();
    drop(probes);
}

/// Runs the program with a value of the variable; returns its success and its stderr.
fn run(value: Option<&str>) -> (bool, String) {
    run_with("", value)
}

/// The same with a value of `PROBES_OUT`.
fn run_with(out: impl AsRef<OsStr>, value: Option<&str>) -> (bool, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "program", "--ignored", "--nocapture", "--test-threads=1"])
        .env("PROBES_OUT", out)
        .env_remove("PROBES");
    if let Some(value) = value {
        command.env("PROBES", value);
    }
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.success(), String::from_utf8(stderr).unwrap())
}

#[track_caller]
fn says(value: &str, succeeds: bool, expected: &str) {
    let (success, stderr) = run(Some(value));
    assert_eq!(stderr, format!("{expected}\n"), "PROBES={value:?}");
    assert_eq!(success, succeeds, "PROBES={value:?}");
}

#[test]
fn without_the_variable_nothing_is_said() {
    assert_eq!(run(None), (true, String::new()));
    assert_eq!(run(Some("")), (true, String::new()), "an empty one counts as none");
}

#[test]
fn a_valid_value_counts_and_reports() {
    says(
        "environment::net::handle=count",
        true,
        "probe                     kind   sites  hits\n\
         environment::net::handle  entry      1     2\n\
         environment::net::handle  exit       1     2",
    );
    says(
        "**::net::* kind=entry|point=count, environment::store kind=exit=count",
        true,
        "probe                     kind   sites  hits\n\
         environment::net::handle  entry      1     2\n\
         environment::net::parsed  point      1     2\n\
         environment::net::accept  entry      1     1\n\
         probe               kind  sites  hits\n\
         environment::store  exit      1     1",
    );
    says(
        "environment::net::* kind=entry, !**::accept=count",
        true,
        "probe                     kind   sites  hits\n\
         environment::net::handle  entry      1     2",
    );
}

#[test]
fn latencies_and_the_call_tree_are_reported() {
    let (success, stderr) = run(Some("environment::net::*=latency, environment::**=call-tree"));
    let lines: Vec<_> = stderr.lines().collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    assert!(success && lines.len() == 7, "{stderr}");
    assert_eq!(words(0), ["function", "calls", "self", "total", "mean", "p50", "p99", "max"]);
    let mut calls = [1, 2].map(|line| words(line)[..2].join(" "));
    calls.sort();
    assert_eq!(calls, ["environment::net::accept 1", "environment::net::handle 2"]);
    assert_eq!(words(3), ["total", "share", "self", "calls", "call", "tree"]);
    assert!(lines[4..].iter().any(|line| line.ends_with("  2  environment::net::handle")), "{stderr}");
}

#[test]
fn a_malformed_value_is_pointed_at() {
    says(
        "environment::net::*",
        false,
        "Error: PROBES, column 1: no consumer for this selector; write `environment::net::*=count`; \
         `PROBES=help` says more\n  \
         environment::net::*\n  \
         ^",
    );
    says(
        "environment::store=count, net:handle=count",
        false,
        "Error: PROBES, column 30: `:` can't be part of a path\n  \
         environment::store=count, net:handle=count\n  \
         \x20                            ^",
    );
}

#[test]
fn so_is_one_in_where_reports_go() {
    let says = |value: &str, out: &str, expected: &str| {
        let said = run_with(out, Some(value));
        assert_eq!(said, (false, format!("Error: PROBES_OUT, {expected}\n")), "PROBES_OUT={out}");
    };
    says(
        "environment::store=count",
        "/tmp/probes.jsn",
        "column 12: `.jsn` is no report's ending; there are txt, json, csv, svg, folded, prom, pftrace, firefox.json, probetrace\n  \
         /tmp/probes.jsn\n  \
         \x20          ^",
    );
    says(
        "environment::store=count",
        "probes-%x.json",
        "column 8: `%x` stands for nothing; there are %p (process), %e (program), %n (number of the consumer), \
         %c (its name) and %%\n  \
         probes-%x.json\n  \
         \x20      ^",
    );
    says(
        "environment::store=count",
        "flames.svg",
        "column 7: `count` has no report as .svg; it has txt, json, csv, prom\n  \
         flames.svg\n  \
         \x20     ^",
    );
    says(
        "environment::store=latency, environment::*=call-tree",
        "all.json",
        "column 4: `latency` and `call-tree` would write to the same file; tell a consumer's by %c (its name) or \
         %n (its number)\n  \
         all.json\n  \
         \x20  ^",
    );
}

#[cfg(unix)]
#[test]
fn a_path_that_is_no_text_is_a_mistake() {
    let out = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"/tmp/\xff.json");
    let (success, stderr) = run_with(out, Some("environment::store=count"));
    assert!(!success && stderr.starts_with("Error: PROBES_OUT, column 6: this is not UTF-8\n"), "{stderr}");
}

#[test]
fn an_unknown_consumer_is_named() {
    says(
        "environment::store=cuont",
        false,
        "Error: PROBES, column 20: `cuont` is not a consumer; did you mean `count`? There is count, memory, latency, slow, call-tree, profile, \
         perf, trace, tracing, sum, min, max, avg, quantize, until, held\n  \
         environment::store=cuont\n  \
         \x20                  ^",
    );
}

/// The variable may be meant for another program, this one's parent: its work is done.
#[test]
fn nothing_that_matches_is_named_with_the_nearest_and_the_program_goes_on() {
    says(
        "environment::net::hanlde=count",
        true,
        "PROBES: no probe matches `environment::net::hanlde`; \
         did you mean `environment::net::handle`, `environment::net::parsed`, `environment::net::accept`?\n\
         PROBES: `environment::net::hanlde=count` is attached to no probe yet; those that appear later join\n\
         probe  kind  sites  hits\n\
         no probe matches `environment::net::hanlde`; \
         did you mean `environment::net::handle`, `environment::net::parsed`, `environment::net::accept`?",
    );
    says(
        "zzz=latency, environment::store kind=exit=count",
        true,
        "PROBES: no probe matches `zzz`; this program has 7 others (see `probes()`, or run it with PROBES=list)\n\
         PROBES: `zzz=latency` is attached to no probe yet; those that appear later join\n\
         function  calls  self  total  mean  p50  p99  max\n\
         no probe matches `zzz`; this program has 7 others (see `probes()`, or run it with PROBES=list)\n\
         probe               kind  sites  hits\n\
         environment::store  exit      1     1",
    );
}

/// Consumers of calls say of a point that it has none, once. Beside functions, points are no
/// mistake.
#[test]
fn a_point_has_no_calls() {
    let note =
        "environment::net::parsed is left out: points have no calls; select functions, or count or trace it";
    for consumer in ["latency", "slow(over=1ms)", "call-tree", "profile", "perf"] {
        let (success, stderr) = run(Some(&format!("environment::net::parsed={consumer}")));
        let said = stderr.lines().filter(|line| *line == note).count();
        assert!(success && said == 1 && stderr.matches("points").count() == 1, "{consumer}: {stderr}");
        let (success, stderr) = run(Some(&format!("environment::**={consumer}")));
        assert!(success && !stderr.contains("left out"), "{consumer}: {stderr}");
    }
}

#[test]
fn every_consumer_takes_a_text_policy() {
    says(
        "environment::store kind=exit = count(text=alias)",
        true,
        "probe               kind  sites  hits\n\
         environment::store  exit      1     1",
    );
    says(
        "environment::store=count(text=shut)",
        false,
        "Error: PROBES, column 31: `shut` is not a text policy; there are sealed, open and alias\n  \
         environment::store=count(text=shut)\n  \
         \x20                             ^",
    );
}

#[test]
fn counts_take_an_option() {
    says(
        "environment::store kind=exit=count(all, text=sealed)",
        true,
        "probe               kind  sites  hits\n\
         environment::store  exit      1     1",
    );
    says(
        "environment::store=count(all=yes)",
        false,
        "Error: PROBES, column 30: `all` has no value; write `count(all)`\n  \
         environment::store=count(all=yes)\n  \
         \x20                            ^",
    );
}

#[test]
fn a_budget_of_nothing_is_pointed_at() {
    says(
        "environment::store=profile(budget=0%)",
        false,
        "Error: PROBES, column 35: `0%` leaves nothing to sample with; write `1%` or `1000/s`\n  \
         environment::store=profile(budget=0%)\n  \
         \x20                                 ^",
    );
}

#[test]
fn select_explains_a_malformed_selector() {
    for (selector, column, shown) in [
        ("", 1, "a probe's path, `@file`, `kind=` or `group=` is missing here"),
        (
            "environment::**, kind=entrance",
            23,
            "`entrance` is not a kind; there are entry, exit, point, drop, suspend, resume and replace",
        ),
        ("net handle", 5, "a second path in one term; separate terms by a comma"),
        ("a::b**", 5, "`**` must be a segment of its own"),
        ("!", 2, "`!` must be followed by what to exclude"),
    ] {
        let error = select(selector).unwrap_err();
        let Error::Selector(mistake) = &error else { panic!("{error}") };
        assert_eq!((mistake.column(), mistake.problem()), (column, shown));
        let expected =
            format!("malformed selector, column {column}: {shown}\n  {selector}\n  {:>column$}", "^");
        assert_eq!(error.to_string(), expected);
        assert_eq!(Selector::parse(selector).unwrap_err(), *mistake);
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn select_names_the_nearest_of_what_there_is() {
    // The functions must be linked in, for their probes to be there.
    net::accept();
    store();
    assert_eq!(net::handle("x"), 1);
    let all = probes().len();
    assert_eq!(all, 7);
    let nearest_to = |selector: &str| match select(selector).unwrap_err() {
        Error::NoMatch { selector: named, probes, discovers, wider, nearest, unread } => {
            assert_eq!((discovers, unread, wider), (false, Vec::new(), Vec::new()));
            assert_eq!((named.as_str(), probes), (selector, all));
            nearest
        }
        error => panic!("{error}"),
    };
    assert_eq!(nearest_to("stroe")[0], "environment::store");
    assert_eq!(nearest_to("environment::net::acept")[0], "environment::net::accept");
    assert_eq!(nearest_to("zzz"), Vec::<String>::new());
    assert_eq!(
        select("zzz").unwrap_err().to_string(),
        "no probe matches `zzz`; this program has 7 others (see `probes()`, or run it with PROBES=list)"
    );
    assert_eq!(select("net::store").unwrap_err().to_string().split('`').nth(3), Some("environment::store"));
    // A kind that this probe does not have.
    assert!(matches!(select("environment::store kind=point"), Err(Error::NoMatch { .. })));
}

#[test]
fn select_suggests_what_people_mean() {
    net::accept();
    store();
    assert_eq!(net::handle("x"), 1);
    for (selector, expected) in [
        ("environment", "`environment::**` (7 probes)"),
        ("*", "`**` (7 probes)"),
        ("net::*", "`**::net::*` (5 probes)"),
        ("net::**", "`**::net::**` (5 probes)"),
        ("handle", "`**::handle` (2 probes)"),
        ("net", "`**::net::**` (5 probes)"),
        ("net::* kind=point", "`**::net::* kind=point` (1 probe)"),
        ("environment::*::* kind=drop", "`environment::*::*` (5 probes)"),
        ("environment::store kind=point, zzz", "`environment::store` (2 probes)"),
    ] {
        let error = select(selector).unwrap_err().to_string();
        assert_eq!(error, format!("no probe matches `{selector}`; did you mean {expected}?"));
    }
    // The suggested value is accepted.
    let Error::NoMatch { wider, .. } = select("net").unwrap_err() else { panic!() };
    assert_eq!(wider, [("**::net::**".to_owned(), 5)]);
    assert_eq!(select(&wider[0].0).unwrap().len(), 5);
}

#[test]
fn terms_that_match_nothing_are_in_the_report() {
    net::accept();
    store();
    let set = select("environment::store, nonexistent::foo, net::*, !environment::acept").unwrap();
    let hits = set.attach(probe_runtime::Count::new()).unwrap();
    let report = hits.report();
    let terms: Vec<_> = report.unmatched().iter().map(probe_runtime::selector::UnmatchedTerm::term).collect();
    assert_eq!(terms, ["nonexistent::foo", "net::*", "environment::acept"]);
    assert!(report.is_complete(), "all that there is");
    assert_eq!(
        report.to_string(),
        "2 patched, 0 unchanged, 0 refused\n  \
         no probe matches `nonexistent::foo`; this program has 7 others (see `probes()`, or run it with PROBES=list)\n  \
         no probe matches `net::*`; did you mean `**::net::*` (5 probes)?\n  \
         no probe matches `environment::acept`; did you mean `environment::net::accept`, `environment::store`, \
         `environment::net::parsed`?"
    );
    drop(hits);
    let many: Vec<_> = (0..100).map(|n| format!("gone{n}")).collect();
    let hits =
        select(&format!("{},**", many.join(","))).unwrap().attach(probe_runtime::Count::new()).unwrap();
    assert_eq!(hits.report().unmatched().len(), 100);
    assert_eq!(hits.report().to_string().lines().count(), 10);
    assert!(hits.report().to_string().ends_with("\n  and 92 more terms match no probe"));
}

#[test]
fn so_they_are_on_stderr() {
    says(
        "environment::store kind=entry, nonexistent::foo=count",
        true,
        "PROBES: no probe matches `nonexistent::foo`; this program has 7 others (see `probes()`, or run it with PROBES=list)\n\
         probe               kind   sites  hits\n\
         environment::store  entry      1     1\n\
         no probe matches `nonexistent::foo`; this program has 7 others (see `probes()`, or run it with PROBES=list)",
    );
}

#[test]
fn a_value_has_a_limit() {
    let (success, stderr) = run(Some(&("a,".repeat(50_000) + "b=count")));
    assert!(!success && stderr.len() < 600, "{stderr}");
    assert!(
        stderr.starts_with(
            "Error: PROBES, column 65537: at most 65536 bytes are read, and these are 100007; name many probes at \
             once, by `**`, `@file` or `group=`\n  …a,a,"
        ),
        "{stderr}"
    );
}
