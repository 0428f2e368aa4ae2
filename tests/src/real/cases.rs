//! A macro for the tests of a code base, so that all code bases have the same tests.

/// Defines the five tests of a [`CodeBase`](crate::real::CodeBase), each in a process of its own.
/// With sites placed by either strategy, probes are listed and counted right; toggling them does
/// not change the results. The tests call `unpaired` with the way, and with the functions whose
/// entries and exits differ in number, with both numbers. The test's file has a constant `ROOT`,
/// the folder to build in.
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
