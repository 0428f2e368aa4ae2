//! Results that borrow from arguments, mutably too, and from temporaries of the last expression.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;

use probe_runtime::probe;

struct Table {
    rows: Vec<String>,
    named: HashMap<u32, String>,
    shared: Mutex<Vec<u32>>,
    local: RefCell<Vec<u32>>,
}

impl Table {
    #[probe]
    fn row(&self, at: usize) -> &str {
        probe!("row", at, row = self.rows[at].as_str());
        &self.rows[at]
    }

    #[probe]
    fn row_mut(&mut self, at: usize) -> &mut String {
        &mut self.rows[at]
    }

    #[probe]
    fn entry(&mut self, key: u32) -> &mut String {
        self.named.entry(key).or_default()
    }

    #[probe]
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.rows.iter_mut()
    }

    #[probe]
    fn locked_len(&self) -> usize {
        self.shared.lock().unwrap().len()
    }

    #[probe]
    fn borrowed_len(&self) -> usize {
        self.local.borrow().len()
    }
}

#[probe]
fn split<'a>(text: &'a str, by: &str) -> (&'a str, &'a str) {
    text.split_once(by).unwrap_or((text, ""))
}

fn main() {
    let mut table = Table {
        rows: vec!["a".into(), "b".into()],
        named: HashMap::new(),
        shared: Mutex::new(vec![1]),
        local: RefCell::new(vec![1, 2]),
    };
    table.row_mut(0).push('x');
    assert_eq!(table.row(0), "ax");
    table.entry(3).push('y');
    assert_eq!(table.named[&3], "y");
    table.iter_mut().for_each(String::clear);
    assert_eq!(table.row(1), "");
    assert_eq!((table.locked_len(), table.borrowed_len()), (1, 2));
    assert_eq!(split("a=b", "="), ("a", "b"));
}
