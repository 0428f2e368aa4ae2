pub fn odd(n: u32) -> bool {
    let mut n = n;
    while n > 1 {
        n -= 2;
    }
    n == 1
}
