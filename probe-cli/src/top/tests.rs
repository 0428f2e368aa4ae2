//! The screen, for fixed reports.

use std::fmt::Write;
use std::time::Duration;

use probe_report::{Document, Row};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;

use super::functions::{Callers, Function, Functions, Program};
use super::poller::{LatestSnapshot, Query, Snapshot};
use super::threads::Thread;
use super::view::{Column, Key, Page, View};
use super::{draw, draw_last};

/// Returns the screen's lines, without spaces at their ends.
fn screen(view: &mut View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(view, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(width.into()) {
        let line: String = row.iter().map(Cell::symbol).collect();
        writeln!(text, "{}", line.trim_end()).unwrap();
    }
    text
}

/// Returns a row with these numbers; there is no measurement where there is `None`.
fn row(function: &str, file: &str, line: u32, numbers: &[(&'static str, Option<f64>)]) -> Row<'static> {
    let row = Row::new().with("function", function.to_owned()).with("file", file.to_owned());
    numbers.iter().fold(row.with("line", line), |row, (name, number)| row.with(*name, *number))
}

fn report(seconds: f64, rows: Vec<Row<'static>>, rest: Row<'static>) -> Document<'static> {
    Document { head: Row::new().with("duration", seconds), rows, rest, notes: Vec::new() }
}

fn estimates(seconds: f64, calls: f64) -> Document<'static> {
    let serve = [
        ("calls", Some(calls)),
        ("calls_error", Some(12.5)),
        ("mean_ns", Some(2500.0)),
        ("mean_error_ns", Some(9.0)),
        ("self_ns", Some(1e8 * seconds)),
        ("total_ns", Some(7e6)),
        ("total_error_ns", Some(9.0)),
    ];
    let idle = [("calls", Some(0.0)), ("calls_error", Some(0.0)), ("mean_ns", None), ("self_ns", None)];
    let rows = vec![row("shop::serve", "src/a.rs", 3, &serve), row("shop::idle", "src/a.rs", 9, &idle)];
    let cost = Row::new().with("hits_ns", 1000_u64).with("own_ns", 2e6 * seconds);
    let cost = cost.with("used_ns", 1e9 * seconds).with("elapsed_ns", 1e9 * seconds);
    report(seconds, rows, Row::new().with("cost", cost).with("lost", 0_u64))
}

fn measurements(seconds: f64, calls: f64) -> Document<'static> {
    let times = [
        ("calls", Some(calls)),
        ("total_ns", Some(9e3)),
        ("self_ns", Some(4e3)),
        ("mean_ns", Some(1234.0)),
        ("p50_ns", Some(1200.0)),
        ("p99_ns", Some(5e6)),
        ("max_ns", Some(6e6)),
    ];
    let rows = vec![row("shop::store::price", "src/store.rs", 8, &times)];
    report(seconds, rows, Row::new().with("lost", 3_u64))
}

/// Returns functions after two reports, a second apart.
fn functions() -> Functions {
    let mut functions = Functions::default();
    functions.add(1, "shop::serve", "src/a.rs", 3, None);
    functions.add(2, "shop::idle", "src/a.rs", 9, Some("db"));
    // A name as no compiler makes it.
    functions.add(3, "shop::\u{1b}[2J::evil\u{202e}", "src/a.rs", 1, None);
    functions.add(4, "shop::store::price", "src/store.rs", 8, Some("db"));
    functions.estimate(&estimates(1.0, 1000.0), true);
    functions.measure(&measurements(0.5, 10.0), false);
    functions.estimate(&estimates(2.0, 3500.0), true);
    functions.measure(&measurements(2.5, 4010.0), false);
    functions
}

fn view() -> View {
    let functions = functions();
    let program = Program {
        name: "shop\u{7}".to_owned(),
        pid: 4711,
        runtime: "0.1.0".to_owned(),
        threads: 4,
        lost_hits: 0,
    };
    let mut view = View::default();
    view.take(Snapshot {
        program,
        functions: functions.list(),
        is_estimating: true,
        busy: functions.busy(),
        cost: functions.cost(),
        lost: functions.lost,
        ..Snapshot::default()
    });
    view
}

/// The heading of [`view`] in 80 columns, and the functions that were called.
const CALLED: &str = "\
shop\\u{7} (4711), runtime 0.1.0, 4 threads, CPU 100 %, 3 lost
cost: 0.20 % of its CPU time; unknown for 2.00k measured calls/s of 1 function
  function                        rate /s▼  wall self     mean      p50      p99
  shop::serve                       ~2.50k    ~10.0 % ~2.50 µs        -        -
* shop::store::price                 2.00k          -  1.23 µs  1.20 µs  5.00 ms
";

#[test]
fn the_last_table_has_what_was_called() {
    let mut view = view();
    view.press(Key::Char('?'));
    assert_eq!(draw_last(&mut view, 80), CALLED);
    // Nothing is known yet.
    assert_eq!(draw_last(&mut View::new(), 80).lines().count(), 4);
}

#[test]
fn a_terminal_of_80_columns() {
    let others = "  shop::idle                             0          -        -        -        -
  shop::\\u{1b}[2J::evil\\u{202e}          -          -        -        -        -
";
    let shown = screen(&mut view(), 80, 24);
    assert_eq!(
        shown.lines().take(7).map(|it| it.to_owned() + "\n").collect::<String>(),
        CALLED.to_owned() + others,
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 24);
    assert!(shown.lines().last().unwrap().ends_with("Enter tree  t threads  ? help  q quit"));
}

#[test]
fn rows_are_sorted_by_what_is_likely_and_not_by_lower_bounds() {
    let of = |name: &str, calls: f64, error: Option<f64>, likely: f64, share: f64| {
        let numbers = [
            ("calls", Some(calls)),
            ("calls_error", error),
            ("calls_per_second_likely", Some(likely)),
            ("cpu_share", Some(share)),
            ("self_ns", None),
        ];
        row(name, "a.rs", 3, &numbers)
    };
    let report = |seconds: f64| {
        let rows = vec![
            of("callee", 2.7e6 * seconds, Some(9.0), 2.7e6, 0.1),
            of("idle", 0.0, Some(0.0), 0.0, 0.0),
            of("serve", 1.6e4 * seconds, None, 2.9e6, 0.7),
        ];
        report(seconds, rows, Row::new().with("lost", 0_u64))
    };
    let mut functions = Functions::default();
    [1.0, 2.0].into_iter().for_each(|seconds| functions.estimate(&report(seconds), true));
    let mut view = View::default();
    view.take(Snapshot { functions: functions.list(), ..Snapshot::default() });
    let paths = |view: &View| view.rows().iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&view), ["serve", "callee", "idle"]);
    let shown = screen(&mut view, 80, 8);
    assert!(shown.lines().nth(3).unwrap().contains(" ≥16.0k "), "{shown}");
    view.column = Column::Own;
    assert_eq!(paths(&view), ["serve", "callee", "idle"], "by the CPU time, where no other is known");
}

