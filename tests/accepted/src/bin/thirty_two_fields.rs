//! As many fields as there can be.

fn main() {
    let x = 1u8;
    probe_runtime::point!(
        "full",
        a = x, b = x, c = x, d = x, e = x, f = x, g = x, h = x, i = x, j = x, k = x, l = x, m = x, n = x, o = x, p = x,
        q = x, r = x, s = x, t = x, u = x, v = x, w = x, y = x, z = x, aa = x, ab = x, ac = x, ad = x, ae = x, af = x,
        ag = x,
    );
}
