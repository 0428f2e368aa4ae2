//! Probed functions for tests that look at the whole text of their program.

/// Defines `first` and `second`, two functions with a point each. Their results tell whether the
/// threads that execute them came through unharmed.
///
/// A macro, so that the probes lie in the test's own module and program.
#[macro_export]
macro_rules! first_and_second {
    () => {
        #[inline(never)]
        fn first(x: u64) -> u64 {
            ::probe_runtime::point!("first");
            x + 1
        }

        #[inline(never)]
        fn second(x: u64) -> u64 {
            ::probe_runtime::point!("second");
            x * 2
        }
    };
}