#[test]
fn a_function_may_be_reported_before_it_is_listed() {
    let mut functions = Functions::default();
    functions.estimate(&estimates(1.0, 1000.0), true);
    functions.add(7, "shop::serve", "src/a.rs", 3, Some("net"));
    let listed = functions.list();
    let serve = listed.iter().find(|it| it.path == "shop::serve").unwrap();
    assert_eq!((serve.probe, serve.group.as_deref(), listed.len()), (Some(7), Some("net"), 2));
    assert!(serve.calls.is_some());
}

#[test]
fn threads_are_on_a_page_of_their_own() {
    let mut view = view();
    assert_eq!(view.press(Key::Char('t')), Some(Query::Threads(true)));
    assert!(screen(&mut view, 80, 24).lines().nth(2).unwrap().starts_with("reading the threads"));
    let thread = |id, name: &str, state, busy| Thread {
        id,
        name: name.to_owned(),
        state,
        busy,
        waiting: busy.map(|_| 0.25),
        used: Some(1.5e9),
    };
    let mut threads = vec![
        thread(11, "worker\u{1b}[2J", "running", Some(0.5)),
        thread(4711, "shop", "sleeping", Some(0.0)),
        thread(12, "new", "-", None),
    ];
    view.snapshot.threads = Some(threads.clone());
    let expected = "\
thread                                id     state       CPU     waits  CPU time
worker\\u{1b}[2J                       11   running    50.0 %    25.0 %    1.50 s
shop                                4711  sleeping     0.0 %    25.0 %    1.50 s
new                                   12         -         -         -    1.50 s
";
    let shown = screen(&mut view, 80, 24);
    let lines: Vec<_> = shown.lines().skip(2).take(4).collect();
    assert_eq!(lines.join("\n") + "\n", expected, "{shown}");
    assert!(shown.lines().last().unwrap().starts_with("Up Down PgUp PgDn scroll  Esc back"), "{shown}");
    // Of more than fit, the last page is full.
    threads.extend((20..60).map(|id| thread(id, "more", "sleeping", None)));
    view.snapshot.threads = Some(threads);
    assert_eq!(view.press(Key::Move(2)), None);
    assert!(screen(&mut view, 80, 24).lines().nth(3).unwrap().starts_with("new"));
    view.press(Key::Last);
    let shown = screen(&mut view, 80, 24);
    let last = shown.lines().nth(21).unwrap();
    assert_eq!(last.split_whitespace().nth(1), Some("59"), "{shown}");
    view.press(Key::Move(-1));
    let shown = screen(&mut view, 80, 24);
    assert_eq!(shown.lines().nth(21).unwrap().split_whitespace().nth(1), Some("58"), "{shown}");
    assert_eq!(view.press(Key::Escape), Some(Query::Threads(false)));
    assert_eq!(view.page, Page::Functions);
}

#[test]
fn a_wide_terminal_shows_more() {
    let shown = screen(&mut view(), 200, 50);
    let lines: Vec<_> = shown.lines().collect();
    let words = |at: usize| lines[at].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(2), "function rate /s▼ wall self mean p50 p99 max total calls place");
    assert_eq!(
        words(4),
        "* shop::store::price 2.00k - 1.23 µs 1.20 µs 5.00 ms 6.00 ms 9.00 µs 4.01k src/store.rs:8"
    );
    assert_eq!(lines.len(), 50);
    assert!(lines[1].ends_with("measured calls/s of 1 function"), "{shown}");
}

