//! A program that opens text and has never asked for a probe forks while other threads open and
//! seal: each child can continue. A process of its own: the first use of the crate here is a guard.
#![cfg(all(target_os = "linux", not(probe_portable)))]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use probe_runtime::patch::OpenText;
use probe_tests::pages::{PAGE, Pages, R, RX};
use probe_tests::stops::Stops;

const CHILDREN: usize = 200;

#[test]
fn children_of_a_program_that_only_opens_text_go_on() {
    let pages = Pages::new(&[RX, R, RX]);
    let stop = AtomicBool::new(false);
    let open = |page: usize| OpenText::new(pages.at(page)..pages.at(page) + PAGE).unwrap();
    open(0).close().unwrap();
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for page in [0, 1] {
            let (open, stop) = (&open, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    open(page).close().unwrap();
                }
            });
        }
        let mut statuses = Vec::new();
        for _ in 0..CHILDREN {
            // SAFETY: the child calls the runtime, which takes its locks across the fork, and looks
            // at its own pages; the C library makes the heap usable.
            let child = unsafe { libc::fork() };
            assert_ne!(child, -1);
            if child == 0 {
                // SAFETY: no pointers.
                unsafe { libc::alarm(20) };
                let text = open(2);
                let is_open = pages.rights()[2] == "rwxp";
                let is_right = is_open && text.close().is_ok() && pages.rights()[2] == "r-xp";
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(!is_right)) };
            }
            let mut status = -1;
            // SAFETY: a place for the result.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            statuses.push(status);
            if status != 0 {
                break;
            }
        }
        drop(stops);
        assert_eq!(statuses, [0; CHILDREN]);
    });
    assert_eq!(pages.rights(), ["r-xp", "r--p", "r-xp"]);
}
