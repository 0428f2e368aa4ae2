//! Writes a document about each line of a text, reads and examines it as values, and writes it
//! indented.

use serde_json::{Map, Value, from_str, json, to_string, to_string_pretty};

pub fn work(text: &str, times: u64) -> usize {
    let lines: Vec<_> = text.lines().take(4_000).enumerate().map(|(number, line)| about(number, line)).collect();
    let document = to_string(&Value::Array(lines)).expect("a document");
    (0..times).map(|_| once(&document)).sum()
}

fn about(number: usize, line: &str) -> Value {
    let mut words = Map::new();
    for word in line.split_whitespace() {
        let times = words.entry(word).or_insert(Value::from(0)).as_u64();
        words[word] = Value::from(times.unwrap_or(0) + 1);
    }
    json!({ "line": number, "text": line, "indent": -0.25 * (line.len() - line.trim_start().len()) as f64,
            "empty": line.is_empty(), "words": words, "next": null })
}

fn once(document: &str) -> usize {
    let mut read: Value = from_str(document).expect("what was written");
    let mut sum = 0;
    for line in read.as_array_mut().expect("a list") {
        sum += line["line"].as_u64().unwrap_or(0) as usize;
        line["text"] = Value::from(line["text"].as_str().map_or(0, str::len));
        sum += line.pointer("/words/fn").map_or(0, |it| it.to_string().len());
    }
    sum + to_string_pretty(&read).expect("a document").len()
}
