//! `#[probe]` above or below another macro on a block: that macro sees the code as written.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use probe_runtime::{probe, probes};

#[async_trait::async_trait]
trait Store {
    async fn put(&self, key: u64) -> u64;
    async fn get(&self, key: u64) -> u64 {
        self.put(key).await
    }
}

struct Memory;
struct Disk;

#[probe(group = "above")]
#[async_trait::async_trait]
impl Store for Memory {
    async fn put(&self, key: u64) -> u64 {
        probe!("Memory::stored", key);
        if key == 0 { 1 } else { key }
    }
}

#[async_trait::async_trait]
#[probe(group = "below")]
impl Store for Disk {
    async fn put(&self, key: u64) -> u64 {
        if key == 0 { 1 } else { key }
    }
}

#[probe(group = "module")]
mod inside {
    #[async_trait::async_trait]
    pub(crate) trait Named {
        async fn name(&self) -> String;
    }

    #[async_trait::async_trait]
    #[probe(doc = "of a name")]
    impl Named for super::Memory {
        async fn name(&self) -> String {
            let name = "memory";
            name.to_owned()
        }
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing waits"),
    }
}

fn main() {
    assert_eq!((ready(Memory.get(2)), ready(Disk.get(0))), (2, 1));
    assert_eq!(ready(inside::Named::name(&Memory)), "memory");
    let named = |path: &str| {
        let probes = probes();
        let found = probes.iter().find(|it| it.path().ends_with(path)).map(|it| it.group().map(str::to_owned));
        found.unwrap_or_else(|| panic!("{path} of {probes:?}"))
    };
    assert_eq!(named("::Memory::put").as_deref(), Some("above"));
    assert_eq!(named("::Memory::stored").as_deref(), Some("above"));
    assert_eq!(named("::Disk::put").as_deref(), Some("below"));
    assert_eq!(named("::inside::Memory::name").as_deref(), Some("module"));
    assert_eq!(probes().iter().filter(|it| it.path().ends_with("::Memory::put")).count(), 5, "a future's");
}
