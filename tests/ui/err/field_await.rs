async fn f() {
    probe_runtime::point!("await", n = std::future::ready(1).await);
}

fn main() {
    drop(f());
}
