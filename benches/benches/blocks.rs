//! `blocks`: the cost of latent probes on small functions, which is why `#[probe]` on a block
//! leaves them out.
//!
//! Each case is a loop over the same items that calls one kind of function, without probes and with
//! a probe in it. With `valgrind`, each loop's instructions are counted, too; they are the same in
//! every run.

use std::process::Command;

use probe_benches::{Case, Scale, figure, interleave, pin, timing};

const ITEMS: u32 = 1_000;

/// Defines the same type and functions twice, with and without `$attribute`.
macro_rules! subject {
    ($module:ident, $(#[$attribute:meta])?) => {
        mod $module {
            use std::hint::black_box;

            #[derive(Clone)]
            pub struct Item {
                value: u32,
                weight: u32,
                list: Vec<u32>,
            }

            $(#[$attribute])?
            impl Item {
                pub fn new(value: u32) -> Self {
                    Self { value, weight: 1, list: vec![value; 8] }
                }

                /// A getter.
                pub fn value(&self) -> u32 {
                    self.value
                }

                /// A short expression.
                pub fn weighted(&self) -> u32 {
                    self.value.wrapping_mul(self.weight) ^ self.weight
                }

                /// A delegate.
                pub fn first(&self) -> Option<&u32> {
                    self.list.first()
                }

                /// A hinted function of several statements.
                #[inline]
                pub fn mixed(&self) -> u32 {
                    let mut hash = self.value ^ self.weight.rotate_left(7);
                    hash = hash.wrapping_mul(0x9E37_79B1);
                    hash ^ (hash >> 15)
                }

                /// A small function of several statements, which the compiler may inline without a
                /// hint.
                pub fn clamped(&self) -> u32 {
                    let value = self.value;
                    if value > 500 {
                        return 500;
                    }
                    value
                }

                /// A larger function.
                pub fn sum(&self) -> u32 {
                    let mut sum = 0_u32;
                    for value in &self.list {
                        sum = sum.wrapping_mul(31).wrapping_add(*value);
                    }
                    sum
                }
            }

            pub fn getter(items: &[Item]) -> u32 {
                items.iter().fold(0, |sum, item| sum.wrapping_add(item.value()))
            }

            pub fn expression(items: &[Item]) -> u32 {
                items.iter().fold(0, |sum, item| sum.wrapping_add(item.weighted()))
            }

            pub fn delegate(items: &[Item]) -> u32 {
                items.iter().fold(0, |sum, item| sum.wrapping_add(item.first().copied().unwrap_or(1)))
            }

            pub fn inline(items: &[Item]) -> u32 {
                items.iter().fold(0, |sum, item| sum.wrapping_add(item.mixed()))
            }

            pub fn branch(items: &[Item]) -> u32 {
                items.iter().fold(0, |sum, item| sum.wrapping_add(item.clamped()))
            }

            pub fn work(items: &[Item]) -> u32 {
                items.iter().fold(0, |sum, item| sum.wrapping_add(item.sum()))
            }

            /// Returns the loop over a kind of function, with its items.
            pub fn run(kind: &str) -> impl FnMut(u64) {
                let items: Vec<_> = (0..super::ITEMS).map(Item::new).collect();
                let run: fn(&[Item]) -> u32 = match kind {
                    "getter" => getter,
                    "expression" => expression,
                    "delegate" => delegate,
                    "inline" => inline,
                    "branch" => branch,
                    _ => work,
                };
                move |calls| {
                    for _ in 0..calls {
                        black_box(run(black_box(&items)));
                    }
                }
            }
        }
    };
}

subject!(plain,);
subject!(probed, #[probe_runtime::probe(all)]);
subject!(by_default, #[probe_runtime::probe]);

/// Each kind, with the names of its figures.
const KINDS: [(&str, [&str; 3]); 6] = [
    ("getter", ["getter/plain", "getter/all", "getter/default"]),
    ("expression", ["expression/plain", "expression/all", "expression/default"]),
    ("delegate", ["delegate/plain", "delegate/all", "delegate/default"]),
    ("inline", ["inline/plain", "inline/all", "inline/default"]),
    ("branch", ["branch/plain", "branch/all", "branch/default"]),
    ("work", ["work/plain", "work/all", "work/default"]),
];

/// Set in the process that runs one loop under `valgrind`.
const CHILD: &str = "PROBE_BENCH_BLOCKS";

fn main() {
    if let Ok(asked) = std::env::var(CHILD) {
        return child(&asked);
    }
    let scale = Scale::from_args();
    pin(0);
    for (kind, [plain, all, default]) in KINDS {
        let calls = scale.of(200);
        let mut cases = [
            per_item(plain, calls, plain::run(kind)),
            per_item(all, calls, probed::run(kind)),
            per_item(default, calls, by_default::run(kind)),
        ];
        let medians = interleave(scale.of(400), &mut cases);
        for case in medians.names() {
            timing("blocks", &medians, case, plain);
        }
        if scale == Scale::Smoke {
            continue;
        }
        let counts: Vec<_> =
            ["plain", "all", "default"].iter().filter_map(|which| instructions(kind, which)).collect();
        if let [plain, all, default] = counts[..] {
            for (which, count) in [("all", all), ("default", default)] {
                let name = format!("blocks/{kind}/{which}-instructions");
                figure(
                    &name,
                    format_args!("{count:.2}"),
                    "instructions",
                    count / plain,
                    &format!("{kind}/plain"),
                );
            }
        }
    }
}

/// Returns a case whose unit is one item.
fn per_item(name: &'static str, calls: u64, run: impl FnMut(u64) + 'static) -> Case<'static> {
    let mut run = run;
    Case::new(name, calls * u64::from(ITEMS), move |all| run(all / u64::from(ITEMS)))
}

/// Runs the loop that `kind which calls` names.
fn child(asked: &str) {
    let parts: Vec<_> = asked.split(' ').collect();
    let calls = parts[2].parse().expect("a number of calls");
    match parts[1] {
        "plain" => plain::run(parts[0])(calls),
        "all" => probed::run(parts[0])(calls),
        _ => by_default::run(parts[0])(calls),
    }
}

/// Returns the instructions of one loop step, from the difference of a short and a long run; `None`
/// without `valgrind`.
fn instructions(kind: &str, which: &str) -> Option<f64> {
    const CALLS: u32 = 100;
    let count = |calls: u32| -> Option<f64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .env(CHILD, format!("{kind} {which} {calls}"))
            .output()
            .ok()?;
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        report.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
    };
    Some((count(10 + CALLS)? - count(10)?) / f64::from(CALLS * ITEMS))
}
