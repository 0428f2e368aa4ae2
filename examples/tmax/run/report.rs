//! The printed report: the machine, the table, and the recommended wait.

use std::fmt;
use std::fs;

use probe_benches::processors;
use probe_benches::toggling::is_crowded;

use super::args::Plan;
use super::matrix::{Cell, Row};
use super::trial::{Across, Delay, Protocol, Visibility};

/// The paper's own wait, on two sockets: the minimum of all recommendations.
const LEAST: u64 = 3_000;
/// Factor from the measured wait to the recommended one.
const MARGIN: u64 = 3;

/// The machine to which the figures apply.
pub struct Machine {
    model: String,
    processors: usize,
    ticks_per_second: u64,
    is_virtual: bool,
}

impl Machine {
    /// Describes this machine.
    pub fn here(ticks_per_second: u64) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let value = |name: &str| {
            let line =
                cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
            line.and_then(|line| line.split(':').nth(1)).map_or("unknown", str::trim).to_owned()
        };
        let model =
            format!("{}, family {} model {}", value("model name"), value("cpu family"), value("model"));
        let is_virtual = value("flags").split_whitespace().any(|flag| flag == "hypervisor");
        Self { model, processors: processors(), ticks_per_second, is_virtual }
    }

    /// Converts ticks to nanoseconds.
    pub fn ns(&self, ticks: u64) -> f64 {
        1e9 * ticks as f64 / self.ticks_per_second as f64
    }

    /// Estimates the minutes for the whole plan: its waits, and a microsecond for each toggle.
    fn minutes(&self, plan: &Plan) -> f64 {
        let ns = |delay| match (delay, plan.protocol) {
            (Delay::Ticks(wait), Protocol::Int3) => 1_000.0 + 2.0 * self.ns(wait),
            (Delay::Ticks(wait), Protocol::Bare) => 300.0 + self.ns(wait),
            (Delay::Barrier, _) => 6_000.0,
        };
        let each: f64 = plan.delays().into_iter().map(ns).sum();
        each * plan.toggles as f64 * (plan.splits.len() * plan.executors.len()) as f64 / 60e9
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ghz = self.ticks_per_second as f64 / 1e9;
        let kind = if self.is_virtual { " (virtual machine)" } else { "" };
        write!(f, "{}{kind}; {} processors; {ghz:.2} billion ticks a second", self.model, self.processors)
    }
}

/// Prints the machine and the planned measurement.
pub fn introduce(plan: &Plan, machine: &Machine) {
    println!("{machine}");
    let what = match plan.protocol {
        Protocol::Int3 => {
            "a call toggled on and off under the protocol: int3, wait, the rest, wait, the first byte"
        }
        Protocol::Bare => "an instruction toggled without int3: the rest, wait, the first part",
    };
    println!("Across two {}: {what}.", boundary(plan));
    let minutes = machine.minutes(plan).ceil();
    println!("{} runs of {} toggles each: about {minutes} min.", plan.runs(), plan.toggles);
    let crowded: Vec<_> = plan.executors.iter().filter(|executors| is_crowded(**executors)).collect();
    if let Some(first) = crowded.first() {
        println!(
            "From {first} executors on, threads outnumber the {} processors: executors take turns, so few of them run at once.",
            machine.processors
        );
    }
    if machine.processors < 2 {
        println!("On one processor no executor runs while the patcher writes: this measures nothing.");
    }
    if plan.is_quick {
        println!("--quick shows that it works; its result means little.");
    }
    println!();
}

/// Returns the boundary that the instruction crosses, in the plural.
pub fn boundary(plan: &Plan) -> &'static str {
    if plan.across == Across::Page { "pages" } else { "cache lines" }
}

/// Prints the table's head.
pub fn print_head(plan: &Plan) {
    let of = over_splits(plan);
    println!("{:>8}  {of}  seen after (ticks)", "wait");
    let splits: Vec<_> =
        plan.splits.iter().map(|split| format!("{:>9}", format!("{split}|{}", 5 - split))).collect();
    let splits = splits.concat();
    let width = of.chars().count();
    println!(
        "{:>8}  {splits:<width$}  {:>8} {:>8} {:>8} {:>10}",
        "(ticks)", "median", "99 %", "99.9 %", "longest"
    );
}

/// Returns the heading over the columns of the splits, padded to their width.
fn over_splits(plan: &Plan) -> String {
    let text = match plan.protocol {
        Protocol::Int3 => format!("  failed runs of {}, by split", plan.executors.len()),
        Protocol::Bare => String::from("  wrong values a toggle, by split"),
    };
    format!("{text:<width$}", width = 9 * plan.splits.len())
}

