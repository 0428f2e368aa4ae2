//! An idle agent.

use probe_protocol::Attach;

use crate::target::{Target, until};

crate::target::serves!();

/// Calls that take some time, on any machine.
const CALLS: u64 = 50_000_000;

/// Returns the times that the agent's thread has slept, once it sleeps for long.
fn settled(target: &mut Target, before: u64) -> u64 {
    let mut last = before;
    until(|| {
        let now = target.number("switches");
        let is_settled = now != before && now == last;
        last = now;
        target.number("work 1000000");
        is_settled.then_some(now)
    })
}

#[test]
fn an_idle_agent_does_not_wake_up() {
    let mut target = Target::new();
    let begun = settled(&mut target, 0);
    let mut client = target.client();
    let attached = client.attach(&Attach::new("agent::even=count")).unwrap();
    client.detach(attached.id).unwrap();
    // It has woken up for the client, and sleeps again.
    let connected = settled(&mut target, begun);
    target.number("busy");
    let begun = target.number("calls");
    until(|| (target.number("calls") - begun >= CALLS).then_some(()));
    assert_eq!(target.number("switches"), connected);
    assert_eq!(target.number("wrong"), 0);
    drop(client);
    target.until(|status| status.clients == 1);
}
