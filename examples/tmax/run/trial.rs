//! One combination and its result. Both have a text form, since a child process runs the
//! combination.

use std::fmt;
use std::str::FromStr;

/// The wait between two writes of a patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Delay {
    /// This many ticks of the time stamp counter.
    Ticks(u64),
    /// A barrier by the system, which needs no number.
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

/// The boundary that the instruction crosses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Across {
    /// No boundary: for the reference.
    Nothing,
    /// Two cache lines.
    Line,
    /// Two pages.
    Page,
}

/// The protocol for writing the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// The patch engine's.
    Int3,
    /// Bare: the rest, a wait, the first part.
    Bare,
}

/// One combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trial {
    /// Number of the five bytes before the boundary.
    pub split: usize,
    /// The boundary.
    pub across: Across,
    /// The protocol for writing the instruction.
    pub protocol: Protocol,
    /// The wait between two writes.
    pub delay: Delay,
    /// Number of threads that execute the instruction.
    pub executors: usize,
    /// Number of toggles meanwhile.
    pub toggles: u64,
    /// Number of timed toggles.
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

/// Ticks from the patcher's last write until an executor on another processor has executed the new
/// instruction.
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
    /// Summarises samples; `None` if there are none.
    pub fn of(mut samples: Vec<u64>) -> Option<Self> {
        samples.sort_unstable();
        let at = |thousandths: usize| samples.get((samples.len().max(1) - 1) * thousandths / 1000).copied();
        Some(Self { median: at(500)?, p99: at(990)?, p999: at(999)?, max: at(1000)? })
    }
}

/// The result of a child that ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Calls that returned a value of neither instruction.
    pub wrong: u64,
    /// The visibility, if it was measured.
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
