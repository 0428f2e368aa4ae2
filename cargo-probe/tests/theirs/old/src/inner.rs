pub fn at_most(n: u32) -> u32 {
    let limit = 100;
    if n > limit {
        return limit;
    }
    n
}
