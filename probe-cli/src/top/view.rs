//! The state of the screen, and the effects of keys, without a terminal or a program.

use probe_core::Kind;
use probe_lang::{Selectable, Selector};

use super::figure::{Certainty, Figure};
use super::functions::Function;
use super::poller::{Query, Snapshot};

/// A key that has an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A character.
    Char(char),
    /// Down by a number of rows, or up if that is negative.
    Move(isize),
    /// To the first row.
    First,
    /// To the last row.
    Last,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// The columns by which rows are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Column {
    Path,
    /// Calls a second.
    #[default]
    Rate,
    /// Time in itself.
    Own,
    /// Nanoseconds of a call.
    Mean,
    /// Nanoseconds in which half of the calls end.
    P50,
    /// Nanoseconds in which 99 of 100 calls end.
    P99,
}

impl Column {
    /// All of them, in their order on the screen.
    pub const ALL: [Self; 6] = [Self::Path, Self::Rate, Self::Own, Self::Mean, Self::P50, Self::P99];

    /// Returns the heading.
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "function",
            Self::Rate => "rate /s",
            Self::Own => "wall self",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
        }
    }

    fn of(self, function: &Function) -> Option<Figure> {
        match self {
            Self::Path => None,
            Self::Rate => function.rate,
            Self::Own => function.own,
            Self::Mean => function.mean,
            Self::P50 => function.p50,
            Self::P99 => function.p99,
        }
    }

    /// Returns the number by which a function is sorted: the most likely one, not a lower bound.
    fn weight(self, function: &Function) -> f64 {
        let shown = self.of(function);
        let known = shown.filter(|it| it.certainty != Certainty::AtLeast).map(|it| it.value);
        let likely = match self {
            Self::Rate => function.likely_rate,
            Self::Own => function.share,
            _ => None,
        };
        known.or(likely).or(shown.map(|it| it.value)).unwrap_or(f64::NEG_INFINITY)
    }
}

/// The content below the heading.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Page {
    #[default]
    Functions,
    /// Callers of a function, and functions that it calls.
    Callers,
    /// The program's threads.
    Threads,
    /// The keys.
    Help,
}

/// The message until the first answer.
const FIRST_MESSAGE: &str = "asking the program";

/// The state of the screen.
#[derive(Default, Debug)]
pub struct View {
    /// The last answer.
    pub snapshot: Snapshot,
    /// The page.
    pub page: Page,
    /// The column by which the rows are sorted.
    pub column: Column,
    /// Whether the row with the smallest number comes first.
    pub is_reversed: bool,
    /// The text of the filter.
    pub filter: String,
    /// Whether keys go to the filter.
    pub is_typing: bool,
    /// The chosen function.
    pub chosen: Option<String>,
    /// The first rows on the screen, on the pages of functions and of threads.
    pub first: usize,
    pub first_thread: usize,
    /// The probes of the rows on the screen, as last drawn.
    pub visible: Vec<u32>,
    /// The effect of the last key, or a problem.
    pub message: String,
    /// Whether the user has ended it.
    pub has_ended: bool,
}

impl View {
    /// Waits for the first answer.
    pub fn new() -> Self {
        Self { message: FIRST_MESSAGE.to_owned(), ..Self::default() }
    }

    /// Takes an answer of the program.
    pub fn take(&mut self, snapshot: Snapshot) {
        if let Some(problem) = &snapshot.problem {
            self.message.clone_from(problem);
        } else if self.message == FIRST_MESSAGE {
            self.message.clear();
        }
        self.snapshot = snapshot;
    }

    /// Returns the functions that the filter lets through, in their order.
    pub fn rows(&self) -> Vec<&Function> {
        let filter = Filter::new(&self.filter);
        let mut rows: Vec<_> = self.snapshot.functions.iter().filter(|it| filter.has(it)).collect();
        // The sort is stable, so functions without numbers stay in the order of their paths.
        rows.sort_by(|a, b| self.column.weight(b).total_cmp(&self.column.weight(a)));
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// Returns the index of the chosen function among the rows; 0 if none is chosen.
    pub fn place(&self, rows: &[&Function]) -> usize {
        let of = |path: &String| rows.iter().position(|it| it.path == *path);
        self.chosen.as_ref().and_then(of).unwrap_or(0)
    }

    /// Takes a key. Returns a query to the program, if the key makes one.
    pub fn press(&mut self, key: Key) -> Option<Query> {
        if key == Key::Interrupt {
            self.has_ended = true;
        } else if self.is_typing {
            self.press_in_filter(key);
        } else if self.page == Page::Help {
            self.page = Page::Functions;
        } else {
            let key = match key {
                Key::Char('q') => {
                    self.has_ended = true;
                    return None;
                }
                Key::Char('j') => Key::Move(1),
                Key::Char('k') => Key::Move(-1),
                other => other,
            };
            return match self.page {
                Page::Callers => self.press_on_callers(key),
                Page::Threads => self.press_on_threads(key),
                _ => self.press_on_functions(key),
            };
        }
        None
    }

    fn press_in_filter(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => _ = self.filter.pop(),
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            Key::Enter => self.is_typing = false,
            _ => (),
        }
        self.message = Filter::new(&self.filter).problem();
    }