#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (10, 3), (40, 5), (79, 2), (500, 4)] {
        for page in [Page::Functions, Page::Callers, Page::Help] {
            let mut view = View { page, ..view() };
            screen(&mut view, width, height);
        }
    }
}

#[test]
fn keys_choose_filter_and_sort() {
    let mut view = view();
    let paths = |view: &View| view.rows().iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    assert_eq!(view.press(Key::Char('a')), Some(Query::Measure(vec!["shop::serve".to_owned()])));
    view.press(Key::Move(1));
    assert_eq!(view.press(Key::Char('d')), Some(Query::Release(vec!["shop::store::price".to_owned()])));
    view.press(Key::Last);
    view.press(Key::Move(7));
    assert_eq!(view.place(&view.rows()), 3);
    let text = |view: &mut View, text: &str| {
        view.press(Key::Char('/'));
        text.chars().for_each(|c| _ = view.press(Key::Char(c)));
        view.press(Key::Enter);
    };
    text(&mut view, "store");
    assert_eq!(paths(&view), ["shop::store::price"]);
    view.press(Key::Escape);
    text(&mut view, "group=db");
    assert_eq!(paths(&view), ["shop::store::price", "shop::idle"]);
    let of_both = ["shop::store::price", "shop::idle"].map(str::to_owned).to_vec();
    assert_eq!(view.press(Key::Char('A')), Some(Query::Measure(of_both)));
    view.press(Key::Escape);
    text(&mut view, "kind=");
    assert!(view.message.contains("kind"), "{}", view.message);
    assert_eq!(paths(&view).len(), 4);
    view.press(Key::Escape);
    let columns: Vec<_> = (0..6)
        .map(|_| {
            view.press(Key::Char('s'));
            view.column
        })
        .collect();
    let [first, others @ ..] = Column::ALL;
    assert_eq!(columns, [&others[1..], &[first, others[0]]].concat());
    view.press(Key::Char('r'));
    assert_eq!(paths(&view)[3], "shop::serve");
    assert_eq!(view.press(Key::Char('D')), Some(Query::Disarm));
    assert_eq!(view.press(Key::Char('e')), Some(Query::Estimate));
    view.press(Key::First);
    let chosen = view.rows()[0].path.clone();
    assert_eq!(view.press(Key::Enter), Some(Query::Callers(Some(chosen))));
    assert_eq!(view.press(Key::Escape), Some(Query::Callers(None)));
    assert!(draw::HELP_LINES.iter().all(|line| line.chars().count() <= 80));
    view.press(Key::Char('?'));
    assert!(screen(&mut view, 80, 24).contains("Ctrl-C   quit"));
    view.press(Key::Char('x'));
    assert!(!view.has_ended);
    assert_eq!((view.press(Key::Char('q')), view.has_ended), (None, true));
}

