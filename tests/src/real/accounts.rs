//! What `probe_build` said of each function, kept beside the objects that it speaks of.

use std::fs;
use std::path::Path;

use probe_build::{FunctionReport, Report};

/// One function of the machine code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The path of its probes.
    pub path: String,
    /// Its symbol.
    pub symbol: String,
    /// The file that defines it.
    pub file: String,
    /// The line there.
    pub line: u32,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome for a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It has sites.
    Placed {
        /// At entries.
        entries: usize,
        /// At exits.
        exits: usize,
        /// Ends after which nothing follows, and where no exit is therefore.
        dead_ends: usize,
        /// Hooks that were taken out of it, since it was not clear what function they speak of.
        unknown_hooks: usize,
    },
    /// It was not to have any.
    Excluded(String),
    /// It could not have any.
    LeftOut(String),
}

/// How many hooks were taken out since it was not clear what function they speak of.
#[must_use]
pub fn unknown_hooks(accounts: &[Account]) -> usize {
    let unknown = |account: &Account| match account.outcome {
        Outcome::Placed { unknown_hooks, .. } => unknown_hooks,
        _ => 0,
    };
    accounts.iter().map(unknown).sum()
}

/// Returns the accounts of a report: all functions of all files.
///
/// # Panics
/// If a file has no sites at all.
pub(super) fn of(report: &Report) -> Vec<Account> {
    for file in report.files() {
        assert!(file.plain().is_none(), "{file}");
    }
    let account = |function: &FunctionReport| Account {
        path: function.path().to_owned(),
        symbol: function.symbol().to_owned(),
        file: function.file().to_owned(),
        line: function.line(),
        outcome: match function.outcome() {
            probe_build::Outcome::Placed { entries, exits, dead_ends, unknown_hooks, .. } => {
                Outcome::Placed {
                    entries: *entries,
                    exits: *exits,
                    dead_ends: *dead_ends,
                    unknown_hooks: *unknown_hooks,
                }
            }
            probe_build::Outcome::LeftOut(why) => Outcome::LeftOut(why.to_string()),
            why => Outcome::Excluded(why.to_string()),
        },
    };
    report.functions().map(account).collect()
}

/// Writes them, one a line.
pub(super) fn write(path: &Path, accounts: &[Account]) {
    let line = |Account { path, symbol, file, line, outcome }: &Account| {
        let outcome = match outcome {
            Outcome::Placed { entries, exits, dead_ends, unknown_hooks } => {
                format!("placed\t{entries} {exits} {dead_ends} {unknown_hooks}")
            }
            Outcome::Excluded(why) => format!("excluded\t{why}"),
            Outcome::LeftOut(why) => format!("left out\t{why}"),
        };
        format!("{path}\t{symbol}\t{file}\t{line}\t{outcome}\n")
    };
    let lines: Vec<_> = accounts.iter().map(line).collect();
    fs::write(path, lines.concat()).expect("a file for the accounts");
}

/// Reads what `write` wrote.
pub(super) fn read(path: &Path) -> Vec<Account> {
    let text = fs::read_to_string(path).expect("the accounts of a build");
    text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("no account: {line}"))).collect()
}

fn parse(text: &str) -> Option<Account> {
    let [path, symbol, file, line, outcome, rest] = *text.split('\t').collect::<Vec<_>>() else {
        return None;
    };
    let outcome = match outcome {
        "placed" => {
            let numbers: Result<Vec<_>, _> = rest.split(' ').map(str::parse).collect();
            let [entries, exits, dead_ends, unknown_hooks] = *numbers.ok()? else { return None };
            Outcome::Placed { entries, exits, dead_ends, unknown_hooks }
        }
        "excluded" => Outcome::Excluded(rest.to_owned()),
        "left out" => Outcome::LeftOut(rest.to_owned()),
        _ => return None,
    };
    let (path, symbol, file) = (path.to_owned(), symbol.to_owned(), file.to_owned());
    Some(Account { path, symbol, file, line: line.parse().ok()?, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_as_written() {
        let account = |outcome| Account {
            path: "geo::Stack<int>::push".to_owned(),
            symbol: "_ZN3geo5StackIiE4pushEi".to_owned(),
            file: "a b.cpp".to_owned(),
            line: 7,
            outcome,
        };
        let outcomes = [
            Outcome::Placed { entries: 1, exits: 0, dead_ends: 2, unknown_hooks: 3 },
            Outcome::Excluded("a glob".to_owned()),
            Outcome::LeftOut("an indirect jump".to_owned()),
        ];
        for outcome in outcomes {
            let account = account(outcome);
            let path = std::env::temp_dir().join(format!("accounts-{}", std::process::id()));
            write(&path, std::slice::from_ref(&account));
            assert_eq!(read(&path), [account]);
            fs::remove_file(path).unwrap();
        }
    }
}
