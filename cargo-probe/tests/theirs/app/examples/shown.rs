//! An example.

fn main() {
    for n in 0..2 {
        println!("{}", bare::add(n, 1));
    }
}
