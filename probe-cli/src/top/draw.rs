//! The view on a terminal.
//!
//! Text of the program is escaped before it is drawn, so that it can't control the terminal.

use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, Widget};

use super::figure::{Figure, or_dash};
use super::functions::{Edge, Function};
use super::view::{Column, Page, View};
use crate::text::{count, escape};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN_ROW: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// From this width on, calls, total time and the longest call are shown, too.
const WIDE_COLUMNS: u16 = 110;
/// From this width on, the source is shown, too.
const WIDEST_COLUMNS: u16 = 150;
/// The most functions that are shown after the end.
const MOST_LAST_ROWS: u16 = 10_000;
/// The width of the source's column.
const SOURCE_WIDTH: u16 = 36;

/// The keys of each page, in 80 columns.
const KEYS: &str = "a measure  A all  D off  / filter  s sort  Enter tree  t threads  ? help  q quit";
const KEYS_OF_THREADS: &str = "Up Down PgUp PgDn scroll  Esc back  q quit";
const KEYS_OF_CALLERS: &str = "Esc back  q quit";
const KEYS_OF_HELP: &str = "any key: back";
const KEYS_OF_FILTER: &str = "Enter done  Esc no filter";

pub(super) const HELP_LINES: &[&str] = &[
    "Up Down PgUp PgDn Home End   choose a function (also j, k)",
    "a, d        measure each call of the chosen function, or no longer",
    "A           measure all functions that are shown",
    "D           make all latent that this top has armed, estimates included",
    "e           estimate, or no longer",
    "Enter       callers of the chosen function, and functions that it calls, from a",
    "            tree of all calls; Esc goes back and detaches it",
    "t           the program's threads; Esc goes back",
    "/           filter: a part of the path, or a selector such as net::** group=db",
    "Esc         no filter",
    "s, r        sort by the next column; reverse",
    "q, Ctrl-C   quit; all that was armed is latent again",
    "",
    "Rates are of the last second or more, by the program's clock. Times are wall",
    "time. Wall self is that in the function and in no other one with probes, waits",
    "included: two threads that wait there make 200 %. CPU, above, is what the",
    "program uses of one processor.",
    "*  measured: exact counts and times, and percentiles of all calls since then",
    "~  estimated from some of the calls     ≥  at least     -  not known",
];

/// Draws the view.
pub fn draw(view: &mut View, frame: &mut Frame<'_>) {
    let [head, body, message, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Fill(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(view)), head);
    view.visible.clear();
    match view.page {
        Page::Functions => functions(view, frame.buffer_mut(), body),
        Page::Callers => callers(view, frame, body),
        Page::Threads => threads(view, frame, body),
        Page::Help => frame.render_widget(Paragraph::new(HELP_LINES.join("\n")), body),
    }
    let has_others = view.page == Page::Functions && view.snapshot.functions.len() > view.visible.len();
    let is_seldom = has_others && view.snapshot.every > Duration::from_secs(1);
    let line = if view.is_typing {
        format!("/{}_  {}", escape(&view.filter), escape(&view.message))
    } else if view.message.is_empty() && !view.filter.is_empty() {
        format!("filter: {}", escape(&view.filter))
    } else {
        escape(&view.message).into_owned()
    };
    // Told beside any other message, since old rows may be in the wrong place.
    let age = is_seldom.then(|| {
        let seconds = view.snapshot.every.as_secs_f64().ceil();
        format!("rows off the screen are up to {seconds} s old")
    });
    let line: Vec<_> = age.into_iter().chain((!line.is_empty()).then_some(line)).collect();
    let line = line.join("; ");
    frame.render_widget(Paragraph::new(line), message);
    let of_page = match view.page {
        _ if view.is_typing => KEYS_OF_FILTER,
        Page::Functions => KEYS,
        Page::Callers => KEYS_OF_CALLERS,
        Page::Threads => KEYS_OF_THREADS,
        Page::Help => KEYS_OF_HELP,
    };
    frame.render_widget(Paragraph::new(Line::styled(of_page, DIM)), keys);
}

