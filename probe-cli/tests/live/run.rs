//! `probectl run`: programs with probes and without a runtime get one, and all others stay as they
//! are.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

use probe_cli::elf::{Image, Runtime};
use probe_protocol::Client;

use crate::preloaded::{
    Kind, Served, agent, compiled, differing, output, plain, ran, threads, with_agent, with_loader,
};
use crate::program::{Folder, Ran, out, run, search_service, this, until, words};

/// The sum of a hundred calls in C.
const SUM: &str = "14950";

/// A program to look at, and the effect of a line of its input.
struct Tour<'a> {
    command: &'a [&'a str],
    selector: &'a str,
    line: &'a str,
    answer: &'a str,
    hits: u64,
    code: i32,
    /// Whether calls of the compiler's hooks have become sites before anything is armed.
    is_hooked: bool,
}

/// Returns a tour of a program that works a hundred times for a line.
fn tour<'a>(command: &'a [&'a str], selector: &'a str, answer: &'a str) -> Tour<'a> {
    Tour { command, selector, line: "", answer, hits: 100, code: 7, is_hooked: false }
}

impl Tour<'_> {
    /// Lists, enables, counts, disables; each call is a hit, and nothing stays behind.
    fn take(&self, folder: &Folder) {
        let Self { command, selector, line, answer, hits, code, is_hooked } = *self;
        let program = Path::new(command[0]);
        let mut served = Served::start(folder, &[&["--"], command].concat());
        let pid = served.pid();
        // Hooks discover functions that are called.
        assert_eq!(served.ask(line), answer);
        let list = out(folder, &["list", &pid, selector]);
        let [_, probe, total] = &words(&list)[..] else { panic!("{list}") };
        let sites = if probe[2] == "1" { "1 site".to_owned() } else { format!("{} sites", probe[2]) };
        assert_eq!(total.join(" "), format!("1 probe, {sites}"), "{list}");
        let before = differing(served.id(), program);
        assert_eq!(before != 0, is_hooked, "{before}");
        assert_eq!(served.ask(line), answer);
        let enabled = out(folder, &["enable", "--keep", "-p", &pid, selector]);
        assert!(enabled.contains(&format!("{sites} active, 0 refused")), "{enabled}");
        assert_ne!(differing(served.id(), program), before);
        assert_eq!(served.ask(line), answer);
        assert_eq!(served.measured(folder, selector, line, answer), hits.to_string());
        let disabled = run(folder, &["disable", "-p", &pid]);
        assert_eq!(words(&disabled.out)[1].last(), Some(&&*(2 * hits).to_string()), "{disabled:?}");
        assert_eq!(differing(served.id(), program), before);
        assert_eq!(served.ask(line), answer);
        assert_eq!(threads(served.id()).iter().filter(|it| *it == "probe-agent").count(), 1);
        assert_eq!(served.end(), Some(code));
        assert_eq!(sockets(folder), 0);
    }
}

impl Served {
    /// Counts one line of work.
    fn measured(&mut self, folder: &Folder, selector: &str, line: &str, answer: &str) -> String {
        let mut client = Client::connect(self.id()).unwrap();
        let there = client.status().unwrap().attachments.len();
        let child = crate::program::spawn(folder, &["count", "-p", &self.pid(), selector]);
        until(|| client.status().unwrap().attachments.len() > there);
        assert_eq!(self.ask(line), answer);
        crate::program::signal("-INT", &child);
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        words(&ran.out)[1].last().unwrap().to_string()
    }
}

fn sockets(folder: &Folder) -> usize {
    fs::read_dir(folder.0.join("latent-probes")).map_or(0, Iterator::count)
}

#[test]
fn a_rust_program_whose_library_ships_probes() {
    let program = plain();
    tour(&[program.to_str().unwrap()], "leaf::decode kind=entry", "200").take(&Folder::new("plain"));
}

#[test]
fn a_search_service_of_the_examples() {
    let Some(file) = search_service() else { return };
    let folder = Folder::new("quickstart");
    let text = folder.0.join("text.txt");
    fs::write(&text, "latent probes cost one instruction, until somebody needs the probes").unwrap();
    let command = [file.to_str().unwrap(), "--serve", text.to_str().unwrap()];
    let tour = |selector, hits| {
        let (line, answer) = ("the latent Probes", "1 file");
        Tour { command: &command, selector, line, answer, hits, code: 0, is_hooked: false }.take(&folder);
    };
    tour("quickstart::query kind=exit", 1);
    tour("quickstart::token", 3);
}

