//! Tests which sites the wrapper passes; the sites record their names.

use core::future::{Future, ready};
use core::pin::pin;
use core::task::{Context, Waker};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Probed;
use crate::future::{Noted, Sites};

thread_local! {
    static PASSED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn passes(site: &'static str) {
    PASSED.with_borrow_mut(|passed| passed.push(site));
}

struct Names;

impl Sites for Names {
    fn entry(_: usize) {
        passes("entry");
    }

    fn resume(_: usize) {
        passes("resume");
    }

    fn suspend(_: usize) {
        passes("suspend");
    }

    fn drop(_: usize) {
        passes("drop");
    }
}

/// As without `std`, where panics of fields are not caught.
#[test]
fn a_field_of_the_exit_that_panics_passes_it_once() {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let future = Probed::new(Names, ready(1), Noted::Fresh, |_, ended| {
            passes(if ended.is_some() { "exit" } else { "exit by a panic" });
            panic!("in a field");
        });
        let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    }));
    assert!(polled.is_err());
    assert_eq!(PASSED.take(), ["entry", "exit"]);
}
