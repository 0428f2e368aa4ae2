//! Replaces a function while the program runs: with a cache, then with a failure, then restores it.
//!
//! ```text
//! cargo run --example replace
//! ```

use std::collections::HashMap;
use std::sync::Mutex;

use probe_runtime::probe;

/// A slow lookup, somewhere deep in the program.
#[probe(replace)]
fn price(item: &str) -> Result<u32, String> {
    println!("  looking up {item}");
    u32::try_from(item.len()).map_err(|error| error.to_string())
}

struct Cart {
    items: Vec<String>,
}

impl Cart {
    #[probe(replace)]
    fn total(&self) -> Result<u32, String> {
        self.items.iter().map(|item| price(item)).sum()
    }
}

fn main() -> Result<(), probe_runtime::Error> {
    let cart = Cart { items: ["pear", "apple", "pear"].map(str::to_owned).into() };
    println!("as it is: {:?}", cart.total());

    // The closure's captures live as long as the guard.
    let known = Mutex::new(HashMap::new());
    let cache = price::install(move |original, item| {
        if let Some(price) = known.lock().unwrap().get(item) {
            return Ok(*price);
        }
        let price = original(item)?;
        known.lock().unwrap().insert(item.to_owned(), price);
        Ok(price)
    })?;
    println!("with a cache: {:?}", cart.total());

    // The newest closure is asked first. The one of a method is independent.
    let fault =
        price::install(
            |original, item| {
                if item == "apple" { Err("no more apples".to_owned()) } else { original(item) }
            },
        )?;
    let fallback = Cart::total_install(|original, cart| original(cart).or(Ok(0)))?;
    println!("with a fault, and a fallback: {:?}", cart.total());
    drop(fallback);
    println!("with a fault: {:?}", cart.total());

    drop((cache, fault));
    println!("as it was: {:?}", cart.total());
    Ok(())
}
