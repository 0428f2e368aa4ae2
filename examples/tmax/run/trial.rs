//! One combination, what came of it, and both as text, since a child process runs it.

use std::fmt;
use std::str::FromStr;

/// Between two writes of a patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Delay {
    /// So many ticks of the time stamp counter.
    Ticks(u64),
    /// A barrier of the system's, which needs no number.
    Barrier,
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ticks(ticks) => f.pad(&ticks.to_string()),
            Self::Barrier => f.pad("barrier"),
        }
    }
}

/// What the instruction lies across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Across {
    /// Nothing: for the reference.
    Nothing,
    /// Two cache lines.
    Line,
    /// Two pages.
    Page,
}

/// How the instruction is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// By the patch engine.
    Int3,
    /// Bare: the rest, a wait, the first part.
    Bare,
}

/// One combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// How many of the five bytes lie before the boundary.
    pub split: usize,
    /// What that boundary is.
    pub across: Across,
    /// How the instruction is written.
    pub protocol: Protocol,
    /// Between two writes.
    pub delay: Delay,
    /// How many threads execute.
    pub executors: usize,
    /// How often the instruction is toggled while they do.
    pub toggles: u64,
    /// How often the time is taken until a toggle is seen.
    pub samples: usize,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { split, delay, executors, toggles, samples, .. } = self;
        let across = match self.across {
            Across::Nothing => "nothing",
            Across::Line => "line",
            Across::Page => "page",
        };
        let protocol = if self.protocol == Protocol::Int3 { "int3" } else { "bare" };
        write!(f, "{split},{across},{protocol},{delay},{executors},{toggles},{samples}")
    }
}

impl FromStr for Trial {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not one run: SPLIT,ACROSS,PROTOCOL,WAIT,THREADS,TOGGLES,SAMPLES");
        let parts: Vec<_> = text.split(',').collect();
        let [split, across, protocol, delay, executors, toggles, samples] = parts[..] else {
            return Err(wrong());
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
        let count = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        Ok(Self {
            split: count(split)?,
            across: match across {
                "nothing" => Across::Nothing,
                "line" => Across::Line,
                "page" => Across::Page,
                _ => return Err(wrong()),
            },
            protocol: match protocol {
                "int3" => Protocol::Int3,
                "bare" => Protocol::Bare,
                _ => return Err(wrong()),
            },
            delay: if delay == "barrier" { Delay::Barrier } else { Delay::Ticks(number(delay)?) },
            executors: count(executors)?,
            toggles: number(toggles)?,
            samples: count(samples)?,
        })
    }
}

/// Ticks from the patcher's last write until an executor on another processor has executed the new instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Visibility {
    /// Half of the toggles were seen by then.
    pub median: u64,
    /// 99 % of them.
    pub p99: u64,
    /// 99.9 % of them.
    pub p999: u64,
    /// All of them.
    pub max: u64,
}

impl Visibility {
    /// Of samples; `None` where there are none.
    pub fn of(mut samples: Vec<u64>) -> Option<Self> {
        samples.sort_unstable();
        let at = |thousandths: usize| samples.get((samples.len().max(1) - 1) * thousandths / 1000).copied();
        Some(Self { median: at(500)?, p99: at(990)?, p999: at(999)?, max: at(1000)? })
    }
}

/// What a child that ended well has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Calls that returned what neither instruction makes.
    pub wrong: u64,
    /// If it was measured.
    pub visibility: Option<Visibility>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.wrong)?;
        match self.visibility {
            None => Ok(()),
            Some(Visibility { median, p99, p999, max }) => write!(f, ",{median},{p99},{p999},{max}"),
        }
    }
}

impl FromStr for Seen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<u64>, _> = text.trim().split(',').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[wrong]) => Ok(Self { wrong, visibility: None }),
            Ok(&[wrong, median, p99, p999, max]) => {
                Ok(Self { wrong, visibility: Some(Visibility { median, p99, p999, max }) })
            }
            _ => Err(format!("a child process answered `{}`", text.trim())),
        }
    }
}
