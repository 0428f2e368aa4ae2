//! For any text, placing does not panic, and the output without its sites is the compiler's text.

use super::*;
use proptest::prelude::*;

const SAMPLES: [(&str, Family); 4] = [
    (include_str!("../samples/gcc.s"), Family::Gnu),
    (include_str!("../samples/clang.s"), Family::Clang),
    (include_str!("../samples/gcc-hooks.s"), Family::Gnu),
    (include_str!("../samples/clang-hooks.s"), Family::Clang),
];

/// Places in every way, and checks the properties that hold for all texts.
fn holds(source: &str) {
    for compiler in [Family::Gnu, Family::Clang] {
        if let Ok(placed) = place(source, &request(Sites::EntryReturn, compiler)) {
            assert_eq!(without_sites(&placed.text, source), source);
            let sites: usize = placed.functions.iter().map(|(_, outcome)| sites(outcome)).sum();
            assert_eq!(placed.text.matches(output::SITE).count(), sites);
        }
        if let Ok(placed) = place(source, &request(Sites::InstrumentFunctions, compiler)) {
            let calls =
                |text: &str| text.lines().filter(|line| line.contains("call\t__cyg_profile_func_")).count();
            assert_eq!(calls(&placed.text), 0);
        }
        let stripped = Request { keep_debug: false, ..request(Sites::None, compiler) };
        if let Ok(placed) = place(source, &stripped) {
            assert!(placed.text.len() <= source.len());
        }
    }
}

fn sites(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Placed { entries, exits, .. } => entries + exits,
        _ => 0,
    }
}

/// A change to a list of lines.
#[derive(Clone, Debug)]
enum Change {
    Drop(usize),
    Double(usize),
    Swap(usize, usize),
    Cut(usize),
    Splice(usize, String),
    Byte(usize, usize, char),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>;
    let lines = prop::sample::select(vec![
        "\tret",
        "\tretq",
        "\tjmp\tg",
        "\tjmp\t*%rax",
        "\tje\tg # TAILCALL",
        "\tjmp\t*(%rax) # 3 [c=4 l=2] *sibcall",
        "#APP",
        "#NO_APP",
        "\t.text",
        "\t.section\t.rodata",
        "\t.size\tf, .-f",
        "\t.type\tf, @function",
        "f:",
        ".L3:",
        "\tcall\t__cyg_profile_func_enter",
        "\tleaq\tf(%rip), %rdi",
        "\tnop; nop",
        "\tnop /* x */",
        "\"",
        "\t.byte 0x66",
        "\tendbr64",
        "\tpopq\t%rsp",
        "\tsubq\t$9223372036854775807, %rsp",
        "\tmovq\t%rax, -9223372036854775808(%rsp)",
        "\trep",
        "{",
        ")",
        ",",
        "=",
        "a=a",
        ".set a, b",
        "\u{e9}:",
        "\t.file 1 \"\\",
        "\t.loc 4294967296 0",
    ]);
    prop_oneof![
        at().prop_map(Change::Drop),
        at().prop_map(Change::Double),
        (at(), at()).prop_map(|(a, b)| Change::Swap(a, b)),
        at().prop_map(Change::Cut),
        (at(), lines).prop_map(|(a, line)| Change::Splice(a, line.to_owned())),
        (at(), at(), any::<char>()).prop_map(|(a, b, c)| Change::Byte(a, b, c)),
    ]
}

fn apply(lines: &mut Vec<String>, change: Change) {
    let count = lines.len().max(1);
    match change {
        _ if lines.is_empty() => {}
        Change::Drop(at) => drop(lines.remove(at % count)),
        Change::Double(at) => lines.insert(at % count, lines[at % count].clone()),
        Change::Swap(a, b) => lines.swap(a % count, b % count),
        Change::Cut(at) => lines.truncate(at % count),
        Change::Splice(at, line) => lines.insert(at % count, line),
        Change::Byte(at, column, c) => {
            let line = &lines[at % count];
            let column = column % (line.chars().count() + 1);
            lines[at % count] =
                line.chars().take(column).chain([c]).chain(line.chars().skip(column + 1)).collect();
        }
    }
}

#[test]
fn samples_hold() {
    for (source, compiler) in SAMPLES {
        holds(source);
        let placed = place(source, &request(Sites::EntryReturn, compiler)).expect("understood");
        for (function, outcome) in &placed.functions {
            assert!(matches!(outcome, Outcome::Placed { .. }), "{}: {outcome}", function.path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_samples(sample in 0..SAMPLES.len(), changes in prop::collection::vec(change(), 1..12), ended: bool) {
        let mut lines: Vec<String> = SAMPLES[sample].0.lines().map(str::to_owned).collect();
        for change in changes {
            apply(&mut lines, change);
        }
        let mut text = lines.join("\n");
        if ended {
            text.push('\n');
        }
        holds(&text);
    }

    #[test]
    fn arbitrary_text(text in any::<String>()) {
        holds(&text);
    }

    #[test]
    fn lines_in_any_order(seed in prop::collection::vec((0..SAMPLES.len(), any::<usize>()), 0..80)) {
        let line = |(sample, at): (usize, usize)| {
            let lines: Vec<&str> = SAMPLES[sample].0.lines().collect();
            lines[at % lines.len()]
        };
        holds(&seed.into_iter().map(line).collect::<Vec<_>>().join("\n"));
    }
}
