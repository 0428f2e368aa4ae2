//! Programs that exit, fork, become another one, and load and unload plugins while a client is
//! attached.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use probe_protocol::{Attach, Client, ClientError, Liveness, sockets};
use probe_tests::fixture::{Built, Configuration};
use serde_json::Value;

use crate::target::{Target, until};

crate::target::serves!();

const HITS: &str = "agent::work kind=entry=count";
const LONG: Duration = Duration::from_secs(100);

fn hits(client: &mut Client, attachment: u32) -> u64 {
    let report: Value = serde_json::from_str(&client.report(attachment, 0, "json").unwrap().text).unwrap();
    report["rows"].as_array().unwrap().iter().map(|row| row["hits"].as_u64().unwrap()).sum()
}

#[test]
fn a_program_that_exits_ends_the_connection_and_removes_its_socket() {
    let mut target = Target::new();
    let mut client = target.client();
    let attached = client.attach(&Attach { keep: true, ..Attach::new(HITS) }).unwrap();
    target.tell("exit 7");
    assert_eq!(target.wait().code(), Some(7));
    assert_eq!(client.wait_for_end(LONG).unwrap(), Liveness::Ended);
    assert!(matches!(client.report(attached.id, 0, "txt"), Err(ClientError::Ended)));
    assert!(!target.socket().exists());
}

#[test]
fn a_killed_programs_socket_is_removed_by_the_next_one_to_look() {
    let mut target = Target::new();
    let (mut client, socket) = (target.client(), target.socket());
    target.kill();
    assert_eq!(client.wait_for_end(LONG).unwrap(), Liveness::Ended);
    assert!(socket.exists());
    assert!(matches!(Client::connect(target.pid()), Err(ClientError::NoProcess(_))));
    // Another program of the same user finds it.
    let runtime = target.runtime.clone();
    let other = Target::prepared(&[("PROBE_AGENT", "1")], |command| {
        command.env("XDG_RUNTIME_DIR", &runtime);
    });
    until(|| (!socket.exists()).then_some(()));
    let own = runtime.join(format!("latent-probes/{}.sock", other.pid()));
    assert!(own.exists());
    assert_eq!(other.client().path(), own);
}

#[test]
fn a_program_that_becomes_another_one_leaves_nobody_behind() {
    let mut target = Target::new();
    let mut client = target.client();
    client.attach(&Attach::new(HITS)).unwrap();
    target.tell("exec");
    assert_eq!(client.wait_for_end(LONG).unwrap(), Liveness::Ended);
    assert!(target.socket().exists());
    // For a moment, a process that becomes another program has no variables, and its sockets are
    // closed one after the other.
    until(|| {
        let connected = Client::connect(target.pid());
        assert!(matches!(connected, Err(ClientError::NoAgent { .. } | ClientError::Ended)), "{connected:?}");
        (!target.socket().exists()).then_some(())
    });
    assert!(target.end().success());
}

#[test]
fn a_forked_child_serves_nobody_until_it_asks_for_an_agent() {
    let mut target = Target::new();
    let mut client = target.client();
    let attached = client.attach(&Attach::new("agent::work=count, agent::even=latency")).unwrap();
    assert_eq!(target.number("descriptors"), 2);
    let child = u32::try_from(target.number("fork")).unwrap();
    assert_ne!(child, target.pid());
    // The child has no sockets, and its sites are latent.
    assert_eq!((target.number("descriptors"), target.number("work 10"), target.number("text")), (0, 145, 0));
    assert!(matches!(Client::connect(child), Err(ClientError::NoAgent { .. })));
    // Its parent still serves.
    assert_eq!(client.status().unwrap().attachments.len(), 1);
    assert_eq!(hits(&mut client, attached.id), 0);
    assert_eq!(target.ask("start"), target.socket_of(child).display().to_string());
    let mut of_child = Client::connect(child).unwrap();
    assert!(of_child.status().unwrap().attachments.is_empty());
    let own = of_child.attach(&Attach::new(HITS)).unwrap();
    assert_eq!((target.number("work 10"), hits(&mut of_child, own.id)), (145, 10));
    drop(of_child);
    until(|| (target.number("text") == 0).then_some(()));
    target.tell("exit 0");
    assert_eq!(target.answer(), "0", "the parent has waited for it");
    assert!(!target.socket_of(child).exists() && target.socket().exists());
    assert_eq!((target.number("work 10"), hits(&mut client, attached.id)), (145, 20));
    drop(client);
    target.until(|status| status.attachments.is_empty());
    target.is_as_before();
}