#[test]
fn a_c_program_with_points_by_hand() {
    let folder = Folder::new("points");
    let program = compiled(&folder, Kind::Points, &[]);
    tour(&[program.to_str().unwrap()], "working", SUM).take(&folder);
    // The same from its very beginning, by its environment.
    let program = program.to_str().unwrap();
    let mut command = with_agent(&folder, &["run", program]);
    let ran = Ran::from(output(command.env("PROBES", "**=count").stdin(a_line(&folder))));
    assert_eq!((ran.code, ran.out.as_str()), (Some(7), "ready\n14950\n"));
    assert_eq!(words(&ran.err)[1], ["working", "point", "1", "100"], "{ran:?}");
    let mut command = with_agent(&folder, &["run", program]);
    let ran = Ran::from(output(command.env("PROBES", "**=cuont")));
    assert_eq!(ran.code, Some(7));
    assert!(ran.err.starts_with("libprobe_agent: PROBES, column 4: "), "{ran:?}");
}

fn a_line(folder: &Folder) -> fs::File {
    let file = folder.0.join("line");
    fs::write(&file, "\n").unwrap();
    fs::File::open(file).unwrap()
}

#[test]
fn c_objects_with_the_compilers_hooks() {
    let folder = Folder::new("hooks");
    let program = compiled(&folder, Kind::Hooks, &[]);
    let command = [program.to_str().unwrap()];
    Tour { is_hooked: true, ..tour(&command, "work kind=entry", SUM) }.take(&folder);
    // Before their first calls, its environment may name them.
    let program = program.to_str().unwrap();
    let report = folder.0.join("report.csv");
    let [probes, reports] = ["PROBES=work kind=entry=count", &format!("PROBES_OUT={}", report.display())];
    let mut served = Served::start(&folder, &["env", probes, reports, program]);
    assert_eq!(served.ask("1"), "1");
    assert!(out(&folder, &["list", &served.pid(), "work kind=entry"]).contains("1 probe, 1 site"));
    assert_eq!(served.ask(""), SUM);
    assert_eq!(served.end(), Some(7));
    let report = fs::read_to_string(report).unwrap();
    let row: Vec<_> = report.lines().skip(1).flat_map(|row| row.split(',')).collect();
    // Both answers' calls, from the first one on.
    assert_eq!((row.len(), row[0], row[1], row[4], row[5]), (6, "work", "entry", "1", "101"), "{report}");
    // Also before a function is called for the first time.
    let mut command = with_agent(&folder, &["run", program]);
    let ran = Ran::from(output(command.env("PROBES", "work=count").stdin(a_line(&folder))));
    assert!(ran.code == Some(7) && !ran.err.contains("no probe matches"), "{ran:?}");
}

/// The shell has no probes, and so no agent; the program that it starts has.
#[test]
fn a_script_runs_a_program_with_probes() {
    let folder = Folder::new("script");
    let program = compiled(&folder, Kind::Points, &[]);
    let script = folder.0.join("script");
    fs::write(&script, format!("#!/bin/sh\n{} \"$@\"\nexit 9\n", program.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut served = Served::start(&folder, &[script.to_str().unwrap(), "--keep"]);
    assert_eq!(threads(served.id()), ["script"]);
    assert_eq!(sockets(&folder), 1);
    let name = crate::program::name(&program);
    assert!(out(&folder, &["list", &child_of(&folder), "working"]).contains("1 probe, 1 site"));
    assert!(out(&folder, &["status", "-n", &name]).contains("\n1 probe, "));
    assert_eq!(served.end(), Some(9));
    // A measurement finds the program below the script.
    let mut command =
        with_agent(&folder, &["count", "working", "--every", "1ms", "--", script.to_str().unwrap()]);
    let ran = Ran::from(output(command.stdin(a_line(&folder))));
    assert!(ran.err.contains("has ended") && !ran.err.contains("guard"), "{ran:?}");
}

/// Returns the only process that serves a socket.
fn child_of(folder: &Folder) -> String {
    let mut all = fs::read_dir(folder.0.join("latent-probes")).unwrap();
    let name = all.next().unwrap().unwrap().file_name();
    name.to_str().unwrap().trim_end_matches(".sock").to_owned()
}

#[test]
fn programs_without_probes_stay_as_they_are() {
    let folder = Folder::new("silent");
    let shows = ["run", "--", "timeout", "9", "env", "sh", "-c", "ls /proc/$$/task | wc -l; exit 3"];
    let ran = Ran::from(output(with_agent(&folder, &shows).env("PROBES", "**=count")));
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(3), "1\n", ""));
    assert!(!folder.0.join("latent-probes").exists());
    let killed = output(&mut with_agent(&folder, &["run", "sh", "-c", "kill -TERM $$"]));
    assert_eq!(killed.status.signal(), Some(15));
}

