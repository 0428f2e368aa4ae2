//! A fork while a function is replaced, and while another thread is in the closure: the child has
//! the replacement, removes it for itself, and the parent notices nothing.
//! A process of its own: it forks, which is no good beside other tests' threads.
#![cfg(not(probe_portable))]

use std::sync::Arc;
use std::sync::Barrier;
use std::thread;

use probe_runtime::probe;
use probe_tests::scenario::in_a_child;
use probe_tests::text::Text;

#[probe(replace)]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

#[test]
fn the_child_has_a_replacement_of_its_own() {
    let text = Text::of_this_process();
    let (inside, leave) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (entered, left) = (Arc::clone(&inside), Arc::clone(&leave));
    let replacement = work::install(move |original, x| {
        if x == 7 {
            entered.wait();
            left.wait();
        }
        original(x) * 10
    });
    let mut replacement = Some(replacement.unwrap());
    let caller = thread::spawn(|| work(7));
    inside.wait();
    let status = in_a_child(|| {
        assert_eq!(work(1), 20);
        let own = work::install(|original, x| original(x) + 5).unwrap();
        assert_eq!(work(1), 25);
        // The thread that is inside does not exist here, and is not waited for.
        drop(replacement.take());
        assert_eq!(work(1), 7);
        drop(own);
        assert_eq!(work(1), 2);
        assert_eq!(text.differences(), []);
    });
    assert_eq!(status, 0, "what the child's assertion says is on stderr");
    assert_eq!(work(1), 20);
    // This thread does not wait either; a running replacement stays until it returns.
    drop(replacement);
    assert_eq!(work(1), 2);
    leave.wait();
    assert_eq!(caller.join().unwrap(), 80);
    assert_eq!(text.differences(), []);
}
