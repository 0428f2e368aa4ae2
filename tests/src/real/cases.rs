//! What must hold of a code base, as tests: one line for each case, so that all code bases have the same ones.

/// The five tests of a [`CodeBase`](crate::real::CodeBase), each in a process of its own: listed right and counted right with sites placed by
/// either strategy, and the same results while its probes are toggled. `unpaired` is called with the way, and with the functions that were
/// entered more often than left, or less, and how often they were. The test's file has a constant `ROOT`, the folder to build in.
#[macro_export]
macro_rules! real_cases {
    (base: $base:expr, amount: $amount:expr, selectors: $selectors:expr, unpaired: $unpaired:expr $(,)?) => {
        #[test]
        fn entry_return_listing() {
            $crate::real_cases!(@listing $base, entry_return_listing, EntryReturn);
        }

        #[test]
        fn instrument_functions_listing() {
            $crate::real_cases!(@listing $base, instrument_functions_listing, InstrumentFunctions);
        }

        #[test]
        fn entry_return_counts() {
            $crate::real_cases!(@counts $base, $amount, $unpaired, entry_return_counts, EntryReturn);
        }

        #[test]
        fn instrument_functions_counts() {
            $crate::real_cases!(@counts $base, $amount, $unpaired, instrument_functions_counts, InstrumentFunctions);
        }

        #[test]
        fn toggled() {
            $crate::real_cases!(@case $base, toggled, EntryReturn, |way| {
                $crate::real::checks::toggling_changes_nothing(&$base, ROOT, way, $amount, &$selectors);
            });
        }
    };
    (@case $base:expr, $name:ident, $way:ident, $check:expr) => {
        $crate::real::checks::in_a_child(&$base, ROOT, stringify!($name), $crate::real::Way::$way, $check)
    };
    (@listing $base:expr, $name:ident, $way:ident) => {
        $crate::real_cases!(@case $base, $name, $way, |way| {
            let _ = $crate::real::checks::listing(&$base, ROOT, way);
        })
    };
    (@counts $base:expr, $amount:expr, $unpaired:expr, $name:ident, $way:ident) => {
        $crate::real_cases!(@case $base, $name, $way, |way| {
            let counts = $crate::real::checks::counts_are_right(&$base, ROOT, way, $amount);
            $unpaired(way, $crate::real::checks::unpaired(&counts));
        })
    };
}
