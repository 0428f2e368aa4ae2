use probe_runtime::probe;

#[probe(replace)]
fn price(item: &str, count: u32) -> u32 {
    item.len() as u32 * count
}

fn main() -> Result<(), probe_runtime::Error> {
    let _number = price::install(|original, item, count| original(count, item))?;
    let _result = price::install(|_, item, _| item)?;
    let _many = price::install(|original, item| original(item, 1))?;
    let local = 3;
    let _borrows = price::install(|_, _, _| local)?;
    let shared = std::rc::Rc::new(1);
    let _unshared = price::install(move |_, _, _| *shared)?;
    Ok(())
}
