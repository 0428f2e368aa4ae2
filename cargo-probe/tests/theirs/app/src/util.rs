//! A module in a file, with one inside.

pub mod deep;

pub fn boom(n: u32) {
    let none: Vec<u32> = Vec::new();
    if n > 1 {
        let _ = none[n as usize];
    }
}
