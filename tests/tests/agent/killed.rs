//! Clients that are killed at any moment: the program's results are right, and nothing stays armed.

use std::env;
use std::hint;
use std::process::Stdio;
use std::time::{Duration, Instant};

use probe_protocol::{Attach, Client};
use probe_tests::random::Random;
use probe_tests::{scenario, whole};

use crate::target::{Target, serve};

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    match scenario::to_play().as_str() {
        "serve" => serve(),
        "client" => client(),
        other => panic!("{other}"),
    }
}

const PID: &str = "PROBE_TEST_PID";

/// Attaches and detaches until it is killed.
fn client() {
    let pid = env::var(PID).unwrap().parse().unwrap();
    loop {
        let mut client = Client::connect(pid).unwrap();
        client.list("").unwrap();
        for spec in ["agent::work=count, agent::*=latency", "agent::*=trace(flight)", "agent::**=call-tree"] {
            let attached = client.attach(&Attach::new(spec)).unwrap();
            client.report(attached.id, 0, "txt").unwrap();
            if spec.ends_with("flight)") {
                client.pause(attached.id).unwrap();
            }
            if !spec.ends_with("tree") {
                client.detach(attached.id).unwrap();
            }
        }
    }
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let seed = env::var("PROBE_TEST_SEED").map_or(17, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut target = Target::new();
    target.number("busy");
    let times = if whole::is_asked_for() { 200 } else { 20 };
    for time in 0..times {
        let mut command = scenario::start("client");
        command.env(PID, target.pid().to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = command.spawn().unwrap();
        // Half of them are connected, and some have not begun.
        if time % 2 == 0 {
            let pid = client.id();
            target.until(|status| status.attachments.iter().any(|it| it.client == pid));
        }
        let after = Duration::from_micros(random.below(8_000));
        let begun = Instant::now();
        while begun.elapsed() < after {
            hint::spin_loop();
        }
        client.kill().unwrap();
        client.wait().unwrap();
        target.until(|status| status.clients == 1 && status.attachments.is_empty());
        let before = target.number("calls");
        assert_eq!((target.number("wrong"), target.number("text")), (0, 0), "client {time} of seed {seed}");
        while target.number("calls") == before {}
    }
    target.is_as_before();
    assert!(target.said().lines().all(|line| line.starts_with("PROBE_AGENT: process ")), "{}", target.said());
}