/// Returns the functions that were called as text, below the heading, in a width.
pub fn draw_last(view: &mut View, width: u16) -> String {
    const HEADINGS: u16 = 3;
    view.page = Page::Functions;
    view.snapshot.functions.retain(|it| it.calls.is_some_and(|it| it.value > 0.0));
    (view.chosen, view.first) = (None, 0);
    let rows = u16::try_from(view.rows().len().max(1)).unwrap_or(MOST_LAST_ROWS).min(MOST_LAST_ROWS);
    let area = Rect::new(0, 0, width.max(1), HEADINGS + rows);
    let mut buffer = Buffer::empty(area);
    let [head, body] = Layout::vertical([Constraint::Length(2), Constraint::Fill(1)]).areas(area);
    Paragraph::new(heading(view)).render(head, &mut buffer);
    functions(view, &mut buffer, body);
    let lines = buffer
        .content()
        .chunks(area.width.into())
        .map(|row| row.iter().map(Cell::symbol).collect::<String>());
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns the program, and the cost of its probes.
fn heading(view: &View) -> Vec<Line<'static>> {
    let snapshot = &view.snapshot;
    let program = &snapshot.program;
    let runtime = escape(&program.runtime);
    let mut parts = vec![format!("{} ({}), runtime {runtime}", escape(&program.name), program.pid)];
    if program.threads != 0 {
        parts.push(count(program.threads.into(), "thread"));
    }
    if let Some(busy) = snapshot.busy {
        parts.push(format!("CPU {:.0} %", 100.0 * busy));
    }
    let lost = program.lost_hits.saturating_add(snapshot.lost);
    if lost != 0 {
        parts.push(format!("{lost} lost"));
    }
    let measured: Vec<_> = snapshot.functions.iter().filter(|it| it.is_measured).collect();
    let estimates = match snapshot.cost {
        _ if !snapshot.is_estimating => None,
        Some(cost) => Some(format!("{:.2} % of its CPU time", 100.0 * cost)),
        None => Some("not known yet".to_owned()),
    };
    // Only the profiler tells its cost.
    let exact = (!measured.is_empty()).then(|| {
        let rate: f64 = measured.iter().filter_map(|it| it.rate).map(|it| it.value).sum();
        let rate = Figure::exact(rate.round()).number();
        format!("unknown for {rate} measured calls/s of {}", count(measured.len() as u64, "function"))
    });
    let costs: Vec<_> = [estimates, exact].into_iter().flatten().collect();
    let second = if costs.is_empty() { "none: nothing is armed".to_owned() } else { costs.join("; ") };
    let second = format!("cost: {second}");
    vec![Line::styled(parts.join(", "), BOLD), Line::from(second)]
}

/// A column of numbers: its heading, its width, and its text for a function.
type NumberColumn = (String, u16, fn(&Function) -> String);

fn functions(view: &mut View, buffer: &mut Buffer, area: Rect) {
    let height = usize::from(area.height.saturating_sub(1));
    let (place, first, rows): (usize, usize, Vec<Function>) = {
        let rows = view.rows();
        let place = view.place(&rows);
        // The chosen row stays on the screen.
        let first = view.first.min(place).max((place + 1).saturating_sub(height.max(1)));
        (place, first, rows.into_iter().skip(first).take(height).cloned().collect())
    };
    (view.first, view.visible) = (first, rows.iter().filter_map(|it| it.probe).collect());
    let mut numbers: Vec<NumberColumn> = vec![
        (titled(view, Column::Rate), 8, |it| or_dash(it.rate, Figure::number)),
        (titled(view, Column::Own), 10, |it| or_dash(it.own, Figure::percent)),
        (titled(view, Column::Mean), 8, |it| or_dash(it.mean, Figure::time)),
        (titled(view, Column::P50), 8, |it| or_dash(it.p50, Figure::time)),
        (titled(view, Column::P99), 8, |it| or_dash(it.p99, Figure::time)),
    ];
    if area.width >= WIDE_COLUMNS {
        numbers.push(("max".to_owned(), 9, |it| or_dash(it.max, Figure::time)));
        numbers.push(("total".to_owned(), 9, |it| or_dash(it.total, Figure::time)));
        numbers.push(("calls".to_owned(), 9, |it| or_dash(it.calls, Figure::number)));
    }
    let has_source = area.width >= WIDEST_COLUMNS;
    let mut widths = vec![Constraint::Length(1), Constraint::Fill(1)];
    widths.extend(numbers.iter().map(|(_, width, _)| Constraint::Length(*width)));
    widths.extend(has_source.then_some(Constraint::Length(SOURCE_WIDTH)));
    let fixed: u16 = widths.iter().map(|it| if let Constraint::Length(it) = it { it + 1 } else { 0 }).sum();
    let path = usize::from(area.width.saturating_sub(fixed));
    let shown = rows.iter().zip(first..).map(|(it, at)| {
        let mut cells = vec![if it.is_measured { "*" } else { "" }.to_owned(), ending(&it.path, path)];
        cells.extend(numbers.iter().map(|(_, width, text)| right(&text(it), usize::from(*width))));
        cells.extend(has_source.then(|| ending(&format!("{}:{}", it.file, it.line), SOURCE_WIDTH.into())));
        let row = Row::new(cells);
        if at == place { row.style(CHOSEN_ROW) } else { row }
    });
    let mut heading = vec![String::new(), titled(view, Column::Path)];
    heading.extend(numbers.iter().map(|(name, width, _)| right(name, usize::from(*width))));
    heading.extend(has_source.then(|| "place".to_owned()));
    let table = Table::new(shown.collect::<Vec<_>>(), widths).header(Row::new(heading).style(BOLD));
    table.render(area, buffer);
    if rows.is_empty() && height != 0 {
        let nothing = if view.snapshot.functions.is_empty() {
            "no functions among the selected probes; `probectl count` shows hits of others"
        } else {
            "no function matches the filter"
        };
        let below = Rect { y: area.y + 1, height: area.height - 1, ..area };
        Paragraph::new(nothing).render(below, buffer);
    }
}

