use probe_runtime::point;

fn main() {
    let n = 1;
    drop(point!("task", n, async { n }));
    drop(point!("task", async { n }, n));
    drop(point!("task", async { n } + 1));
    drop(point!("task", n = async { n }));
}
