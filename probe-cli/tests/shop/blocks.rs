//! The commands of a page, and the shape of an output.

/// A command, and the lines below it.
pub struct Shown {
    pub line: String,
    pub prints: String,
}

/// Returns the commands of all `console` blocks: lines that begin with `$ `.
pub fn commands(page: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if let Some(line) = line.strip_prefix("$ ").filter(|_| is_inside) {
            commands.push(Shown { line: line.to_owned(), prints: String::new() });
        } else if is_inside {
            let command = commands.last_mut().expect("a block begins with a command");
            command.prints.push_str(line);
            command.prints.push('\n');
        }
    }
    commands
}

/// Returns the words of each line, without what differs from run to run: times, percentages,
/// addresses, versions of kernels, names of folders.
pub fn shape(text: &str) -> Vec<Vec<String>> {
    text.lines().map(words).collect()
}

fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let is_unit = matches!(word.trim_end_matches([',', ':', ';']), "ns" | "µs" | "ms" | "s" | "%");
        match words.last_mut() {
            Some(number) if is_unit && is_number(number) => "(time)".clone_into(number),
            // The linker chooses a site's address, and so its place in a word.
            Some(address) if address == "(address)" && is_number(word) => (),
            _ if word.starts_with("0x") => words.push("(address)".to_owned()),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))
}