/// A filter that is typed takes all characters; Ctrl-C always ends.
#[test]
fn keys_of_a_filter_are_no_commands() {
    let mut view = view();
    view.press(Key::Char('/'));
    view.press(Key::Char('q'));
    assert!(!view.has_ended && screen(&mut view, 80, 24).contains("/q_"));
    view.press(Key::Interrupt);
    assert!(view.has_ended);
}

#[test]
fn callers_are_summed_over_the_tree() {
    let place = |what: &'static str, name: &'static str, parent: Option<u64>, calls: u64, total: u64| {
        let row = Row::new().with(what, name).with("parent", parent);
        row.with("calls", calls).with("total_ns", total)
    };
    let places = vec![
        place("thread", "main", None, 0, 0),
        place("function", "shop::serve", Some(0), 10, 9000),
        place("function", "shop::price", Some(1), 30, 6000),
        place("function", "shop::price", Some(2), 2, 10),
        place("function", "shop::price", None, 4, 400),
    ];
    let tree = report(2.5, places, Row::new());
    let mut view = view();
    view.page = Page::Callers;
    view.snapshot.callers = Some(Callers::new("shop::price", &tree));
    let shown = screen(&mut view, 80, 16);
    let lines: Vec<_> = shown.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines[2..6],
        [
            "callers of shop::price, 2 s calls share total mean",
            "shop::serve 30 83.3 % 6.00 µs 200 ns",
            "(no probed caller) 4 11.1 % 400 ns 100 ns",
            "shop::price 2 5.6 % 10 ns 5 ns",
        ]
    );
    assert_eq!(
        lines[8..10],
        ["called by shop::price, 2 s calls share total mean", "shop::price 2 100.0 % 10 ns 5 ns"]
    );
}

/// A consumer that was attached anew begins at 0, and has no rate before its second report, also if
/// that comes later than the last one of the consumer before.
#[test]
fn rates_need_two_reports_of_one_attachment() {
    let rate = |functions: &Functions, path: &str| {
        functions.list().into_iter().find(|it| it.path == path).unwrap().rate.map(|it| it.value)
    };
    for seconds in [0.25, 20.0] {
        let mut functions = functions();
        functions.forget_measurements();
        assert!(functions.list().iter().all(|it| it.rate.is_none() && !it.is_measured));
        functions.measure(&measurements(seconds, 5.0), false);
        assert_eq!(rate(&functions, "shop::store::price"), None);
        // The other attachment has gone on.
        functions.estimate(&estimates(3.0, 4500.0), true);
        assert_eq!(rate(&functions, "shop::serve"), Some(1000.0));
        functions.measure(&measurements(seconds + 0.5, 7.0), true);
        assert_eq!(rate(&functions, "shop::store::price"), Some(4.0));
        functions.forget_estimates();
        assert_eq!((functions.cost(), functions.busy()), (None, None));
        functions.estimate(&estimates(seconds, 4500.0), true);
        assert_eq!(rate(&functions, "shop::serve"), None);
    }
}

