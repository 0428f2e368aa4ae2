//! Traces: clients open the files, and the program writes them.

use std::fs::{self, File};

use probe_protocol::{Attach, ClientError, FailureKind};
use probe_tests::folder::Folder;
use probe_trace::{Item, Trace};

use crate::target::Target;

crate::target::serves!();

/// The hits in a file.
fn hits(path: &std::path::Path) -> usize {
    let mut trace = Trace::open(&[path]).unwrap();
    assert_eq!(trace.problems(), [""; 0]);
    trace.items().filter(|it| matches!(it, Ok(Item::Event(_)))).count()
}

#[test]
fn a_client_records_to_a_file_that_it_has_opened() {
    let mut target = Target::new();
    let folder = Folder::new("recorded");
    let mut client = target.client();
    for name in ["run.probetrace", "run.pftrace"] {
        let path = folder.join(name);
        let file = File::create(&path).unwrap();
        let attach = Attach { output: Some(name.to_owned()), ..Attach::new("agent::*=trace(size=16M)") };
        let attached = client.record(&attach, &file).unwrap();
        assert_eq!(target.number("work 1000"), 1_499_500);
        client.pause(attached.id).unwrap();
        let text = client.report(attached.id, 0, "txt").unwrap().text;
        assert!(text.starts_with("2500 events of 1 thread, and 0 lost; the trace is run."), "{text}");
        assert_eq!(client.detach(attached.id).unwrap(), [""; 0]);
        assert!(file.metadata().unwrap().len() > 2500);
        target.is_as_before();
    }
    assert_eq!(hits(&folder.join("run.probetrace")), 2500);
    assert_eq!(target.said(), "");
}

#[test]
fn a_recording_is_whole_where_its_client_or_the_program_ends() {
    let folder = Folder::new("whole");
    let begin = |target: &mut Target, name: &str| {
        let mut client = target.client();
        let file = File::create(folder.join(name)).unwrap();
        let attach = Attach { output: Some(name.to_owned()), ..Attach::new("agent::*=trace") };
        client.record(&attach, &file).unwrap();
        assert_eq!(target.number("work 1000"), 1_499_500);
        client
    };
    let mut target = Target::new();
    drop(begin(&mut target, "client.probetrace"));
    target.until(|status| status.attachments.is_empty());
    target.is_as_before();
    let client = begin(&mut target, "program.probetrace");
    target.tell("exit 3");
    assert_eq!(target.wait().code(), Some(3));
    drop(client);
    assert_eq!(hits(&folder.join("client.probetrace")), 2500);
    assert_eq!(hits(&folder.join("program.probetrace")), 2500);
}

#[test]
fn the_name_of_an_output_is_checked() {
    let mut target = Target::new();
    let folder = Folder::new("named");
    let file = File::create(folder.join("file")).unwrap();
    let mut client = target.client();
    let ending = "ends neither in .pftrace nor in .probetrace, which chooses the format";
    for (name, problem) in [
        ("run", ending),
        ("run.json", ending),
        (".pftrace", ending),
        ("\u{1b}[2J.pftrace", "has a control character"),
        (&format!("{}.pftrace", "a".repeat(4096)), "has more than 4096 bytes"),
    ] {
        let attach = Attach { output: Some(name.to_owned()), ..Attach::new("agent::*=trace") };
        let Err(ClientError::Failed(failure)) = client.record(&attach, &file) else { panic!("{name}") };
        let message = format!("the name of the output {problem}");
        assert_eq!((failure.kind, failure.message), (FailureKind::Malformed, message));
    }
    assert_eq!(client.status().unwrap().attachments, []);
    target.is_as_before();
}

#[test]
fn a_flight_recorder_has_snapshots() {
    let mut target = Target::new();
    let folder = Folder::new("snapshots");
    let mut client = target.client();
    let attached = client.attach(&Attach::new("agent::*=trace(flight), agent::even=count")).unwrap();
    assert_eq!(target.number("work 100"), 14_950);
    let of = &client.status().unwrap().attachments[0].consumers;
    let told: Vec<_> = of.iter().map(|it| (it.name.as_str(), it.has_snapshots)).collect();
    assert_eq!(told, [("trace", true), ("count", false)]);
    for (it, one) in of.iter().zip(&attached.consumers) {
        assert_eq!(it.formats, one.formats);
    }
    for format in ["probetrace", "pftrace", "json", "folded"] {
        let path = folder.join(format);
        let notes = client.snapshot(attached.id, 0, format, &File::create(&path).unwrap()).unwrap();
        assert_eq!(notes, [""; 0]);
        assert!(fs::metadata(&path).unwrap().len() > 0, "{format}");
    }
    assert_eq!(hits(&folder.join("probetrace")), 250);
    let file = File::create(folder.join("none")).unwrap();
    let mut kind = |consumer, format, file: &File| match client.snapshot(attached.id, consumer, format, file)
    {
        Err(ClientError::Failed(failure)) => (failure.kind, failure.message),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(1, "json", &file).0, FailureKind::Malformed);
    assert_eq!(kind(0, "svg", &file).0, FailureKind::Malformed);
    for (file, problem) in [
        (File::open("/dev/null").unwrap(), "is not a regular file; write to one, and copy it from there"),
        (File::open(folder.join("none")).unwrap(), "is not open for writing"),
        (
            File::options().append(true).open(folder.join("none")).unwrap(),
            "is open for appending; open it for writing from its beginning",
        ),
    ] {
        let message = format!("the file that came with the request {problem}");
        assert_eq!(kind(0, "pftrace", &file), (FailureKind::File, message));
    }
    let Err(ClientError::Failed(failure)) = client.report(attached.id, 0, "json") else { panic!() };
    assert_eq!(failure.message, "a report as .json goes to a file; ask for a snapshot");
    client.detach(attached.id).unwrap();
    target.is_as_before();
}