/// A program may close descriptors by their numbers, and open its own files by them.
#[test]
fn a_number_that_the_program_uses_again_stays_open() {
    let mut target = Target::new();
    let mut client = target.client();
    let files = target.number("reuse");
    assert_eq!((target.number("descriptors"), target.number("reused")), (0, files));
    target.number("fork");
    assert_eq!(target.number("reused"), files, "in the child");
    target.tell("exit 0");
    assert_eq!(target.answer(), "0");
    assert!(matches!(client.status(), Err(ClientError::Ended)));
    drop(client);
    // The agent's thread finds out when the next client comes, and the program may start another.
    let mut other = until(|| {
        let connected = Client::connect(target.pid()).ok();
        assert_eq!(target.ask("start"), target.socket().display().to_string());
        connected
    });
    // The end of the first connection may take the agent a moment.
    until(|| (other.status().unwrap().clients == 1).then_some(()));
    assert_eq!((target.number("descriptors"), target.number("reused")), (2, files));
    target.is_as_before();
}

/// Forked children that do nothing with the runtime keep no connection open.
#[test]
fn a_killed_programs_child_does_not_keep_its_sockets() {
    let mut target = Target::new();
    let mut client = target.client();
    let child = u32::try_from(target.number("fork")).unwrap();
    target.kill();
    assert_eq!(client.wait_for_end(LONG).unwrap(), Liveness::Ended, "the child would keep it open");
    assert!(probe_protocol::is_stale(&target.socket()));
    // SAFETY: no pointers.
    unsafe { libc::kill(child.cast_signed(), libc::SIGKILL) };
}

fn plugin(name: &str) -> PathBuf {
    static BUILT: OnceLock<Built> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", "life")
            .release_on_plain_runtime()
            .build("plugin")
    });
    built.path("").join(format!("lib{name}.so"))
}

#[test]
fn plugins_come_and_go() {
    let mut target = Target::new();
    let mut client = target.client();
    let file = plugin("plugin");
    assert_eq!(target.ask(&format!("load {}", file.display())), "loaded");
    let probes = client.list("plugin::**").unwrap();
    assert!(probes.iter().all(|it| it.object == file.display().to_string()), "{probes:?}");
    let attached = client.attach(&Attach::new("plugin::each kind=entry=count")).unwrap();
    assert_eq!((target.number("call plugin_sum"), hits(&mut client, attached.id)), (15, 5));
    assert_eq!(target.ask("unload"), "unloaded");
    assert_eq!(hits(&mut client, attached.id), 5);
    assert_eq!(target.ask(&format!("load {}", file.display())), "loaded");
    assert_eq!(hits(&mut client, attached.id), 5);
    assert_eq!((target.number("call plugin_sum"), hits(&mut client, attached.id)), (15, 10));
    client.detach(attached.id).unwrap();
    assert_eq!(target.ask("unload"), "unloaded");
    target.is_as_before();
}

/// A debugger, or job control, stops the program. Its client gives up one request, and continues
/// when the program does.
#[test]
fn a_stopped_program_answers_later() {
    let mut target = Target::new();
    let mut client = target.client();
    let attached = client.attach(&Attach::new(HITS)).unwrap();
    let send = |signal| {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::kill(target.pid().cast_signed(), signal) }, 0);
    };
    send(libc::SIGSTOP);
    // Each thread stops when it gets the signal.
    let has_stopped = |task: &Path| {
        let status = fs::read_to_string(task.join("status"));
        status.is_ok_and(|it| it.lines().any(|line| line.starts_with("State:\tT")))
    };
    until(|| {
        let mut tasks = fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
        tasks.all(|it| has_stopped(&it.unwrap().path())).then_some(())
    });
    client.set_timeout(Duration::from_millis(50));
    for _ in 0..3 {
        assert!(matches!(client.list(""), Err(ClientError::TimedOut)));
    }
    send(libc::SIGCONT);
    // Answers that come too late are not the program's end.
    assert_eq!(client.wait_for_end(Duration::from_millis(100)).unwrap(), Liveness::Running);
    client.set_timeout(LONG);
    assert_eq!(client.status().unwrap().attachments[0].id, attached.id);
    client.detach(attached.id).unwrap();
    target.is_as_before();
}

#[test]
fn sockets_are_found_by_their_folder() {
    let target = Target::new();
    let own = |it: &probe_protocol::AgentSocket| it.pid == target.pid();
    // This process has another folder than the program.
    assert!(!sockets().iter().any(own));
}
