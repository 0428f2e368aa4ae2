//! Four threads execute C and C++ functions all the time, while their sites are toggled in every
//! way. Each result is that of a build without sites, both states are seen, and the final text is
//! the file's. A process of its own: it toggles all probes there are.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(probe_portable)))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use probe_build::Sites;
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Count, select};
use probe_tests::c::{Language, Object, Recipe, builds};
use probe_tests::destroyer::Destroyer;
use probe_tests::random::Random;
use probe_tests::stops::Stops;
use probe_tests::text::Text;
use probe_tests::whole;

const THREADS: usize = 4;
/// How long each object is toggled, in a slice and in the whole; `PROBE_SOAK_SECONDS` prolongs it.
const SLICE: Duration = Duration::from_millis(200);
const WHOLE: Duration = Duration::from_millis(800);

/// Returns the scenarios that threads may play concurrently: they share no state.
fn scenarios(language: Language) -> &'static [&'static str] {
    match language {
        Language::C => &["values", "flow", "machine"],
        Language::Cpp => &["exceptions_run", "templates_run", "coroutines_run"],
    }
}

#[test]
fn results_are_right_while_sites_are_toggled() {
    let soak = std::env::var("PROBE_SOAK_SECONDS").map_or(0, |seconds| seconds.parse().expect("seconds"));
    let least = if whole::is_asked_for() { WHOLE } else { SLICE };
    let time = least.max(Duration::from_secs(soak));
    let root = env!("CARGO_TARGET_TMPDIR");
    for (compiler, language, sites) in builds() {
        let recipe = |sites| Recipe::new(compiler, language, sites, "-O2");
        let [plain, object] = [Sites::None, sites].map(|sites| Object::open(&recipe(sites).build(root).0));
        toggle(&plain, &object, language, sites, time);
        Text::of(&object.path).assert_as_in_file();
        object.library.close();
        plain.library.close();
    }
}

pub(crate) fn toggle(plain: &Object, object: &Object, language: Language, sites: Sites, time: Duration) {
    // The first run does all initialisation.
    let play = |object: &Object| {
        scenarios(language).iter().map(|scenario| object.notes(scenario)).collect::<Vec<_>>()
    };
    let _ = (play(plain), play(object));
    let expected = play(plain);
    let (stop, runs) = (AtomicBool::new(false), AtomicU64::new(0));
    let destroyer = || match sites {
        Sites::EntryReturn => Destroyer::default(),
        _ => Destroyer::where_calls_are_expected(),
    };
    let (hits, toggles) = thread::scope(|scope| {
        let _stops = Stops(&stop);
        let play_on = || {
            while !stop.load(Ordering::Relaxed) {
                assert!(play(object) == expected, "a result has changed");
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads = [(); THREADS].map(|()| scope.spawn(play_on));
        let (end, mut random) = (Instant::now() + time, Random::new(7));
        let (mut hits, mut toggles) = (0, 0_u64);
        // On a loaded machine, a thread may have waited for a processor all that time. One that has
        // failed ends.
        let is_too_short = |toggles| toggles <= 4 || runs.load(Ordering::Relaxed) < 2 * THREADS as u64;
        let all_go_on = || threads.iter().all(|thread| !thread.is_finished());
        while Instant::now() < end || is_too_short(toggles) && all_go_on() {
            let text = [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias]
                [usize::try_from(random.below(3)).unwrap()];
            let visibility =
                [Visibility::Synchronous, Visibility::Eventual][usize::from(random.below(2) == 1)];
            let set =
                select("**").unwrap().text_policy(text).visibility(visibility).strict(random.below(8) == 0);
            let count = set.attach(Count::new()).unwrap();
            let destroyer = (random.below(2) == 0).then(|| set.attach(destroyer()).unwrap());
            thread::sleep(Duration::from_micros(random.below(3000)));
            for _ in 0..random.below(4) {
                assert_eq!((count.pause().refused(), count.resume().refused()), (0, 0));
                toggles += 2;
            }
            if let Some(destroyer) = destroyer {
                assert_eq!((destroyer.failure(), destroyer.surprised()), (None, 0));
                assert_eq!(destroyer.detach().refused(), 0);
            }
            hits += count.total();
            assert_eq!(count.detach().refused(), 0);
            toggles += 2;
            // Latent for a while.
            thread::sleep(Duration::from_micros(random.below(1000)));
        }
        (hits, toggles)
    });
    let runs = runs.load(Ordering::Relaxed);
    println!("{language:?} {sites:?}: {runs} runs, {hits} hits, {toggles} toggles");
    assert!(runs >= THREADS as u64 && toggles > 4);
    // Both states have been seen: all runs together would have hit more, had the sites been active
    // all the time.
    let count = select("**").unwrap().attach(Count::new()).unwrap();
    assert!(play(object) == expected);
    let of_one_run = count.total();
    assert!(hits > of_one_run && hits < of_one_run * (runs + THREADS as u64), "{hits} hits in {runs} runs");
}
