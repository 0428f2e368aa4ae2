//! Two copies of this crate in one process: the program's, and one that a plugin brings along.
//! Neither knows what the other holds open, and calls that one has deactivated outlive its library.
//! Each scenario is a process of its own: it loads a plugin, and asks for the rights of the
//! program's text.
#![cfg(not(any(probe_portable, probe_off)))]

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, probe, select};
use probe_tests::call_sites::{Block, FIRST};
use probe_tests::fixture::Configuration;
use probe_tests::library::{Library, is_mapped};
use probe_tests::pages::{PAGE, Pages, RWX, rights};
use probe_tests::text::Text;
use probe_tests::{scenario, whole};

/// The variable that tells the children the plugin's path.
const PLUGINS: &str = "PROBE_TEST_PLUGINS";

#[probe]
#[inline(never)]
fn own(x: u64) -> u64 {
    black_box(x) + 1
}

fn pass(name: &str) {
    let configuration =
        Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", "copies").release_on_plain_runtime();
    let built = configuration.build("guest");
    scenario::pass(name, &[(PLUGINS, built.path("").as_os_str())]);
}

fn guest() -> PathBuf {
    PathBuf::from(env::var_os(PLUGINS).unwrap()).join("libguest.so")
}

#[test]
fn what_the_other_copy_has_opened_may_be_sealed_by_it() {
    pass("sealed by the other");
}

#[test]
fn a_call_that_a_plugin_has_deactivated_stays_so_without_it() {
    pass("deactivated");
}

#[test]
fn both_copies_seal_the_same_text_at_once() {
    pass("sealed by both");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "sealed by the other" => sealed_by_the_other(),
        "sealed by both" => sealed_by_both(),
        "deactivated" => deactivated(),
        other => panic!("no scenario {other}"),
    }
}

fn sealed_by_the_other() {
    let text = Text::of_this_process();
    let library = Library::open(&guest());
    let (attach, detach) = (library.getter("guest_attach_open"), library.getter("guest_detach"));
    // This program's, and the plugin's own.
    assert_eq!(attach(), 2);
    let before = text.differences();
    let set = select("**::own kind=exit").unwrap().text_policy(TextPolicy::Open);
    let hits = set.attach(Count::new()).unwrap();
    let site = text.differences().into_iter().find(|it| !before.contains(it)).unwrap().at;
    let page = site & !(PAGE - 1)..(site & !(PAGE - 1)) + PAGE;
    assert_eq!((hits.report().patched(), rights(&page)), (1, vec!["rwxp".to_owned()]));
    assert_eq!((detach(), rights(&page)), (2, vec!["r-xp".to_owned()]));
    // It is opened again, and stays so.
    let paused = hits.pause();
    assert_eq!((paused.patched(), paused.refused()), (1, 0), "{paused}");
    assert_eq!(rights(&page), ["rwxp"]);
    assert_eq!((hits.resume().patched(), own(1), hits.total()), (1, 2, 1));
    let report = hits.detach();
    assert_eq!((report.patched(), report.is_complete()), (1, true), "{report}");
    text.assert_as_in_file();
}

/// The program has attached before it loads the plugin, so it knows of its own probes only when it
/// pauses.
fn sealed_by_both() {
    let text = Text::of_this_process();
    own(1);
    let hits = select("**::own kind=exit").unwrap().attach(Count::new()).unwrap();
    let library = Library::open(&guest());
    let (attach, detach) = (library.getter("guest_attach"), library.getter("guest_detach"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..if whole::is_asked_for() { 5_000 } else { 1_000 } {
                // The program's entry, and what the plugin has itself; the exit is taken.
                let attached = attach();
                assert_eq!(detach(), attached);
            }
            is_over.store(true, Ordering::Release);
        });
        while !is_over.load(Ordering::Acquire) {
            assert_eq!((hits.pause().patched(), hits.resume().patched()), (1, 1));
        }
    });
    assert_eq!((own(1), hits.total()), (2, 1));
    assert_eq!(hits.detach().patched(), 1);
    text.assert_as_in_file();
}

fn deactivated() {
    let library = Library::open(&guest());
    let deactivate = library.function("guest_deactivate");
    let pages = Pages::new(&vec![RWX; Block::size() / PAGE]);
    // SAFETY: this test's own pages, which stay as long as it does.
    let block = unsafe { Block::copy_to(pages.at(0)) };
    let site = block.sites().into_iter().find(|site| site.offset() == 7 && !site.is_jump).unwrap();
    assert_eq!(site.run(), FIRST);
    assert_eq!(deactivate(site.addr as u64), 1);
    assert_eq!(site.run(), 0);
    // It calls the plugin's own `ret`, which is near.
    assert!(site.addr.abs_diff(deactivate as *const () as usize) < 1 << 30);
    library.close();
    assert!(is_mapped(&guest()));
    assert_eq!(site.run(), 0);
}
