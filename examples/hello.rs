use probe_runtime::{Count, probe, select};

#[probe]
fn handle(request: &str) -> usize {
    probe!("checkpoint");
    probe!("parsed", bytes = request.len());
    request.len()
}

fn main() -> Result<(), probe_runtime::Error> {
    for p in probe_runtime::probes() {
        println!("{p}");
    }
    let hits = select("hello::handle")?.attach(Count::new())?;
    handle("hello");
    println!("{hits}");
    println!("{}", hits.report());
    drop(hits);
    handle("x");
    select("hello::hanlde")?;
    Ok(())
}
