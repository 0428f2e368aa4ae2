use probe_runtime::probe;

#[derive(Debug, PartialEq)]
pub struct Item(u32);

#[probe(replace)]
#[inline(never)]
pub fn price(item: &Item, n: u32) -> u32 {
    item.0 * n
}

#[probe(replace)]
fn longest<'a>(a: &'a str, b: &'a str) -> &'a str {
    if a.len() > b.len() { a } else { b }
}

#[probe(replace)]
fn first(a: &str, _n: u32) -> &str {
    &a[..1]
}

#[probe(replace)]
fn bounded<'a, 'b: 'a>(a: &'a mut Vec<&'b str>, b: &'b str) -> &'a str {
    a.push(b);
    a[0]
}

#[probe(replace)]
fn moved(mut a: String, (x, y): (u8, u8)) -> String {
    a.push_str(&format!("{x}{y}"));
    a
}

struct Cart(u32);

impl Cart {
    #[probe(replace)]
    fn total(&self, other: &str) -> u32 {
        self.0 + other.len() as u32
    }

    #[probe(replace)]
    fn add(&mut self, n: u32) -> &mut Self {
        self.0 += n;
        self
    }

    #[probe(replace(method))]
    fn new(n: u32) -> Self {
        Self(n)
    }

    #[probe(replace)]
    fn name<'s>(&self, s: &'s str) -> &'s str {
        s
    }

    #[probe(replace)]
    fn into(self: Box<Self>) -> u32 {
        self.0
    }
}

#[test]
fn runs() {
    let item = Item(3);
    assert_eq!(price(&item, 2), 6);
    let a = price::install(|original, item, n| original(item, n) * 2).unwrap();
    assert_eq!(price(&item, 2), 12);
    let b = price::install(|original, item, n| original(&Item(10), n) + original(item, 1)).unwrap();
    assert_eq!(price(&item, 2), 40 + 6);
    drop(a);
    assert_eq!(price(&item, 2), 20 + 3);
    drop(b);
    assert_eq!(price(&item, 2), 6);
    let _l = longest::install(|original, a, b| { let s = String::from("x"); assert_eq!(original(&s, "yy"), "yy"); original(b, a) }).unwrap();
    assert_eq!(longest("a", "b"), "a");
    let _l = first::install(|_, a, _| a).unwrap();
    assert_eq!(first("abc", 1), "abc");
    let _l = bounded::install(|original, a, b| { original(a, b) }).unwrap();
    assert_eq!(bounded(&mut vec![], "abc"), "abc");
    let _l = moved::install(|original, a, b| original(a.clone(), (1, 2)) + &original(a, b)).unwrap();
    assert_eq!(moved("z".into(), (3, 4)), "z12z34");
    let _l = Cart::total_install(|original, this, other| original(this, other) * 10).unwrap();
    assert_eq!(Cart(1).total("22"), 30);
    let _l = Cart::add_install(|original, this, n| original(original(this, n), n)).unwrap();
    assert_eq!(Cart(1).add(2).0, 5);
    let _l = Cart::new_install(|original, n| original(n + 1)).unwrap();
    assert_eq!(Cart::new(2).0, 3);
    let _l = Cart::name_install(|original, this, s| original(this, &s[1..])).unwrap();
    assert_eq!(Cart(2).name("abc"), "bc");
    let _l = Cart::into_install(|original, this| original(this) + 1).unwrap();
    assert_eq!(Box::new(Cart(2)).into(), 3);
}