#[test]
fn children_get_the_library_unless_they_are_left_alone() {
    let folder = Folder::new("only");
    let shows = "echo $LD_PRELOAD-$PROBE_PRELOAD; env | grep PRELOAD";
    let own = agent().display().to_string();
    assert_eq!(ran(&folder, &["sh", "-c", shows]).out, format!("{own}-\nLD_PRELOAD={own}\n"));
    assert_eq!(ran(&folder, &["--only", "sh", "-c", shows]).out, "-\n");
    let with_others = |only: &[&str]| {
        let mut command = with_agent(&folder, &["run"]);
        command.args(only).args(["sh", "-c", shows]).env("LD_PRELOAD", "libm.so.6");
        Ran::from(output(&mut command)).out
    };
    assert_eq!(with_others(&[]), format!("libm.so.6:{own}-\nLD_PRELOAD=libm.so.6:{own}\n"));
    assert_eq!(with_others(&["--only"]), "libm.so.6-\nLD_PRELOAD=libm.so.6\n");
    // The program itself is served.
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &["--only", program.to_str().unwrap()]);
    assert!(out(&folder, &["list", &served.pid()]).contains("working"));
    assert_eq!(served.end(), Some(7));
}

#[test]
fn a_program_that_can_not_have_the_library_runs_without() {
    let folder = Folder::new("obstacles");
    let program = compiled(&folder, Kind::Points, &[]);
    let run = |program: &Path, expected: &str| {
        let program = program.to_str().unwrap();
        let ran = ran(&folder, &[program]);
        assert_eq!(ran.err, format!("note: {program} {expected}\n"));
        assert_eq!((ran.code, ran.out.as_str()), (Some(7), "ready\n"));
        assert_eq!(sockets(&folder), 0);
    };
    if probe_tests::c_library::run(
        "gcc",
        &["-static", "-w"],
        &[&folder.0.join("program.c")],
        &folder.0.join("s"),
    )
    .is_done
    {
        run(&folder.0.join("s"), "is static, so no library can be preloaded into it");
        // Nor do its children get it, if they shall not.
        let script = folder.0.join("static-script");
        fs::write(&script, format!("#!{}\n", folder.0.join("s").display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(ran(&folder, &["--only", script.to_str().unwrap()]).err.contains("is static"));
    } else {
        println!("left out: there is no static C library");
    }
    let raised = folder.0.join("raised");
    fs::copy(&program, &raised).unwrap();
    if chown(&raised, Some(65_534), None).is_ok() {
        fs::set_permissions(&raised, fs::Permissions::from_mode(0o4755)).unwrap();
        run(
            &raised,
            "has rights that its caller lacks (setuid), so the dynamic linker preloads nothing into it",
        );
    } else {
        println!("left out: only root makes files of another user");
    }
    let other = with_loader(&program, "/lib/ld-musl-x86_64.so.1");
    let ran = ran(&folder, &[other.to_str().unwrap()]);
    assert!(ran.err.starts_with(&format!("note: {} is loaded by /lib/ld-musl", other.display())), "{ran:?}");
    if !Path::new("/lib/ld-musl-x86_64.so.1").exists() {
        assert_eq!(ran.code, Some(3), "{ran:?}");
    }
}

/// Its library ends a program that has another one preloaded, unless it is the first itself.
#[test]
fn a_program_with_a_sanitizer_runs() {
    let folder = Folder::new("run-asan");
    let source = folder.0.join("a.c");
    fs::write(&source, "#include <probe.h>\nint main(void) { PROBE(\"hand::ran\"); return 0; }\n").unwrap();
    let program = folder.0.join("asan");
    let said = probe_tests::c_library::run("gcc", &["-fsanitize=address"], &[&source], &program);
    if !said.is_done {
        return println!("left out: {}", said.messages);
    }
    let mut command = with_agent(&folder, &["run", "--", program.to_str().unwrap()]);
    let left_out: Ran = command.env("PROBES", "**=count").output().unwrap().into();
    let needs = " (AddressSanitizer) as the first library; preload both: LD_PRELOAD=";
    assert!(left_out.code == Some(0) && left_out.err.contains(needs), "{left_out:?}");
    assert!(!left_out.err.contains("does not come first"), "{left_out:?}");
    let library = left_out.err.split_once("LD_PRELOAD=").unwrap().1.split(' ').next().unwrap();
    let ran: Ran = command.env("LD_PRELOAD", library).output().unwrap().into();
    assert!(ran.code == Some(0) && ran.err.contains("hand::ran"), "{ran:?}");
}

/// The runtime of the program's own serves, and this one stays out of its way.
#[test]
fn a_program_keeps_its_own_runtime() {
    let folder = Folder::new("own");
    let runtime = |file: &Path| Runtime::of(&Image::open(file).unwrap()).unwrap().map(|it| it.has_agent);
    assert_eq!(runtime(&this()), Some(true));
    assert_eq!(runtime(&plain()), None);
    let mut command = with_agent(&folder, &["run", "--", this().to_str().unwrap()]);
    command.args(["program::scenario", "--exact", "--ignored", "--nocapture"]);
    command.env("PROBE_TEST_SCENARIO", "serve").env("PROBES", "live::program::work kind=entry=count");
    let ran = Ran::from(output(&mut command));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // One report, and no refusal.
    // Its thread may have worked before the end, or not.
    assert!(ran.err.starts_with("probe  ") && ran.err.lines().count() == 2, "{ran:?}");
    // A runtime without an agent, as its note says.
    let note = "-DNOTE=__asm__(\".pushsection .note.latent_owner,\\\"a\\\",@note\\n.long 12,4,1\\n\
                .asciz \\\"LatentOwner\\\"\\n.long 0\\n.popsection\");";
    let program = compiled(&folder, Kind::Points, &[note]);
    let ran = crate::preloaded::ran(&folder, &[program.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(7), "ready\n"));
    assert!(ran.err.contains("has a runtime of its own, without the feature `agent`"), "{ran:?}");
    assert_eq!(sockets(&folder), 0);
}

#[test]
fn a_plugin_brings_probes() {
    let folder = Folder::new("plugins");
    let (host, plugin) = (compiled(&folder, Kind::Host, &["-ldl"]), compiled(&folder, Kind::Plugin, &[]));
    let (host, plugin) = (host.to_str().unwrap(), plugin.to_str().unwrap());
    let mut served = Served::start(&folder, &["--plugins", host, plugin]);
    assert_eq!(served.ask(""), SUM);
    assert!(out(&folder, &["list", &served.pid()]).contains("working"));
    assert_eq!(served.end(), Some(7));
    let mut served = Served::start(&folder, &[host, plugin]);
    assert_eq!((served.ask("").as_str(), sockets(&folder)), (SUM, 0));
}

/// A program that becomes another one serves anew; a forked child serves nobody.
#[test]
fn exec_and_fork() {
    let folder = Folder::new("execs");
    let program = compiled(&folder, Kind::Points, &[]);
    let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
    let pid = served.pid();
    out(&folder, &["enable", "--keep", "-p", &pid, "working"]);
    assert_eq!(served.ask("exec"), "ready");
    assert!(!out(&folder, &["status", "-p", &pid]).contains("count"));
    assert_eq!((served.ask("").as_str(), sockets(&folder)), (SUM, 1));
    out(&folder, &["enable", "--keep", "-p", &pid, "working"]);
    // The child continues, and its sites are latent.
    assert_eq!(served.ask("fork"), SUM);
    assert_eq!(served.ask(""), SUM);
    assert_eq!(sockets(&folder), 1);
}

#[test]
fn measurements_start_programs_without_an_agent() {
    let folder = Folder::new("measured");
    let program = compiled(&folder, Kind::Points, &[]);
    let program = program.to_str().unwrap();
    let count = |program: &str| with_agent(&folder, &["count", "working", "--for", "50ms", "--", program]);
    let mut child =
        count(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let stdin = child.stdin.take();
    // The program ends once the report is there.
    let mut reported = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    while !reported.contains("never hit") {
        assert_ne!(lines.read_line(&mut reported).unwrap(), 0, "{reported}");
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let ran = Ran::from(output(&mut count("/bin/true")));
    assert_eq!(ran.code, Some(3));
    assert!(ran.err.contains("before it could be asked; does it have probes?"), "{ran:?}");
    let ran = Ran::from(output(count(program).env("PROBE_AGENT_LIBRARY", "/no/such.so")));
    assert!(ran.err.contains("it needs a library, and /no/such.so can't be read"), "{ran:?}");
}

#[test]
fn a_library_that_is_none_is_explained() {
    let folder = Folder::new("library");
    let fails = |library: &str, expected: &str| {
        let ran = ran(&folder, &["--agent", library, "true"]);
        assert!(
            ran.code != Some(0) && ran.err.starts_with(&format!("error: {library} {expected}")),
            "{ran:?}"
        );
    };
    fails("/no/such.so", "can't be read: No such file or directory (os error 2); build it by `cargo build");
    fails("/bin/true", "has no agent, so it is not libprobe_agent.so; build it by");
    fails("/no/such file.so", "can't be preloaded: LD_PRELOAD has no way to name a file with a space");
    let mut command = with_agent(&folder, &["run", "true"]);
    let ran = Ran::from(output(command.env("PROBE_AGENT_LIBRARY", agent())));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let ran = crate::preloaded::ran(&folder, &["no-such-command"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (Some(3), "error: no-such-command can't be started: there is no such file\n")
    );
}