    fn press_on_callers(&mut self, key: Key) -> Option<Query> {
        if !matches!(key, Key::Escape | Key::Enter | Key::Backspace) {
            return None;
        }
        self.page = Page::Functions;
        Some(Query::Callers(None))
    }

    fn press_on_threads(&mut self, key: Key) -> Option<Query> {
        let last = self.snapshot.threads.as_ref().map_or(0, |it| it.len().saturating_sub(1));
        self.first_thread = match key {
            Key::Escape | Key::Enter | Key::Backspace | Key::Char('t') => {
                self.page = Page::Functions;
                return Some(Query::Threads(false));
            }
            Key::Move(rows) => self.first_thread.saturating_add_signed(rows).min(last),
            Key::First => 0,
            Key::Last => last,
            _ => return None,
        };
        None
    }

    fn press_on_functions(&mut self, key: Key) -> Option<Query> {
        let rows = self.rows();
        let (count, place) = (rows.len(), self.place(&rows));
        let path = rows.get(place).map(|it| it.path.clone());
        let all = || rows.iter().map(|it| it.path.clone()).collect::<Vec<_>>();
        let last = count.saturating_sub(1);
        let (query, message) = match key {
            Key::Move(_) | Key::First | Key::Last => {
                let to = match key {
                    Key::Move(by) => place.saturating_add_signed(by),
                    Key::First => 0,
                    _ => last,
                };
                self.chosen = rows.get(to.min(last)).map(|it| it.path.clone());
                return None;
            }
            Key::Char('a') => {
                let path = path?;
                let message = format!("each call of {path} is measured; its numbers begin anew");
                (Some(Query::Measure(vec![path])), message)
            }
            Key::Char('d') => {
                let path = path?;
                let message = format!("{path} is measured no longer");
                (Some(Query::Release(vec![path])), message)
            }
            Key::Char('A') => {
                let message = format!("each call of {count} functions is measured");
                (Some(Query::Measure(all())), message)
            }
            Key::Char('D') => {
                (Some(Query::Disarm), "all probes of this top are latent; e estimates again".into())
            }
            Key::Char('e') => (Some(Query::Estimate), String::new()),
            Key::Enter => {
                let path = path?;
                self.page = Page::Callers;
                (Some(Query::Callers(Some(path))), String::new())
            }
            Key::Char('t') => {
                (self.page, self.first_thread) = (Page::Threads, 0);
                (Some(Query::Threads(true)), String::new())
            }
            Key::Char('s') => {
                let at = Column::ALL.iter().position(|it| *it == self.column).unwrap_or(0);
                self.column = Column::ALL[(at + 1) % Column::ALL.len()];
                (None, format!("sorted by {}", self.column.name()))
            }
            Key::Char('r') => {
                self.is_reversed = !self.is_reversed;
                (None, if self.is_reversed { "the smallest first" } else { "the largest first" }.to_owned())
            }
            Key::Char('/') => {
                self.is_typing = true;
                (None, String::new())
            }
            Key::Char('?' | 'h') => {
                self.page = Page::Help;
                (None, String::new())
            }
            Key::Escape => {
                self.filter.clear();
                (None, String::new())
            }
            _ => return None,
        };
        self.message = message;
        query
    }
}

/// Chooses the functions that are shown: those of a selector, or those whose path contains a text.
enum Filter {
    All,
    Part(String),
    Selector(Box<Selector>),
    Wrong(String),
}

impl Filter {
    fn new(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::All;
        }
        // Only selectors have these characters.
        if !text.contains(['*', '=', '@', '!', ',', '{', '?', ' ']) {
            return Self::Part(text.to_owned());
        }
        match Selector::parse(text) {
            Ok(selector) => Self::Selector(Box::new(selector)),
            Err(error) => Self::Wrong(error.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }

    fn has(&self, function: &Function) -> bool {
        match self {
            // A selector that is still being typed hides nothing.
            Self::All | Self::Wrong(_) => true,
            Self::Part(text) => function.path.contains(text.as_str()),
            Self::Selector(selector) => selector.matches(&Entry(function)),
        }
    }

    fn problem(self) -> String {
        if let Self::Wrong(problem) = self { problem } else { String::new() }
    }
}

/// A function, as the probe at its beginning.
struct Entry<'a>(&'a Function);

impl Selectable for Entry<'_> {
    fn path(&self) -> &str {
        &self.0.path
    }

    fn kind(&self) -> Kind {
        Kind::Entry
    }

    fn file(&self) -> &str {
        &self.0.file
    }

    fn line(&self) -> u32 {
        self.0.line
    }

    fn group(&self) -> Option<&str> {
        self.0.group.as_deref()
    }
}
