//! The arguments of a test program: which tests it runs, and how.

/// Options that have a value, as a word of its own or after `=`.
const WITH_VALUE: [&str; 7] =
    ["--test-threads", "--skip", "--logfile", "--color", "--format", "--shuffle-seed", "-Z"];

/// Options that say which tests run, apart from their names.
const CHOOSING: [&str; 4] = ["--exact", "--skip", "--ignored", "--include-ignored"];

/// Options that are for the program that the caller started, not for its children.
const FOR_ONE_PROCESS: [&str; 3] = ["--list", "--help", "-h"];

/// The arguments, as options with their values, and names.
pub(super) struct Arguments {
    options: Vec<(String, Option<String>)>,
    names: Vec<String>,
}

impl Arguments {
    pub(super) fn parse(arguments: impl Iterator<Item = String>) -> Self {
        let mut this = Self { options: Vec::new(), names: Vec::new() };
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                this.names.extend(arguments);
                break;
            }
            if let Some((option, value)) = argument.split_once('=').filter(|_| argument.starts_with("--")) {
                this.options.push((option.into(), Some(value.into())));
            } else if argument.starts_with('-') && argument != "-" {
                let value = if WITH_VALUE.contains(&&*argument) { arguments.next() } else { None };
                this.options.push((argument, value));
            } else {
                this.names.push(argument);
            }
        }
        this
    }

    /// Whether the program that has them does all by itself.
    pub(super) fn is_for_one_process(&self) -> bool {
        self.has(&FOR_ONE_PROCESS)
    }

    /// Whether they say if output has colours.
    pub(super) fn say_color(&self) -> bool {
        self.has(&["--color"])
    }

    /// How many threads are to run tests, if they or the environment say.
    pub(super) fn threads(&self) -> Option<usize> {
        let said = self.options.iter().find(|(option, _)| option == "--test-threads");
        let said = said.and_then(|(_, value)| value.clone());
        said.or_else(|| std::env::var("RUST_TEST_THREADS").ok())?.parse().ok()
    }

    /// The arguments that choose tests.
    pub(super) fn choice(&self) -> Vec<String> {
        let options = self.options.iter().filter(|(option, _)| CHOOSING.contains(&&**option));
        options.flat_map(words).chain(["--".to_owned()]).chain(self.names.iter().cloned()).collect()
    }

    /// The arguments for a child that is told its tests by their whole names.
    pub(super) fn options(&self) -> Vec<String> {
        let is_kept = |option: &str| !["--exact", "--skip"].contains(&option);
        self.options.iter().filter(|(option, _)| is_kept(option)).flat_map(words).collect()
    }

    fn has(&self, options: &[&str]) -> bool {
        self.options.iter().any(|(option, _)| options.contains(&&**option))
    }
}

fn words((option, value): &(String, Option<String>)) -> impl Iterator<Item = String> {
    [Some(option.clone()), value.clone()].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn names_and_options_are_told_apart() {
        let arguments = parse("a::b --skip c --ignored --test-threads=3 --nocapture d -- --e");
        assert_eq!(arguments.choice(), ["--skip", "c", "--ignored", "--", "a::b", "d", "--e"]);
        assert_eq!(arguments.options(), ["--ignored", "--test-threads", "3", "--nocapture"]);
        assert_eq!(arguments.threads(), Some(3));
        assert!(!arguments.is_for_one_process() && !arguments.say_color());
    }

    #[test]
    fn lists_and_help_are_for_one_process() {
        assert!(parse("--list").is_for_one_process());
        assert!(parse("a -h").is_for_one_process());
        assert!(!parse("--test-threads 2 -- --list").is_for_one_process());
        assert!(parse("--color never").say_color());
    }
}
