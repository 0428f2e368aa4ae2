//! Loops, `break` with a value and with a label, probes inside of them.

use probe_runtime::probe;

#[probe]
fn first_square_above(limit: u32) -> u32 {
    let mut n = 0;
    loop {
        probe!("step", n);
        if n * n > limit {
            break n * n;
        }
        n += 1;
    }
}

#[probe]
fn found(rows: &[[u32; 2]], wanted: u32) -> Option<(usize, usize)> {
    let mut at = None;
    'rows: for (y, row) in rows.iter().enumerate() {
        for (x, &cell) in row.iter().enumerate() {
            if cell == wanted {
                probe!("found", x, y);
                at = Some((x, y));
                break 'rows;
            }
        }
    }
    at
}

fn main() {
    assert_eq!(first_square_above(10), 16);
    assert_eq!(found(&[[1, 2], [3, 4]], 3), Some((0, 1)));
    assert_eq!(found(&[], 3), None);
}