/// Most reports are of the functions on the screen. The others keep their numbers, and have a rate
/// of a longer time.
#[test]
fn a_report_of_some_functions_leaves_the_others() {
    let mut functions = functions();
    let (before, cost) = (functions.list(), functions.cost());
    let at = |list: &[Function], path: &str| list.iter().position(|it| it.path == path).unwrap();
    let mut some = estimates(2.5, 4000.0);
    some.rows.truncate(1);
    functions.estimate(&some, false);
    let mut after = functions.list();
    let serve = at(&after, "shop::serve");
    assert_eq!(after[serve].rate.map(|it| it.value), Some(2000.0), "3000 calls in 1.5 s");
    after[serve] = before[serve].clone();
    assert_eq!((after, functions.cost()), (before, cost));
    functions.estimate(&estimates(5.0, 5000.0), true);
    let after = functions.list();
    assert_eq!(after[at(&after, "shop::serve")].rate.map(|it| it.value), Some(400.0), "1000 calls in 2.5 s");
    assert_eq!(after[at(&after, "shop::idle")].rate.map(|it| it.value), Some(0.0));
}

#[test]
fn the_functions_on_the_screen_are_known() {
    let mut view = view();
    screen(&mut view, 80, 7);
    assert_eq!(view.visible, [1, 4], "two rows below the headings");
    view.press(Key::Last);
    let rows: Vec<_> = view.rows().iter().filter_map(|it| it.probe).collect();
    screen(&mut view, 80, 7);
    assert_eq!((rows.len(), &view.visible[..]), (4, &rows[2..]));
    view.press(Key::Char('?'));
    screen(&mut view, 80, 7);
    assert_eq!(view.visible, [0; 0]);
}

/// With thousands of functions, all are asked about seldom. That is told beside any other words, as
/// rows that were not asked about lately may be in the wrong place.
#[test]
fn old_rows_are_told() {
    let mut view = view();
    view.snapshot.every = Duration::from_millis(4200);
    let message = |view: &mut View| screen(view, 80, 7).lines().nth(5).unwrap().to_owned();
    assert_eq!(message(&mut view), "rows off the screen are up to 5 s old");
    view.press(Key::Char('s'));
    assert_eq!(message(&mut view), "rows off the screen are up to 5 s old; sorted by wall self");
    view.press(Key::Char('/'));
    view.press(Key::Char('s'));
    assert!(message(&mut view).ends_with(" 5 s old; /s_"), "{view:?}");
    let all = screen(&mut view, 80, 24);
    assert!(!all.contains("off the screen"), "{all}");
}

/// A terminal that takes nothing for a while gets the latest answer then, and each problem.
#[test]
fn an_answer_that_nobody_took_is_replaced() {
    let latest = LatestSnapshot::default();
    let answer = |lost, problem: Option<&str>| Snapshot {
        lost,
        problem: problem.map(str::to_owned),
        ..Snapshot::default()
    };
    assert_eq!(latest.take(), None);
    latest.put(answer(1, Some("it failed")));
    (2..1000).for_each(|lost| latest.put(answer(lost, None)));
    assert_eq!(latest.take(), Some(answer(999, Some("it failed"))));
    latest.put(answer(3, None));
    assert_eq!(latest.take(), Some(answer(3, None)));
    assert_eq!(latest.take(), None);
}
