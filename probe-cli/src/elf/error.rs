//! Why a file can't be read as ELF.

use std::{error, fmt, io};

/// Why a file can't be read: the file, the fault, and what to do.
#[derive(Debug)]
pub struct ElfError {
    name: String,
    problem: Problem,
}

/// The fault.
#[derive(Debug)]
pub enum Problem {
    /// The system can't read the file.
    System(io::Error),
    /// It has another format.
    Foreign(&'static str),
    /// It is ELF, but not of a kind whose probes can be read.
    Unsuitable(String),
    /// Its headers say something impossible.
    Damaged(String),
}

impl ElfError {
    /// Makes the error of a file.
    pub fn new(name: &str, problem: Problem) -> Self {
        Self { name: name.to_owned(), problem }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.problem {
            Problem::System(error) => write!(f, "{name} can't be read: {error}"),
            Problem::Foreign(what) => {
                write!(f, "{name} is {what}; give an executable or a shared object (ELF)")
            }
            Problem::Unsuitable(why) => write!(f, "{name} {why}"),
            Problem::Damaged(what) => {
                write!(f, "{name} is damaged: {what}; copy or build the file again")
            }
        }
    }
}

impl error::Error for ElfError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        if let Problem::System(error) = &self.problem { Some(error) } else { None }
    }
}
