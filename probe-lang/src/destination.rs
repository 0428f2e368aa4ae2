//! `PROBES_OUT`: the file and the format of each report. Pure.
//!
//! ```text
//! /var/log/probes-%p.json      one file per process; the ending chooses the format
//! /tmp/%e/%n-%c.csv            %e program name, %n number of the consumer in `PROBES`, %c its name, %% percent sign
//! /tmp/reports/                a folder: program-process-number-consumer.txt
//! -                            stderr, as without the variable
//! ```
//! If several consumers have the same file name, their text reports follow each other in one file.
//! In other formats the result would be malformed, so such a name is refused. If a forked child's
//! file would be its parent's, `-process` is added before the ending. Streams are not renamed:
//! parent and child write to the same one.

use std::path::{PathBuf, is_separator};

use crate::error::ParseError;
use crate::format::{Format, endings};

/// Name of a report's file in a folder.
const IN_A_FOLDER: &str = "%e-%p-%n-%c.txt";

/// The place of reports.
#[derive(PartialEq, Eq, Debug)]
pub enum Destination {
    /// Stderr.
    Stderr,
    /// Files of these names.
    Files(Pattern),
}

/// A path with placeholders.
#[derive(PartialEq, Eq, Debug)]
pub struct Pattern {
    parts: Vec<PatternPart>,
    /// The format of reports.
    pub format: Format,
    /// Byte offset of the ending in the variable, including the dot; the variable's length without
    /// an ending.
    pub at: usize,
}

#[derive(PartialEq, Eq, Debug)]
enum PatternPart {
    Text(String),
    Process,
    Program,
    Number,
    Consumer,
}

/// The run of the program, which the placeholders describe.
#[derive(Clone, Debug)]
pub struct ProgramRun {
    /// The program's working directory at its start.
    pub base: PathBuf,
    /// The program's name.
    pub program: String,
    /// The process.
    pub process: u32,
    /// Whether it is a forked child.
    pub is_forked: bool,
}

impl Destination {
    /// Parses the variable. `is_folder` says that the path is an existing folder; it then needs no
    /// slash at the end.
    ///
    /// # Errors
    /// A mistake, with its place.
    pub fn parse(value: &str, is_folder: bool) -> Result<Self, ParseError> {
        if value.is_empty() || value == "-" {
            return Ok(Self::Stderr);
        }
        if value.ends_with(is_separator) || is_folder {
            let folder = value.trim_end_matches(is_separator);
            let mut pattern = Pattern::parse(&format!("{folder}/{IN_A_FOLDER}"))?;
            pattern.at = value.len();
            return Ok(Self::Files(pattern));
        }
        Pattern::parse(value).map(Self::Files)
    }

    /// Returns the format of reports.
    pub fn format(&self) -> Format {
        match self {
            Self::Stderr => Format::Text,
            Self::Files(pattern) => pattern.format,
        }
    }
}

