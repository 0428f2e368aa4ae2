//! The limits of what clients can take of a program: its memory, and the kernel's names.

use std::fs;
use std::sync::Barrier;
use std::thread;

use probe_protocol::{Attach, Client, ClientError, FailureKind};
use probe_tests::whole;

use crate::target::Target;

crate::target::serves!();

/// Clients that are served at a time.
const CLIENTS: usize = 8;
/// The most memory of a client's requests, in KiB. Nearly all of it are the terms of the longest
/// selector.
const MOST: u64 = 48 << 10;
/// Bytes of a text that just can be read, and of one that just fits into a frame.
const LONG: usize = 65_500;
const FRAME: usize = 131_000;

/// Returns the most memory that a program has had, in KiB, since [`forget_most`].
fn most_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Makes the kernel take the memory that a program has now for the most that it has had.
fn forget_most(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
}

/// Returns a text of the longest that fit, made of one repeated.
fn long(part: &str) -> String {
    part.repeat(LONG / part.len())
}

fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> FailureKind {
    match result {
        Err(ClientError::Failed(failure)) => failure.kind,
        other => panic!("{other:?}"),
    }
}

/// Sends the largest requests of each kind.
fn ask(client: &mut Client, attachment: u32) {
    let attach = |client: &mut Client, spec| refused(client.attach(&Attach::new(spec)));
    assert_eq!(attach(client, "a=count,".repeat(FRAME / 8)), FailureKind::Malformed);
    assert_eq!(attach(client, long("a=count,") + "a=count"), FailureKind::Limit);
    assert_eq!(attach(client, "x".to_owned() + &long("::x") + "=count, b=cuont"), FailureKind::Malformed);
    assert_eq!(attach(client, "a[".to_owned() + &long("(") + "]=count"), FailureKind::Malformed);
    assert_eq!(refused(client.list(&(long("a,") + "a"))), FailureKind::NoMatch);
    // As many numbers of probes as fit: of one byte each.
    let report = client.document(attachment, 0, &vec![7; FRAME]).unwrap();
    assert_eq!(report.values.head.text("consumer"), Some("count"), "{report:?}");
}

#[test]
fn requests_take_as_much_memory_as_the_protocol_says() {
    let mut target = Target::new();
    let (ready, pid) = (Barrier::new(CLIENTS + 1), target.pid());
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = target.client();
                let id = client.attach(&Attach::new("agent::work=count")).unwrap().id;
                ready.wait();
                ready.wait();
                (0..if whole::is_asked_for() { 2 } else { 1 }).for_each(|_| ask(&mut client, id));
                ready.wait();
            });
        }
        ready.wait();
        forget_most(pid);
        let before = most_memory(pid);
        ready.wait();
        ready.wait();
        let took = most_memory(pid).saturating_sub(before);
        assert!(took <= CLIENTS as u64 * MOST, "{took} KiB");
    });
    target.until(|status| status.clients == 1 && status.attachments.is_empty());
    target.is_as_before();
}

/// Any user of the machine could connect to an abstract name, which has no folder.
#[test]
fn its_socket_has_no_abstract_name() {
    let target = Target::new();
    let _client = target.client();
    let names = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let files = files.filter_map(|it| Some(fs::read_link(it.path()).ok()?.display().to_string()));
        let inodes: Vec<_> =
            files.filter_map(|it| Some(it.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect();
        let table = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap();
        let rows = table.lines().skip(1).map(|it| it.split_whitespace().collect::<Vec<_>>());
        let own = rows.filter(|row| inodes.iter().any(|inode| inode == row[6]));
        own.map(|row| row.get(7).map(|name| (*name).to_owned())).collect::<Vec<_>>()
    };
    // The listener, and the client's connection. The file got its last name once it was served.
    let socket = target.socket();
    let name = format!(".{}", socket.file_name().unwrap().display());
    let path = Some(socket.with_file_name(name).display().to_string());
    assert_eq!(names(target.pid()), [path.clone(), path]);
}
