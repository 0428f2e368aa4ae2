//! `PROBE_RULES`: a mistake has its line, its column and a caret.

use std::process::{self, Command, Output};
use std::{env, fs};

#[test]
fn rules_are_read_at_the_start() {
    let file = env::temp_dir().join(format!("environment-{}.rules", process::id()));
    let run = |rules: &str| {
        fs::write(&file, rules).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "program", "--ignored", "--nocapture", "--test-threads=1"]);
        let Output { status, stderr, .. } =
            command.env_remove("PROBES").env("PROBE_RULES", &file).output().unwrap();
        (status.success(), String::from_utf8(stderr).unwrap())
    };
    let name = file.display();
    for (rules, column, problem, caret) in [
        (
            "# one\nwhen rate(a) > 5ms then arm b=count",
            16,
            "`5ms` is no number of hits a second; write `1000` or `10K/s`",
            18,
        ),
        (
            "#\nwhen rate(a) > 5 then run 'date'",
            23,
            "a program runs no commands for its rules; `probectl watch` does",
            25,
        ),
        (
            "\nwhen rate(a) > 5 then arm b=cuont",
            29,
            "`cuont` is not a consumer; did you mean `count`? There is count, memory, latency, slow, call-tree, profile, perf, trace, tracing, sum, min, max, avg, quantize, until, held",
            31,
        ),
    ] {
        let line = rules.lines().nth(1).unwrap();
        let expected =
            format!("Error: PROBE_RULES, column {column}: {name}:2: {problem}\n  {line}\n{:>caret$}\n", "^");
        assert_eq!(run(rules), (false, expected));
    }
    let (success, stderr) = run("when rate(a) > 5 then disarm b=count");
    assert!(!success && stderr.contains("no rule arms `b=count`"), "{stderr}");
    let many = |count| {
        let rule = |number| format!("when rate(a{number}) > 5 then arm b=count, c{number}=count\n");
        (0..count).map(rule).collect::<String>()
    };
    // Each rule has a figure, and arms two consumers.
    assert!(run(&many(85)).0);
    let (success, stderr) = run(&many(86));
    assert!(
        !success && stderr.contains("may have 258 consumers at a time, and 256 are the most"),
        "{stderr}"
    );
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "program", "--ignored", "--nocapture", "--test-threads=1"]);
    fs::write(&file, "when rate(environment::store) > 1M then arm environment::store=count").unwrap();
    let output = command.env("PROBES", "a:b=count").env("PROBE_RULES", &file).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr, "Error: PROBES, column 2: `:` can't be part of a path\n  a:b=count\n   ^\n");
    let (success, stderr) = run("when rate(environment::store) > 1M then arm environment::store=count");
    assert!(success, "{stderr}");
    assert!(stderr.contains("PROBE_RULES: watching: process "), "{stderr}");
    assert!(
        stderr.ends_with("PROBE_RULES: rule 1 summary: fired 0 times; not known in 0 of 0 windows\n"),
        "{stderr}"
    );
    fs::remove_file(&file).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "program", "--ignored", "--nocapture", "--test-threads=1"]);
    let Output { status, stderr, .. } =
        command.env_remove("PROBES").env("PROBE_RULES", &file).output().unwrap();
    let said = format!(
        "PROBE_RULES: {name} can't be read: No such file or directory (os error 2); there are no rules\n"
    );
    assert_eq!((status.success(), String::from_utf8(stderr).unwrap()), (true, said));
}
