//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use super::trial::{Across, Delay, Protocol, Trial};

/// The text of `--help`.
pub const HELP: &str = "\
Measures how long a patcher must wait between the writes of one patch (T_max), on this machine.

Usage: tmax [OPTIONS]

  --quick             a small matrix of 20,000 toggles each: whether it works, not a result
  --without-int3      the bare hazard: no trap at the first byte, no patch engine
  --across WHAT       what the instruction lies across: `line` (default) or `page`
  --splits LIST       how many of its 5 bytes lie before that: 1-4 (default)
  --executors LIST    how many threads execute it: 2-6 (default)
  --max-wait TICKS    the longest wait: 2400 (default)
  --step TICKS        from one wait to the next: 100 (default)
  --toggles NUMBER    toggles for each combination: 1000000 (default)
  --svg PATH          where the chart goes: tmax.svg (default)
  -h, --help          this text

LIST is a number, a range such as 2-6, or several of them with commas between. Ticks are those of the time
stamp counter.
";

/// The request on the command line.
pub enum Asked {
    /// `--help`.
    Help,
    /// One combination, in this process. The program starts itself with this request.
    Child(Trial),
    /// All combinations.
    Matrix(Plan),
}

/// The combinations to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whether the run is too short for a reliable result.
    pub is_quick: bool,
    /// The protocol for writing the instruction.
    pub protocol: Protocol,
    /// The boundary that the instruction crosses.
    pub across: Across,
    /// Numbers of its bytes before the boundary.
    pub splits: Vec<usize>,
    /// Numbers of threads that execute it.
    pub executors: Vec<usize>,
    /// The longest wait, in ticks.
    pub max_wait: u64,
    /// Ticks between two waits.
    pub step: u64,
    /// Number of toggles for each combination.
    pub toggles: u64,
    /// Number of timed toggles for each split and wait.
    pub samples: usize,
    /// The path of the chart.
    pub svg: PathBuf,
}

impl Plan {
    fn full() -> Self {
        Self {
            is_quick: false,
            protocol: Protocol::Int3,
            across: Across::Line,
            splits: (1..=4).collect(),
            executors: (2..=6).collect(),
            max_wait: 2_400,
            step: 100,
            toggles: 1_000_000,
            samples: 5_000,
            svg: PathBuf::from("tmax.svg"),
        }
    }

    fn quick() -> Self {
        Self {
            is_quick: true,
            executors: vec![2],
            step: 1_200,
            toggles: 20_000,
            samples: 500,
            ..Self::full()
        }
    }

    /// Returns the waits, the shortest first and the barrier last.
    pub fn delays(&self) -> Vec<Delay> {
        let step = usize::try_from(self.step).unwrap_or(usize::MAX);
        let ticks = (0..=self.max_wait).step_by(step).map(Delay::Ticks);
        ticks.chain([Delay::Barrier]).collect()
    }

    /// Returns the number of combinations.
    pub fn runs(&self) -> usize {
        self.delays().len() * self.splits.len() * self.executors.len()
    }
}

/// Reads this process's command line.
pub fn parse() -> Result<Asked, lexopt::Error> {
    parse_from(Parser::from_env())
}

fn parse_from(mut parser: Parser) -> Result<Asked, lexopt::Error> {
    // `--quick` applies first, so that `--quick --toggles 5` and `--toggles 5 --quick` are the
    // same.
    let words: Vec<OsString> = parser.raw_args()?.collect();
    let mut plan = if words.iter().any(|word| word == "--quick") { Plan::quick() } else { Plan::full() };
    let mut parser = Parser::from_args(words);
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("quick") => {}
            Arg::Long("without-int3") => plan.protocol = Protocol::Bare,
            Arg::Long("across") => plan.across = parser.value()?.parse_with(across)?,
            Arg::Long("splits") => plan.splits = parser.value()?.parse_with(|text| list(text, 1, 4))?,
            Arg::Long("executors") => {
                plan.executors = parser.value()?.parse_with(|text| list(text, 1, 256))?;
            }
            Arg::Long("max-wait") => plan.max_wait = parser.value()?.parse_with(|text| number(text, 0))?,
            Arg::Long("step") => plan.step = parser.value()?.parse_with(|text| number(text, 1))?,
            Arg::Long("toggles") => plan.toggles = parser.value()?.parse_with(|text| number(text, 1))?,
            Arg::Long("svg") => plan.svg = parser.value()?.into(),
            Arg::Long("child") => return Ok(Asked::Child(parser.value()?.parse()?)),
            Arg::Short('h') | Arg::Long("help") => return Ok(Asked::Help),
            other => return Err(format!("{}; --help lists the options", other.unexpected()).into()),
        }
    }
    Ok(Asked::Matrix(plan))
}

fn across(text: &str) -> Result<Across, String> {
    match text {
        "line" => Ok(Across::Line),
        "page" => Ok(Across::Page),
        _ => Err(String::from("it is `line` or `page`")),
    }
}

/// The longest permitted wait, some milliseconds, so that a matrix ends.
const LONGEST: u64 = 10_000_000;

fn number(text: &str, least: u64) -> Result<u64, String> {
    let number = text.replace('_', "").parse().map_err(|_| String::from("not a whole number"))?;
    if number < least {
        return Err(format!("it is at least {least}"));
    }
    if number > 100 * LONGEST {
        return Err(format!("it is at most {}", 100 * LONGEST));
    }
    Ok(number)
}

fn list(text: &str, least: usize, most: usize) -> Result<Vec<usize>, String> {
    let one = |text: &str| match text.trim().parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("`{text}` is not a number from {least} to {most}")),
    };
    let mut numbers = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            None => numbers.push(one(part)?),
            Some((first, end)) => {
                let range = one(first)?..=one(end)?;
                if range.is_empty() {
                    return Err(format!("the range `{part}` ends before it begins"));
                }
                numbers.extend(range);
            }
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}
