//! Other threads load and unload objects while probes are attached. No reference dangles,
//! operations find all loaded objects, counts stay, and a runtime that has attached stays loaded.
//! Each scenario is a process of its own: it loads and unloads plugins, and counts all hits.
#![cfg(not(probe_portable))]

mod churn;
mod forked;
mod guests;
mod joins;
mod late;
mod persistent;
mod place;
mod profiles;
mod rings;
mod unloads;

use std::env;
use std::ffi::OsStr;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use probe_runtime::losses::unreadable_records;
use probe_runtime::registry::ProbeState;
use probe_runtime::{Count, Error, Kind, probe, probes, select};
use probe_tests::fixture::{Built, Configuration};
use probe_tests::library::{Library, is_mapped};
use probe_tests::scenario;
use probe_tests::stops::Stops;
use probe_tests::text::Text;

/// The variable that tells the children the plugins' folder.
const PLUGINS: &str = "PROBE_TEST_PLUGINS";

#[probe]
#[inline(never)]
fn own(x: u64) -> u64 {
    black_box(x) + 1
}

/// Builds the plugins and plays a scenario with them.
fn pass(name: &str) {
    pass_with(name, &[]);
}

fn pass_with(name: &str, more: &[(&str, &OsStr)]) {
    static BUILT: OnceLock<Built> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let configuration =
            Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", "life").release_on_plain_runtime();
        configuration.build("plugin");
        configuration.build("caller");
        configuration.build("replaced");
        configuration.build("guest")
    });
    scenario::pass(name, &[&[(PLUGINS, built.path("").as_os_str())], more].concat());
}

fn plugin(name: &str) -> PathBuf {
    PathBuf::from(env::var_os(PLUGINS).unwrap()).join(format!("lib{name}.so"))
}

#[test]
fn what_an_unloaded_probe_counted_stays() {
    pass("counts stay");
}

#[test]
fn constructors_and_destructors_may_attach() {
    pass("constructors");
}

#[test]
fn a_runtime_that_has_attached_stays_loaded() {
    pass("guest");
}

#[test]
fn a_runtime_that_has_done_nothing_is_unloaded() {
    pass("idle guest");
}

#[test]
fn an_object_with_a_replaced_function_stays_loaded() {
    pass("replaced");
}

#[test]
fn a_forked_child_leaves_a_plugins_consumer_behind() {
    pass("fork");
}

#[test]
fn what_was_seen_half_loaded_is_looked_at_again() {
    pass("half loaded");
}

#[test]
fn the_place_of_an_unloaded_object_is_the_programs() {
    pass("place taken");
}

#[test]
fn text_stays_open_while_others_come_and_go() {
    pass("others go");
}

#[test]
fn pausing_alone_does_not_look() {
    pass("pause");
}

#[test]
fn what_another_runtime_has_is_left_to_it() {
    pass("taken");
}

#[test]
fn what_was_refused_in_an_unloaded_plugin_is_forgotten() {
    pass("refused before");
}

#[test]
fn a_damaged_definition_costs_no_further_look() {
    pass("damaged");
}

#[test]
fn plugins_come_and_go_while_all_is_toggled() {
    for seed in 1..=3 {
        pass(&format!("churn {seed}"));
    }
}

#[test]
fn probes_of_plugins_join_standing_attachments() {
    pass("persistent");
}

#[test]
fn each_consumer_gets_ready_for_probes_that_join() {
    pass("persistent consumers");
}

#[test]
fn a_consumer_may_refuse_probes() {
    pass("persistent refused");
}

#[test]
fn probes_join_under_running_threads() {
    pass("persistent running");
}

#[test]
fn probes_join_in_a_forked_child() {
    pass("persistent fork");
}

#[test]
fn probes_join_once_and_in_time() {
    for name in ["joins", "joins once", "joins later", "joins refused", "joins taken", "joins bridge"] {
        pass(name);
    }
}

