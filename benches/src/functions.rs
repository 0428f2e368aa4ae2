//! Generated Rust: a library of functions of typical size, with or without `#[probe]`.

use std::fmt::Write;

/// Returns the source. `attribute` precedes each function. Functions call each other, and return
/// from several places.
pub fn source(functions: usize, attribute: &str) -> String {
    let mut text = String::from("#![allow(unused_variables)]\n");
    for at in 0..functions {
        // Each module has a hundred functions.
        if at % 100 == 0 {
            let close = if at == 0 { "" } else { "}\n" };
            writeln!(text, "{close}pub mod m{} {{\nuse std::collections::HashMap;", at / 100)
                .expect("memory");
        }
        let callee = if at % 100 == 0 { "0".to_owned() } else { format!("f{:05}(items, limit / 2)", at - 1) };
        write!(
            text,
            "{attribute}
pub fn f{at:05}(items: &[u64], limit: u64) -> u64 {{
    let mut seen = HashMap::new();
    for (index, item) in items.iter().enumerate() {{
        if *item > limit {{
            return *item + {at};
        }}
        *seen.entry(item % 16).or_insert(0_u64) += index as u64;
    }}
    let text = format!(\"{{}} of {{}}\", seen.len(), items.len());
    let deeper = if limit > 10 {{ {callee} }} else {{ {at} }};
    match seen.get(&3) {{
        Some(sum) if *sum > 7 => sum * 2 + deeper,
        Some(sum) => *sum,
        None => text.len() as u64 ^ deeper,
    }}
}}
"
        )
        .expect("memory");
    }
    text.push_str(if functions == 0 { "" } else { "}\n" });
    text
}
