//! A pool of connections under tokio, on one thread. The connections are numbers.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use bb8::{ManageConnection, Pool};

#[derive(Default)]
struct Numbers(AtomicU64);

impl ManageConnection for Numbers {
    type Connection = u64;
    type Error = Infallible;

    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }

    async fn is_valid(&self, _: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}

pub fn work(times: u64) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let pool = Pool::builder().max_size(4).build(Numbers::default()).await.expect("a pool");
        let mut digest = 0;
        for _ in 0..times {
            let mut one = pool.get().await.expect("a connection");
            let mut other = pool.get_owned().await.expect("a connection");
            *one += 4;
            *other += 4;
            digest ^= *one ^ *other;
            digest += u64::from(pool.state().connections);
        }
        digest
    })
}