impl Pattern {
    fn parse(value: &str) -> Result<Self, ParseError> {
        let (mut parts, mut text) = (Vec::new(), String::new());
        let mut chars = value.char_indices();
        while let Some((at, c)) = chars.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let part = match chars.next().map(|(_, c)| c) {
                Some('%') => {
                    text.push('%');
                    continue;
                }
                Some('p') => PatternPart::Process,
                Some('e') => PatternPart::Program,
                Some('n') => PatternPart::Number,
                Some('c') => PatternPart::Consumer,
                other => {
                    let problem = format!(
                        "`%{}` stands for nothing; there are %p (process), %e (program), %n (number of the \
                         consumer), %c (its name) and %%",
                        other.map(String::from).unwrap_or_default()
                    );
                    return Err(ParseError { at, problem });
                }
            };
            if !text.is_empty() {
                parts.push(PatternPart::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
        }
        let (format, at) = match ending(&text) {
            None => (Format::Text, value.len()),
            Some(ending) => {
                let at = value.len() - ending.len() - 1;
                let Some(format) = Format::ALL.iter().find(|format| format.ending() == ending) else {
                    let problem =
                        format!("`.{ending}` is no report's ending; there are {}", endings(&Format::ALL));
                    return Err(ParseError { at, problem });
                };
                (*format, at)
            }
        };
        if !text.is_empty() {
            parts.push(PatternPart::Text(text));
        }
        Ok(Self { parts, format, at })
    }

    /// Returns the file of each consumer, given by number and name.
    pub fn paths(&self, run: &ProgramRun, consumers: &[(usize, &str)]) -> Vec<PathBuf> {
        consumers.iter().map(|(number, name)| run.base.join(self.path(run, *number, name))).collect()
    }

    /// Returns the file of one consumer's report.
    pub fn path(&self, run: &ProgramRun, number: usize, consumer: &str) -> String {
        let mut path = String::new();
        for part in &self.parts {
            match part {
                PatternPart::Text(text) => path.push_str(text),
                PatternPart::Process => path.push_str(&run.process.to_string()),
                PatternPart::Program => path.push_str(&run.program),
                PatternPart::Number => path.push_str(&number.to_string()),
                PatternPart::Consumer => path.push_str(consumer),
            }
        }
        if run.is_forked && !self.parts.contains(&PatternPart::Process) {
            let with_dot = self.ending().map_or(0, |ending| ending.len() + 1);
            path.insert_str(path.len() - with_dot, &format!("-{}", run.process));
        }
        path
    }

    /// Returns the ending of its files, without the dot.
    pub fn ending(&self) -> Option<&str> {
        match self.parts.last() {
            Some(PatternPart::Text(text)) => ending(text),
            _ => None,
        }
    }

    /// Checks that each consumer, given by number, name and formats, can report to this
    /// destination. Without the feature `metrics`, none can report for Prometheus.
    ///
    /// # Errors
    /// The first consumer that can't, and the reason.
    pub fn check(
        &self,
        run: &ProgramRun,
        has_metrics: bool,
        consumers: &[(usize, &str, &[Format])],
    ) -> Result<(), ParseError> {
        let mistake = |problem| Err(ParseError { at: self.at, problem });
        for (_, consumer, formats) in consumers {
            if self.format == Format::Prometheus && !has_metrics {
                return mistake(
                    "`.prom` needs the feature `metrics`, which this program was built without: cargo add \
                     probe-runtime --features metrics"
                        .to_owned(),
                );
            }
            if !formats.contains(&self.format) {
                let (ending, has) = (self.format.ending(), endings(formats));
                return mistake(format!("`{consumer}` has no report as .{ending}; it has {has}"));
            }
        }
        let names: Vec<_> = consumers.iter().map(|(number, name, _)| (*number, *name)).collect();
        let paths = self.paths(run, &names);
        let second = |all: Vec<usize>| Some((*all.get(1)?, all[0]));
        let same = by_path(&paths).into_iter().filter_map(second).min();
        let same = same.map(|(at, before)| (names[before].1, names[at].1));
        match same {
            Some((one, other)) if !self.format.is_joined() => {
                let what = if one == other { "%n (its number)" } else { "%c (its name) or %n (its number)" };
                mistake(format!(
                    "`{one}` and `{other}` would write to the same file; tell a consumer's by {what}"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the part of the file name after its last dot, or the ending of a format that has a dot.
fn ending(text: &str) -> Option<&str> {
    let name = text.rsplit(is_separator).next().unwrap_or(text);
    let mut double = Format::ALL.iter().map(|format| format.ending()).filter(|it| it.contains('.'));
    let is_whole = |ending: &&str| name.strip_suffix(*ending).is_some_and(|before| before.ends_with('.'));
    double.find(is_whole).or_else(|| name.rsplit_once('.').map(|(_, ending)| ending))
}

/// Groups the indices of equal paths, each group ascending; groups are in the order of the paths.
/// Sorts instead of comparing each pair, since `PROBES` may name thousands of consumers.
pub fn by_path(paths: &[PathBuf]) -> Vec<Vec<usize>> {
    let mut places: Vec<_> = (0..paths.len()).collect();
    places.sort_by(|a, b| paths[*a].cmp(&paths[*b]));
    places.chunk_by(|a, b| paths[*a] == paths[*b]).map(<[usize]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_equal_paths() {
        let paths = ["b", "a", "b", "c", "a", "b"].map(PathBuf::from);
        assert_eq!(by_path(&paths), [vec![1, 4], vec![0, 2, 5], vec![3]]);
        assert_eq!(by_path(&[]), [[0; 0]; 0]);
    }

    fn pattern(value: &str) -> Pattern {
        let Ok(Destination::Files(pattern)) = Destination::parse(value, false) else { panic!("{value}") };
        pattern
    }

    fn run(is_forked: bool) -> ProgramRun {
        ProgramRun { base: PathBuf::from("/base"), program: "app".to_owned(), process: 12, is_forked }
    }

    fn path(value: &str, is_forked: bool) -> String {
        let paths = pattern(value).paths(&run(is_forked), &[(1, "count"), (2, "count"), (3, "latency")]);
        paths[2].display().to_string()
    }

    #[test]
    fn placeholders() {
        for (value, expected, forked) in [
            ("/tmp/probes-%p.json", "/tmp/probes-12.json", "/tmp/probes-12.json"),
            ("out/%e.%n.%c.csv", "/base/out/app.3.latency.csv", "/base/out/app.3.latency-12.csv"),
            ("100%%.txt", "/base/100%.txt", "/base/100%-12.txt"),
            ("plain", "/base/plain", "/base/plain-12"),
            ("v1.2/probes.%p", "/base/v1.2/probes.12", "/base/v1.2/probes.12"),
            ("v1.2/é%c", "/base/v1.2/élatency", "/base/v1.2/élatency-12"),
            ("/tmp/", "/tmp/app-12-3-latency.txt", "/tmp/app-12-3-latency.txt"),
            ("/", "/app-12-3-latency.txt", "/app-12-3-latency.txt"),
        ] {
            assert_eq!(path(value, false), expected, "{value}");
            assert_eq!(path(value, true), forked, "{value}");
        }
        let Ok(Destination::Files(folder)) = Destination::parse("/tmp", true) else { panic!() };
        assert_eq!(folder.path(&run(false), 1, "count"), "/tmp/app-12-1-count.txt");
        assert_eq!(Destination::parse("-", false), Ok(Destination::Stderr));
        assert_eq!(Destination::parse("", false), Ok(Destination::Stderr));
    }

    #[test]
    fn the_ending_says_the_format() {
        for (value, format, at) in [
            ("a.b.json", Format::Json, 3),
            ("a.b.firefox.json", Format::Firefox, 3),
            ("firefox.json", Format::Json, 7),
            ("%p.folded", Format::Folded, 2),
            ("a.svg", Format::Svg, 1),
            ("a.csv", Format::Csv, 1),
            ("a.txt", Format::Text, 1),
            ("a.%p", Format::Text, 4),
            ("a.b/", Format::Text, 4),
        ] {
            let pattern = pattern(value);
            assert_eq!((pattern.format, pattern.at), (format, at), "{value}");
        }
    }

    #[test]
    fn mistakes_say_where() {
        for (value, at, problem) in [
            ("/tmp/%x.json", 5, "`%x` stands for nothing; there are %p"),
            ("/tmp/a%", 6, "`%` stands for nothing"),
            ("a.jsn", 1, "`.jsn` is no report's ending; there are txt, json, csv"),
            ("a.", 1, "`.` is no report's ending"),
        ] {
            let mistake = Destination::parse(value, false).unwrap_err();
            assert_eq!(mistake.at, at, "{value}");
            assert!(mistake.problem.starts_with(problem), "{}", mistake.problem);
        }
    }

    #[test]
    fn unsuitable_formats_and_shared_files_are_refused() {
        let count: (_, &[Format]) = ("count", &[Format::Text, Format::Json]);
        let tree: (_, &[Format]) = ("call-tree", &[Format::Text, Format::Json, Format::Svg]);
        let check = |value: &str, consumers: &[(&'static str, &'static [Format])]| {
            let numbered = |(at, (name, formats)): (usize, &(_, _))| (at + 1, *name, *formats);
            let consumers: Vec<_> = consumers.iter().enumerate().map(numbered).collect();
            pattern(value).check(&run(false), true, &consumers).map_err(|it| (it.at, it.problem))
        };
        let mistake = |at, problem: &str| Err((at, problem.to_owned()));
        assert_eq!(check("a.svg", &[tree]), Ok(()));
        assert_eq!(
            check("a.svg", &[tree, count]),
            mistake(1, "`count` has no report as .svg; it has txt, json")
        );
        assert_eq!(check("a.txt", &[tree, count, count]), Ok(()), "one after the other");
        assert_eq!(check("a-%c.json", &[tree, count]), Ok(()));
        assert_eq!(check("a-%n.json", &[tree, count, count]), Ok(()));
        assert_eq!(
            check("a.json", &[tree, count]),
            mistake(
                1,
                "`call-tree` and `count` would write to the same file; tell a consumer's by %c (its name) or %n (its number)"
            )
        );
        assert_eq!(
            check("a-%c.json", &[count, tree, count]),
            mistake(
                4,
                "`count` and `count` would write to the same file; tell a consumer's by %n (its number)"
            )
        );
    }

    proptest::proptest! {
        #[test]
        fn never_panics(value: String, is_folder: bool) {
            if let Ok(Destination::Files(pattern)) = Destination::parse(&value, is_folder) {
                let path = pattern.path(&run(true), 1, "count");
                proptest::prop_assert!(path.contains("12"));
            }
        }
    }
}
