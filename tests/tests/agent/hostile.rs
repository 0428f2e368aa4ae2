//! Clients that send anything, or do not read.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use probe_protocol::{
    Attach, Body, Call, Channel, Client, FailureKind, MAX_FRAME, ReportForm, Request, VERSION, decode_reply,
    encode_call, frame, greeting,
};
use probe_tests::folder::Folder;
use probe_tests::random::Random;

use crate::target::Target;

crate::target::serves!();

const LONG: Duration = Duration::from_secs(100);

/// A connection that has been welcomed.
fn greeted(target: &Target) -> Channel {
    let channel = Channel::connect(&target.socket(), LONG).unwrap();
    channel.send(&greeting(), None, LONG).unwrap();
    channel.receive(Some(LONG), LONG).unwrap().unwrap();
    channel
}

/// Sends bytes, and returns the answer until the connection's end, which must come.
fn answer(target: &Target, greets: bool, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(target.socket()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    if greets {
        stream.write_all(&frame(&greeting()).unwrap()).unwrap();
    }
    // The agent may have ended the connection.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => (),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    answer
}

fn failure(payload: &[u8]) -> (u32, FailureKind) {
    let reply = decode_reply(payload).unwrap();
    let Body::Failed(failure) = reply.body else { panic!("{reply:?}") };
    (reply.id, failure.kind)
}

#[test]
fn malformed_frames_end_the_connection_and_nothing_else() {
    let mut target = Target::new();
    let status = encode_call(&Call { id: 1, request: Request::Status });
    let mut after = status.clone();
    after.push(0);
    for payload in [&[][..], &[1], &[1, 99], &after, &[0xff; 100], &vec![7; MAX_FRAME]] {
        let channel = greeted(&target);
        channel.send(payload, None, LONG).unwrap();
        let reply = channel.receive(Some(LONG), LONG).unwrap().unwrap();
        assert_eq!(failure(&reply.payload), (0, FailureKind::Protocol), "{payload:?}");
        assert!(!matches!(channel.receive(Some(LONG), LONG), Ok(Some(_))));
    }
    // A frame that is too long is not read.
    for len in [u32::MAX, u32::try_from(MAX_FRAME).unwrap() + 1] {
        let answer = answer(&target, true, &len.to_le_bytes());
        let welcome = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize + 4;
        assert_eq!(failure(&answer[welcome + 4..]), (0, FailureKind::Protocol));
    }
    // No greeting, another one, and another version.
    assert!(answer(&target, false, b"").is_empty());
    let other = answer(&target, false, b"GET / HTTP/1.1\r\n\r\n");
    assert!(other.is_empty(), "its first bytes are the length of a frame that is too long");
    let mut newer = greeting();
    newer[8] += 1;
    let refused = answer(&target, false, &frame(&newer).unwrap());
    let problem = format!("the other side speaks version {} ", VERSION + 1);
    assert!(String::from_utf8_lossy(&refused).contains(&problem), "{refused:?}");
    target.until(|status| status.clients == 1);
    target.is_as_before();
}

#[test]
fn random_bytes_do_no_harm() {
    let mut target = Target::new();
    let seed = std::env::var("PROBE_TEST_SEED").map_or(17, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let requests = [
        Request::List { selector: "agent::*".to_owned() },
        Request::Status,
        Request::Attach(Attach::new("agent::*=count, agent::even=latency")),
        Request::Report { attachment: 1, consumer: 0, form: ReportForm::Document { only: vec![0, 7] } },
        Request::Report { attachment: 1, consumer: 1, form: ReportForm::View },
        Request::Report { attachment: 1, consumer: 1, form: ReportForm::File { format: "csv".to_owned() } },
        Request::Pause { attachment: 1 },
        Request::Detach { attachment: 1 },
        Request::Keep { attachment: 2 },
    ];
    for _ in 0..if probe_tests::whole::is_asked_for() { 20_000 } else { 1_000 } {
        let mut bytes = Vec::new();
        for id in 0..random.below(4) {
            let request = &requests[usize::try_from(random.below(requests.len() as u64)).unwrap()];
            let id = u32::try_from(id).unwrap();
            bytes.extend(frame(&encode_call(&Call { id, request: request.clone() })).unwrap());
        }
        for _ in 0..random.below(4) {
            let at = usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap();
            let byte = u8::try_from(random.below(256)).unwrap();
            match (random.below(3), at < bytes.len()) {
                (0, true) => bytes[at] = byte,
                (1, _) => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
        }
        answer(&target, random.below(8) != 0, &bytes);
    }
    let mut client = target.client();
    for kept in client.status().unwrap().attachments {
        if kept.is_kept {
            client.detach(kept.id).unwrap();
        }
    }
    target.until(|status| status.attachments.is_empty());
    target.is_as_before();
}

/// Its answers fill the socket, and the agent waits for it at most five seconds.
#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let mut target = Target::new();
    let pid = std::process::id();
    let lazy = greeted(&target);
    lazy.send(
        &encode_call(&Call { id: 1, request: Request::Attach(Attach::new("agent::work=count")) }),
        None,
        LONG,
    )
    .unwrap();
    let list = encode_call(&Call { id: 2, request: Request::List { selector: String::new() } });
    thread::scope(|scope| {
        let sender = scope.spawn(|| while lazy.send(&list, None, LONG).is_ok() {});
        // Meanwhile the program and another client notice nothing.
        assert_eq!(target.number("work 10"), 145);
        let mut other = target.client();
        let attached = other.attach(&Attach::new("agent::even=count")).unwrap();
        assert_eq!(target.number("work 10"), 145);
        other.detach(attached.id).unwrap();
        // It can't send for ever, since the agent waits for it.
        sender.join().unwrap();
    });
    target.until(|status| status.clients == 1 && status.attachments.is_empty());
    let said = format!(
        "PROBE_AGENT: process {pid} did not finish a request, or did not read an answer, for 5 s; it is disconnected\n"
    );
    assert_eq!(target.said(), said);
    target.is_as_before();
}

#[test]
fn a_client_that_does_not_finish_is_disconnected() {
    let mut target = Target::new();
    let halves: [&[u8]; 2] = [&[7], &[7, 0, 0, 0, 1, 2]];
    let clients: Vec<_> = halves
        .iter()
        .map(|half| {
            let mut stream = UnixStream::connect(target.socket()).unwrap();
            stream.write_all(&frame(&greeting()).unwrap()).unwrap();
            stream.write_all(half).unwrap();
            stream
        })
        .collect();
    let silent = UnixStream::connect(target.socket()).unwrap();
    for mut stream in clients.into_iter().chain([silent]) {
        // The welcome, if it has greeted, and then the end.
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
    }
    target.until(|status| status.clients == 1);
    assert_eq!(target.said().lines().count(), 3, "{}", target.said());
    target.is_as_before();
}

/// Descriptors that come where none may come are closed.
#[test]
fn descriptors_do_not_pile_up() {
    let mut target = Target::new();
    let before = fs::read_dir(format!("/proc/{}/fd", target.pid())).unwrap().count();
    let folder = Folder::new("passed");
    let file = File::create(folder.join("file")).unwrap();
    for request in [
        Request::Status,
        Request::Attach(Attach::new("agent::work=count")),
        Request::Attach(Attach { output: Some("file".to_owned()), ..Attach::new("agent::work=count") }),
        Request::Snapshot { attachment: 7, consumer: 0, format: "json".to_owned() },
    ] {
        let channel = greeted(&target);
        for id in 1..=100 {
            let call = encode_call(&Call { id, request: request.clone() });
            channel.send(&call, Some(file.as_fd()), LONG).unwrap();
            let reply = channel.receive(Some(LONG), LONG).unwrap().unwrap();
            assert_eq!(failure(&reply.payload).0, id);
        }
    }
    target.until(|status| status.clients == 1);
    let after = || fs::read_dir(format!("/proc/{}/fd", target.pid())).unwrap().count();
    crate::target::until(|| (after() == before).then_some(()));
    target.is_as_before();
    drop(Client::connect(target.pid()).unwrap());
}
