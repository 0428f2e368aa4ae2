pub fn down(n: u32) -> u32 {
    match n {
        0 => 0,
        _ => down(n - 1) + 1,
    }
}
