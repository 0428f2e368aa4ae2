//! Probes that are only counted: their sites lead to blocks of code that count and continue. A
//! consumer that needs to see hits gets the sites led back. No hit is lost on the way, whatever
//! interrupts a block, and no block is left behind. A process of its own: it checks the bytes of
//! all its sites.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

mod denied;
mod interrupted;
mod objects;
mod retargeted;
mod seen;

use std::env;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::OnceLock;

use probe_runtime::consumer::DeliveryMode;
use probe_runtime::{Consumer, Event, probe};
use probe_tests::fixture::{Built, Configuration};
use probe_tests::scenario;

/// The variable that tells the children the plugin's path.
const PLUGINS: &str = "PROBE_TEST_PLUGINS";

#[probe]
#[inline(never)]
fn hot(x: u64) -> u64 {
    black_box(x).rotate_left(7) ^ 0x51
}

#[probe(args(*))]
#[inline(never)]
fn with_field(x: u64) -> u64 {
    black_box(x) + 1
}

/// Is told of hits, and does nothing.
struct Told;

impl Consumer for Told {
    fn hit(&self, _event: &Event<'_>) {}
}

/// Is told, or counts.
#[derive(Default)]
struct Either(std::sync::atomic::AtomicU64);

impl Consumer for Either {
    fn delivery_mode(&self) -> DeliveryMode {
        DeliveryMode::Switchable
    }

    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn sites_lead_where_their_consumers_need_them() {
    scenario::runs_in_a_child("scenario", "seen");
}

#[test]
fn a_breakpoint_on_a_counted_site_is_found() {
    scenario::runs_in_a_child("scenario", "foreign");
}

#[test]
fn every_text_policy_leads_sites_there_and_back() {
    scenario::runs_in_a_child("scenario", "policies");
}

#[test]
fn what_has_fields_evaluates_them_also_where_it_is_counted() {
    scenario::runs_in_a_child("scenario", "fields");
}

#[test]
fn a_handler_may_interrupt_a_block_at_every_instruction() {
    scenario::runs_in_a_child("scenario", "stepped");
}

#[test]
fn a_storm_of_signals_loses_nothing() {
    scenario::runs_in_a_child("scenario", "storm");
}

#[test]
fn threads_come_and_go_and_fork() {
    scenario::runs_in_a_child("scenario", "threads");
}

#[test]
fn running_threads_lose_nothing_while_sites_are_led_elsewhere() {
    scenario::runs_in_a_child("scenario", "retargeted");
}

#[test]
fn a_consumer_that_wants_either_has_its_sites_follow() {
    scenario::runs_in_a_child("scenario", "either");
}

#[test]
fn where_code_can_not_be_made_the_cold_block_counts() {
    scenario::runs_in_a_child("scenario", "denied");
}

#[test]
fn the_blocks_of_a_plugin_go_with_it() {
    static BUILT: OnceLock<Built> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        Configuration::new(env!("CARGO_TARGET_TMPDIR"), "link", "counted")
            .release_on_plain_runtime()
            .build("plugin")
    });
    scenario::pass("plugin", &[(PLUGINS, built.path("").as_os_str())]);
}

fn plugin() -> PathBuf {
    PathBuf::from(env::var_os(PLUGINS).unwrap()).join("libplugin.so")
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "seen" => seen::in_each_state(),
        "foreign" => seen::under_a_breakpoint(),
        "policies" => seen::under_each_policy(),
        "fields" => seen::with_fields(),
        "stepped" => interrupted::step_by_step(),
        "storm" => interrupted::by_a_storm(),
        "threads" => interrupted::by_the_end_of_threads(),
        "retargeted" => retargeted::by_others(),
        "either" => retargeted::by_a_switch(),
        "denied" => denied::no_execution(),
        "plugin" => objects::come_and_go(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}
