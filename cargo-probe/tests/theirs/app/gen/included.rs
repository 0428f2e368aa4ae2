fn included(n: u32) -> u32 {
    let place = std::panic::Location::caller();
    n + place.line()
}
