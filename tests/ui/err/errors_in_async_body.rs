//! Errors in the body of a probed `async fn` are shown where they are.

use probe_runtime::probe;

#[probe]
async fn wrong_tail(n: u32) -> String {
    n
}

#[probe]
async fn wrong_return(n: u32) -> String {
    if n == 0 {
        return 3;
    }
    String::new()
}

#[probe]
async fn unknown_name() {
    missing().await;
}

#[probe]
async fn not_a_future(n: u32) {
    n.await;
}

#[probe]
async fn question_mark() -> Option<u32> {
    let n: u32 = "1".parse()?;
    Some(n)
}

fn main() {}
