//! `callers`: hits that are grouped by their caller, and by the stack of their callers, beside hits
//! that are grouped by a field. Traced hits with their callers, and with their stacks, beside hits
//! that are traced without.

use std::ffi::c_void;
use std::hint::black_box;
use std::mem;
use std::path::Path;

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, pin, timing};
use probe_runtime::aggregate::Group;
use probe_runtime::{Aggregate, Consumer, Error, Event, Trace, probe, select};
use probe_tests::c_library;
use probe_tests::folder::Folder;
use probe_tests::library::Library;

/// Frames above the function at least.
const FRAMES: u64 = 16;

type Callee = extern "C" fn(u64);
type Run = extern "C" fn(u64, u64, Callee);

/// Functions with one field, each for a case of its own.
macro_rules! callees {
    ($($name:ident)*) => { $(
        #[probe(args(x))]
        #[inline(never)]
        extern "C" fn $name(x: u64) {
            black_box(x);
        }
    )* };
}

callees!(delivered by_field by_two by_caller by_stack by_stack_without traced with_caller with_stack);

struct Empty;

impl Consumer for Empty {
    fn hit(&self, _: &Event<'_>) {}
}

/// Builds the frames above the functions.
fn frames(folder: &Folder, name: &str, flag: &str) -> Library {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c/callers.c");
    let library = folder.join(name);
    let said = c_library::run("cc", &["-O2", "-shared", "-fPIC", flag], &[&source], &library);
    assert!(said.is_done, "{}", said.messages);
    Library::open(&library)
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    let folder = Folder::new("bench-callers");
    let [with, without] = [("with.so", "-fno-omit-frame-pointer"), ("without.so", "-fomit-frame-pointer")]
        .map(|(name, flag)| frames(&folder, name, flag));
    let cases: [(_, Callee, _, _); 9] = [
        ("delivered", delivered, &with, None),
        ("by_field", by_field, &with, Some("count by(x)")),
        ("by_two", by_two, &with, Some("count by(x, x)")),
        ("by_caller", by_caller, &with, Some("count by(x, caller)")),
        ("by_stack", by_stack, &with, Some("count by(x, stack)")),
        ("by_stack_without", by_stack_without, &without, Some("count by(x, stack)")),
        ("traced", traced, &with, None),
        ("with_caller", with_caller, &with, None),
        ("with_stack", with_stack, &with, None),
    ];
    let _empty = select("callers::delivered kind=entry")?.attach(Empty)?;
    let mut aggregates = Vec::new();
    for (name, .., text) in cases {
        if let Some(text) = text {
            let aggregate = Aggregate::new(text).expect("it is written above");
            aggregates.push(select(&format!("callers::{name} kind=entry"))?.attach(aggregate)?);
        }
    }
    let traces = [
        ("traced", Trace::recorder()),
        ("with_caller", Trace::recorder().callers()),
        ("with_stack", Trace::recorder().stacks()),
    ];
    let traces = traces.map(|(name, trace)| select(&format!("callers::{name} kind=entry"))?.attach(trace));
    let mut runs: Vec<_> = cases
        .iter()
        .map(|(name, callee, library, _)| {
            // SAFETY: a function of this type, of a library that stays loaded.
            let run: Run = unsafe { mem::transmute::<*mut c_void, Run>(library.symbol("run")) };
            Case::new(name, calls, move |calls| run(FRAMES, calls, *callee))
        })
        .collect();
    let medians = interleave(rounds, &mut runs);
    for case in medians.names() {
        timing("callers", &medians, case, "delivered");
    }
    for (name, case) in [
        ("caller", "by_caller"),
        ("stack-of-16", "by_stack"),
        ("stack-of-16-without-frame-pointers", "by_stack_without"),
    ] {
        let more = medians.ns(case) - medians.ns("by_two");
        figure(
            &format!("callers/{name}"),
            format!("{more:.2}"),
            "ns",
            medians.ratio(case, "by_two"),
            "two fields",
        );
    }
    for case in ["with_caller", "with_stack"] {
        let more = medians.ns(case) - medians.ns("traced");
        let name = format!("callers/traced-{}", case.replace('_', "-"));
        figure(&name, format!("{more:.2}"), "ns", medians.ratio(case, "traced"), "a traced hit");
    }
    for trace in traces {
        let trace = trace?;
        assert_eq!(trace.totals().written, calls * (rounds + 1), "no hit is lost");
        assert_eq!(trace.to_string().lines().count(), 1, "each has its stack");
    }
    for aggregate in &aggregates {
        let groups = aggregate.groups();
        let hits: u64 = groups.iter().map(Group::count).sum();
        assert_eq!(hits, calls * (rounds + 1), "no hit is lost");
        assert!(groups.notes().is_empty() && !groups.to_folded().contains("(unknown)"), "{groups}");
    }
    Ok(())
}
