//! Methods of a trait's implementation, and a trait's default methods.

use probe_runtime::probe;

trait Shape {
    fn area(&self) -> u32;

    #[probe]
    fn twice(&self) -> u32 {
        probe!("area", area = self.area());
        2 * self.area()
    }

    #[probe]
    fn sides() -> u32
    where
        Self: Sized,
    {
        4
    }
}

struct Square(u32);

impl Shape for Square {
    #[probe]
    fn area(&self) -> u32 {
        self.0 * self.0
    }
}

struct Pair(u32, u32);

impl Shape for Pair {
    #[probe(name = "pair-area")]
    fn area(&self) -> u32 {
        self.0 * self.1
    }

    #[probe]
    fn twice(&self) -> u32 {
        1
    }
}

impl std::fmt::Display for Square {
    #[probe]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}]", self.0)
    }
}

fn main() {
    let shapes: [&dyn Shape; 2] = [&Square(3), &Pair(2, 5)];
    assert_eq!(shapes.map(Shape::area), [9, 10]);
    assert_eq!(shapes.map(Shape::twice), [18, 1]);
    assert_eq!(Square::sides(), 4);
    assert_eq!(Square(3).to_string(), "[3]");
}