/// Returns a column's name, marked if the rows are sorted by it.
fn titled(view: &View, column: Column) -> String {
    let mark = if view.column != column {
        ""
    } else if view.is_reversed {
        "▲"
    } else {
        "▼"
    };
    format!("{}{mark}", column.name())
}

fn callers(view: &View, frame: &mut Frame<'_>, area: Rect) {
    let Some(callers) = &view.snapshot.callers else {
        return frame.render_widget(Paragraph::new("building a tree of all calls"), area);
    };
    let half = [Constraint::Fill(1), Constraint::Fill(1)];
    let [above, below] = Layout::vertical(half).areas(area);
    let since = format!(", {:.0} s", callers.seconds);
    let edges = |relation: &str, edges: &[Edge], frame: &mut Frame<'_>, area: Rect| {
        let all: f64 = edges.iter().map(|it| it.calls).sum();
        let width = usize::from(area.width.saturating_sub(4 * 10));
        let of_path = width.saturating_sub(relation.len() + 1 + since.len());
        let title = format!("{relation} {}{since}", ending(&callers.path, of_path));
        let rows = edges.iter().map(|it| {
            let name = it.path.as_deref().unwrap_or("(no probed caller)");
            let mean = (it.calls > 0.0).then(|| Figure::exact(it.total / it.calls));
            let share = (all > 0.0).then(|| Figure::exact(it.calls / all));
            let numbers = [
                Figure::exact(it.calls).number(),
                or_dash(share, Figure::percent),
                Figure::exact(it.total).time(),
                or_dash(mean, Figure::time),
            ];
            let mut cells = vec![ending(name, width)];
            cells.extend(numbers.map(|it| right(&it, 9)));
            Row::new(cells)
        });
        let fixed = Constraint::Length(9);
        let heading = ["calls", "share", "total", "mean"].map(|it| right(it, 9));
        let heading = [title].into_iter().chain(heading);
        let widths = [Constraint::Fill(1), fixed, fixed, fixed, fixed];
        let nothing = edges.is_empty().then(|| Row::new(["(no probed function)"]));
        let table = Table::new(rows.chain(nothing), widths).header(Row::new(heading).style(BOLD));
        frame.render_widget(table, area);
    };
    edges("callers of", &callers.around, frame, above);
    edges("called by", &callers.called, frame, below);
}

fn threads(view: &mut View, frame: &mut Frame<'_>, area: Rect) {
    let Some(threads) = &view.snapshot.threads else {
        return frame.render_widget(Paragraph::new("reading the threads"), area);
    };
    let height = usize::from(area.height.saturating_sub(1));
    // The last page is full.
    let first = view.first_thread.min(threads.len().saturating_sub(height));
    view.first_thread = first;
    let width = usize::from(area.width.saturating_sub(5 * 10));
    let percent = |part: Option<f64>| or_dash(part.map(Figure::exact), Figure::percent);
    let rows = threads.iter().skip(first).take(height).map(|it| {
        let used = or_dash(it.used.map(Figure::exact), Figure::time);
        let numbers = [it.id.to_string(), it.state.to_owned(), percent(it.busy), percent(it.waiting), used];
        let cells = [ending(&it.name, width)].into_iter().chain(numbers.map(|it| right(&it, 9)));
        Row::new(cells)
    });
    let heading = ["id", "state", "CPU", "waits", "CPU time"].map(|it| right(it, 9));
    let heading = ["thread".to_owned()].into_iter().chain(heading);
    let widths = [Constraint::Fill(1)].into_iter().chain([Constraint::Length(9); 5]);
    frame.render_widget(Table::new(rows, widths).header(Row::new(heading).style(BOLD)), area);
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// Cleans a name, and cuts its beginning to a width.
fn ending(name: &str, width: usize) -> String {
    probe_report::ending(&escape(name), width).into_owned()
}
