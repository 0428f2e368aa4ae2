//! Reads any text as a predicate, an aggregation and a spec. Their printed form is read again, and
//! runs as a program where a probe has such fields.
#![no_main]

use probe_runtime::selector::Predicate;
use probe_runtime::spec::Spec;
use probe_runtime::{Aggregate, Count, point, select};

/// The point that predicates are attached to.
fn fuzzed(n: u64) {
    point!("fuzzed", n = n, d = -1_i32, f = 0.5, s = "text", ok = true, c = 'c');
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    fuzzed(0);
    let set = select("**::fuzzed").expect("it was hit");
    if let Ok(predicate) = text.parse::<Predicate>() {
        let printed = predicate.to_string();
        let again = printed.parse::<Predicate>().expect("it was printed");
        assert_eq!(again.to_string(), printed);
        if let Ok(counted) = set.attach_if(&predicate, Count::new()) {
            (0..3).for_each(fuzzed);
            assert!(counted.total() <= 3);
        }
    }
    if let Ok(aggregate) = Aggregate::new(text)
        && let Ok(groups) = set.attach(aggregate)
    {
        (0..3).for_each(fuzzed);
        assert!(groups.groups().iter().map(|it| it.count()).sum::<u64>() <= 3);
        assert!(!groups.to_string().is_empty());
    }
    if let Ok(spec) = text.parse::<Spec>() {
        assert_eq!(spec.to_string().parse::<Spec>().expect("it was printed"), spec);
    }
});