#[test]
fn joins_survive_forks_and_cancellation() {
    pass("joins fork");
    pass("joins cancelled");
}

#[test]
fn rings_in_a_file_have_definitions_of_probes_that_join() {
    pass("joins in a file");
}

#[test]
fn functions_of_plugins_join_profilers() {
    pass("joins profilers");
}

#[test]
fn probes_of_plugins_join_what_the_environment_names() {
    let named = [("PROBES", OsStr::new("plugin::each kind=entry=joined"))];
    pass_with("joins by themselves", &named);
}

#[test]
fn consumers_say_what_can_not_join() {
    pass("joins impossible");
    pass("joins filtered");
}

#[test]
fn a_plugin_may_go_before_any_step_of_any_consumer() {
    pass("unloads before");
    pass("unloads and back");
}

#[test]
fn plugins_come_and_go_under_each_consumer() {
    pass("unloads");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.split_once(' ') {
        Some(("churn", seed)) => churn::churn(seed.parse().unwrap()),
        _ => match asked.as_str() {
            "counts stay" => counts_stay(),
            "constructors" => constructors(),
            "guest" => guests::guest(),
            "idle guest" => guests::idle_guest(),
            "replaced" => guests::replaced(),
            "fork" => forked::fork(),
            "half loaded" => half_loaded(),
            "place taken" => place::taken_by_the_program(),
            "others go" => place::others_come_and_go(),
            "pause" => late::pausing_does_not_look(),
            "taken" => late::taken_by_another(),
            "damaged" => late::damaged(),
            "persistent" => persistent::counted(),
            "persistent consumers" => persistent::each_consumer(),
            "persistent refused" => persistent::refused(),
            "persistent running" => persistent::running(),
            "persistent fork" => persistent::forked(),
            "joins" => joins::looked_for_is_joined(),
            "joins once" => joins::once(),
            "joins later" => joins::unloaded_before(),
            "joins refused" => joins::refused_once(),
            "joins taken" => joins::taken(),
            "joins bridge" => joins::bridged(),
            "joins fork" => joins::forked_in_a_hit(),
            "joins cancelled" => joins::cancelled(),
            "joins impossible" => joins::impossible(),
            "joins filtered" => joins::filtered(),
            "joins profilers" => profiles::joined(),
            "joins by themselves" => persistent::by_themselves(),
            "joins in a file" => rings::in_a_file(),
            "unloads and back" => unloads::and_back(),
            "unloads before" => unloads::before_each_step(),
            "unloads" => unloads::at_any_moment(),
            "refused before" => late::refused_before(),
            other => panic!("no scenario {other}"),
        },
    }
}

