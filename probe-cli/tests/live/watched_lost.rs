//! `probectl watch` on a connection that ends while the program continues. The program is this
//! test, with an agent that ends connections as it is told.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use probe_protocol::{
    Attached, Body, Channel, Done, Failure, FailureKind, Hello, Listener, Reply, Request, decode_call,
    encode_reply, encode_welcome,
};
use probe_report::{Part, Row};
use probe_tests::turn::turn;

use crate::program::Folder;
use crate::watched::Watch;

const PATIENCE: Duration = Duration::from_secs(60);

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// The client is refused.
    Refused,
    /// While the client waits for nothing, after the first report.
    Idle,
    /// Instead of a report, once a trace is being recorded.
    Asked,
    /// After the second consumer was refused, and the first one detached.
    Renewed,
    /// The client ends it.
    Client,
}

/// Serves a connection after the other. `f` has 1000 hits a second.
fn serve(ends: &'static [End]) -> JoinHandle<()> {
    let listener = Listener::bind(std::process::id()).unwrap();
    thread::spawn(move || {
        let mut seconds = 0;
        for end in ends {
            listener.wait().unwrap();
            let channel = listener.accept().unwrap().unwrap();
            channel.receive(Some(PATIENCE), PATIENCE).unwrap().unwrap();
            let hello =
                Hello { runtime: "0".to_owned(), pid: std::process::id(), executable: "f".to_owned() };
            let failure = Failure::new(FailureKind::Limit, "not now");
            let welcome = if *end == End::Refused { Err(failure) } else { Ok(hello) };
            channel.send(&encode_welcome(&welcome), None, PATIENCE).unwrap();
            if *end != End::Refused {
                answer(&channel, *end, &mut seconds);
            }
        }
        listener.remove();
    })
}

fn answer(channel: &Channel, end: End, seconds: &mut u64) {
    let done = || Body::Done(Done::default());
    let mut is_recording = false;
    let mut first = None;
    while let Some(received) = channel.receive(Some(PATIENCE), PATIENCE).unwrap() {
        let call = decode_call(&received.payload).unwrap();
        let send = |body| channel.send(&encode_reply(&Reply { id: call.id, body }), None, PATIENCE).unwrap();
        match call.request {
            Request::Attach(_) if end == End::Renewed && first.is_some() => {
                send(Body::Failed(Failure::new(FailureKind::Limit, "not now")));
            }
            Request::Detach { attachment } if end == End::Renewed => {
                assert_eq!(first, Some(attachment));
                return;
            }
            Request::Attach(attach) => {
                first.get_or_insert(call.id);
                is_recording |= attach.output.is_some();
                send(Body::Attached(Attached { id: call.id, consumers: Vec::new() }));
            }
            Request::Report { .. } if end == End::Asked && is_recording => return,
            Request::Report { .. } => {
                *seconds += 1;
                let row = Row::new().with("probe", "f").with("kind", "entry").with("hits", *seconds * 1000);
                let head = Row::new().with("duration", *seconds as f64);
                send(Body::Report(Part::Head(head)));
                send(Body::Report(Part::Rows(vec![row])));
                send(done());
                if end == End::Idle {
                    return;
                }
            }
            _ => send(done()),
        }
    }
    assert_eq!(end, End::Client);
}

/// All parts use the socket of this process, so they are one test.
#[test]
fn a_program_that_ends_the_connection_is_asked_again() {
    let _turn = turn();
    let folder = Folder::new("watch-lost");
    let rule = "when rate(f) > 1 then arm f=latency, record f for 1h to it.pftrace".to_owned();

    let agent = serve(&[End::Idle]);
    let mut watch = Watch::of(&folder, std::process::id(), "1h", std::slice::from_ref(&rule));
    assert_eq!(watch.event("lost")["text"], "the program has ended the connection");
    agent.join().unwrap();
    watch.stop();

    let agent = serve(&[End::Asked, End::Refused, End::Client]);
    let mut watch = Watch::of(&folder, std::process::id(), "50ms", &[rule]);
    watch.event("recording");
    let failed = watch.event("failed");
    assert_eq!(failed["text"], "f=count: the program has ended the connection");
    assert_eq!(watch.event("lost")["text"], "the program has ended the connection");
    assert_eq!(watch.event("failed")["text"], "it.pftrace has the events until about now");
    assert_eq!(watch.event("failed")["text"], "not now");
    assert_eq!(watch.event("back")["text"], "the program answers again");
    // The rule is still active, and holds the text. The recording is over.
    assert_eq!(watch.event("armed")["text"], "f=latency");
    watch.stop();
    agent.join().unwrap();

    // An extreme of a window has a consumer of its own.
    let agent = serve(&[End::Renewed]);
    let rule = "when max(n of f) > 1 then run 'true'".to_owned();
    let mut watch = Watch::of(&folder, std::process::id(), "50ms", &[rule]);
    assert_eq!(watch.event("failed")["text"], "f=max(n): not now");
    watch.event("lost");
    agent.join().unwrap();
    watch.stop();
}
