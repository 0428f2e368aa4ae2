//! The rows that a run prints.

use std::collections::BTreeMap;

/// The kind of a row's number of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An interval of width 0.
    Exact,
    /// An estimate whose error should include the truth.
    Estimated,
    /// A lower bound.
    AtLeast,
    /// Exact, but the function's time counts its nested calls more than once.
    Recursive,
}

/// A time in nanoseconds, and its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Time {
    /// The shown value.
    pub value: u64,
    /// Two standard errors; the largest number if the value is a lower bound.
    pub error: u64,
}

/// The error of a lower bound.
pub const UNKNOWN: u64 = u64::MAX;

/// The row of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The number of calls, estimated or counted.
    pub calls: u64,
    /// The error of the calls.
    pub error: u64,
    /// The meaning of the error.
    pub kind: Kind,
    /// The time of all calls, if it is shown.
    pub total: Option<Time>,
    /// The mean time of a call, if it is shown.
    pub mean: Option<Time>,
    /// The time of all calls without that of calls inside, if it is shown.
    pub own: Option<Time>,
}

/// The rows of a run, by function.
pub type Rows = BTreeMap<String, Shown>;

/// Reads lines of a name, its calls, their error, their kind, then the time of all calls, a call's
/// mean time and the calls' own time, each with its error, separated by tabs.
///
/// # Panics
/// If the text has other lines, or names a function twice.
pub fn rows(text: &str) -> Rows {
    let mut rows = Rows::new();
    for line in text.lines() {
        let [name, calls, error, kind, total, off, mean, off_mean, own, off_own] =
            line.split('\t').collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let kind = match kind {
            "exact" => Kind::Exact,
            "estimated" => Kind::Estimated,
            "at least" => Kind::AtLeast,
            "recursive" => Kind::Recursive,
            _ => panic!("{line}"),
        };
        let time = |it: &str, off| (it != "-").then(|| Time { value: whole(it), error: whole(off) });
        let (total, mean, own) = (time(total, off), time(mean, off_mean), time(own, off_own));
        add(&mut rows, name, Shown { calls: whole(calls), error: whole(error), kind, total, mean, own });
    }
    rows
}

/// Reads a report of `Count`, `Latency` or `Profiler` as CSV.
///
/// # Panics
/// If the text is not such a report, or names a function twice.
pub fn from_csv(text: &str) -> Rows {
    let mut rows = Rows::new();
    let mut lines = text.lines().map(cells);
    let heading = lines.next().expect("a heading");
    for cells in lines {
        let cell = |name: &str| {
            let at = heading.iter().position(|it| it == name)?;
            Some(cells[at].as_str()).filter(|it| !it.is_empty())
        };
        // The row of a probe, or of a function.
        if cell("kind").is_some_and(|kind| kind != "entry") {
            continue;
        }
        let number = |names: &[&str]| names.iter().find_map(|name| cell(name)).map_or(0, whole);
        // If there is a column for the error, but no value, the number is a lower bound.
        let error = |name: &str| {
            let is_unknown = heading.iter().any(|it| it == name) && cell(name).is_none();
            if is_unknown { UNKNOWN } else { number(&[name]) }
        };
        let (calls, of_calls) = (number(&["hits", "calls"]), error("calls_error"));
        if calls == 0 {
            continue;
        }
        let text = |name| cell(name).unwrap_or_default();
        let path = cell("probe").unwrap_or_else(|| text("function"));
        let kind = match of_calls {
            UNKNOWN => Kind::AtLeast,
            _ if cell("calls_error").is_some_and(|it| it != "0") => Kind::Estimated,
            // A report of `Latency` has both columns.
            _ if number(&["own_ns"]) < number(&["busy_ns"]) => Kind::Recursive,
            _ => Kind::Exact,
        };
        let time = |name: &str, off| Some(Time { value: whole(cell(name)?), error: error(off) });
        let (total, mean) = (time("total_ns", "total_error_ns"), time("mean_ns", "mean_error_ns"));
        let name = format!("{}:{} {path}", text("file"), text("line"));
        add(&mut rows, &name, Shown { calls, error: of_calls, kind, total, mean, own: None });
    }
    rows
}

fn add(rows: &mut Rows, name: &str, shown: Shown) {
    assert!(rows.insert(name.to_owned(), shown).is_none(), "{name} is shown twice");
}

/// Returns the nearest number of calls, or nanoseconds, that is not below 0; [`UNKNOWN`] for
/// infinity.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far fewer than 2^52")]
fn whole(text: &str) -> u64 {
    let number: f64 = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    number.round() as u64
}

/// Returns the cells of a line of RFC 4180 whose text has no line feed.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut is_quoted, mut letters) = (false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        let cell = cells.last_mut().expect("at least one");
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            _ => cell.push(letter),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = (u64, u64);

    fn shown(calls: Numbers, kind: Kind, total: Option<Numbers>, mean: Option<Numbers>) -> Shown {
        let [total, mean] = [total, mean].map(|it| it.map(|(value, error)| Time { value, error }));
        Shown { calls: calls.0, error: calls.1, kind, total, mean, own: None }
    }

    #[test]
    fn lines_are_read() {
        let rows = rows(
            "a b\t7\t0\texact\t-\t-\t-\t-\t-\t-\nc\t9\t2\testimated\t400\t30\t44\t3\t-\t-\n\
             d\t1\tinf\tat least\t5\tinf\t-\t-\t-\t-\n",
        );
        let expected = [
            ("a b", shown((7, 0), Kind::Exact, None, None)),
            ("c", shown((9, 2), Kind::Estimated, Some((400, 30)), Some((44, 3)))),
            ("d", shown((1, UNKNOWN), Kind::AtLeast, Some((5, UNKNOWN)), None)),
        ];
        assert!(rows.iter().map(|(name, it)| (name.as_str(), *it)).eq(expected));
    }

    #[test]
    fn reports_are_read() {
        let counts = "probe,kind,file,line,sites,hits\n\"a::<b, \"\"c\"\">\",entry,s.rs,3,1,5\na,exit,s.rs,3,1,4\n\
                      b,entry,s.rs,9,1,0\n";
        assert_eq!(
            from_csv(counts),
            Rows::from([("s.rs:3 a::<b, \"c\">".into(), shown((5, 0), Kind::Exact, None, None))])
        );
        let profile = "function,file,line,future,calls,calls_error,mean_ns,mean_error_ns,total_ns,total_error_ns\n\
                       a,s.rs,3,false,49.6,1.7,20.2,0.3,1000.4,12\nb,s.rs,4,false,3,0,,,,\nc,s.rs,5,false,7,,,,80,\n";
        let expected = [
            ("s.rs:3 a".into(), shown((50, 2), Kind::Estimated, Some((1000, 12)), Some((20, 0)))),
            ("s.rs:4 b".into(), shown((3, 0), Kind::Exact, None, None)),
            ("s.rs:5 c".into(), shown((7, UNKNOWN), Kind::AtLeast, Some((80, UNKNOWN)), None)),
        ];
        assert_eq!(from_csv(profile), Rows::from(expected));
    }

    #[test]
    #[should_panic(expected = "a is shown twice")]
    fn a_function_is_shown_once() {
        rows("a\t1\t0\texact\t-\t-\t-\t-\t-\t-\na\t2\t0\texact\t-\t-\t-\t-\t-\t-\n");
    }
}