fn counts_stay() {
    let library = Library::open(&plugin("plugin"));
    let sum = library.function("plugin_sum");
    let hits = select("plugin::**, **::own").unwrap().attach(Count::new()).unwrap();
    // Entry and exit of two functions, a point; and this program's own two.
    assert_eq!((hits.report().patched(), hits.report().refused()), (7, 0));
    assert_eq!((sum(10), own(1)), (55, 2));
    library.close();
    assert!(!is_mapped(&plugin("plugin")));

    let each = |kind| hits.counts().hits("plugin::each", kind);
    assert_eq!((each(Kind::Entry), each(Kind::Exit)), (Some(10), Some(10)));
    assert_eq!(hits.total(), 10 + 10 + 10 + 1 + 1 + 1 + 1);
    let states = |state| hits.probes().iter().filter(|probe| probe.state() == state).count();
    assert_eq!((states(ProbeState::Unloaded), states(ProbeState::Active)), (5, 2));
    for probe in hits.probes().iter().filter(|probe| probe.path().starts_with("plugin::")) {
        assert_eq!(probe.sites(), 0, "{probe}");
        assert!(probe.file().ends_with("plugin/src/lib.rs"), "{probe}");
    }
    let point = hits.probes().into_iter().find(|probe| probe.path() == "plugin::value").unwrap();
    assert_eq!(
        point.fields().iter().map(probe_runtime::field::FieldInfo::name).collect::<Vec<_>>(),
        ["x", "text", "debug"]
    );
    let table = hits.to_string();
    let row = table.lines().find(|row| row.starts_with("plugin::value")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["plugin::value", "point", "0", "10"]);
    assert!(probes().iter().all(|probe| !probe.path().starts_with("plugin::")), "what is loaded now");
    assert!(matches!(select("plugin::**"), Err(Error::NoMatch { .. })));
    // Pausing skips unloaded sites and switches the others.
    assert_eq!((hits.pause().patched(), hits.resume().patched()), (2, 2));

    // The next operation finds the plugin that is loaded again, and its counts continue.
    let library = Library::open(&plugin("plugin"));
    assert_eq!(hits.probes().iter().filter(|probe| probe.state() == ProbeState::Active).count(), 7);
    assert_eq!((library.function("plugin_sum"))(3), 6);
    assert_eq!((each(Kind::Entry), each(Kind::Exit)), (Some(13), Some(13)));
    library.close();
    assert_eq!(hits.total(), 34 + 11);
    assert_eq!(hits.detach().patched(), 2);
    Text::of_this_process().assert_as_in_file();

    // Selected before the plugin is unloaded, attached afterwards: no sites and no counts until the
    // plugin is loaded again.
    let library = Library::open(&plugin("plugin"));
    let set = select("plugin::each kind=entry").unwrap();
    library.close();
    let hits = set.attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.counts().len()), (0, 0));
    let library = Library::open(&plugin("plugin"));
    assert_eq!(hits.probes().len(), 1);
    assert_eq!((library.function("plugin_sum"))(4), 10);
    library.close();
    assert_eq!((hits.counts().len(), hits.total()), (1, 4));
    assert_eq!(hits.detach().patched(), 0);
}

static CALLED_BACK: AtomicU64 = AtomicU64::new(0);

/// Called under the dynamic linker's lock.
extern "C" fn call_back() {
    let hits = select("**::own, caller::** kind=entry").unwrap().attach(Count::new()).unwrap();
    own(1);
    assert!(hits.counts().hits("life_plugins::own", Kind::Entry) >= Some(1));
    assert_eq!(unreadable_records(), 0);
    assert_eq!(hits.detach().refused(), 0);
    CALLED_BACK.fetch_add(1, Ordering::Relaxed);
}

fn let_plugins_call_back() {
    // SAFETY: no other thread of this process runs yet but the test's harness, which reads no
    // variable.
    unsafe { env::set_var("PROBE_TEST_CALL_BACK", (call_back as *const ()).addr().to_string()) };
}

/// Attaches under the dynamic linker's lock, while operations of other threads list the objects.
fn constructors() {
    let_plugins_call_back();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let hits = select("**").unwrap().attach(Count::new()).unwrap();
                    assert_eq!(hits.detach().refused(), 0);
                }
            });
        }
        for _ in 0..100 {
            let library = Library::open(&plugin("caller"));
            assert_eq!((library.function("caller_sum"))(4), 10);
            library.close();
        }
        drop(stops);
    });
    assert_eq!(CALLED_BACK.load(Ordering::Relaxed), 200);
    Text::of_this_process().assert_as_in_file();
}

/// Another thread reads the records all the time, also before the dynamic linker has filled in the
/// address of a long text.
fn half_loaded() {
    let end = Instant::now() + churn::time();
    thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut unread = 0_u64;
            while Instant::now() < end {
                unread += u64::from(unreadable_records() != 0);
            }
            unread
        });
        while Instant::now() < end {
            let library = Library::open(&plugin("caller"));
            assert_eq!(select("caller::**::long, caller::caller_sum").unwrap().len(), 4);
            assert_eq!(unreadable_records(), 0);
            library.close();
        }
        println!("seen half loaded: {}", looker.join().unwrap());
    });
}