/// Prints one row of the table.
pub fn print_row(plan: &Plan, row: &Row) {
    let cell = |cell: &Cell| match plan.protocol {
        Protocol::Int3 if cell.stuck > 0 => format!("{:>9}", format!("{} stuck", cell.failed)),
        Protocol::Int3 => format!("{:>9}", cell.failed),
        Protocol::Bare => format!("{:>9.4}", cell.wrong_per_toggle()),
    };
    let cells: String = row.splits.iter().map(cell).collect();
    let width = over_splits(plan).chars().count();
    println!("{:>8}  {cells:<width$}  {}", row.delay, times(row.visibility().as_ref()));
}

fn times(seen: Option<&Visibility>) -> String {
    match seen {
        None => String::from("       –"),
        Some(Visibility { median, p99, p999, max }) => format!("{median:>8} {p99:>8} {p999:>8} {max:>10}"),
    }
}

/// Returns the least wait from which on no run failed; `None` if the longest one failed.
fn least_safe(rows: &[Row]) -> Option<u64> {
    let waits = rows.iter().rev().filter_map(|row| match row.delay {
        Delay::Ticks(wait) => Some((wait, row.failed())),
        Delay::Barrier => None,
    });
    waits.take_while(|(_, failed)| *failed == 0).last().map(|(wait, _)| wait)
}

/// Returns the recommended wait: a multiple of the measured one.
fn recommended(least_safe: u64, reference: Option<&Visibility>) -> u64 {
    let measured = least_safe.max(reference.map_or(0, |seen| seen.p999));
    (MARGIN * measured).next_multiple_of(100).max(LEAST)
}

/// Returns the number of toggles in the rows from a wait on.
fn clean(plan: &Plan, rows: &[Row], least: u64) -> u64 {
    let is_long = |row: &&Row| matches!(row.delay, Delay::Ticks(wait) if wait >= least);
    let combinations = (plan.splits.len() * plan.executors.len()) as u64;
    rows.iter().filter(is_long).count() as u64 * combinations * plan.toggles
}

/// Prints the meaning of the table.
pub fn conclude(plan: &Plan, machine: &Machine, rows: &[Row], reference: Option<&Visibility>) {
    println!();
    if let Some(Visibility { median, p99, p999, max }) = reference {
        println!(
            "One store to an aligned instruction is seen by another processor after {median} ticks (median), {p99} (99 %), {p999} (99.9 %), {max} (longest)."
        );
    }
    if plan.protocol == Protocol::Bare {
        println!(
            "Every wrong value is half of one instruction with half of another. No wait makes that safe: the trap does."
        );
        return;
    }
    if let Some(row) = rows.iter().find(|row| row.delay == Delay::Barrier && row.failed() != 0) {
        println!("{} runs failed with barriers, which must not happen. Please report it.", row.failed());
    }
    let Some(safe) = least_safe(rows) else {
        println!(
            "Runs failed at the longest wait. Try --max-wait {}, or use Wait::Barrier.",
            4 * plan.max_wait.max(600)
        );
        return;
    };
    if safe > plan.max_wait / 2 {
        println!(
            "Runs failed up to just below {safe} ticks, too near the longest wait for the rows without failures to mean much. Try --max-wait {}, or use Wait::Barrier.",
            4 * plan.max_wait
        );
        return;
    }
    if rows.iter().all(|row| row.failed() == 0) {
        println!("No run failed, with no wait at all either: here the wait is what the visibility asks for.");
    } else {
        println!("No run failed from a wait of {safe} ticks on.");
    }
    let wait = recommended(safe, reference);
    println!(
        "Recommended: Wait::Tmax(Ticks({wait})), {:.2} µs for each of the two waits of a patch.",
        machine.ns(wait) / 1e3
    );
    println!(
        "  = {MARGIN} × the greater of the least wait without failures ({safe}) and the time until 99.9 % of aligned stores were\n    seen ({}), and not less than {LEAST}, which the paper used on two sockets.",
        reference.map_or_else(|| String::from("not measured"), |seen| seen.p999.to_string()),
    );
    println!(
        "In {} toggles from there on none failed: by that, fewer than one in {} does (95 %).",
        clean(plan, rows, safe),
        clean(plan, rows, safe) / 3
    );
    if machine.is_virtual {
        println!(
            "This is a virtual machine: its host may stop a processor at any moment, and for how long no table tells."
        );
    }
    println!(
        "It is measured, not promised by the processor's maker. Wait::Barrier, the default, needs no number."
    );
}
