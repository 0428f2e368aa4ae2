#![deny(warnings)]
#![forbid(unsafe_code)]
//! A program of somebody who does not know of probes.
mod strict;
mod util;
#[path = "../gen/odd.rs"]
mod r#try;
mod generated {
    include!(concat!(env!("OUT_DIR"), "/made.rs"));
}

include!("../gen/included.rs");

const DATA: &str = include_str!("../../data/text");

/// Counts.
#[derive(Debug)]
struct Thing {
    n: u32,
}

impl Thing {
    fn work(&mut self) -> u32 {
        for i in 0..3 {
            self.n += i;
        }
        self.n
    }

    /// Reads a number later.
    async fn later(&self, by: &str) -> Result<u32, String> {
        let n: u32 = by.parse().map_err(|error| format!("{error}"))?;
        Ok(self.n + n)
    }

    fn one_line(&self) { if self.n == 99 { panic!("x") } else { println!("{}", std::panic::Location::caller()) } }

    fn n(&self) -> u32 {
        self.n
    }

    #[mac::short]
    fn short(&self) -> u32 {
        self.n().max(0) + 1 + if self.n == 7 { 1 } else { 0 }
    }
}

// Reads the body.
macro_rules! plus_one {
    ($(#[$attribute:meta])* fn $name:ident($n:ident: u32) -> u32 { if $m:ident == 0 { 1 } else { $o:ident.max(1) + 1 } }) => {
        $(#[$attribute])* fn $name($n: u32) -> u32 { if $m == 0 { 1 } else { $o + 1 } }
    };
}

plus_one! {
    fn next(n: u32) -> u32 {
        if n == 0 { 1 } else { n.max(1) + 1 }
    }
}

include!(concat!(env!("CARGO_MANIFEST_DIR"), "/gen/", "named.rs"));

#[track_caller]
fn place() -> String {
    let place = std::panic::Location::caller();
    format!("{}:{}:{}", place.file(), place.line(), place.column())
}

fn block_on<F: std::future::Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

const fn constant(n: u32) -> u32 {
    let m = n * 2;
    m + 1
}

fn main() {
    let mut thing = Thing { n: 1 };
    println!("{} {DATA} {} {}", thing.work(), constant(2), cfg!(feature = "louder"));
    println!("{:?}", block_on(thing.later("7")));
    println!("{:?}", block_on(async { thing.later("x").await }));
    println!("{} {} {}", place(), line!(), column!());
    thing.one_line();
    println!("{} {} {}", generated::made(), r#try::odd(3), util::deep::down(4));
    println!("{} {} {} {}", old::sum(3), bare::add(1, 2), mac::double!(21), thing.short());
    fn nested(n: u32) -> u32 {
        let mut sum = 0;
        for i in 0..n {
            sum += i;
        }
        sum
    }
    println!("{} {}", nested(5), included(strict::Strict(0).next()));
    println!("{} {}", named(next(0)), env!("CARGO_MANIFEST_DIR").ends_with("app"));
    if std::env::args().any(|it| it == "boom") {
        util::boom(3);
    }
    if std::env::args().any(|it| it == "hang") {
        std::fs::write("running", "").unwrap();
        loop {
            std::thread::park();
        }
    }
    if std::env::args().any(|it| it == "abort") {
        std::process::abort();
    }
    std::process::exit(7);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works() {
        let mut thing = Thing { n: 1 };
        assert_eq!(thing.work(), 4);
    }
}
