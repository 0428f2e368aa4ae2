//! Functions of a plugin that is loaded while the program runs, and unloaded at its end.

use std::env;
use std::ffi::c_void;
use std::path::PathBuf;

use probe_runtime::Profiler;
use probe_runtime::profile::{Budget, Estimated};
use probe_runtime::registry::discover_probes;
use probe_tests::fixture::{Built, Configuration};
use probe_tests::library::Library;

use super::{FUNCTIONS, HOT, MS, OUTER, Run, SHORT, now};

/// The variable that tells the child the plugin's folder.
pub(super) const FOLDER: &str = "PROBE_TEST_PLUGINS";

pub(super) const PATHS: [&str; 4] = ["late::tiny", "late::middling", "late::long", "late::outer"];
pub(super) const TINY: usize = FUNCTIONS.len();
const MIDDLING: usize = TINY + 1;
pub(super) const LONG: usize = TINY + 2;
const AROUND: usize = TINY + 3;

/// Returns these paths with those of the plugin behind them.
pub(super) const fn behind(own: [&'static str; FUNCTIONS.len()]) -> [&'static str; FUNCTIONS.len() + 4] {
    let mut all = [""; FUNCTIONS.len() + 4];
    let (first, last) = all.split_at_mut(own.len());
    first.copy_from_slice(&own);
    last.copy_from_slice(&PATHS);
    all
}

pub(super) fn built() -> Built {
    Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", "life").release_on_plain_runtime().build("late")
}

type Work = extern "C" fn(*mut c_void);
type Call = extern "C" fn(usize, Work, *mut c_void);

/// The plugin, until it is dropped.
pub(super) struct Plugin {
    library: Option<Library>,
    call: Call,
}

impl Plugin {
    fn load() -> Self {
        let path = PathBuf::from(env::var_os(FOLDER).unwrap()).join("liblate.so");
        let library = Library::open(&path);
        discover_probes();
        // SAFETY: the function of the fixture `late`.
        let call = unsafe { std::mem::transmute::<*mut c_void, Call>(library.symbol("late_call")) };
        Self { library: Some(library), call }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.library.take().into_iter().for_each(Library::close);
        discover_probes();
    }
}

/// The work inside of a function of the plugin.
struct Inside<'a, 'b> {
    run: &'a mut Run<'b>,
    body: &'a mut dyn FnMut(&mut Run<'b>),
}

extern "C" fn work(inside: *mut c_void) {
    // SAFETY: from `call`, which waits for this.
    let Inside { run, body } = unsafe { &mut *inside.cast::<Inside<'_, '_>>() };
    body(run);
}

/// Calls a function of the plugin, and there does what `body` does.
pub(super) fn call<'b>(run: &mut Run<'b>, function: usize, body: &mut dyn FnMut(&mut Run<'b>)) {
    let call = run.library.as_ref().unwrap().call;
    let mut inside = Inside { run, body };
    call(function, work, (&raw mut inside).cast());
}

/// After a while, the plugin's functions are called, too. Calls are short and long, and inside of
/// the program's own and around them.
pub(super) fn loaded_later(run: &mut Run<'_>) {
    for _ in 0..3_000 {
        let gap = run.random() % 6_000;
        run.compute(gap);
        run.call(HOT, 100);
    }
    run.compute(50 * MS);
    run.library = Some(Plugin::load());
    for _ in 0..60_000 {
        let gap = run.random() % 6_000;
        run.compute(gap);
        match run.random() % 1_000 {
            0..600 => run.call(TINY, 20),
            600..900 => run.call(SHORT, 150),
            900..960 => run.call(MIDDLING, 4_000),
            960..980 => run.within(AROUND, |run| {
                run.compute(300);
                run.call(HOT, 100);
            }),
            980..998 => run.within(OUTER, |run| {
                run.compute(200);
                run.call(TINY, 20);
            }),
            _ => run.call(LONG, 200_000),
        }
    }
}

/// A function is timed from the beginning. It calls one that joins, and is timed only later.
pub(super) fn inside() {
    let profiler = Profiler::with_clock(now).stepped().budget(Budget::UNLIMITED);
    let profiler = super::with_plugin().unwrap().attach(profiler).unwrap();
    let mut run = Run::new(&profiler, 1);
    let around = |run: &mut Run<'_>, inner: fn(&mut Run<'_>)| {
        run.within(OUTER, |run| {
            run.compute(1_000);
            inner(run);
        });
    };
    (0..2_000).for_each(|_| around(&mut run, |run| run.compute(MS)));
    run.library = Some(Plugin::load());
    for calls in 1..=5_000 {
        around(&mut run, |run| run.call(LONG, 200_000));
        if calls % 20 == 0 {
            let truth = (run.times[OUTER] - run.times[LONG]) as f64;
            let own = profiler.profile().function(super::PATHS[OUTER]).unwrap().own().unwrap();
            let off = own.value - truth;
            let is_right = if own.is_at_least() { off <= 0.0 } else { off.abs() <= own.error };
            assert!(is_right, "{own:?}, not {truth}, after {calls} calls");
        }
    }
    let known = profiler.profile();
    let joined = known.function(super::PATHS[LONG]).unwrap();
    assert_eq!(joined.calls(), Estimated { value: 5_000.0, error: 0.0 });
    // Before the next survey, a tenth of a second, calls were only counted.
    assert!((4_000..5_000).contains(&joined.samples()), "{joined:?}");
}
