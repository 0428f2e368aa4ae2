//! Reads any text as a rule, as a spec of any consumers, and as a selector. Each mistake lies in
//! the text, and printed forms are read again as the same.
#![no_main]

use probe_lang::rules::parse;
use probe_lang::spec::{parse_spec, selected};

libfuzzer_sys::fuzz_target!(|text: &str| {
    match parse("rule", text) {
        Ok(rule) => assert_eq!(parse("rule", &rule.to_string()), Ok(rule)),
        Err(error) => assert!(text.is_char_boundary(error.at)),
    }
    let spec = |text: &str| parse_spec(text, |consumer| Ok(consumer.to_string())).map(|it| it.to_string());
    match spec(text) {
        Ok(printed) => assert_eq!(spec(&printed), Ok(printed)),
        Err(error) => assert!(text.is_char_boundary(error.at)),
    }
    if let Err(error) = selected(text) {
        assert!(text.is_char_boundary(error.at));
    }
});
