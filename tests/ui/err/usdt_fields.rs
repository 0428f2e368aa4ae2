//! With `usdt`, fields are variables: tools read them from registers.

use probe_runtime::{point, probe};

#[probe(usdt, args(rows = rows.len(), rows))]
fn expression(rows: &[u8]) {}

#[probe(usdt, ret(len = ret.len()))]
fn fields_of_the_result() -> String {
    String::new()
}

#[probe(usdt = true)]
fn value() {}

fn main() {
    let (a, b, c, d, e) = (1, 2, 3, 4, 5);
    point!(usdt, "expressions", a, b = b + 1, c = 7);
    point!(usdt, "too_many", a, b, c, d, e);
    point!(usdt, a);
    point!(usdt,);
    expression(&[]);
    fields_of_the_result();
    value();
}
